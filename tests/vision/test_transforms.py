"""Transforms v1: results, draws, texts and messages, over image modes and dtypes.

The cases are in `transform_cases.py`. They run against torchvision where it is installed, and
against what it gave (`tests/golden/transforms.json`) everywhere.
"""

import inspect
import json
import pickle
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import flambeau
from flambeau.vision import transforms as T
from flambeau.vision.transforms import functional as F
from tests.vision import transform_cases as cases

pytest.importorskip("PIL")
from PIL import Image

GOLDEN = Path(__file__).parent.parent / "golden" / "transforms.json"
OURS = {"T": T, "F": F, "torch": flambeau}
KINDS = [*cases.MODES, *cases.TENSORS, "made"]
QUICK = "L RGB P uint8 float32 made".split()
ALL_KINDS = [k if k in QUICK else pytest.param(k, marks=pytest.mark.slow) for k in KINDS]


@pytest.fixture(scope="module")
def kept():
    return json.loads(GOLDEN.read_text())


def of_kind(kind):
    return [case for case in cases.runs() if case[0] == kind and cases.is_compared(case[1], kind)]


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_recorded(kind, kept):
    """slow: two hundred calls of each kind, compiled for dtypes that are less used."""
    if kind in cases.MODES and not cases.is_pillow_of(kept):
        pytest.skip("another Pillow may give other pixels")
    wrong = []
    for _, text, repeats in of_kind(kind):
        answered = cases.run(kind, text, repeats, OURS)
        found = cases.recorded_difference(answered, kept[kind][text], cases.is_exact(text, kind))
        if found:
            wrong.append(f"{text}: {found}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.oracle
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_same_as_torchvision(kind):
    """slow: two hundred calls of each kind, compiled for dtypes that are less used."""
    torch = pytest.importorskip("torch")
    transforms = pytest.importorskip("torchvision.transforms")
    theirs = {"T": transforms, "F": transforms.functional, "torch": torch}
    wrong = []
    for _, text, repeats in of_kind(kind):
        exact = cases.is_exact(text, kind)
        found = cases.difference(
            cases.run(kind, text, repeats, OURS), cases.run(kind, text, repeats, theirs), exact
        )
        if found:
            wrong.append(f"{text}: {found}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.oracle
def test_signatures():
    pytest.importorskip("torch")
    theirs = pytest.importorskip("torchvision.transforms")

    def parameters(function):
        found = inspect.signature(function).parameters.values()
        return [(p.name, p.kind, str(p.default)) for p in found]

    for name in theirs.transforms.__all__ + theirs.autoaugment.__all__:
        assert parameters(getattr(T, name)) == parameters(getattr(theirs, name)), name
    names = [n for n, f in vars(theirs.functional).items() if inspect.isfunction(f) and n[0] != "_"]
    assert len(names) > 35
    for name in names:
        assert parameters(getattr(F, name)) == parameters(getattr(theirs.functional, name)), name


# -- conversions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "LAB"])
@pytest.mark.parametrize("size", [(1, 1), (5, 1), (1, 7), (31, 3), (32, 32)])
def test_to_tensor_reads_every_band(mode, size):
    rng = np.random.RandomState(0)
    bands = len(Image.new(mode, (1, 1)).getbands())
    data = rng.randint(0, 256, (size[1], size[0], bands)).astype(np.uint8)
    image = Image.frombytes(mode, size, data.tobytes())
    out = T.ToTensor()(image)
    expected = np.asarray(image).reshape(data.shape).transpose(2, 0, 1) / np.float32(255)
    assert out.dtype is flambeau.float32
    assert out.is_contiguous()
    assert np.array_equal(out.numpy(), expected.astype(np.float32))


def test_to_tensor_follows_the_default_dtype():
    image = cases.pil_image("RGB")
    try:
        flambeau.set_default_dtype(flambeau.float64)
        out = T.ToTensor()(image)
    finally:
        flambeau.set_default_dtype(flambeau.float32)
    assert out.dtype is flambeau.float64
    assert np.array_equal(out.numpy(), np.asarray(image).transpose(2, 0, 1) / 255.0)


def test_to_tensor_does_not_share_memory_with_the_image():
    image = Image.new("RGB", (4, 4), (10, 20, 30))
    out, values = T.ToTensor()(image), T.PILToTensor()(image)
    image.paste((0, 0, 0), (0, 0, 4, 4))
    assert values[:, 0, 0].tolist() == [10, 20, 30]
    assert out[0].min().item() == pytest.approx(10 / 255)


def test_to_tensor_of_an_image_in_several_blocks():
    image = Image.new("RGB", (2500, 1800), (10, 20, 30))  # more than Pillow keeps in one block
    image.putpixel((2499, 1799), (1, 2, 255))
    out = T.ToTensor()(image)
    assert out[:, -1, -1].mul(255).round().tolist() == [1, 2, 255]
    assert out[0, :-1].min().item() == out[0, :-1].max().item() == pytest.approx(10 / 255)


@pytest.mark.parametrize("tells", [True, False])
def test_images_over_the_memory_of_others(tells, monkeypatch):
    """Rows may have gaps between them, or come from the bottom up."""
    from flambeau.vision.transforms import conversion

    F.is_pil_image(None)  # so that the version of Pillow has been looked at
    monkeypatch.setattr(conversion, "_tells_of_gaps", tells and conversion._tells_of_gaps)
    data = np.random.RandomState(0).randint(0, 256, (9, 16)).astype(np.uint8)
    for image in (
        Image.frombuffer("L", (11, 9), data.tobytes(), "raw", "L", 16, 1),
        Image.frombuffer("L", (16, 9), data.tobytes(), "raw", "L", 0, -1),
        Image.frombuffer("RGBA", (4, 9), data.tobytes(), "raw", "RGBA", 0, 1),
        Image.frombuffer("RGBA", (3, 9), data.tobytes(), "raw", "RGBA", 16, 1),
        Image.fromarray(data),
    ):
        width, height = image.size
        expected = np.asarray(image).reshape(height, width, -1).transpose(2, 0, 1)
        assert np.array_equal(F.pil_to_tensor(image).numpy(), expected)
        assert np.array_equal(F.to_tensor(image).numpy(), expected / np.float32(255))


@pytest.mark.parametrize("extension", ["bmp", "tiff", "ppm", "png", "tga"])
@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_images_of_files_that_are_not_yet_read(extension, mode, tmp_path):
    cases.pil_image(mode).save(tmp_path / f"image.{extension}")
    expected = np.asarray(cases.pil_image(mode)).reshape(14, 19, -1).transpose(2, 0, 1)
    with Image.open(tmp_path / f"image.{extension}") as image:
        assert np.array_equal(T.ToTensor()(image).numpy(), expected / np.float32(255))


def test_a_broken_file_is_reported(tmp_path):
    path = tmp_path / "image.png"
    cases.pil_image("RGB", (64, 64)).save(path)
    path.write_bytes(path.read_bytes()[:2000])
    with Image.open(path) as image, pytest.raises(OSError, match=r"truncated|broken"):
        T.ToTensor()(image)


@pytest.mark.parametrize("mode", ["L", "P", "LA", "RGB", "RGBA", "CMYK", "HSV"])
def test_conversions_without_pillows_memory(mode, monkeypatch):
    """Older versions of Pillow do not show it."""
    from flambeau.vision.transforms import conversion

    image = cases.pil_image("RGB").convert(mode)
    quick = F.to_tensor(image), F.pil_to_tensor(image)

    def refuse(capsule):
        raise ValueError("not shown")

    monkeypatch.setattr(conversion, "values_address", refuse)
    slow = F.to_tensor(image), F.pil_to_tensor(image)
    for a, b in zip(quick, slow):
        assert a.dtype is b.dtype
        assert flambeau.equal(a, b)


@pytest.mark.parametrize("shape", [(5, 6), (5, 6, 1), (5, 6, 3), (5, 6, 7)])
@pytest.mark.parametrize("dtype", ["uint8", "float32", "int64"])
def test_to_tensor_of_arrays(shape, dtype):
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    out = F.to_tensor(array)
    planes = (array if array.ndim == 3 else array[:, :, None]).transpose(2, 0, 1)
    expected = planes / np.float32(255) if dtype == "uint8" else planes
    assert np.array_equal(out.numpy(), expected)


@pytest.mark.parametrize("value", [[1, 2], "x", None, np.float32(3)])
def test_to_tensor_refuses(value):
    with pytest.raises(TypeError, match=r"pic should be PIL Image or ndarray. Got"):
        F.to_tensor(value)


def test_to_tensor_refuses_four_dimensions():
    with pytest.raises(ValueError, match=r"pic should be 2/3 dimensional. Got 4 dimensions."):
        F.to_tensor(np.zeros((1, 2, 3, 4)))


# -- normalisation ---------------------------------------------------------------------------------


def test_normalize_differentiates():
    x = flambeau.rand(3, 4, 5, requires_grad=True)
    F.normalize(x, [0.1, 0.2, 0.3], [0.5, 0.25, 2.0]).sum().backward()
    assert x.grad[:, 0, 0].tolist() == [2.0, 4.0, 0.5]


def test_normalize_by_tensors_that_are_learned():
    mean = flambeau.tensor([0.5, 0.25], requires_grad=True)
    std = flambeau.tensor([2.0, 4.0], requires_grad=True)
    F.normalize(flambeau.ones(2, 3, 3), mean, std).sum().backward()
    assert mean.grad.tolist() == [-4.5, -2.25]
    assert std.grad.tolist() == pytest.approx([-0.5 / 4 * 9, -0.75 / 16 * 9])


def test_normalize_keeps_the_memory_format():
    x = flambeau.rand(2, 3, 4, 5).contiguous(memory_format=flambeau.channels_last)
    assert F.normalize(x, [0.5] * 3, [0.5] * 3).stride() == x.stride()


def test_one_channel_does_not_become_three():
    with pytest.raises(RuntimeError, match=r"output with shape \[1, 5, 5\] doesn't match"):
        F.normalize(flambeau.ones(1, 5, 5), [0.5, 0.5, 0.5], [0.5, 0.5, 0.5])


def test_cached_means_serve_recorded_calls_after_inference():
    with flambeau.inference_mode():
        F.normalize(flambeau.ones(2, 3, 3), [0.125, 0.75], [0.5, 0.625])
    x = flambeau.ones(2, 3, 3, requires_grad=True)
    F.normalize(x, [0.125, 0.75], [0.5, 0.625]).sum().backward()
    assert x.grad[1, 0, 0].item() == pytest.approx(1.6)


# -- draws -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_draws_are_those_of_tensors(dtype):
    from flambeau.vision.transforms import draws

    def both(quick, plain):
        flambeau.manual_seed(3)
        first = quick(), flambeau.rand(1).item()
        flambeau.manual_seed(3)
        assert first == (plain(), flambeau.rand(1).item())

    try:
        flambeau.set_default_dtype(getattr(flambeau, dtype))
        both(draws.chance, lambda: flambeau.rand(1).item())
        both(lambda: draws.happens(0.3), lambda: bool(flambeau.rand(1) < 0.3))
        both(lambda: draws.exceeds(0.1), lambda: bool(flambeau.rand(1) > 0.1))
        both(lambda: draws.uniform(-3, 5), lambda: flambeau.empty(1).uniform_(-3, 5).item())
        for low, high in ((0, 7), (-5, 2), (0, 2**40), (2**62, 2**62 + 9)):
            both(
                lambda low=low, high=high: draws.integer(low, high),
                lambda low=low, high=high: flambeau.randint(low, high, (1,)).item(),
            )
        plain = lambda: flambeau.empty(1).uniform_(-0.3, 0.3).exp().item()
        flambeau.manual_seed(3)
        expected = plain()
        flambeau.manual_seed(3)
        assert draws.exponential_between(-0.3, 0.3) == pytest.approx(expected, rel=2e-7)
    finally:
        flambeau.set_default_dtype(flambeau.float32)


def test_draws_refuse_what_tensors_refuse():
    from flambeau.vision.transforms import draws

    with pytest.raises(RuntimeError, match="'from' to be less than 'to'"):
        draws.integer(3, 3)
    with pytest.raises(RuntimeError, match="uniform_ expects to return"):
        draws.uniform(2, 1)


def test_padding_and_cropping_at_once_give_what_two_steps_give():
    class InTwoSteps(T.RandomCrop):
        @staticmethod
        def get_params(img, output_size):
            return T.RandomCrop.get_params(img, output_size)

    for mode in cases.MODES:
        image = cases.pil_image(mode)
        image.info["dpi"] = (72, 72)
        for padding in (0, 3, (1, 2), [1, 2, 3, 4], (5,)):
            results = []
            for kind in (T.RandomCrop, InTwoSteps):
                flambeau.manual_seed(1)
                results.append([kind((9, 13), padding=padding)(image) for _ in range(3)])
            for quick, slow in zip(*results):
                assert quick.tobytes() == slow.tobytes()
                assert (quick.mode, quick.size, quick.info) == (slow.mode, slow.size, slow.info)


# -- objects ---------------------------------------------------------------------------------------


def test_transforms_pickle():
    pipeline = T.Compose(
        [
            T.RandomResizedCrop(8),
            T.RandomApply([T.ColorJitter(0.1, 0.2, 0.3, 0.1)], p=0.7),
            T.RandomChoice([T.RandomHorizontalFlip(), T.RandAugment()]),
            T.ToTensor(),
            T.Normalize([0.5] * 3, [0.5] * 3),
            T.RandomErasing(),
        ]
    )
    again = pickle.loads(pickle.dumps(pipeline))
    assert repr(again) == repr(pipeline)
    results = []
    for transform in (pipeline, again):
        flambeau.manual_seed(4)
        random.seed(4)
        results.append(transform(cases.pil_image("RGB")))
    assert flambeau.equal(*results)


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize("workers", [0, 2])
def test_loaders_give_the_same_batches(workers):
    """slow: workers of two packages start. Seeds, order and draws agree from end to end."""
    torch = pytest.importorskip("torch")
    torchvision = pytest.importorskip("torchvision")
    import flambeau.utils.data
    import flambeau.vision.datasets

    batches = []
    for package, vision in ((torch, torchvision), (flambeau, flambeau.vision)):
        kinds = vision.transforms
        transform = kinds.Compose(
            [
                kinds.RandomCrop(32, padding=4),
                kinds.RandomHorizontalFlip(),
                kinds.RandAugment(),
                kinds.ToTensor(),
                kinds.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)),
                kinds.RandomErasing(),
            ]
        )
        package.manual_seed(7)
        data = vision.datasets.FakeData(20, (3, 32, 32), transform=transform)
        loader = package.utils.data.DataLoader(
            data, batch_size=5, shuffle=True, num_workers=workers
        )
        batches.append([(x.numpy(), y.tolist()) for x, y in loader])
    for (x, y), (expected, labels) in zip(*batches):
        assert np.array_equal(x, expected)
        assert y == labels


def test_subclasses_may_override_get_params():
    class Corner(T.RandomCrop):
        @staticmethod
        def get_params(img, output_size):
            return 0, 0, *output_size

    image = cases.pil_image("RGB")
    out = Corner(5, padding=2)(image)
    assert out.tobytes() == F.pad(image, 2).crop((0, 0, 5, 5)).tobytes()


def test_hooks_run_around_transforms():
    flip = T.RandomHorizontalFlip(1.0)
    seen = []
    flip.register_forward_hook(lambda module, args, out: seen.append(out.size))
    flip(cases.pil_image("L"))
    assert seen == [cases.SIZE]


def test_tensors_need_no_pillow():
    program = (
        "import sys; sys.modules['PIL'] = None\n"
        "import flambeau\n"
        "from flambeau.vision import transforms as T\n"
        "x = flambeau.rand(3, 8, 8)\n"
        "t = T.Compose([T.RandomCrop(6), T.RandomHorizontalFlip(), T.Normalize([0.5], [0.5])])\n"
        "assert t(x).shape == (3, 6, 6)\n"
        "try: T.ToPILImage()(x)\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "pip install flambeau[vision]" in done.stdout


def test_import_is_light():
    program = (
        "import sys, flambeau.vision.transforms\n"
        "print([name for name in ('PIL', 'numpy', 'llvmlite') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
