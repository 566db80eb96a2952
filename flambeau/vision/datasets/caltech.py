"""Caltech 101 and Caltech 256: photographs of things, sorted into numbered files per kind."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable
from typing import Any

from flambeau.vision.datasets.fetched import Functions, ensure, unpack_inner
from flambeau.vision.datasets.utils import download_and_extract_archive, verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset
from flambeau.vision.pillow import open_image

# folders of outlines that are not called like the folders of pictures
_OUTLINES = {
    "Faces": "Faces_2",
    "Faces_easy": "Faces_3",
    "Motorbikes": "Motorbikes_16",
    "airplanes": "Airplanes_Side_2",
}


class _Caltech(VisionDataset):
    """Pictures in folders that are named after what they show, and numbered from 1 in each."""

    _folder: str  # below the root that the caller names
    _pictures: str
    _archive: str  # what one may unpack by hand
    _url: str
    _md5: str

    def __init__(self, root: Any, functions: Functions, download: bool) -> None:
        super().__init__(os.path.join(root, self._folder), None, *functions)
        os.makedirs(self.root, exist_ok=True)
        fetch = self.download if download else None
        ensure(fetch, self._check_integrity, f"unpack {self._archive} into {self.root}")
        self.categories = sorted(os.listdir(self._below()))
        self.index: list[int] = []
        self.y: list[int] = []

    def _below(self, *parts: str) -> str:
        return os.path.join(self.root, self._pictures, *parts)

    def _count(self, ending: str = "") -> None:
        """Number the pictures of all categories."""
        for kind, name in enumerate(self.categories):
            files = [each for each in os.listdir(self._below(name)) if each.endswith(ending)]
            for number, _ in enumerate(files, 1):
                self.index.append(number)
                self.y.append(kind)

    def _check_integrity(self) -> bool:
        return os.path.exists(self._below())

    def download(self) -> None:
        """Bring the archive and unpack it, unless the folder is there."""
        if not self._check_integrity():
            name = os.path.basename(self._url)
            download_and_extract_archive(self._url, self.root, None, name, self._md5)

    def __len__(self) -> int:
        return len(self.y)


class Caltech101(_Caltech):
    """Photographs of 101 kinds of things, with outlines.

    Args:
        root: the folder that holds or will hold `caltech101`.
        target_type: "category" (a number), "annotation" (points of an outline; needs scipy), or a
            list of both.
        transform: a function of a PIL image.
        target_transform: a function of a target.
        download: bring the archive and unpack it, if the folder is not there.
    """

    _folder, _pictures = "caltech101", "101_ObjectCategories"
    _archive = "101_ObjectCategories.tar.gz"
    _url = "https://data.caltech.edu/records/mzrjq-6wc02/files/caltech-101.zip"
    _md5 = "3138e1922a9193bfa496528edbbc45d0"

    def __init__(
        self,
        root: str | os.PathLike[str],
        target_type: list[str] | str = "category",
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
    ) -> None:
        kinds = [target_type] if isinstance(target_type, str) else target_type
        allowed = ("category", "annotation")
        self.target_type = [verify_str_arg(kind, "target_type", allowed) for kind in kinds]
        super().__init__(root, (transform, target_transform), download)
        with contextlib.suppress(ValueError):
            self.categories.remove("BACKGROUND_Google")  # pictures of no kind in particular
        self.annotation_categories = [_OUTLINES.get(name, name) for name in self.categories]
        self._count()

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        number, kind = self.index[index], self.y[index]
        image = open_image(self._below(self.categories[kind], f"image_{number:04d}.jpg"))
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

    def download(self) -> None:
        """Bring the archive of archives and unpack them, unless the folder is there."""
        if not self._check_integrity():
            super().download()
            unpack_inner(os.path.join(self.root, "caltech-101"), self.root)
            os.remove(os.path.join(self.root, os.path.basename(self._url)))

    def extra_repr(self) -> str:
        return f"Target type: {self.target_type}"


class Caltech256(_Caltech):
    """Photographs of 256 kinds of things, and of none in particular.

    Args:
        root: the folder that holds or will hold `caltech256`.
        transform: a function of a PIL image.
        target_transform: a function of a class number.
        download: bring the archive and unpack it, if the folder is not there.
    """

    _folder, _pictures = "caltech256", "256_ObjectCategories"
    _archive = "256_ObjectCategories.tar"
    _url = "https://data.caltech.edu/records/nyy15-4j048/files/256_ObjectCategories.tar"
    _md5 = "67b4f42ca05d46448c6bb8ecd2220f6d"

    def __init__(
        self,
        root: str,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, (transform, target_transform), download)
        self._count(".jpg")

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        kind = self.y[index]
        name = f"{kind + 1:03d}_{self.index[index]:04d}.jpg"
        return self._transformed(open_image(self._below(self.categories[kind], name)), kind)
