"""STL-10: 96 by 96 pixels in colour, few labels and many pictures without one; plain bytes."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import Any

from flambeau.vision.datasets.fetched import OneArchive
from flambeau.vision.datasets.utils import verify_str_arg
from flambeau.vision.pillow import image_of

_SIDE = 96


class STL10(OneArchive):
    """Pictures of ten kinds of things, after those of CIFAR-10.

    Args:
        root: the folder that holds or will hold `stl10_binary`.
        split: "train" (5,000), "test" (8,000), "unlabeled" (100,000) or "train+unlabeled".
        folds: 0 to 9 for one of the ten parts of the training set; None for all of it.
        transform: a function of a PIL image.
        target_transform: a function of a label; pictures without one have -1.
        download: bring the archive and unpack it, if the files are not there.
    """

    filename, base_folder = "stl10_binary.tar.gz", "stl10_binary"
    url = f"http://ai.stanford.edu/~acoates/stl10/{filename}"
    tgz_md5 = "91f7769df0f17e558f3565bffb0c7dfb"
    class_names_file, folds_list_file = "class_names.txt", "fold_indices.txt"
    train_list = [
        ["train_X.bin", "918c2871b30a85fa023e0c44e0bee87f"],
        ["train_y.bin", "5a34089d4802c674881badbb80307741"],
        ["unlabeled_X.bin", "5242ba1fed5e4be9e1e742405eb56ca4"],
    ]
    test_list = [
        ["test_X.bin", "7f263ba9f9e0b06b93213547f721ac82"],
        ["test_y.bin", "36f9794fa4beb8a2c72628de14fa638e"],
    ]
    splits = "train", "train+unlabeled", "unlabeled", "test"

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str = "train",
        folds: int | None = None,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
    ) -> None:
        self.folds = self._verify_folds(folds)
        self.split = verify_str_arg(split, "split", self.splits)
        super().__init__(root, None, transform, target_transform)
        self._settle(download)
        self.data, self.labels = self._load()
        names = pathlib.Path(self._path(self.class_names_file))
        if names.is_file():
            self.classes = names.read_text("utf-8").splitlines()

    def _verify_folds(self, folds: Any) -> int | None:
        if folds is None:
            return None
        if not isinstance(folds, int):
            raise ValueError(
                f"Expected type None or int for argument folds, but got type {type(folds)}."
            )
        if folds not in range(10):
            raise ValueError(
                f"Value for argument folds should be in the range [0, 10), but got {folds}."
            )
        return folds

    def _load(self) -> tuple[Any, Any]:
        import numpy

        if self.split == "test":
            return self._labelled(self.test_list)
        parts = []
        if self.split.startswith("train"):
            data, labels = self._labelled(self.train_list)
            if self.folds is not None:
                chosen = self._fold(len(data))
                data, labels = data[chosen], labels[chosen]
            parts.append((data, labels))
        if self.split.endswith("unlabeled"):
            data = _read_images(self._path(self.train_list[2][0]))
            parts.append((data, numpy.full(len(data), -1)))
        if len(parts) == 1:
            return parts[0]
        (data, labels), (more, none) = parts
        return numpy.concatenate((data, more)), numpy.concatenate((labels, none))

    def _labelled(self, files: list[list[str]]) -> tuple[Any, Any]:
        import numpy

        data = _read_images(self._path(files[0][0]))
        labels = numpy.fromfile(self._path(files[1][0]), dtype=numpy.uint8) - 1  # from 1 in files
        if len(labels) != len(data):
            folder = self._path("")
            raise RuntimeError(f"{folder} holds {len(data)} pictures and {len(labels)} labels")
        return data, labels

    def _fold(self, count: int) -> Any:
        """The numbers of the pictures that belong to a part, from a line of a text file."""
        import numpy

        with open(self._path(self.folds_list_file), encoding="ascii") as file:
            lines = file.read().splitlines()
        assert self.folds is not None
        numbers = [int(word) for word in lines[self.folds].split()]
        if not all(0 <= number < count for number in numbers):
            raise RuntimeError(f"{self.folds_list_file} speaks of pictures that do not exist")
        return numpy.array(numbers, dtype=numpy.int64)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image, target = image_of(self.data[index].transpose(1, 2, 0)), int(self.labels[index])
        return self._transformed(image, target)

    def __len__(self) -> int:
        return self.data.shape[0]

    def extra_repr(self) -> str:
        return f"Split: {self.split}"


def _read_images(path: str) -> Any:
    """Pictures from plain bytes: each channel column by column."""
    import numpy

    size = 3 * _SIDE * _SIDE
    if os.path.getsize(path) % size:
        raise RuntimeError(f"{path} has {os.path.getsize(path)} bytes, no multiple of {size}")
    images = numpy.fromfile(path, dtype=numpy.uint8).reshape(-1, 3, _SIDE, _SIDE)
    return images.transpose((0, 1, 3, 2))
