"""MNIST and its relatives, and the IDX files that they are made of."""

import gzip
import io
import lzma
import pickle
import struct

import numpy as np
import pytest

import flambeau as torch
from flambeau.vision import datasets
from flambeau.vision.datasets import mnist
from flambeau.vision.datasets.idx import read_sn3_pascalvincent_tensor
from tests.vision.dataset_files import (
    SPLITS,
    emnist_files,
    idx,
    images_and_labels,
    mnist_files,
    qmnist_files,
    write,
)

FAMILY = ["MNIST", "FashionMNIST", "KMNIST"]


@pytest.fixture
def theirs():
    pytest.importorskip("torch")
    return pytest.importorskip("torchvision").datasets


@pytest.fixture
def root(tmp_path):
    for name in FAMILY:
        write(tmp_path / name / "raw", mnist_files())
    return tmp_path


def assert_same(ours, expected):
    """The same tensors, classes, text and items."""
    assert len(ours) == len(expected) and repr(ours) == repr(expected)
    for name in ("data", "targets"):
        mine, other = getattr(ours, name), getattr(expected, name)
        assert str(mine.dtype) == str(other.dtype) and mine.shape == other.shape
        assert np.array_equal(mine.numpy(), other.numpy())
    assert ours.classes == expected.classes and ours.class_to_idx == expected.class_to_idx
    assert (ours.raw_folder, ours.processed_folder) == (
        expected.raw_folder,
        expected.processed_folder,
    )
    for index in (0, len(ours) - 1, -1):
        (image, target), (other, wanted) = ours[index], expected[index]
        assert (image.mode, image.size, image.tobytes()) == (
            other.mode,
            other.size,
            other.tobytes(),
        )
        assert type(target) is type(wanted) and target == wanted


@pytest.mark.oracle
@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("name", FAMILY)
def test_items_are_those_of_torchvision(root, theirs, name, train):
    ours, expected = getattr(datasets, name), getattr(theirs, name)
    assert_same(ours(root, train), expected(root, train))
    assert_same(ours(str(root), train=train), expected(str(root), train=train))
    assert (ours.mirrors, ours.resources) == (expected.mirrors, expected.resources)


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("packed", [False, True])
def test_items_are_what_was_written(tmp_path, train, packed):
    write(tmp_path / "MNIST/raw", mnist_files(), packed)
    images, labels = images_and_labels(SPLITS["train" if train else "t10k"])
    dataset = datasets.MNIST(tmp_path, train)
    assert dataset.data.dtype == torch.uint8 and dataset.targets.dtype == torch.int64
    assert np.array_equal(dataset.data.numpy(), images)
    assert dataset.targets.tolist() == labels.tolist()
    for index, (image, target) in enumerate(dataset):
        assert image.mode == "L" and np.array_equal(np.asarray(image), images[index])
        assert target == labels[index] and type(target) is int
    assert index == len(dataset) - 1


def test_transforms_are_applied_and_printed(root):
    dataset = datasets.MNIST(root, transform=len, target_transform=str)
    dataset.transform = lambda image: image.size
    assert dataset[0] == ((28, 28), str(dataset.targets[0].item()))
    assert repr(dataset).splitlines() == [
        "Dataset MNIST",
        "    Number of datapoints: 12",
        f"    Root location: {root}",
        "    Split: Train",
        "    StandardTransform",
        "Transform: <built-in function len>",
        "Target transform: <class 'str'>",
    ]


def test_other_tensors_may_take_their_place(root):
    dataset = datasets.MNIST(root)
    before = dataset[0]
    dataset.data, dataset.targets = dataset.data[3:], dataset.targets[3:]
    assert len(dataset) == 9 and np.array_equal(np.asarray(dataset[0][0]), dataset.data[0].numpy())
    dataset.data[0] = 7
    dataset.targets[0] = 5
    image, target = dataset[0]
    assert image.getextrema() == (7, 7) and target == 5
    dataset.targets = [3] * 9
    assert dataset[8][1] == 3
    assert before[0].getextrema() != (7, 7)


def test_indices_out_of_range_are_said_so(root):
    dataset = datasets.MNIST(root)
    with pytest.raises(IndexError, match="index 12 is out of bounds for dimension 0 with size 12"):
        dataset[12]
    assert dataset[torch.tensor(2)][1] == dataset[2][1]


def test_a_dataset_can_be_pickled(root):
    dataset = datasets.MNIST(root)
    size = len(pickle.dumps(dataset))
    expected = dataset[1]
    assert len(pickle.dumps(dataset)) < size + 500  # the views that items made are not in it
    copy = pickle.loads(pickle.dumps(dataset))
    assert copy[1][0].tobytes() == expected[0].tobytes() and copy[1][1] == expected[1]


def test_old_names_still_work(root):
    dataset = datasets.MNIST(root)
    with pytest.warns(UserWarning, match="train_labels has been renamed targets"):
        assert dataset.train_labels is dataset.targets
    with pytest.warns(UserWarning, match="test_data has been renamed data"):
        assert dataset.test_data is dataset.data


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(RuntimeError, match="Dataset not found") as error:
        datasets.MNIST(tmp_path)
    assert str(error.value).startswith(
        "Dataset not found. You can use download=True to download it"
    )
    assert "t10k-labels-idx1-ubyte.gz" in str(error.value)
    assert str(tmp_path / "MNIST/raw") in str(error.value)


def test_tensors_of_old_versions_are_read(tmp_path):
    folder = tmp_path / "MNIST/processed"
    folder.mkdir(parents=True)
    data, targets = torch.zeros(3, 28, 28, dtype=torch.uint8), torch.tensor([1, 2, 3])
    torch.save((data, targets), folder / "training.pt")
    torch.save((data[:1], targets[:1]), folder / "test.pt")
    assert len(datasets.MNIST(tmp_path)) == 3 and datasets.MNIST(tmp_path, train=False)[0][1] == 1


def test_counts_that_differ_are_refused(tmp_path):
    files = mnist_files()
    files["train-labels-idx1-ubyte"] = files["t10k-labels-idx1-ubyte"]
    write(tmp_path / "MNIST/raw", files)
    with pytest.raises(RuntimeError, match="12 images and 7 labels"):
        datasets.MNIST(tmp_path)


# -- EMNIST and QMNIST -----------------------------------------------------------------------------


@pytest.mark.parametrize("split", datasets.EMNIST.splits)
def test_emnist_has_six_selections(tmp_path, split):
    write(tmp_path / "EMNIST/raw", emnist_files(datasets.EMNIST.classes_split_dict))
    dataset = datasets.EMNIST(tmp_path, split=split, train=False)
    count = dict(byclass=62, bymerge=47, balanced=47, letters=27, digits=10, mnist=10)[split]
    assert len(dataset) == 4 and len(dataset.classes) == count
    assert f"emnist-{split}-test-images" in dataset.images_file


@pytest.mark.oracle
@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("split", datasets.EMNIST.splits)
def test_emnist_is_that_of_torchvision(tmp_path, theirs, split, train):
    write(tmp_path / "EMNIST/raw", emnist_files(datasets.EMNIST.classes_split_dict))
    assert theirs.EMNIST.classes_split_dict == datasets.EMNIST.classes_split_dict
    assert_same(
        datasets.EMNIST(tmp_path, split, train=train), theirs.EMNIST(tmp_path, split, train=train)
    )


def test_unknown_selections_are_refused(tmp_path):
    words = "Unknown value 'all' for argument split. Valid values are {'byclass', 'bymerge', "
    with pytest.raises(ValueError) as error:
        datasets.EMNIST(tmp_path, "all")
    assert str(error.value).startswith(words)


def write_qmnist(root):
    for name, count in (("qmnist-train", 5), ("qmnist-test", 10004), ("xnist", 3)):
        write(root / "QMNIST/raw", qmnist_files(name, count))


@pytest.mark.oracle
@pytest.mark.parametrize("what", [None, "train", "test", "test10k", "test50k", "nist"])
def test_qmnist_is_that_of_torchvision(tmp_path, theirs, what):
    write_qmnist(tmp_path)
    assert theirs.QMNIST.resources == datasets.QMNIST.resources
    assert_same(datasets.QMNIST(tmp_path, what), theirs.QMNIST(tmp_path, what))
    ours = datasets.QMNIST(tmp_path, what, compat=False)[1][1]
    assert ours.tolist() == theirs.QMNIST(tmp_path, what, compat=False)[1][1].tolist()


def test_qmnist_gives_numbers_or_all_it_knows(tmp_path):
    write_qmnist(tmp_path)
    numbers = datasets.QMNIST(tmp_path, "test50k")
    everything = datasets.QMNIST(tmp_path, "test50k", compat=False)
    assert len(numbers) == 4 and everything[2][1].shape == (8,)
    assert numbers[2][1] == everything[2][1][0].item()


# -- IDX files -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["u1", "i1", "i2", "i4", "f4", "f8"])
@pytest.mark.parametrize("shape", [(5,), (2, 3), (4, 3, 2), (0, 28, 28)])
def test_all_kinds_of_numbers_are_read(tmp_path, dtype, shape):
    array = (np.random.default_rng(3).standard_normal(shape) * 50).astype(dtype)
    for name, content in {
        "plain": idx(array),
        "packed.gz": gzip.compress(idx(array)),
        "packed.xz": lzma.compress(idx(array)),
    }.items():
        (tmp_path / name).write_bytes(content)
        tensor = read_sn3_pascalvincent_tensor(tmp_path / name)
        assert tensor.shape == shape and np.array_equal(tensor.numpy(), array)
        assert tensor.numpy().dtype == array.dtype
    assert np.array_equal(read_sn3_pascalvincent_tensor(io.BytesIO(idx(array))).numpy(), array)


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["u1", "i1", "i2", "i4", "f4", "f8"])
def test_numbers_are_those_that_torchvision_reads(tmp_path, theirs, dtype):
    path = tmp_path / "file"
    path.write_bytes(idx((np.random.default_rng(3).standard_normal((4, 3)) * 50).astype(dtype)))
    ours = read_sn3_pascalvincent_tensor(str(path))
    expected = theirs.mnist.read_sn3_pascalvincent_tensor(str(path))
    assert str(ours.dtype) == str(expected.dtype) and ours.tolist() == expected.tolist()


GOOD = idx(np.arange(24, dtype=np.uint8).reshape(2, 3, 4))
BROKEN = {
    "empty": b"",
    "three bytes": GOOD[:3],
    "a magic number of others": b"\x01" + GOOD[1:],
    "an unknown dtype": GOOD[:2] + b"\x0a" + GOOD[3:],
    "no dimensions": GOOD[:3] + b"\x00" + GOOD[4:],
    "four dimensions": GOOD[:3] + b"\x04" + GOOD[4:],
    "cut in the header": GOOD[:9],
    "one byte short": GOOD[:-1],
    "one byte more": GOOD + b"\0",
    "enormous sizes": GOOD[:4] + struct.pack(">3I", 2**32 - 1, 2**32 - 1, 2**32 - 1) + GOOD[16:],
    "a larger dtype": GOOD[:2] + b"\x0c" + GOOD[3:],
}


@pytest.mark.parametrize("form", ["plain", "gz", "xz", "object"])
@pytest.mark.parametrize("name", BROKEN)
def test_files_that_are_not_whole_are_refused(tmp_path, name, form):
    content = BROKEN[name]
    source = tmp_path / f"file.{form}"
    if form == "object":
        source = io.BytesIO(content)
    else:
        pack = {"plain": bytes, "gz": gzip.compress, "xz": lzma.compress}[form]
        source.write_bytes(pack(content))
    with pytest.raises(RuntimeError, match="is not a whole IDX file"):
        read_sn3_pascalvincent_tensor(source)


@pytest.mark.parametrize("suffix", ["gz", "xz"])
def test_compressed_files_that_are_cut_or_changed_are_refused(tmp_path, suffix):
    pack = {"gz": gzip.compress, "xz": lzma.compress}[suffix]
    content = pack(idx(np.random.default_rng(0).integers(0, 256, 4000, dtype=np.uint8)))
    path = tmp_path / f"file.{suffix}"
    changed = bytearray(content)
    changed[len(content) // 2] ^= 0x55
    for bad in (content[:-20], content[: len(content) // 2], content[:6], bytes(changed), b"none"):
        path.write_bytes(bad)
        with pytest.raises(RuntimeError, match="is not a whole IDX file"):
            read_sn3_pascalvincent_tensor(path)


def test_labels_and_images_have_their_dtypes_and_dimensions(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(idx(np.zeros((2, 2), np.uint8)))
    with pytest.raises(ValueError, match="x should have 1 dimension instead of 2"):
        mnist.read_label_file(path)
    with pytest.raises(ValueError, match="x should have 3 dimension instead of 2"):
        mnist.read_image_file(path)
    path.write_bytes(idx(np.zeros((2,), np.int32)))
    with pytest.raises(
        TypeError, match=r"x should be of dtype torch\.uint8 instead of torch\.int32"
    ):
        mnist.read_label_file(path)
    assert mnist.get_int(b"\x01\x00") == 256


def test_no_change_of_a_file_does_worse_than_an_error(rng):
    for _ in range(3000):
        content = bytearray(GOOD)
        for _ in range(rng.integers(1, 4)):
            content[rng.integers(len(content))] = rng.integers(256)
        file = io.BytesIO(content[: rng.integers(1, len(content) + 1)])
        try:
            tensor = read_sn3_pascalvincent_tensor(file)
        except RuntimeError as error:
            assert "is not a whole IDX file" in str(error)
        else:
            assert tensor.numel() * tensor.element_size() <= len(content)
