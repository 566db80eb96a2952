"""GTSRB: 51,839 pictures of German traffic signs."""

from __future__ import annotations

import csv
import os
import pathlib
from collections.abc import Callable
from typing import Any

from flambeau.vision.datasets.folder import make_dataset
from flambeau.vision.datasets.utils import download_and_extract_archive, verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset
from flambeau.vision.pillow import open_image

_ADDRESS = "https://sid.erda.dk/public/archives/daaeac0d7ce1152aea9b61d9f1e19370/"
_ARCHIVES = {
    "train": [("GTSRB-Training_fixed.zip", "513f3c79a4c5141765e10e952eaa2478")],
    "test": [
        ("GTSRB_Final_Test_Images.zip", "c7e4e6327067d32654124b0fe9e82185"),
        ("GTSRB_Final_Test_GT.zip", "fe31e9c9270bbcd7b84b7f21a9d9d9e5"),
    ],
}


class GTSRB(VisionDataset):
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
        super().__init__(root, transform=transform, target_transform=target_transform)
        self._split = verify_str_arg(split, "split", ("train", "test"))
        self._base_folder = pathlib.Path(self.root) / "gtsrb"
        inner = "Training" if self._split == "train" else "Final_Test/Images"
        self._target_folder = self._base_folder / "GTSRB" / inner
        if download:
            self.download()
        if not self._check_exists():
            names = " and ".join(name for name, _ in _ARCHIVES[self._split])
            raise RuntimeError(
                "Dataset not found. You can use download=True to download it, or unpack "
                f"{names} into {self._base_folder}"
            )
        if self._split == "train":
            self._samples = make_dataset(str(self._target_folder), extensions=(".ppm",))
        else:
            self._samples = self._listed()

    def _listed(self) -> list[tuple[str, int]]:
        with open(self._base_folder / "GT-final_test.csv", encoding="utf-8") as file:
            return [
                (str(self._target_folder / row["Filename"]), int(row["ClassId"]))
                for row in csv.DictReader(file, delimiter=";", skipinitialspace=True)
            ]

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, target = self._samples[index]
        image = open_image(path, "RGB")
        return self._transformed(image, target)

    def _check_exists(self) -> bool:
        return self._target_folder.is_dir()

    def download(self) -> None:
        """Bring the archives of this split and unpack them, unless the folder is there."""
        if not self._check_exists():
            for name, md5 in _ARCHIVES[self._split]:
                download_and_extract_archive(_ADDRESS + name, str(self._base_folder), md5=md5)
