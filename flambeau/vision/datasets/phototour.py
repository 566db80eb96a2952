"""PhotoTour: patches around points of sights, and which of them show the same point."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy

import flambeau as torch
from flambeau.vision.datasets.utils import download_and_extract_archive
from flambeau.vision.datasets.vision import VisionDataset
from flambeau.vision.pillow import open_image

PATCH = 64  # pixels
ROW = 16  # patches in a row of a picture, and rows
_ADDRESSES = ("http://matthewalunbrown.com/patchdata/", "http://icvl.ee.ic.ac.uk/vbalnt/")
_SUMS = {
    "notredame_harris": "69f8c90f78e171349abdf0307afefe4d",
    "yosemite_harris": "a73253d1c6fbd3ba2613c45065c00d46",
    "liberty_harris": "c731fcfb3abb4091110d0ae8c7ba182c",
    "notredame": "509eda8535847b8c0a90bbb210c83484",
    "yosemite": "533b2e8eb7ede31be40abc317b2fd4f0",
    "liberty": "fdd9152f138ea5ef2091746689176414",
}


def _for_both(values: dict[str, Any]) -> dict[str, Any]:
    return values | {f"{name}_harris": value for name, value in values.items()}


class PhotoTour(VisionDataset):
    """Patches of 64 by 64 bytes: one by one, or in pairs with 1 for those of one point.

    Args:
        root: the folder that holds or will hold the archive and what is made of it.
        name: "notredame", "yosemite" or "liberty", or one of these with "_harris".
        train: all patches, or pairs to test with.
        transform: a function of a patch.
        download: bring the archive.
    """

    urls = {
        name: [f"{_ADDRESSES['harris' not in name]}{name}.zip", f"{name}.zip", md5]
        for name, md5 in _SUMS.items()
    }
    means = _for_both({"notredame": 0.4854, "yosemite": 0.4844, "liberty": 0.4437})
    stds = _for_both({"notredame": 0.1864, "yosemite": 0.1818, "liberty": 0.2019})
    lens = dict(
        notredame=468159, yosemite=633587, liberty=450092,
        liberty_harris=379587, yosemite_harris=450912, notredame_harris=325295,
    )  # fmt: skip
    image_ext = "bmp"
    info_file = "info.txt"
    matches_files = "m50_100000_100000_0.txt"

    def __init__(
        self,
        root: str | os.PathLike[str],
        name: str,
        train: bool = True,
        transform: Callable | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform=transform)
        self.name, self.train = name, train
        self.mean, self.std = self.means[name], self.stds[name]
        place = os.path.join(self.root, name)
        self.data_dir, self.data_down, self.data_file = place, f"{place}.zip", f"{place}.pt"
        missing = not self._check_datafile_exists()
        if missing and download:
            self.download()
        if missing:
            self.cache()
        self.data, self.labels, self.matches = torch.load(self.data_file, weights_only=True)

    def __getitem__(self, index: int) -> Any:
        if self.train:
            patch = self.data[index]
            return patch if self.transform is None else self.transform(patch)
        first, second, same = self.matches[index]
        patches = self.data[first], self.data[second]
        if self.transform is not None:
            patches = self.transform(patches[0]), self.transform(patches[1])
        return *patches, same

    def __len__(self) -> int:
        return len(self.matches) if not self.train else len(self.data)

    def _check_datafile_exists(self) -> bool:
        return os.path.isfile(self.data_file)

    def _check_downloaded(self) -> bool:
        return os.path.isdir(self.data_dir)

    def download(self) -> None:
        """Bring the archive and unpack it, unless that was done."""
        if self._check_downloaded() or self._check_datafile_exists():
            return
        address, archive, md5 = self.urls[self.name]
        download_and_extract_archive(
            address, self.root, self.data_dir, archive, md5, remove_finished=True
        )

    def cache(self) -> None:
        """Put all patches into one file, which is read from then on."""
        if not self._check_downloaded():
            raise RuntimeError(
                f"Dataset not found in {self.data_dir}. You can use download=True to download it"
            )
        count = self.lens[self.name]
        content = (
            read_patches(self.data_dir, self.image_ext, count),
            read_points(self.data_dir, self.info_file),
            read_pairs(self.data_dir, self.matches_files),
        )
        torch.save(content, self.data_file)

    def extra_repr(self) -> str:
        return f"Split: {'Train' if self.train is True else 'Test'}"


def read_patches(folder: str, ending: str, count: int) -> torch.Tensor:
    """The first patches of pictures in the order of their names, row by row."""
    found = []
    for name in sorted(name for name in os.listdir(folder) if name.endswith(ending)):
        sheet = numpy.asarray(open_image(os.path.join(folder, name), "L"))
        rows = sheet[: PATCH * ROW, : PATCH * ROW].reshape(ROW, PATCH, ROW, PATCH)
        found.append(rows.swapaxes(1, 2).reshape(-1, PATCH, PATCH))
    return torch.from_numpy(numpy.concatenate(found)[:count].copy())


def read_points(folder: str, name: str) -> torch.Tensor:
    """The numbers of the points that patches show."""
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return torch.tensor([int(line.split()[0]) for line in file], dtype=torch.int64)


def read_pairs(folder: str, name: str) -> torch.Tensor:
    """Rows of two patches, and 1 if their points are one."""
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        rows = [line.split() for line in file]
    return torch.tensor(
        [[int(r[0]), int(r[3]), int(r[1] == r[4])] for r in rows], dtype=torch.int64
    )
