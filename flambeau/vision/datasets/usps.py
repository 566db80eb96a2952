"""USPS: digits from envelopes, 16 by 16 pixels, kept as compressed text."""

from __future__ import annotations

import bz2
import os
from collections.abc import Callable
from typing import Any

from flambeau.vision.datasets.utils import download_url
from flambeau.vision.datasets.vision import VisionDataset
from flambeau.vision.pillow import from_array

_ADDRESS = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/"
_SIDE = 16
_MOST_BYTES = 1 << 28


class USPS(VisionDataset):
    """7,291 digits for training and 2,007 for testing.

    Args:
        root: the folder that holds or will hold usps.bz2 or usps.t.bz2.
        train: the training set or the test set.
        transform: a function of a PIL image.
        target_transform: a function of a label.
        download: bring the file if it is not there.
    """

    split_list = {
        "train": [f"{_ADDRESS}usps.bz2", "usps.bz2", "ec16c51db3855ca6c91edd34d0e9b197"],
        "test": [f"{_ADDRESS}usps.t.bz2", "usps.t.bz2", "8ea070ee2aca1ac39742fdd1ef5ed118"],
    }

    def __init__(
        self,
        root: str | os.PathLike[str],
        train: bool = True,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, None, transform, target_transform)
        url, name, md5 = self.split_list["train" if train else "test"]
        path = os.path.join(self.root, name)
        if download and not os.path.exists(path):
            download_url(url, self.root, name, md5)
        self.data, self.targets = _read(path)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image, target = from_array(self.data[index], "L"), int(self.targets[index])
        return self._transformed(image, target)

    def __len__(self) -> int:
        return len(self.data)


def _read(path: str) -> tuple[Any, list[int]]:
    """Lines of `label 1:value 2:value ...`, labels from 1, values from -1 to 1."""
    import numpy

    try:
        with bz2.open(path) as file:
            text = file.read(_MOST_BYTES)
        lines = [line.split() for line in text.decode("ascii").splitlines()]
        targets = [int(words[0]) - 1 for words in lines]
        values = [[float(word.partition(":")[2]) for word in words[1:]] for words in lines]
        pixels = numpy.asarray(values, dtype=numpy.float32).reshape(-1, _SIDE, _SIDE)
    except (EOFError, ValueError, IndexError) as error:
        raise RuntimeError(f"{path} is not the file of USPS, or damaged ({error})") from error
    return ((pixels + 1) / 2 * 255).astype(numpy.uint8), targets
