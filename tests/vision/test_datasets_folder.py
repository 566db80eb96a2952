"""ImageFolder, DatasetFolder and the functions below them."""

import numpy as np
import pytest

from flambeau import vision
from flambeau.vision import datasets
from flambeau.vision.datasets import folder

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def theirs():
    pytest.importorskip("torch")
    return pytest.importorskip("torchvision").datasets


@pytest.fixture
def root(tmp_path, rng):
    places = [
        "cat/2.png",
        "cat/1.JPG",
        "dog/deep/er/x.bmp",
        "dog/a.webp",
        "dog/b.tiff",
        "ape/q.ppm",
    ]
    for place in places:
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (5, 7, 3), dtype=np.uint8)).save(path)
    (tmp_path / "dog/notes.txt").write_text("no picture")
    (tmp_path / "loose.png").write_bytes(b"not in a class")
    Image.fromarray(rng.integers(0, 256, (5, 7), dtype=np.uint8)).save(tmp_path / "ape/gray.png")
    (tmp_path / "dog/link").symlink_to(tmp_path / "ape")
    return tmp_path


@pytest.mark.oracle
def test_the_folder_is_read_as_torchvision_does(root, theirs):
    for given in (root, str(root)):
        ours, expected = datasets.ImageFolder(given), theirs.ImageFolder(given)
        assert ours.samples == expected.samples and ours.imgs == expected.imgs
        assert (ours.classes, ours.class_to_idx) == (expected.classes, expected.class_to_idx)
        assert ours.targets == expected.targets and repr(ours) == repr(expected)
        assert (ours.extensions, ours.root) == (expected.extensions, expected.root)
        for (image, target), (other, wanted) in zip(ours, expected, strict=True):
            assert (image.mode, image.size, target) == (other.mode, other.size, wanted)
            assert image.tobytes() == other.tobytes()


def test_files_come_sorted_with_the_numbers_of_their_classes(root):
    dataset = datasets.ImageFolder(root)
    assert dataset.classes == ["ape", "cat", "dog"]
    assert dataset.class_to_idx == {"ape": 0, "cat": 1, "dog": 2}
    names = [path.removeprefix(f"{root}/") for path, _ in dataset.samples]
    assert names == [
        "ape/gray.png",
        "ape/q.ppm",
        "cat/1.JPG",
        "cat/2.png",
        "dog/a.webp",
        "dog/b.tiff",
        "dog/deep/er/x.bmp",
        "dog/link/gray.png",
        "dog/link/q.ppm",
    ]
    assert dataset.targets == [0, 0, 1, 1, 2, 2, 2, 2, 2]
    image, target = dataset[0]
    assert image.mode == "RGB" and image.size == (7, 5) and target == 0


def test_transforms_and_loaders_are_used(root):
    dataset = datasets.ImageFolder(
        root, transform=lambda x: x.upper(), target_transform=str, loader=lambda path: path[-5:]
    )
    assert dataset[0] == ("Y.PNG", "0")


def test_other_files_with_a_function_or_with_endings(root):
    texts = datasets.ImageFolder(
        root, is_valid_file=lambda path: path.endswith(".txt"), allow_empty=True
    )
    assert [path[-9:] for path, _ in texts.samples] == ["notes.txt"] and texts.extensions is None
    dataset = datasets.DatasetFolder(root, len, extensions=(".bmp", ".txt"), allow_empty=True)
    assert len(dataset) == 2 and dataset.classes == ["ape", "cat", "dog"]
    assert dataset.targets == [2, 2]


class Some(datasets.DatasetFolder):
    def find_classes(self, directory):
        return ["cat"], {"cat": 5}


def test_classes_may_be_chosen_by_a_subclass(root):
    assert Some(root, str, extensions=(".png",)).samples == [(f"{root}/cat/2.png", 5)]


REFUSED = {
    "no classes": (lambda f, root: f.find_classes(root / "cat"), FileNotFoundError),
    "no folder": (lambda f, root: f.find_classes(root / "cow"), FileNotFoundError),
    "empty classes": (
        lambda f, root: f.make_dataset(root, extensions=(".bmp", ".gif")),
        FileNotFoundError,
    ),
    "one ending": (lambda f, root: f.make_dataset(root, extensions=".bmp"), FileNotFoundError),
    "a function": (
        lambda f, root: f.make_dataset(root, is_valid_file=lambda p: "cat" in p),
        FileNotFoundError,
    ),
    "neither": (lambda f, root: f.make_dataset(root), ValueError),
    "both": (
        lambda f, root: f.make_dataset(root, extensions=".a", is_valid_file=len),
        ValueError,
    ),
    "no numbers": (lambda f, root: f.make_dataset(root, {}, ".png"), ValueError),
    "none at all": (lambda f, root: f.DatasetFolder.make_dataset(root, None), ValueError),
    "a class that is not there": (
        lambda f, root: f.make_dataset(root, {"cow": 0, "cat": 1}, ".png"),
        FileNotFoundError,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_said(root, name):
    call, kind = REFUSED[name]
    with pytest.raises(kind):
        call(folder, root)


@pytest.mark.oracle
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_said_as_torchvision_says_it(root, theirs, name):
    call, kind = REFUSED[name]
    with pytest.raises(kind) as expected:
        call(theirs.folder, root)
    with pytest.raises(kind) as ours:
        call(folder, root)
    assert str(ours.value) == str(expected.value)


def test_endings_in_capitals_count():
    assert folder.is_image_file("a/b.JPEG") and not folder.is_image_file("a.gif")
    assert folder.has_file_allowed_extension("x.PY", (".py",))


def test_the_package_that_opens_images_can_be_chosen(root, monkeypatch):
    assert vision.get_image_backend() == "PIL"
    with pytest.raises(ValueError, match=r"Invalid backend 'cv2'\. Options are"):
        vision.set_image_backend("cv2")
    vision.set_image_backend("accimage")
    try:
        with pytest.raises(ModuleNotFoundError, match="accimage"):
            folder.default_loader(root / "cat/2.png")
    finally:
        vision.set_image_backend("PIL")
    assert folder.default_loader(root / "cat/2.png").mode == "RGB"


def test_a_file_that_is_no_image_is_an_error_and_stays_open_nowhere(root):
    (root / "cat/3.png").write_bytes(b"no image")
    dataset = datasets.ImageFolder(root)
    with pytest.raises(OSError, match="cannot identify image file"):
        dataset[4]  # an open file would be a ResourceWarning, which is an error here
