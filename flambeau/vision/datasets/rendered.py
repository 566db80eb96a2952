"""Country211 and RenderedSST2: where a photograph was taken, and sentences as pictures."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from flambeau.vision.datasets.fetched import Fetched, Origin, ensure
from flambeau.vision.datasets.folder import ImageFolder, default_loader, make_dataset
from flambeau.vision.datasets.utils import download_and_extract_archive, verify_str_arg

_ADDRESS = "https://openaipublic.azureedge.net/clip/data/"


class Country211(ImageFolder):
    """Photographs from 211 countries, 150, 50 and 100 of each.

    Args:
        root: the folder that holds or will hold `country211`.
        split: "train", "valid" or "test".
        transform, target_transform: functions of what the loader gives and of a class number.
        download: bring the archive and unpack it, if the folder is not there.
        loader: a function of a path that reads the image.
    """

    _URL = _ADDRESS + "country211.tgz"
    _MD5 = "84988d7644798601126c29e9877aab6a"

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str = "train",
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        self._split = verify_str_arg(split, "split", ("train", "valid", "test"))
        home = os.path.expanduser(os.fspath(root))
        folder = os.path.join(home, "country211")

        def fetch() -> None:
            if not os.path.isdir(folder):
                download_and_extract_archive(self._URL, home, md5=self._MD5)

        ensure(
            fetch if download else None,
            lambda: os.path.isdir(folder),
            f"unpack country211.tgz into {home}",
            "Dataset not found",
        )
        super().__init__(os.path.join(folder, split), transform, target_transform, loader=loader)
        self.root = home


class RenderedSST2(Fetched):
    """Sentences of reviews as pictures, negative or positive.

    Args:
        root: the folder that holds or will hold `rendered-sst2`.
        split: "train", "val" or "test".
    """

    classes = ["negative", "positive"]
    class_to_idx = {"negative": 0, "positive": 1}
    _origin = Origin(
        ((_ADDRESS + "rendered-sst2.tgz", "2384d08e9dcfa4bd55b324e610496ee5"),),
        "",
        ("rendered-sst2",),
    )

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str = "train",
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        self._split = verify_str_arg(split, "split", ("train", "val", "test"))
        super().__init__(root, download, (None, transform, target_transform))
        self.loader = loader
        folder = self._below("rendered-sst2", "valid" if split == "val" else split)
        self._samples = make_dataset(str(folder), self.class_to_idx, extensions=("png",))

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        path, label = self._samples[idx]
        return self._transformed(self.loader(path), label)

    def extra_repr(self) -> str:
        return f"split={self._split}"
