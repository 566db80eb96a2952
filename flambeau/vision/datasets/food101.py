"""Food-101: 101,000 photographs of dishes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from flambeau.vision.datasets.fetched import Listed, Origin
from flambeau.vision.datasets.folder import default_loader
from flambeau.vision.datasets.utils import verify_str_arg

_ADDRESS = "http://data.vision.ee.ethz.ch/cvl/food-101.tar.gz"


class Food101(Listed):
    """Photographs of 101 dishes, 750 each for training and 250 for testing.

    Args:
        root: the folder that holds or will hold `food-101`.
        split: "train" or "test".
        transform: a function of what the loader gives, by default a PIL image.
        target_transform: a function of a class number.
        download: bring the archive and unpack it, if the folders are not there.
        loader: a function of a path that reads the image.
    """

    _origin = Origin(
        archives=((_ADDRESS, "85eeb15f3717b99a5da872d97d918f87"),),
        into="",
        makes=("food-101/meta", "food-101/images"),
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
        self._split = verify_str_arg(split, "split", ("train", "test"))
        super().__init__(root, download, (None, transform, target_transform))
        self.loader = loader
        meta, images = map(self._below, self._origin.makes)
        places = json.loads((meta / f"{split}.json").read_text("utf-8"))
        pairs = [(name, images / f"{each}.jpg") for name, many in places.items() for each in many]
        self._list(places, pairs)

    def extra_repr(self) -> str:
        return f"split={self._split}"
