"""Kitti: streets from a car, with boxes around what stands and moves there."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from typing import Any

from flambeau.vision.datasets.fetched import NOT_FOUND, ensure
from flambeau.vision.datasets.utils import download_and_extract_archive
from flambeau.vision.datasets.vision import VisionDataset
from flambeau.vision.pillow import open_image

# names of the columns, and how many numbers each has
_WHOLE = {"occluded": int}
_ROWS = (("type", 1), ("truncated", 1), ("occluded", 1), ("alpha", 1), ("bbox", 4),
         ("dimensions", 3), ("location", 3), ("rotation_y", 1))  # fmt: skip


class Kitti(VisionDataset):
    """Pictures and lists of dictionaries, one for each thing.

    Args:
        root: the folder that holds or will hold `Kitti/raw`.
        train: the pictures with boxes, or those without (None).
        transform: a function of a PIL image.
        target_transform: a function of a target.
        transforms: a function of both.
        download: bring the archives and unpack them.
    """

    data_url = "https://s3.eu-central-1.amazonaws.com/avg-kitti/"
    resources = ["data_object_image_2.zip", "data_object_label_2.zip"]
    image_dir_name = "image_2"
    labels_dir_name = "label_2"

    def __init__(
        self,
        root: str | os.PathLike[str],
        train: bool = True,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        transforms: Callable | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transforms, transform, target_transform)
        self.train = train
        self._location = "training" if train else "testing"
        fetch = self.download if download else None
        ensure(fetch, self._check_exists, f"unpack it into {self._raw_folder}", NOT_FOUND)
        folder = self._folder(self.image_dir_name)
        names = os.listdir(folder)
        self.images = [os.path.join(folder, name) for name in names]
        self.targets = []
        if train:
            lists = self._folder(self.labels_dir_name)
            self.targets = [os.path.join(lists, name.split(".")[0] + ".txt") for name in names]

    @property
    def _raw_folder(self) -> str:
        return os.path.join(self.root, type(self).__name__, "raw")

    def _folder(self, name: str) -> str:
        return os.path.join(self._raw_folder, self._location, name)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image = open_image(self.images[index])
        target = self._parse_target(index) if self.train else None
        return self.transforms(image, target) if self.transforms else (image, target)

    def _parse_target(self, index: int) -> list[dict[str, Any]]:
        with open(self.targets[index], newline="", encoding="utf-8") as file:
            return [_thing(row) for row in csv.reader(file, delimiter=" ")]

    def __len__(self) -> int:
        return len(self.images)

    def _check_exists(self) -> bool:
        names = [self.image_dir_name] + ([self.labels_dir_name] if self.train else [])
        return all(os.path.isdir(self._folder(name)) for name in names)

    def download(self) -> None:
        """Bring the archives and unpack them, unless the folders are there."""
        if self._check_exists():
            return
        for name in self.resources:
            download_and_extract_archive(self.data_url + name, self._raw_folder, filename=name)


def _thing(cells: list[str]) -> dict[str, Any]:
    """What one line says: the kind of a thing, how it is seen, and where it is."""
    found: dict[str, Any] = {"type": cells[0]}
    place = 1
    for name, count in _ROWS[1:]:
        numbers = [_WHOLE.get(name, float)(cell) for cell in cells[place : place + count]]
        found[name] = numbers if count > 1 else numbers[0]
        place += count
    return found
