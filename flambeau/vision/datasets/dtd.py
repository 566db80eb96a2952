"""DTD: 5,640 pictures of textures, in ten partitions."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import Any

from flambeau.vision.datasets.folder import default_loader
from flambeau.vision.datasets.utils import download_and_extract_archive, verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset


class DTD(VisionDataset):
    """Textures of 47 kinds, named by words: banded, blotchy, braided, ...

    Args:
        root: the folder that holds or will hold `dtd/dtd`.
        split: "train", "val" or "test".
        partition: 1 to 10: one of the ways to split.
        transform: a function of what the loader gives, by default a PIL image.
        target_transform: a function of a class number.
        download: bring the archive and unpack it, if the folder is not there.
        loader: a function of a path that reads the image.
    """

    _URL = "https://www.robots.ox.ac.uk/~vgg/data/dtd/download/dtd-r1.0.1.tar.gz"
    _MD5 = "fff73e5086ae6bdbea199a49dfb8a4c1"

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str = "train",
        partition: int = 1,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
        loader: Callable[[Any], Any] = default_loader,
    ) -> None:
        self._split = verify_str_arg(split, "split", ("train", "val", "test"))
        if not isinstance(partition, int) or not 1 <= partition <= 10:
            raise ValueError(
                "Parameter 'partition' should be an integer with `1 <= partition <= 10`, "
                f"but got {partition} instead"
            )
        self._partition = partition
        super().__init__(root, transform=transform, target_transform=target_transform)
        self._base_folder = pathlib.Path(self.root) / type(self).__name__.lower()
        self._data_folder = self._base_folder / "dtd"
        if download:
            self._download()
        if not self._check_exists():
            raise RuntimeError(
                "Dataset not found. You can use download=True to download it, or unpack "
                f"{os.path.basename(self._URL)} into {self._base_folder}"
            )
        listing = self._data_folder / "labels" / f"{self._split}{self._partition}.txt"
        pairs = [line.strip().split("/") for line in listing.read_text().splitlines()]
        self._image_files = [self._data_folder.joinpath("images", *pair) for pair in pairs]
        self.classes = sorted({name for name, _ in pairs})
        self.class_to_idx = {name: index for index, name in enumerate(self.classes)}
        self._labels = [self.class_to_idx[name] for name, _ in pairs]
        self.loader = loader

    def __len__(self) -> int:
        return len(self._image_files)

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        image, label = self.loader(self._image_files[idx]), self._labels[idx]
        return self._transformed(image, label)

    def extra_repr(self) -> str:
        return f"split={self._split}, partition={self._partition}"

    def _check_exists(self) -> bool:
        return self._data_folder.is_dir()

    def _download(self) -> None:
        if not self._check_exists():
            download_and_extract_archive(self._URL, str(self._base_folder), md5=self._MD5)
