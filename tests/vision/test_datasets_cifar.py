"""CIFAR-10 and CIFAR-100, and the pickles that they are made of: read, and never run."""

import os
import pickle
import sys

import numpy as np
import pytest

from flambeau.vision import datasets
from flambeau.vision.datasets.pickled_arrays import parse_pickle, read_pickle
from tests.vision.dataset_files import (
    cifar_class,
    cifar_entry,
    cifar_files,
    md5,
    new_pickle,
    old_pickle,
    write,
)

WRITERS = {"Python 2": old_pickle, **{f"protocol {p}": new_pickle(p) for p in (2, 3, 4, 5)}}


@pytest.fixture
def theirs():
    pytest.importorskip("torch")
    return pytest.importorskip("torchvision").datasets


@pytest.mark.oracle
@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("name", ["CIFAR10", "CIFAR100"])
def test_items_are_those_of_torchvision(tmp_path, theirs, name, train):
    files = cifar_files(getattr(datasets, name))
    write(tmp_path / getattr(datasets, name).base_folder, files)
    ours = cifar_class(getattr(datasets, name), files)(tmp_path, train)
    expected = cifar_class(getattr(theirs, name), files)(tmp_path, train)
    assert repr(ours) == repr(expected) and len(ours) == len(expected)
    assert ours.data.dtype == expected.data.dtype and np.array_equal(ours.data, expected.data)
    assert ours.targets == expected.targets
    assert (ours.classes, ours.class_to_idx) == (expected.classes, expected.class_to_idx)
    for index in range(len(ours)):
        (image, target), (other, wanted) = ours[index], expected[index]
        assert (image.mode, image.size, target) == (other.mode, other.size, wanted)
        assert image.tobytes() == other.tobytes() and type(target) is type(wanted)


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["CIFAR10", "CIFAR100", "SVHN", "STL10", "USPS"])
def test_addresses_and_checksums_are_those_of_torchvision(theirs, name):
    ours, expected = getattr(datasets, name), getattr(theirs, name)
    for attribute in dir(expected):
        value = getattr(expected, attribute)
        if not attribute.startswith("_") and isinstance(value, (str, list, dict, tuple)):
            assert getattr(ours, attribute) == value


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("name", ["CIFAR10", "CIFAR100"])
def test_items_are_what_was_written(tmp_path, name, writer):
    cls = getattr(datasets, name)
    files = cifar_files(cls, WRITERS[writer])
    write(tmp_path / cls.base_folder, files)
    dataset = cifar_class(cls, files)(tmp_path, train=False)
    key, classes = ("fine_labels", 100) if name == "CIFAR100" else ("labels", 10)
    seed = len(cls.train_list)
    entry = cifar_entry(4 + seed, key, classes, seed)
    assert dataset.targets == entry[key]
    image, target = dataset[2]
    assert np.array_equal(np.asarray(image), entry["data"][2].reshape(3, 32, 32).transpose(1, 2, 0))
    assert target == entry[key][2] and dataset.classes[1] == "c1"


def test_files_that_are_missing_or_changed_are_noticed(tmp_path):
    files = cifar_files(datasets.CIFAR10)
    cls = cifar_class(datasets.CIFAR10, files)
    folder = tmp_path / cls.base_folder
    with pytest.raises(RuntimeError, match="Dataset not found or corrupted") as error:
        cls(tmp_path)
    assert "cifar-10-python.tar.gz" in str(error.value)
    write(folder, files)
    (folder / "batches.meta").unlink()
    with pytest.raises(RuntimeError, match="Dataset metadata file not found or corrupted"):
        cls(tmp_path)
    (folder / "data_batch_3").write_bytes(files["data_batch_2"])
    with pytest.raises(RuntimeError, match="Dataset not found or corrupted"):
        cls(tmp_path)


WRONG = {
    "no dictionary": ([1, 2], "no array of bytes"),
    "no data": ({"labels": [1]}, "no array of bytes"),
    "text for data": ({"data": "abc", "labels": [1]}, "no array of bytes"),
    "floats": ({"data": np.zeros((1, 3072)), "labels": [1]}, "no array of bytes"),
    "too narrow": ({"data": np.zeros((1, 3071), np.uint8), "labels": [1]}, "not pictures"),
    "no labels": ({"data": np.zeros((1, 3072), np.uint8)}, "no list of numbers"),
    "labels of text": ({"data": np.zeros((1, 3072), np.uint8), "labels": ["a"]}, "no list"),
    "too few labels": ({"data": np.zeros((2, 3072), np.uint8), "labels": [1]}, "1 labels"),
}


@pytest.mark.parametrize("name", WRONG)
def test_pickles_of_something_else_are_refused(tmp_path, name):
    content, message = WRONG[name]
    files = cifar_files(datasets.CIFAR10)
    files["test_batch"] = pickle.dumps(content)
    write(tmp_path / datasets.CIFAR10.base_folder, files)
    with pytest.raises(RuntimeError, match=message):
        cifar_class(datasets.CIFAR10, files)(tmp_path, train=False)


# -- pickles ---------------------------------------------------------------------------------------

ARRAYS = {
    "bytes": np.arange(6, dtype=np.uint8).reshape(2, 3),
    "big-endian": np.arange(6, dtype=">i4"),
    "by columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "no dimensions": np.array(3, np.int16),
    "nothing": np.zeros((0, 4), np.float32),
    "bool": np.array([True, False]),
}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_are_read(tmp_path, name, protocol):
    array = ARRAYS[name]
    path = tmp_path / "file"
    path.write_bytes(pickle.dumps({"a": [array, (1, 2.5, None, "x")], b"b": np.int64(7)}, protocol))
    content = read_pickle(path)
    read, others = content["a"]
    assert others == (1, 2.5, None, "x") and content["b"] == 7
    assert read.shape == array.shape and read.dtype == array.dtype.newbyteorder("=")
    assert np.array_equal(read, array) and read.flags.writeable


class Command:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


class State:
    pass


class Own(np.ndarray):
    pass


HOSTILE = {
    "a command": Command(os.system, "touch executed"),
    "eval": Command(eval, "open('executed', 'w')"),
    "a file": Command(open, "executed", "w"),
    "an import": Command(__import__, "antigravity"),
    "an object": State(),
    "a class": State,
    "a function": np.load,
    "an array of objects": np.array([State()], dtype=object),
    "a record": np.zeros(2, dtype=[("a", "i4")]),
    "text in an array": np.array(["a"]),
    "a dtype alone": np.dtype("u1"),
    "an array of a type of its own": np.zeros(2).view(Own),
}


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_is_run(tmp_path, monkeypatch, name, protocol):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "file"
    path.write_bytes(pickle.dumps({"data": HOSTILE[name]}, protocol))
    with pytest.raises(RuntimeError, match="cannot be read safely"):
        read_pickle(path)
    assert not (tmp_path / "executed").exists() and "antigravity" not in sys.modules


def test_arrays_that_claim_too_much_are_refused(tmp_path):
    good = old_pickle(np.zeros((2, 8), np.uint8))
    path = tmp_path / "file"
    path.write_bytes(good)
    assert read_pickle(path).shape == (2, 8)
    for old, new in (
        (b"K\x02K\x08\x86", b"K\x02K\x09\x86"),
        (b"K\x02K\x08\x86", b"J\xff\xff\xff\xffK\x10\x86"),
        (b"U\x02u1", b"U\x02O8"),
        (b"U\x02u1", b"U\x02u8"),
        (b"T\x10\0\0\0", b"T\xff\xff\xff\x7f"),
    ):
        assert old in good
        path.write_bytes(good.replace(old, new))
        with pytest.raises(RuntimeError, match="cannot be read safely"):
            read_pickle(path)


def test_no_change_of_a_pickle_does_worse_than_an_error(rng):
    value = {"data": np.arange(12, dtype=np.uint8).reshape(3, 4), "labels": [1, 300], "n": ["a"]}
    contents = [write(value) for write in WRITERS.values()]
    read = 0
    for turn in range(4000):
        content = bytearray(contents[turn % len(contents)])
        for _ in range(rng.integers(1, 4)):
            content[rng.integers(len(content))] = rng.integers(256)
        try:
            parse_pickle(bytes(content), "a file")
            read += 1
        except RuntimeError as error:
            assert "cannot be read safely" in str(error)
    assert 0 < read < 4000


def test_the_checksum_in_the_files_is_md5():
    assert md5(b"") == "d41d8cd98f00b204e9800998ecf8427e"
