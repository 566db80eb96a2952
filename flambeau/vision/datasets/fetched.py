"""Datasets that come from elsewhere: what is brought, where it goes, how one sees that it is there.

A dataset of photographs declares its `Origin`; `Fetched` then brings, checks and complains.
`OneArchive` is for files with known checksums out of a single archive.
"""

from __future__ import annotations

import os
import pathlib
import shutil
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from flambeau.vision.datasets.utils import (
    check_integrity,
    download_and_extract_archive,
    extract_archive,
)
from flambeau.vision.datasets.vision import VisionDataset

Path = str | os.PathLike[str]
Functions = tuple[Callable | None, ...]

NOT_FOUND = "Dataset not found"
CORRUPTED = f"{NOT_FOUND} or corrupted"


def ensure(
    fetch: Callable[[], None] | None, there: Callable[[], bool], remedy: str, lack: str = CORRUPTED
) -> None:
    """Fetch a dataset if that is wanted; an error if it is not there then."""
    if fetch is not None:
        fetch()
    if not there():
        raise RuntimeError(f"{lack}. You can use download=True to download it, or {remedy}")


def numbered(names: Iterable[str]) -> dict[str, int]:
    """The place of each name."""
    return {name: number for number, name in enumerate(names)}


def each_numbered(classes: Iterable[Iterable[str]]) -> dict[str, int]:
    """The number of the class of each name, where classes have several."""
    return {name: number for number, names in enumerate(classes) for name in names}


def unpack_inner(folder: str, into: str) -> None:
    """Unpack the archives that an archive held, and remove the folder that they lie in."""
    packed = sorted(name for name in os.listdir(folder) if name.endswith(".gz"))
    for name in packed:
        extract_archive(os.path.join(folder, name), into)
    shutil.rmtree(folder)


class Origin(NamedTuple):
    """Archives, the folder that they go to, and folders that they make; all below the root."""

    archives: tuple[tuple[str, str], ...]  # addresses and MD5 sums
    into: str
    makes: tuple[str, ...]


class Fetched(VisionDataset):
    """Photographs in folders, out of the archives of an origin."""

    _origin: Origin

    def __init__(self, root: Path, download: bool, functions: Functions) -> None:
        """`functions` are transforms, transform and target_transform."""
        super().__init__(root, *functions)
        self._settle(download)

    def _settle(self, download: bool) -> None:
        """See to it that the folders are there."""
        home = self._below(self._origin.into)
        names = " and ".join(os.path.basename(url) for url, _ in self._origin.archives)
        fetch = self.download if download else None
        ensure(fetch, self._check_exists, f"unpack {names} into {home}", NOT_FOUND)

    def _below(self, *parts: str) -> pathlib.Path:
        return pathlib.Path(self.root, *parts)

    def _check_exists(self) -> bool:
        return all(self._below(folder).is_dir() for folder in self._origin.makes)

    def download(self) -> None:
        """Bring the archives and unpack them, unless their folders are there."""
        if self._check_exists():
            return
        home = str(self._below(self._origin.into))
        for url, md5 in self._origin.archives:
            download_and_extract_archive(url, home, md5=md5)


class Listed(Fetched):
    """Files that lists name, and the numbers of their classes."""

    classes: list[str]
    loader: Callable[[Any], Any]

    def _list(self, classes: Iterable[str], samples: Iterable[tuple[str, pathlib.Path]]) -> None:
        """Take samples, which are a class and a path each."""
        self.classes = sorted(classes)
        self.class_to_idx = numbered(self.classes)
        pairs = list(samples)
        self._image_files = [path for _, path in pairs]
        self._labels = [self.class_to_idx[name] for name, _ in pairs]

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        return self._transformed(self.loader(self._image_files[idx]), self._labels[idx])


class OneArchive(VisionDataset):
    """Files with known checksums out of one archive; the names of the attributes are public."""

    base_folder: str
    url: str
    filename: str
    tgz_md5: str
    train_list: list[list[str]]
    test_list: list[list[str]]

    def _settle(self, download: bool) -> None:
        fetch = self.download if download else None
        ensure(fetch, self._check_integrity, f"unpack {self.filename} into {self.root}")

    def _path(self, name: str) -> str:
        return os.path.join(self.root, self.base_folder, name)

    def _check_integrity(self) -> bool:
        files = [*self.train_list, *self.test_list]
        return all(check_integrity(self._path(name), md5) for name, md5 in files)

    def download(self) -> None:
        """Bring the archive and unpack it, unless all files are there."""
        if not self._check_integrity():
            download_and_extract_archive(self.url, self.root, None, self.filename, self.tgz_md5)
