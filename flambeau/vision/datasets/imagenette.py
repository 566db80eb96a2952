"""Imagenette: ten classes of ImageNet that are easy to tell apart."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from flambeau.vision.datasets.fetched import Fetched, Origin, each_numbered
from flambeau.vision.datasets.folder import default_loader, find_classes, make_dataset
from flambeau.vision.datasets.utils import verify_str_arg

_ADDRESS = "https://s3.amazonaws.com/fast-ai-imageclas/"
# size -> name of the archive and of the folder that it makes, MD5 sum
_SIZES = {
    "full": ("imagenette2", "fe2fc210e6bb7c5664d602c3cd71e612"),
    "320px": ("imagenette2-320", "3df6f0d01a2c9592104656642f5e78a3"),
    "160px": ("imagenette2-160", "e793b78cc4c9e9a4ccc0c1155377a412"),
}
# number in WordNet and names of each class
_TABLE = """
n01440764 tench, Tinca tinca
n02102040 English springer, English springer spaniel
n02979186 cassette player
n03000684 chain saw, chainsaw
n03028079 church, church building
n03394916 French horn, horn
n03417042 garbage truck, dustcart
n03425413 gas pump, gasoline pump, petrol pump, island dispenser
n03445777 golf ball
n03888257 parachute, chute
"""
_CLASSES = {line[:9]: tuple(line[10:].split(", ")) for line in _TABLE.strip().splitlines()}


class Imagenette(Fetched):
    """Photographs of ten kinds of things.

    Args:
        root: the folder that holds or will hold `imagenette2`.
        split: "train" or "val".
        size: "full", "320px" or "160px".
        download: bring the archive and unpack it, if the folder is not there.
        transform: a function of what the loader gives, by default a PIL image.
        target_transform: a function of a class number.
        loader: a function of a path that reads the image.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str = "train",
        size: str = "full",
        download: bool = False,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        self._split = verify_str_arg(split, "split", ["train", "val"])
        self._size = verify_str_arg(size, "size", list(_SIZES))
        name, md5 = _SIZES[size]
        self._origin = Origin(((f"{_ADDRESS}{name}.tgz", md5),), "", (name,))
        super().__init__(root, download, (None, transform, target_transform))
        self.loader = loader
        folder = str(self._below(name, split))
        self.wnids, self.wnid_to_idx = find_classes(folder)
        self.classes = [_CLASSES[wnid] for wnid in self.wnids]
        self.class_to_idx = each_numbered(self.classes)
        self._samples = make_dataset(folder, self.wnid_to_idx, ".jpeg")

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        path, label = self._samples[idx]
        return self._transformed(self.loader(path), label)

    def __len__(self) -> int:
        return len(self._samples)
