"""SEMEION: 1,593 handwritten digits of 16 x 16 pixels."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy

from flambeau.vision.datasets.fetched import ensure
from flambeau.vision.datasets.utils import check_integrity, download_url
from flambeau.vision.datasets.vision import VisionDataset
from flambeau.vision.pillow import from_array


class SEMEION(VisionDataset):
    """Digits in black and white.

    Args:
        root: the folder that holds or will hold `semeion.data`.
        transform, target_transform: functions of a PIL image and of a digit.
        download: bring the file, if it is not there.
    """

    url = "http://archive.ics.uci.edu/ml/machine-learning-databases/semeion/semeion.data"
    filename = "semeion.data"
    md5_checksum = "cb545d371d2ce14ec121470795a77432"

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = True,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        fetch = self.download if download else None
        ensure(fetch, self._check_integrity, f"put {self.filename} into {self.root}")
        table = numpy.loadtxt(os.path.join(self.root, self.filename))
        # a line is 256 pixels and a one in ten columns
        self.data = (table[:, :256] * 255).astype(numpy.uint8).reshape(-1, 16, 16)
        self.labels = numpy.nonzero(table[:, 256:])[1]

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._transformed(from_array(self.data[index], "L"), int(self.labels[index]))

    def _check_integrity(self) -> bool:
        return check_integrity(os.path.join(self.root, self.filename), self.md5_checksum)

    def download(self) -> None:
        """Bring the file, unless it is there."""
        if not self._check_integrity():
            download_url(self.url, self.root, self.filename, self.md5_checksum)
