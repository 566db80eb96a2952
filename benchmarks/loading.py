"""Getting data in and weights out: loaders, image pipelines, files.

Both packages load the same samples through the same classes; pictures go through torchvision's
transforms on PyTorch's side where it is installed, else through the same steps written with its
tensor functions. Files are written to a temporary folder (1 GB for the mapped one).

Usage: python benchmarks/loading.py [--threads 1,2] [--only PATTERN] [--seconds 1]
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import startup
from timing import Case, arguments, packages, run_cases, select

IMAGES = 1024
MEAN, SPREAD = (0.49, 0.48, 0.45), (0.25, 0.24, 0.26)
MAPPED_TENSORS, MAPPED_ROWS = 16, 16384  # of 1024 floats each: 1 GB

EPOCH = "for x, y in loader:\n    pass"
TENSORS = """
data = torch.utils.data
rows = data.TensorDataset(torch.randn(20000, 784), torch.randint(10, (20000,)))
loader = data.DataLoader({dataset}, batch_size=64{options})
"""
PICTURES = """
import loading
loader = loading.picture_loader(torch, {workers})
for x, y in loader:
    pass
"""
FILES = """
import os, tempfile
folder = tempfile.TemporaryDirectory()
path = os.path.join(folder.name, "weights.pt")
weights = {f"layer{i}.weight": torch.randn(1000, 1000) for i in range(10)}
"""


def pictures() -> list[Any]:
    """Small photographs of nothing, the same ones each time."""
    import numpy
    from PIL import Image

    noise = numpy.random.default_rng(0).integers(0, 256, (IMAGES, 32, 32, 3), dtype=numpy.uint8)
    return [Image.fromarray(pixels) for pixels in noise]


class Pictures:
    """A map-style dataset of pictures and labels."""

    def __init__(self, transform: Callable[[Any], Any]) -> None:
        self.images, self.transform = pictures(), transform

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.transform(self.images[index]), index % 10


class WrittenOut:
    """The pipeline of `transform_for` in tensor functions, for PyTorch without torchvision."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.mean = torch.tensor(MEAN).view(-1, 1, 1)
        self.spread = torch.tensor(SPREAD).view(-1, 1, 1)

    def __call__(self, image: Any) -> Any:
        import numpy

        torch = self.torch
        pixels = torch.from_numpy(numpy.array(image)).permute(2, 0, 1).contiguous()
        x = pixels.to(torch.float32).div(255).sub_(self.mean).div_(self.spread)
        x = torch.nn.functional.pad(x, (4, 4, 4, 4))
        top, left = (torch.randint(0, 9, (1,)).item() for _ in range(2))
        x = x[..., top : top + 32, left : left + 32]
        return x.flip(-1) if torch.rand(1) < 0.5 else x


def transform_for(torch: Any) -> Callable[[Any], Any]:
    """ToTensor, Normalize, RandomCrop and RandomHorizontalFlip of a package."""
    if torch.__name__ == "flambeau":
        t = torch.vision.transforms
    else:
        try:
            from torchvision import transforms as t  # type: ignore[import-not-found, no-redef]
        except ImportError:
            return WrittenOut(torch)
    return t.Compose(
        [
            t.ToTensor(),
            t.Normalize(MEAN, SPREAD),
            t.RandomCrop(32, padding=4),
            t.RandomHorizontalFlip(),
        ]
    )


def picture_loader(torch: Any, workers: int) -> Any:
    """Batches of 64 transformed pictures; workers stay from epoch to epoch."""
    return torch.utils.data.DataLoader(
        Pictures(transform_for(torch)),
        batch_size=64,
        shuffle=True,
        num_workers=workers,
        persistent_workers=workers > 0,
    )


def cases() -> Iterator[Case]:
    shuffled = TENSORS.format(dataset="rows", options=", shuffle=True")
    yield Case("TensorDataset 20000x784, batches of 64, shuffled", EPOCH, shuffled, 5.0)
    in_order = TENSORS.format(dataset="rows", options="")
    yield Case("TensorDataset 20000x784, batches of 64, in order", EPOCH, in_order, 5.0)
    part = TENSORS.format(dataset="data.Subset(rows, range(0, 20000, 2))", options=", shuffle=True")
    yield Case("every other row of it, shuffled", EPOCH, part, 5.0)
    for workers in (0, 2):
        setup = PICTURES.format(workers=workers)
        yield Case(f"{IMAGES} pictures transformed, {workers} workers", EPOCH, setup, 1.2)
    run = "torch.save(weights, path)\nout = torch.load(path)"
    yield Case("save and load 40 MB", run, FILES, 1.2)


CASES = list(cases())


def mapped_file(repeat: int) -> Iterator[startup.Measure]:
    """Loading a file of 1 GB whose tensors stay in it."""
    ours, torch = packages()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "large.pt")
        tensors = {f"part{i}": ours.ones(MAPPED_ROWS, 1024) for i in range(MAPPED_TENSORS)}
        ours.save(tensors, path)
        del tensors
        times = []
        for package in (ours, torch):
            seconds = []
            for _ in range(repeat):
                start = time.perf_counter()
                loaded = package.load(path, mmap=True)
                seconds.append(time.perf_counter() - start)
                assert loaded["part0"][-1, -1].item() == 1
                del loaded
            times.append(statistics.median(seconds) * 1e3)
    yield startup.Measure("load(mmap=True) of 1 GB", *times, limit=50, unit="ms")


def run_measures(pattern: str = "", repeat: int = startup.REPEAT) -> Iterator[startup.Measure]:
    """The measures that have a limit rather than a ratio, printed as they are known."""
    import re

    if re.search(pattern, "load mmap"):
        for measure in mapped_file(repeat):
            startup.print_row(startup.cells(measure))
            yield measure


if __name__ == "__main__":
    options = arguments("Loaders, image pipelines and files.").parse_args()
    results = list(run_cases(select(CASES, options.only), options.threads, options.seconds))
    print()
    measures = list(run_measures(options.only))
    verdicts = [item.met for item in (*results, *measures)]
    print(f"\n{sum(verdicts)} of {len(verdicts)} reach what is asked of them")
