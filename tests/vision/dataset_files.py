"""Small files in the formats of the real datasets, and classes that expect their checksums."""

import gzip
import hashlib
import pickle
import struct

import numpy as np

SPLITS = {"train": 12, "t10k": 7}


def md5(content):
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def idx(array):
    """An array as an IDX file."""
    codes = {"u1": 8, "i1": 9, "i2": 11, "i4": 12, "f4": 13, "f8": 14}
    array = np.asarray(array)
    code = codes[array.dtype.str[1:]]
    sizes = struct.pack(f">{array.ndim}I", *array.shape)
    return (
        bytes((0, 0, code, array.ndim))
        + sizes
        + array.astype(array.dtype.newbyteorder(">")).tobytes()
    )


def images_and_labels(count, classes=10, side=28, seed=0):
    rng = np.random.default_rng([seed, count])
    images = rng.integers(0, 256, (count, side, side), dtype=np.uint8)
    return images, rng.integers(0, classes, count, dtype=np.uint8)


def mnist_files(seed=0):
    """The four files of MNIST, by name."""
    files = {}
    for split, count in SPLITS.items():
        images, labels = images_and_labels(count, seed=seed)
        files[f"{split}-images-idx3-ubyte"] = idx(images)
        files[f"{split}-labels-idx1-ubyte"] = idx(labels)
    return files


def emnist_files(classes_of):
    """The files of all selections of EMNIST; classes_of maps them to their classes."""
    files = {}
    for split, classes in classes_of.items():
        for part, count in (("train", 9), ("test", 4)):
            images, labels = images_and_labels(count, len(classes), seed=len(classes))
            files[f"emnist-{split}-{part}-images-idx3-ubyte"] = idx(images)
            files[f"emnist-{split}-{part}-labels-idx1-ubyte"] = idx(labels)
    return files


def qmnist_files(name, count):
    """Images, and eight numbers for each."""
    images, _ = images_and_labels(count)
    numbers = np.random.default_rng(1).integers(0, 5000, (count, 8), dtype=np.int32)
    numbers[:, 0] %= 10
    return {
        f"{name}-images-idx3-ubyte": idx(images),
        f"{name}-labels-idx2-int": idx(numbers),
    }


def write(folder, files, packed=False):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content, mtime=0))
        else:
            (folder / name).write_bytes(content)


# -- CIFAR -----------------------------------------------------------------------------------------


def old_pickle(value):
    """A pickle as Python 2 wrote it (protocol 2): text and bytes are the same thing there."""
    return b"\x80\x02" + _old(value) + b"."


def _old(value):
    if isinstance(value, dict):
        return b"}(" + b"".join(_old(k) + _old(v) for k, v in value.items()) + b"u"
    if isinstance(value, list):
        return b"](" + b"".join(map(_old, value)) + b"e"
    if isinstance(value, int):
        return b"K" + bytes((value,)) if 0 <= value < 256 else b"J" + struct.pack("<i", value)
    if isinstance(value, str):
        return b"U" + bytes((len(value),)) + value.encode("latin1")
    none = b"J\xff\xff\xff\xff"
    dtype = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNN" + none + none + b"K\x00tb"
    shape = b"".join(map(_old, value.shape)) + b"\x86"
    data = value.tobytes()
    start = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    return (
        start + b"(K\x01" + shape + dtype + b"\x89T" + struct.pack("<i", len(data)) + data + b"tb"
    )


def cifar_entry(count, label_key, classes, seed):
    rng = np.random.default_rng([seed, count])
    return {
        "batch_label": "a part",
        label_key: rng.integers(0, classes, count).tolist(),
        "data": rng.integers(0, 256, (count, 3072), dtype=np.uint8),
        "filenames": [f"file_{number}.png" for number in range(count)],
    }


def cifar_files(cls, write_pickle=old_pickle):
    """The files of CIFAR10 or CIFAR100, small."""
    fine = cls.__name__ == "CIFAR100"
    key, classes = ("fine_labels", 100) if fine else ("labels", 10)
    names = [name for name, _ in cls.train_list + cls.test_list]
    files = {
        name: write_pickle(cifar_entry(4 + seed, key, classes, seed))
        for seed, name in enumerate(names)
    }
    files[cls.meta["filename"]] = write_pickle({cls.meta["key"]: [f"c{i}" for i in range(classes)]})
    return files


def cifar_class(cls, files, **more):
    """The class, told the checksums of these files."""
    lists = {
        name: [[file, md5(files[file])] for file, _ in getattr(cls, name)]
        for name in ("train_list", "test_list")
    }
    meta = {**cls.meta, "md5": md5(files[cls.meta["filename"]])}
    return type(cls.__name__, (cls,), {**lists, "meta": meta, **more})


def new_pickle(protocol):
    return lambda value: pickle.dumps(value, protocol)
