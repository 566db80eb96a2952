"""Food-101: 101,000 photographs of dishes."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

from flambeau.vision.datasets.folder import default_loader
from flambeau.vision.datasets.utils import download_and_extract_archive, verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset


class Food101(VisionDataset):
    """Photographs of 101 dishes, 750 each for training and 250 for testing.

    Args:
        root: the folder that holds or will hold `food-101`.
        split: "train" or "test".
        transform: a function of what the loader gives, by default a PIL image.
        target_transform: a function of a class number.
        download: bring the archive and unpack it, if the folders are not there.
        loader: a function of a path that reads the image.
    """

    _URL = "http://data.vision.ee.ethz.ch/cvl/food-101.tar.gz"
    _MD5 = "85eeb15f3717b99a5da872d97d918f87"

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str = "train",
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
        loader: Callable[[Any], Any] = default_loader,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self._split = verify_str_arg(split, "split", ("train", "test"))
        self._base_folder = pathlib.Path(self.root) / "food-101"
        self._meta_folder = self._base_folder / "meta"
        self._images_folder = self._base_folder / "images"
        if download:
            self._download()
        if not self._check_exists():
            raise RuntimeError(
                "Dataset not found. You can use download=True to download it, or unpack "
                f"food-101.tar.gz into {self.root}"
            )
        content = json.loads((self._meta_folder / f"{split}.json").read_text(encoding="utf-8"))
        self.classes = sorted(content)
        self.class_to_idx = {name: index for index, name in enumerate(self.classes)}
        self._labels: list[int] = []
        self._image_files: list[pathlib.Path] = []
        for name, places in content.items():
            self._labels += [self.class_to_idx[name]] * len(places)
            self._image_files += [self._images_folder / f"{place}.jpg" for place in places]
        self.loader = loader

    def __len__(self) -> int:
        return len(self._image_files)

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        image, label = self.loader(self._image_files[idx]), self._labels[idx]
        return self._transformed(image, label)

    def extra_repr(self) -> str:
        return f"split={self._split}"

    def _check_exists(self) -> bool:
        return self._meta_folder.is_dir() and self._images_folder.is_dir()

    def _download(self) -> None:
        if not self._check_exists():
            download_and_extract_archive(self._URL, download_root=self.root, md5=self._MD5)
