"""CIFAR-10 and CIFAR-100: 60,000 coloured pictures of 32 by 32 pixels, kept in pickles.

The pickles are read by `pickled_arrays.py`, which can build plain data and arrays only.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from flambeau.vision.datasets.fetched import OneArchive, numbered
from flambeau.vision.datasets.pickled_arrays import read_pickle
from flambeau.vision.datasets.utils import check_integrity
from flambeau.vision.pillow import image_of

_SIDE = 32


_ADDRESS = "https://www.cs.toronto.edu/~kriz/"


def _numbered_batches(*sums: str) -> list[list[str]]:
    """Names of files with their MD5 sums."""
    return [[f"data_batch_{number}", md5] for number, md5 in enumerate(sums, 1)]


def _names(filename: str, key: str, md5: str) -> dict[str, str]:
    """Where the names of the classes are."""
    return {"filename": filename, "key": key, "md5": md5}


class CIFAR10(OneArchive):
    """60,000 pictures of ten kinds of things: airplane, automobile, bird, ...

    Args:
        root: the folder that holds or will hold `cifar-10-batches-py`.
        train: the 50,000 for training, or the 10,000 for testing.
        transform: a function of a PIL image.
        target_transform: a function of a label.
        download: bring the archive and unpack it, if the files are not there.

    Attributes:
        data: a NumPy array of bytes, (count, 32, 32, 3).
        targets: a list of labels.
    """

    filename, base_folder = "cifar-10-python.tar.gz", "cifar-10-batches-py"
    url, tgz_md5 = _ADDRESS + filename, "c58f30108f718f92721af3b95e74349a"
    train_list = _numbered_batches(
        "c99cafc152244af753f735de768cd75f",
        "d4bba439e000b95fd0a9bffe97cbabec",
        "54ebc095f3ab1f0389bbae665268c751",
        "634d18415352ddfa80567beed471001a",
        "482c414d41f54cd18b22e5b47cb7c3cb",
    )
    test_list = [["test_batch", "40351d587109b95175f43aff81a1287e"]]
    meta = _names("batches.meta", "label_names", "5ff9c542aee3614f3951f8cda6e48888")

    def __init__(
        self,
        root: str | os.PathLike[str],
        train: bool = True,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, None, transform, target_transform)
        self.train = train
        self._settle(download)
        files = self.train_list if train else self.test_list
        batches = [self._read_batch(self._path(name)) for name, _ in files]
        self.data: Any = _side_by_side([pixels for pixels, _ in batches])
        self.targets: list[int] = [label for _, labels in batches for label in labels]
        self._load_meta()

    def _read_batch(self, path: str) -> tuple[Any, list[int]]:
        import numpy

        entry = read_pickle(path)
        pixels = entry.get("data") if isinstance(entry, dict) else None
        if not isinstance(pixels, numpy.ndarray) or pixels.dtype != numpy.uint8:
            raise RuntimeError(f"{path} holds no array of bytes called 'data'")
        if pixels.ndim != 2 or pixels.shape[1] != 3 * _SIDE * _SIDE:
            raise RuntimeError(f"{path} holds an array of shape {pixels.shape}: not pictures")
        labels = entry.get("labels", entry.get("fine_labels"))
        if not isinstance(labels, list) or not all(isinstance(label, int) for label in labels):
            raise RuntimeError(f"{path} holds no list of numbers called 'labels'")
        if len(labels) != len(pixels):
            raise RuntimeError(f"{path} holds {len(pixels)} pictures and {len(labels)} labels")
        return pixels, labels

    def _load_meta(self) -> None:
        """The names of the classes, from a file beside the batches."""
        key, path = self.meta["key"], self._path(self.meta["filename"])
        if not check_integrity(path, self.meta["md5"]):
            raise RuntimeError(
                "Dataset metadata file not found or corrupted. "
                "You can use download=True to download it"
            )
        content = read_pickle(path)
        names = content.get(key) if isinstance(content, dict) else None
        if not isinstance(names, list) or {type(name) for name in names} - {str}:
            raise RuntimeError(f"{path} holds no list of names called '{key}'")
        self.classes: list[str] = names
        self.class_to_idx = numbered(names)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image, target = image_of(self.data[index]), self.targets[index]
        return self._transformed(image, target)

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        return f"Split: {'Train' if self.train is True else 'Test'}"


def _side_by_side(batches: list[Any]) -> Any:
    """Pictures whose channels lie apart, as Pillow wants them: an item is then one copy."""
    import numpy

    data = numpy.empty((sum(map(len, batches)), _SIDE * _SIDE, 3), numpy.uint8)
    start = 0
    for batch in batches:
        part = data[start : start + len(batch)]
        channels = batch.reshape(-1, 3, _SIDE * _SIDE)
        for channel in range(3):  # half the time that NumPy takes for all at once
            part[:, :, channel] = channels[:, channel]
        start += len(batch)
    return data.reshape(-1, _SIDE, _SIDE, 3)


class CIFAR100(CIFAR10):
    """60,000 pictures of a hundred kinds of things; the arguments are those of `CIFAR10`."""

    filename, base_folder = "cifar-100-python.tar.gz", "cifar-100-python"
    url, tgz_md5 = _ADDRESS + filename, "eb9058c3a382ffc7106e4002c42a8d85"
    train_list = [["train", "16019d7e3df5f24257cddd939b257f8d"]]
    test_list = [["test", "f0ef6b0ae62326f3e7ffdfab6717acfc"]]
    meta = _names("meta", "fine_label_names", "7973b15100ade9c7d40fb424638fde48")
