"""DTD: 5,640 pictures of textures, in ten partitions."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from flambeau.vision.datasets.fetched import Listed, Origin
from flambeau.vision.datasets.folder import default_loader
from flambeau.vision.datasets.utils import verify_str_arg

_ADDRESS = "https://www.robots.ox.ac.uk/~vgg/data/dtd/download/dtd-r1.0.1.tar.gz"
_ARCHIVES = ((_ADDRESS, "fff73e5086ae6bdbea199a49dfb8a4c1"),)


class DTD(Listed):
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
        if not (isinstance(partition, int) and partition in range(1, 11)):
            raise ValueError(
                "Parameter 'partition' should be an integer with `1 <= partition <= 10`, "
                f"but got {partition} instead"
            )
        self._partition = partition
        home = type(self).__name__.lower()
        self._origin = Origin(_ARCHIVES, home, (f"{home}/dtd",))
        super().__init__(root, download, (None, transform, target_transform))
        self.loader = loader
        folder = self._below(home, "dtd")
        lines = (folder / "labels" / f"{split}{partition}.txt").read_text().split()
        pairs = [(line.partition("/")[0], folder / "images" / line) for line in lines]
        self._list({name for name, _ in pairs}, pairs)

    def extra_repr(self) -> str:
        return f"split={self._split}, partition={self._partition}"
