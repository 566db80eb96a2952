"""Imagenette: ten classes of ImageNet that are easy to tell apart."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import Any

from flambeau.vision.datasets.folder import default_loader, find_classes, make_dataset
from flambeau.vision.datasets.utils import download_and_extract_archive, verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset

_ADDRESS = "https://s3.amazonaws.com/fast-ai-imageclas/"


class Imagenette(VisionDataset):
    """Photographs of ten kinds of things.

    Args:
        root: the folder that holds or will hold `imagenette2`.
        split: "train" or "val".
        size: "full", "320px" or "160px".
        download: bring the archive and unpack it, if the folder is not there.
        transform: a function of what the loader gives, by default a PIL image.
        target_transform: a function of a class number.
        loader: a function of a path that reads the image.
    """

    _ARCHIVES = {
        "full": (f"{_ADDRESS}imagenette2.tgz", "fe2fc210e6bb7c5664d602c3cd71e612"),
        "320px": (f"{_ADDRESS}imagenette2-320.tgz", "3df6f0d01a2c9592104656642f5e78a3"),
        "160px": (f"{_ADDRESS}imagenette2-160.tgz", "e793b78cc4c9e9a4ccc0c1155377a412"),
    }
    _WNID_TO_CLASS: dict[str, tuple[str, ...]] = {
        "n01440764": ("tench", "Tinca tinca"),
        "n02102040": ("English springer", "English springer spaniel"),
        "n02979186": ("cassette player",),
        "n03000684": ("chain saw", "chainsaw"),
        "n03028079": ("church", "church building"),
        "n03394916": ("French horn", "horn"),
        "n03417042": ("garbage truck", "dustcart"),
        "n03425413": ("gas pump", "gasoline pump", "petrol pump", "island dispenser"),
        "n03445777": ("golf ball",),
        "n03888257": ("parachute", "chute"),
    }

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str = "train",
        size: str = "full",
        download: bool = False,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self._split = verify_str_arg(split, "split", ["train", "val"])
        self._size = verify_str_arg(size, "size", ["full", "320px", "160px"])
        self._url, self._md5 = self._ARCHIVES[self._size]
        self._size_root = pathlib.Path(self.root) / pathlib.Path(self._url).stem
        self._image_root = str(self._size_root / self._split)
        if download:
            self._download()
        elif not self._check_exists():
            raise RuntimeError(
                "Dataset not found. You can use download=True to download it. Or unpack "
                f"{os.path.basename(self._url)} into {self.root}"
            )
        self.wnids, self.wnid_to_idx = find_classes(self._image_root)
        self.classes = [self._WNID_TO_CLASS[wnid] for wnid in self.wnids]
        self.class_to_idx = {
            name: index for index, names in enumerate(self.classes) for name in names
        }
        self._samples = make_dataset(self._image_root, self.wnid_to_idx, extensions=".jpeg")
        self.loader = loader

    def _check_exists(self) -> bool:
        return self._size_root.exists()

    def _download(self) -> None:
        if not self._check_exists():
            download_and_extract_archive(self._url, self.root, md5=self._md5)

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        path, label = self._samples[idx]
        image = self.loader(path)
        return self._transformed(image, label)

    def __len__(self) -> int:
        return len(self._samples)
