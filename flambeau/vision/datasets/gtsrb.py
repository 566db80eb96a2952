"""GTSRB: 51,839 pictures of German traffic signs."""

from __future__ import annotations

import csv
import os
import pathlib
from collections.abc import Callable
from typing import Any

from flambeau.vision.datasets.fetched import Fetched, Origin
from flambeau.vision.datasets.folder import make_dataset
from flambeau.vision.datasets.utils import verify_str_arg
from flambeau.vision.pillow import open_image

_ADDRESS = "https://sid.erda.dk/public/archives/daaeac0d7ce1152aea9b61d9f1e19370/"


def _origin(folder: str, **archives: str) -> Origin:
    """A split from its folder and the names and MD5 sums of its archives."""
    addresses = tuple((f"{_ADDRESS}{name}.zip", md5) for name, md5 in archives.items())
    return Origin(addresses, "gtsrb", (f"gtsrb/GTSRB/{folder}",))


_SPLITS = {
    "train": _origin("Training", **{"GTSRB-Training_fixed": "513f3c79a4c5141765e10e952eaa2478"}),
    "test": _origin(
        "Final_Test/Images",
        GTSRB_Final_Test_Images="c7e4e6327067d32654124b0fe9e82185",
        GTSRB_Final_Test_GT="fe31e9c9270bbcd7b84b7f21a9d9d9e5",
    ),
}


class GTSRB(Fetched):
    """Traffic signs of 43 kinds.

    Args:
        root: the folder that holds or will hold `gtsrb`.
        split: "train" or "test".
        transform: a function of a PIL image.
        target_transform: a function of a class number.
        download: bring the archives and unpack them, if the folder is not there.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str = "train",
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
    ) -> None:
        self._split = verify_str_arg(split, "split", tuple(_SPLITS))
        self._origin = _SPLITS[split]
        super().__init__(root, download, (None, transform, target_transform))
        folder = self._below(*self._origin.makes)
        if split == "test":
            self._samples = _listed(self._below("gtsrb", "GT-final_test.csv"), folder)
        else:
            self._samples = make_dataset(str(folder), extensions=(".ppm",))

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, number = self._samples[index]
        return self._transformed(open_image(path, "RGB"), number)


def _listed(table: pathlib.Path, folder: pathlib.Path) -> list[tuple[str, int]]:
    """Paths and class numbers from a table whose columns have names."""
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter=";", skipinitialspace=True))
    return [(str(folder / row["Filename"]), int(row["ClassId"])) for row in rows]
