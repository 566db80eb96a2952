"""The front door of the datasets, Digits, FakeData, STL10, SVHN, USPS."""

import bz2
import subprocess
import sys

import numpy as np
import pytest

import flambeau as torch
from flambeau import vision
from flambeau.vision import datasets
from flambeau.vision.datasets.digits import read_digits
from flambeau.vision.datasets.utils import iterable_to_str, list_dir, list_files, verify_str_arg
from flambeau.vision.datasets.vision import StandardTransform
from tests.vision.dataset_files import md5


@pytest.fixture
def theirs():
    pytest.importorskip("torch")
    return pytest.importorskip("torchvision")


# -- the front door --------------------------------------------------------------------------------


def test_importing_loads_little():
    program = (
        "import sys, flambeau.vision as v; assert 'PIL' not in sys.modules;"
        "loaded = {m for m in sys.modules if m.startswith('flambeau.vision')};"
        "assert loaded == {'flambeau.vision'}, loaded;"
        "v.datasets.MNIST; v.datasets.utils.download_url; v.utils.make_grid; v.io.read_image;"
        "assert 'PIL' not in sys.modules and 'tqdm' not in sys.modules;"
        "assert v.datasets.folder.default_loader and v.version.__version__ == v.__version__"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_programs_find_torchvisions_paths():
    program = (
        "import torchvision, torchvision.datasets as dset\n"
        "from torchvision.datasets import MNIST, ImageFolder, FakeData\n"
        "from torchvision.datasets.folder import default_loader, IMG_EXTENSIONS, make_dataset\n"
        "from torchvision.datasets.mnist import read_image_file, read_label_file\n"
        "from torchvision.datasets.utils import download_url, download_and_extract_archive\n"
        "from torchvision.datasets.utils import check_integrity, verify_str_arg, extract_archive\n"
        "from torchvision.datasets.vision import VisionDataset, StandardTransform\n"
        "from torchvision.io import read_image, ImageReadMode\n"
        "from torchvision.io.image import decode_png\n"
        "from torchvision.utils import make_grid, save_image\n"
        "assert dset.MNIST is MNIST and issubclass(MNIST, VisionDataset)\n"
        "import torch\n"
        "assert issubclass(VisionDataset, torch.utils.data.Dataset)\n"
        "print(torchvision.__version__)\n"
    )
    command = [sys.executable, "-m", "flambeau", "-c", program]
    assert subprocess.run(command, check=True, capture_output=True).stdout == b"0.28.0\n"


def test_names_that_do_not_exist_are_errors():
    for module in (vision, datasets):
        with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
            module.nonsense  # noqa: B018
    assert {"MNIST", "folder"} <= set(dir(datasets)) and "io" in dir(vision)
    assert set(datasets.__all__) <= set(dir(datasets))


# -- the base class --------------------------------------------------------------------------------


class Lines:
    def __repr__(self):
        return "Lines(\n    a\n)"


@pytest.mark.oracle
@pytest.mark.parametrize("arguments", [{}, {"transform": Lines()}, {"target_transform": Lines()}])
def test_datasets_print_as_those_of_torchvision(theirs, arguments):
    texts = [
        repr(d.FakeData(5, **arguments)) + repr(d.vision.StandardTransform(**arguments))
        for d in (datasets, theirs.datasets)
    ]
    assert texts[0] == texts[1]


def test_transforms_come_together_or_apart():
    class Pairs(datasets.VisionDataset):
        def __len__(self):
            return 3

        def extra_repr(self):
            return "More: text\nEven more"

    both = Pairs("~/x", transform=str, target_transform=len)
    assert both.transforms(1, "ab") == ("1", 2) and "~" not in both.root
    assert repr(Pairs(transforms=Lines())).splitlines() == [
        "Dataset Pairs",
        "    Number of datapoints: 3",
        "    More: text",
        "    Even more",
        "    Lines(",
        "    a",
        ")",
    ]
    with pytest.raises(ValueError, match="Only transforms or transform/target_transform can be"):
        Pairs(transforms=str, transform=str)
    with pytest.raises(NotImplementedError):
        Pairs()[0]
    assert StandardTransform()(1, 2) == (1, 2)


# -- Digits ----------------------------------------------------------------------------------------


def test_digits_are_all_there():
    train, test = datasets.Digits(), datasets.Digits(train=False)
    assert len(train) == 1437 and len(test) == 360
    images, labels = read_digits()
    assert images.max() == 16 and images.shape == (1797, 8, 8)
    joined = torch.cat([train.data, test.data])
    assert joined.equal((images.float() * 255 / 16 + 0.5).to(torch.uint8))
    assert torch.cat([train.targets, test.targets]).equal(labels)
    assert labels.bincount().tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_digits_give_images_like_mnist():
    dataset = datasets.Digits(transform=lambda image: image.size, size=28, download=True)
    assert dataset[3] == ((28, 28), 3) and dataset.data.shape == (1437, 28, 28)
    assert dataset.data.dtype == torch.uint8 and dataset.targets.dtype == torch.int64
    image, _ = datasets.Digits()[0]
    assert image.mode == "L" and image.getextrema() == (0, 239)
    assert dataset.class_to_idx["7"] == 7
    assert repr(datasets.Digits("here", train=False)) == (
        "Dataset Digits\n    Number of datapoints: 360\n    Root location: here\n    Split: Test"
    )
    with pytest.raises(ValueError, match="size should be a positive integer, but got 0"):
        datasets.Digits(size=0)


# -- FakeData --------------------------------------------------------------------------------------


def test_fake_data_leaves_the_seed_alone():
    torch.manual_seed(3)
    expected = torch.rand(2).tolist()
    torch.manual_seed(3)
    first = datasets.FakeData(4, (3, 5, 5))[1]
    assert torch.rand(2).tolist() == expected
    again = datasets.FakeData(9, (3, 5, 5))[1]
    assert first[0].tobytes() == again[0].tobytes() and first[1] == again[1]
    shifted = datasets.FakeData(4, (3, 5, 5), random_offset=1)[0]
    assert shifted[0].tobytes() == first[0].tobytes()
    with pytest.raises(IndexError, match="FakeData index out of range"):
        datasets.FakeData(4)[4]


# -- STL10, SVHN, USPS -----------------------------------------------------------------------------


def stl10(root, cls, rng):
    folder = root / cls.base_folder
    folder.mkdir()
    files = {}
    for split, count in (("train", 6), ("test", 4), ("unlabeled", 3)):
        files[f"{split}_X.bin"] = rng.integers(0, 256, (count, 3, 96, 96), dtype=np.uint8).tobytes()
        files[f"{split}_y.bin"] = rng.integers(1, 11, count, dtype=np.uint8).tobytes()
    files["class_names.txt"] = b"airplane\nbird\n"
    files["fold_indices.txt"] = b"\n".join(b"0 2 %d " % (fold % 6) for fold in range(10))
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return files


def told(cls, files):
    lists = {
        name: [[file, md5(files[file])] for file, _ in getattr(cls, name)]
        for name in ("train_list", "test_list")
    }
    return type(cls.__name__, (cls,), lists)


def assert_same(ours, expected):
    assert repr(ours) == repr(expected) and len(ours) == len(expected)
    for (image, target), (other, wanted) in zip(
        (ours[i] for i in range(len(ours))), (expected[i] for i in range(len(ours))), strict=True
    ):
        assert (image.mode, image.size, target) == (other.mode, other.size, wanted)
        assert image.tobytes() == other.tobytes() and type(target) is type(wanted)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore:string or file could not be read")
@pytest.mark.parametrize("folds", [None, 3])
@pytest.mark.parametrize("split", datasets.STL10.splits)
def test_stl10_is_that_of_torchvision(tmp_path, rng, theirs, split, folds):
    files = stl10(tmp_path, datasets.STL10, rng)
    ours = told(datasets.STL10, files)(tmp_path, split, folds)
    expected = told(theirs.datasets.STL10, files)(tmp_path, split, folds)
    assert_same(ours, expected)
    assert ours.classes == expected.classes and np.array_equal(ours.labels, expected.labels)


def test_stl10_reads_plain_bytes(tmp_path, rng):
    files = stl10(tmp_path, datasets.STL10, rng)
    cls = told(datasets.STL10, files)
    first = np.frombuffer(files["train_X.bin"][: 3 * 96 * 96], np.uint8).reshape(3, 96, 96)
    image, target = cls(tmp_path)[0]
    assert np.array_equal(np.asarray(image), first.transpose(2, 1, 0))
    assert target == files["train_y.bin"][0] - 1
    assert len(cls(tmp_path, "train+unlabeled", folds=5)) == 6
    assert cls(tmp_path, "unlabeled")[0][1] == -1
    for folds, message in ((10, "range"), ("a", "None or int")):
        with pytest.raises(ValueError, match=message):
            cls(tmp_path, folds=folds)


def test_svhn_calls_ten_zero(tmp_path, rng, monkeypatch):
    scipy_io = pytest.importorskip("scipy.io")
    pixels = rng.integers(0, 256, (32, 32, 3, 5), dtype=np.uint8)
    labels = np.array([[1], [10], [3], [9], [10]], np.uint8)
    path = tmp_path / "test_32x32.mat"
    scipy_io.savemat(path, {"X": pixels, "y": labels})
    lists = {"split_list": {"test": ["", path.name, md5(path.read_bytes())]}}
    dataset = type("SVHN", (datasets.SVHN,), lists)(tmp_path, "test")
    assert dataset.labels.tolist() == [1, 0, 3, 9, 0] and dataset.data.shape == (5, 3, 32, 32)
    image, target = dataset[1]
    assert np.array_equal(np.asarray(image), pixels[..., 1]) and target == 0
    if "torchvision" in sys.modules:
        other = type("SVHN", (sys.modules["torchvision"].datasets.SVHN,), lists)
        assert_same(dataset, other(tmp_path, "test"))
    path.write_bytes(b"MATLAB" * 50)
    lists["split_list"]["test"][2] = md5(path.read_bytes())
    with pytest.raises(RuntimeError, match="is no such file of MATLAB"):
        type("SVHN", (datasets.SVHN,), lists)(tmp_path, "test")


def test_svhn_without_scipy_names_it(tmp_path, monkeypatch):
    path = tmp_path / "train_32x32.mat"
    path.write_bytes(b"x")
    lists = {"split_list": {"train": ["", path.name, md5(b"x")]}}
    monkeypatch.setitem(sys.modules, "scipy", None)
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(ImportError, match="pip install scipy"):
        type("SVHN", (datasets.SVHN,), lists)(tmp_path)
    with pytest.raises(RuntimeError, match=r"Dataset not found or corrupted.*test_32x32\.mat"):
        datasets.SVHN(tmp_path, "test")


def usps_text(rng, count=4):
    values = rng.uniform(-1, 1, (count, 256)).round(4)
    lines = (
        f"{label + 1} " + " ".join(f"{i + 1}:{value}" for i, value in enumerate(row)) + " "
        for label, row in enumerate(values)
    )
    return "\n".join(lines) + "\n", values


def test_usps_is_read_from_text(tmp_path, rng):
    text, values = usps_text(rng)
    (tmp_path / "usps.bz2").write_bytes(bz2.compress(text.encode()))
    dataset = datasets.USPS(tmp_path)
    assert dataset.targets == [0, 1, 2, 3] and dataset.data.dtype == np.uint8
    expected = (values + 1) / 2 * 255
    assert np.abs(dataset.data.reshape(4, 256) - expected).max() <= 1
    image, target = dataset[2]
    assert image.size == (16, 16) and image.mode == "L" and target == 2
    for broken in (text[:-30], "1 1:a\n", "x", text + "5 1:0.1\n"):
        (tmp_path / "usps.bz2").write_bytes(bz2.compress(broken.encode()))
        with pytest.raises(RuntimeError, match="is not the file of USPS"):
            datasets.USPS(tmp_path)


@pytest.mark.oracle
def test_usps_is_that_of_torchvision(tmp_path, rng, theirs):
    (tmp_path / "usps.t.bz2").write_bytes(bz2.compress(usps_text(rng)[0].encode()))
    assert_same(datasets.USPS(tmp_path, False), theirs.datasets.USPS(tmp_path, False))


# -- small functions -------------------------------------------------------------------------------


def test_arguments_are_verified_in_torchvisions_words():
    assert verify_str_arg("a", "x", ("a", "b")) == "a" and verify_str_arg("z") == "z"
    for arguments, message in (
        ((3,), "Expected type str, but got type <class 'int'>."),
        ((3, "x"), "Expected type str for argument x, but got type <class 'int'>."),
        (("c", "x", ("a", "b")), "Unknown value 'c' for argument x. Valid values are {'a', 'b'}."),
        (("c", "x", ("a",), "no!"), "no!"),
    ):
        with pytest.raises(ValueError) as error:
            verify_str_arg(*arguments)
        assert str(error.value) == message
    assert iterable_to_str([1, "b"]) == "'1', 'b'"


def test_folders_and_files_are_listed(tmp_path):
    (tmp_path / "folder").mkdir()
    for name in ("a.txt", "b.png"):
        (tmp_path / name).touch()
    assert list_dir(tmp_path) == ["folder"]
    assert list_dir(tmp_path, prefix=True) == [str(tmp_path / "folder")]
    assert list_files(tmp_path, ".txt") == ["a.txt"]
    assert sorted(list_files(str(tmp_path), (".txt", ".png"), True)) == [
        str(tmp_path / "a.txt"),
        str(tmp_path / "b.png"),
    ]
