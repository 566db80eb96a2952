"""SUN397: 108,754 photographs of places."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from flambeau.vision.datasets.fetched import Fetched, Origin
from flambeau.vision.datasets.folder import default_loader

_ADDRESS = "http://vision.princeton.edu/projects/2010/SUN/SUN397.tar.gz"


class SUN397(Fetched):
    """Places of 397 kinds, some with a subdivision ("apartment_building/outdoor").

    Args:
        root: the folder that holds or will hold `SUN397`.
        transform, target_transform: functions of what the loader gives and of a class number.
        download: bring the archive and unpack it, if the folder is not there.
        loader: a function of a path that reads the image.
    """

    _origin = Origin(((_ADDRESS, "8ca2778205c41d23104230ba66911c7a"),), "", ("SUN397",))

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
        loader: Callable[[Any], Any] = default_loader,
    ) -> None:
        super().__init__(root, download, (None, transform, target_transform))
        self.loader = loader
        folder = self._below("SUN397")
        # a line is "/a/abbey": a letter, then the name
        names = (folder / "ClassName.txt").read_text("utf-8").split()
        self.classes = [name[3:] for name in names]
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        self._image_files = list(folder.rglob("sun_*.jpg"))
        self._labels = [
            self.class_to_idx["/".join(path.relative_to(folder).parts[1:-1])]
            for path in self._image_files
        ]

    def __len__(self) -> int:
        return len(self._image_files)

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        return self._transformed(self.loader(self._image_files[idx]), self._labels[idx])
