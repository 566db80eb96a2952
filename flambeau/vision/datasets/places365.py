"""Places365: ten million photographs of places of 365 kinds."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from flambeau.vision.datasets.folder import default_loader
from flambeau.vision.datasets.utils import (
    check_integrity,
    download_and_extract_archive,
    verify_str_arg,
)
from flambeau.vision.datasets.vision import VisionDataset


class Places365(VisionDataset):
    """Places by kind; those of "test" have none (None).

    Args:
        root: the folder that holds or will hold the lists and the folders of pictures.
        split: "train-standard", "train-challenge", "val" or "test".
        small: pictures of 256 by 256 pixels instead of large ones.
        download: bring lists and pictures; an error if the pictures are there.
        transform: a function of what the loader gives, by default a PIL image.
        target_transform: a function of a class number.
        loader: a function of a path that reads the image.
    """

    _SPLITS = ("train-standard", "train-challenge", "val", "test")
    _BASE_URL = "http://data.csail.mit.edu/places/places365/"
    _DEVKIT_META = {
        "standard": ("filelist_places365-standard.tar", "35a0585fee1fa656440f3ab298f8479c"),
        "challenge": ("filelist_places365-challenge.tar", "70a8307e459c3de41690a7c76c931734"),
    }
    _CATEGORIES_META = ("categories_places365.txt", "06c963b85866bd0649f97cb43dd16673")
    _FILE_LIST_META = {
        "train-standard": ("places365_train_standard.txt", "30f37515461640559006b8329efbed1a"),
        "train-challenge": ("places365_train_challenge.txt", "b2931dc997b8c33c27e7329c073a6b57"),
        "val": ("places365_val.txt", "e9f2fd57bfd9d07630173f4e8708e4b1"),
        "test": ("places365_test.txt", "2fce8233fe493576d724142e45d93653"),
    }
    _IMAGES_META = {
        (split, small): (f"{name}.tar", md5)
        for split, small, name, md5 in (
            ("train-standard", False, "train_large_places365standard",
             "67e186b496a84c929568076ed01a8aa1"),
            ("train-challenge", False, "train_large_places365challenge",
             "605f18e68e510c82b958664ea134545f"),
            ("val", False, "val_large", "9b71c4993ad89d2d8bcbdc4aef38042f"),
            ("test", False, "test_large", "41a4b6b724b1d2cd862fb3871ed59913"),
            ("train-standard", True, "train_256_places365standard",
             "53ca1c756c3d1e7809517cc47c5561c5"),
            ("train-challenge", True, "train_256_places365challenge",
             "741915038a5e3471ec7332404dfb64ef"),
            ("val", True, "val_256", "e27b17d8d44f4af9a78502beb927f808"),
            ("test", True, "test_256", "f532f6ad7b582262a2ec8009075e186b"),
        )
    }  # fmt: skip

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str = "train-standard",
        small: bool = False,
        download: bool = False,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        super().__init__(root, None, transform, target_transform)
        self.small, self.split = small, self._verify_split(split)
        found = self.load_categories(download), self.load_file_list(download)
        (self.classes, self.class_to_idx), (self.imgs, self.targets) = found
        self.loader = loader
        if download:
            self.download_images()

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, target = self.imgs[index]
        return self._transformed(self.loader(path), target)

    def __len__(self) -> int:
        return len(self.imgs)

    @property
    def variant(self) -> str:
        """Which lists: "challenge" or "standard"."""
        return "challenge" if "challenge" in self.split else "standard"

    @property
    def images_dir(self) -> str:
        """The folder of the pictures."""
        size = "256" if self.small else "large"
        if self.split.startswith("train"):
            return os.path.join(self.root, f"data_{size}_{self.variant}")
        return os.path.join(self.root, f"{self.split}_{size}")

    def _listed(self, meta: tuple[str, str], download: bool) -> list[list[str]]:
        """The lines of a list, which is brought if it is not there."""
        name, md5 = meta
        path = os.path.join(self.root, name)
        if not self._check_integrity(path, md5, download):
            self.download_devkit()
        with open(path, encoding="utf-8") as file:
            return [line.split() for line in file]

    def load_categories(self, download: bool = True) -> tuple[list[str], dict[str, int]]:
        """Names of classes and their numbers."""
        found = {name: int(k) for name, k in self._listed(self._CATEGORIES_META, download)}
        return sorted(found, key=found.__getitem__), found

    def load_file_list(self, download: bool = True) -> tuple[list[tuple[str, Any]], list[Any]]:
        """(path, class) of all pictures, and the classes."""
        rows = self._listed(self._FILE_LIST_META[self.split], download)
        pairs = [
            (os.path.join(self.images_dir, row[0].lstrip("/")), int(row[1]) if row[1:] else None)
            for row in rows
        ]
        return pairs, [target for _, target in pairs]

    def download_devkit(self) -> None:
        """Bring the lists."""
        self._bring(*self._DEVKIT_META[self.variant])

    def download_images(self) -> None:
        """Bring the pictures."""
        home = self.images_dir
        if os.path.isdir(home):
            return
        self._bring(*self._IMAGES_META[self.split, self.small])
        unpacked = home.rpartition("_")[0]  # archives of both variants make the same folder
        if self.split in ("train-standard", "train-challenge"):
            os.rename(unpacked, home)

    def _bring(self, name: str, md5: str) -> None:
        download_and_extract_archive(self._BASE_URL + name, self.root, md5=md5)

    def extra_repr(self) -> str:
        return f"Split: {self.split}\nSmall: {self.small}"

    def _verify_split(self, split: str) -> str:
        return verify_str_arg(split, "split", self._SPLITS)

    def _check_integrity(self, file: str, md5: str, download: bool) -> bool:
        whole = check_integrity(file, md5)
        if not whole and not download:
            raise RuntimeError(f"The file {file} does not exist or is corrupted. You can set "
                               "download=True to download it.")  # fmt: skip
        return whole
