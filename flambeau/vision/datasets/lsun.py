"""LSUN: rooms, streets and towers in databases of LMDB (read with the package lmdb)."""

from __future__ import annotations

import bisect
import importlib
import io
import itertools
import os
from collections.abc import Callable, Iterable
from typing import Any

from flambeau.vision.datasets.utils import iterable_to_str, verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset
from flambeau.vision.pillow import pillow

Path = str | os.PathLike[str]

_CATEGORIES = (
    "bedroom bridge church_outdoor classroom conference_room dining_room kitchen living_room "
    "restaurant tower"
).split()
_SPLITS = ("train", "val", "test")


def _lmdb() -> Any:
    try:
        return importlib.import_module("lmdb")
    except ModuleNotFoundError as error:
        raise ImportError("such files are read with the package lmdb: pip install lmdb") from error


class LSUNClass(VisionDataset):
    """The images of one database.

    Args:
        root: the folder of the database.
        transform: a function of a PIL image.
        target_transform: a function of a target, which is None.
    """

    def __init__(
        self,
        root: Path,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
    ) -> None:
        lmdb = _lmdb()
        super().__init__(root, None, transform, target_transform)
        # nobody writes there, so no lock file is wanted: the folder may be one that is only read
        self.env = lmdb.open(os.fspath(self.root), lock=False, readonly=True)
        with self.env.begin() as reader:
            self.keys = list(reader.cursor().iternext(keys=True, values=False))
        self.length = len(self.keys)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        with self.env.begin() as reader:
            content = reader.get(self.keys[index])
        image = pillow().open(io.BytesIO(content)).convert("RGB")
        return self._transformed(image, None)

    def __len__(self) -> int:
        return self.length


class LSUN(VisionDataset):
    """Scenes of ten kinds; https://www.yf.io/p/lsun.

    Args:
        root: the folder of the databases, which are called `bedroom_train_lmdb` and so on.
        classes: "train", "val" or "test", or a list of kinds such as "bedroom_train".
        transform: a function of a PIL image.
        target_transform: a function of a label, the place of its kind among the classes.
    """

    def __init__(
        self,
        root: Path,
        classes: str | list[str] = "train",
        transform: Callable | None = None,
        target_transform: Callable | None = None,
    ) -> None:
        super().__init__(root, None, transform, target_transform)
        self.classes = self._verify_classes(classes)
        self.dbs = [
            LSUNClass(os.path.join(self.root, f"{name}_lmdb"), transform=transform)
            for name in self.classes
        ]
        self.indices = list(itertools.accumulate(map(len, self.dbs)))
        self.length = self.indices[-1] if self.indices else 0

    def _verify_classes(self, classes: Any) -> list[str]:
        if isinstance(classes, str):
            verify_str_arg(classes, "classes", _SPLITS)
            return ["test"] if classes == "test" else [f"{c}_{classes}" for c in _CATEGORIES]
        if not isinstance(classes, Iterable):
            raise ValueError(
                f"Expected type str or Iterable for argument classes, but got type {type(classes)}."
            )
        found = list(classes)
        for name in found:
            if not isinstance(name, str):
                raise ValueError(
                    "Expected type str for elements in argument classes, but got type "
                    f"{type(name)}."
                )
            kind, _, split = name.rpartition("_")
            verify_str_arg(
                kind, valid_values=_CATEGORIES,
                custom_msg=f"Unknown value '{kind}' for LSUN class. Valid values are "
                f"{{{iterable_to_str(_CATEGORIES)}}}.",
            )  # fmt: skip
            verify_str_arg(
                split, valid_values=_SPLITS,
                custom_msg=f"Unknown value '{split}' for postfix. Valid values are "
                f"{{{iterable_to_str(_SPLITS)}}}.",
            )  # fmt: skip
        return found

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        target = bisect.bisect_right(self.indices, index)
        before = self.indices[target - 1] if target else 0
        image, _ = self.dbs[target][index - before]
        label: Any = target
        if self.target_transform is not None:
            label = self.target_transform(target)
        return image, label

    def __len__(self) -> int:
        return self.length

    def extra_repr(self) -> str:
        return f"Classes: {self.classes}"
