"""Caltech 101 and Caltech 256: photographs of things, sorted into numbered files per kind."""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Callable
from typing import Any

from flambeau.vision.datasets.utils import (
    download_and_extract_archive,
    extract_archive,
    verify_str_arg,
)
from flambeau.vision.datasets.vision import VisionDataset
from flambeau.vision.pillow import open_image

_MISSING = "Dataset not found or corrupted. You can use download=True to download it, or unpack "
# folders of outlines that are not called like the folders of pictures
_OUTLINES = {
    "Faces": "Faces_2",
    "Faces_easy": "Faces_3",
    "Motorbikes": "Motorbikes_16",
    "airplanes": "Airplanes_Side_2",
}


class Caltech101(VisionDataset):
    """Photographs of 101 kinds of things, with outlines.

    Args:
        root: the folder that holds or will hold `caltech101`.
        target_type: "category" (a number), "annotation" (points of an outline; needs scipy), or a
            list of both.
        transform: a function of a PIL image.
        target_transform: a function of a target.
        download: bring the archive and unpack it, if the folder is not there.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        target_type: list[str] | str = "category",
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
    ) -> None:
        folder = os.path.join(root, "caltech101")
        super().__init__(folder, transform=transform, target_transform=target_transform)
        os.makedirs(self.root, exist_ok=True)
        kinds = [target_type] if isinstance(target_type, str) else target_type
        allowed = ("category", "annotation")
        self.target_type = [verify_str_arg(kind, "target_type", allowed) for kind in kinds]
        if download:
            self.download()
        if not self._check_integrity():
            raise RuntimeError(f"{_MISSING}101_ObjectCategories.tar.gz into {self.root}")
        pictures = os.path.join(self.root, "101_ObjectCategories")
        self.categories = sorted(os.listdir(pictures))
        if "BACKGROUND_Google" in self.categories:
            self.categories.remove("BACKGROUND_Google")  # pictures of no kind in particular
        self.annotation_categories = [_OUTLINES.get(name, name) for name in self.categories]
        self.index: list[int] = []
        self.y: list[int] = []
        for number, name in enumerate(self.categories):
            count = len(os.listdir(os.path.join(pictures, name)))
            self.index.extend(range(1, count + 1))
            self.y.extend([number] * count)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        number, kind = self.index[index], self.y[index]
        name = os.path.join(
            "101_ObjectCategories", self.categories[kind], f"image_{number:04d}.jpg"
        )
        image = open_image(os.path.join(self.root, name))
        targets = tuple(
            kind if each == "category" else self._outline(kind, number) for each in self.target_type
        )
        target = targets if len(targets) > 1 else targets[0]
        return self._transformed(image, target)

    def _outline(self, kind: int, number: int) -> Any:
        try:
            loadmat = importlib.import_module("scipy.io").loadmat
        except ModuleNotFoundError as error:
            raise ImportError("outlines are read with scipy: pip install scipy") from error
        folder = os.path.join(self.root, "Annotations", self.annotation_categories[kind])
        return loadmat(os.path.join(folder, f"annotation_{number:04d}.mat"))["obj_contour"]

    def _check_integrity(self) -> bool:
        return os.path.exists(os.path.join(self.root, "101_ObjectCategories"))

    def __len__(self) -> int:
        return len(self.index)

    def download(self) -> None:
        """Bring the archive of archives and unpack them, unless the folder is there."""
        if self._check_integrity():
            return
        download_and_extract_archive(
            "https://data.caltech.edu/records/mzrjq-6wc02/files/caltech-101.zip",
            download_root=self.root,
            filename="caltech-101.zip",
            md5="3138e1922a9193bfa496528edbbc45d0",
        )
        folder = os.path.join(self.root, "caltech-101")
        for name in sorted(os.listdir(folder)):
            if name.endswith(".gz"):
                extract_archive(os.path.join(folder, name), self.root)
        shutil.rmtree(folder)
        os.remove(os.path.join(self.root, "caltech-101.zip"))

    def extra_repr(self) -> str:
        return f"Target type: {self.target_type}"


class Caltech256(VisionDataset):
    """Photographs of 256 kinds of things, and of none in particular.

    Args:
        root: the folder that holds or will hold `caltech256`.
        transform: a function of a PIL image.
        target_transform: a function of a class number.
        download: bring the archive and unpack it, if the folder is not there.
    """

    def __init__(
        self,
        root: str,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
    ) -> None:
        folder = os.path.join(root, "caltech256")
        super().__init__(folder, transform=transform, target_transform=target_transform)
        os.makedirs(self.root, exist_ok=True)
        if download:
            self.download()
        if not self._check_integrity():
            raise RuntimeError(f"{_MISSING}256_ObjectCategories.tar into {self.root}")
        pictures = os.path.join(self.root, "256_ObjectCategories")
        self.categories = sorted(os.listdir(pictures))
        self.index: list[int] = []
        self.y: list[int] = []
        for number, name in enumerate(self.categories):
            names = os.listdir(os.path.join(pictures, name))
            count = sum(each.endswith(".jpg") for each in names)
            self.index.extend(range(1, count + 1))
            self.y.extend([number] * count)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        number, target = self.index[index], self.y[index]
        folder = os.path.join(self.root, "256_ObjectCategories", self.categories[target])
        image = open_image(os.path.join(folder, f"{target + 1:03d}_{number:04d}.jpg"))
        return self._transformed(image, target)

    def _check_integrity(self) -> bool:
        return os.path.exists(os.path.join(self.root, "256_ObjectCategories"))

    def __len__(self) -> int:
        return len(self.index)

    def download(self) -> None:
        """Bring the archive and unpack it, unless the folder is there."""
        if not self._check_integrity():
            download_and_extract_archive(
                "https://data.caltech.edu/records/nyy15-4j048/files/256_ObjectCategories.tar",
                self.root,
                filename="256_ObjectCategories.tar",
                md5="67b4f42ca05d46448c6bb8ecd2220f6d",
            )
