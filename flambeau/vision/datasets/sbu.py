"""SBU: a million photographs of Flickr with the captions of those who took them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any

from flambeau.vision.datasets.fetched import ensure
from flambeau.vision.datasets.folder import default_loader
from flambeau.vision.datasets.utils import (
    check_integrity,
    download_and_extract_archive,
    download_url,
)
from flambeau.vision.datasets.vision import VisionDataset

_URLS = "SBU_captioned_photo_dataset_urls.txt"
_CAPTIONS = "SBU_captioned_photo_dataset_captions.txt"


class SBU(VisionDataset):
    """Photographs, of which those count that are there, and captions.

    Args:
        root: the folder that holds or will hold the archive, its lists, and `dataset/*.jpg`.
        transform: a function of what the loader gives, by default a PIL image.
        target_transform: a function of a caption.
        download: bring the archive and all photographs.
        loader: a function of a path that reads the image.
    """

    url = "https://www.cs.rice.edu/~vo9/sbucaptions/SBUCaptionedPhotoDataset.tar.gz"
    filename = "SBUCaptionedPhotoDataset.tar.gz"
    md5_checksum = "9aec147b3488753cf758b4d493422285"

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = True,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.loader = loader
        fetch = self.download if download else None
        ensure(fetch, self._check_integrity, f"put {self.filename} into {self.root}")
        self.photos: list[str] = []
        self.captions: list[str] = []
        for address, caption in zip(self._lines(_URLS), self._lines(_CAPTIONS), strict=True):
            name = os.path.basename(address)
            if os.path.exists(self._path(name)):
                self.photos.append(name)
                self.captions.append(caption)

    def _lines(self, name: str) -> list[str]:
        path = os.path.join(self.root, "dataset", name)
        with open(path, encoding="utf-8") as file:
            return [line.rstrip() for line in file]

    def _path(self, name: str) -> str:
        return os.path.join(self.root, "dataset", name)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._transformed(self.loader(self._path(self.photos[index])), self.captions[index])

    def __len__(self) -> int:
        return len(self.photos)

    def _check_integrity(self) -> bool:
        return check_integrity(os.path.join(self.root, self.filename), self.md5_checksum)

    def download(self) -> None:
        """Bring the lists, and every photograph that can still be had."""
        if self._check_integrity():
            return
        download_and_extract_archive(self.url, self.root, self.root, self.filename,
                                     self.md5_checksum)  # fmt: skip
        for address in self._lines(_URLS):
            with contextlib.suppress(OSError):  # many of them have been taken away
                download_url(address, os.path.dirname(self._path(_URLS)))
