"""CLEVR: 100,000 drawn scenes; how many things are in them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from flambeau.vision.datasets.fetched import Fetched, Origin
from flambeau.vision.datasets.folder import default_loader
from flambeau.vision.datasets.utils import verify_str_arg

_ADDRESS = "https://dl.fbaipublicfiles.com/clevr/CLEVR_v1.0.zip"


class CLEVRClassification(Fetched):
    """Scenes and the number of things in them; that is None in the test split.

    Args:
        root: the folder that holds or will hold `clevr/CLEVR_v1.0`.
        split: "train", "val" or "test".
        download: bring the archive and unpack it, if the folder is not there.
        loader: a function of a path that reads the image.
    """

    _origin = Origin(
        ((_ADDRESS, "b11922020e72d0cd9154779b2d3d07d2"),), "clevr", ("clevr/CLEVR_v1.0",)
    )

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str = "train",
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
        loader: Callable[[Any], Any] = default_loader,
    ) -> None:
        self._split = verify_str_arg(split, "split", ("train", "val", "test"))
        super().__init__(root, download, (None, transform, target_transform))
        self.loader = loader
        folder = self._below("clevr", "CLEVR_v1.0")
        self._image_files = sorted((folder / "images" / split).glob("*"))
        self._labels: list[int | None] = [None] * len(self._image_files)
        if split != "test":
            text = (folder / "scenes" / f"CLEVR_{split}_scenes.json").read_text("utf-8")
            many = {
                scene["image_filename"]: len(scene["objects"])
                for scene in json.loads(text)["scenes"]
            }
            self._labels = [many[path.name] for path in self._image_files]

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        return self._transformed(self.loader(self._image_files[idx]), self._labels[idx])

    def extra_repr(self) -> str:
        return f"split={self._split}"
