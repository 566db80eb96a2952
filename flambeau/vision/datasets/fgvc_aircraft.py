"""FGVC-Aircraft: 10,000 photographs of aeroplanes."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from flambeau.vision.datasets.fetched import Fetched, Origin
from flambeau.vision.datasets.folder import default_loader
from flambeau.vision.datasets.utils import download_and_extract_archive, verify_str_arg

_NAME = "fgvc-aircraft-2013b"
_ADDRESS = f"https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/archives/{_NAME}.tar.gz"
_LISTS = {"variant": "variants", "family": "families", "manufacturer": "manufacturers"}


class FGVCAircraft(Fetched):
    """Aeroplanes by variant, family or manufacturer.

    Args:
        root: the folder that holds or will hold `fgvc-aircraft-2013b`.
        split: "train", "val", "trainval" or "test".
        annotation_level: "variant" (100 classes), "family" (70) or "manufacturer" (41).
        download: bring the archive and unpack it, if the folder is not there.
        loader: a function of a path that reads the image.
    """

    _origin = Origin(((_ADDRESS, ""),), "", (_NAME,))

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str = "trainval",
        annotation_level: str = "variant",
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        self._split = verify_str_arg(split, "split", ("train", "val", "trainval", "test"))
        level = verify_str_arg(annotation_level, "annotation_level", tuple(_LISTS))
        self._annotation_level = level
        super().__init__(root, download, (None, transform, target_transform))
        self.loader = loader
        data = self._below(_NAME, "data")
        names = (data / f"{_LISTS[level]}.txt").read_text("utf-8").splitlines()
        self.classes = [name.strip() for name in names if name.strip()]
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        lines = (data / f"images_{level}_{split}.txt").read_text("utf-8").splitlines()
        pairs = [line.strip().split(" ", 1) for line in lines if line.strip()]
        self._image_files = [str(data / "images" / f"{number}.jpg") for number, _ in pairs]
        self._labels = [self.class_to_idx[name] for _, name in pairs]

    def download(self) -> None:
        """Bring the archive, for which no checksum is published, and unpack it."""
        if not self._check_exists():
            download_and_extract_archive(_ADDRESS, str(self._below()))

    def __len__(self) -> int:
        return len(self._image_files)

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        return self._transformed(self.loader(self._image_files[idx]), self._labels[idx])
