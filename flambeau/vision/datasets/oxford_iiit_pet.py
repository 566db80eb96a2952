"""Oxford-IIIT Pet: cats and dogs of 37 breeds, with outlines."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.vision.datasets.fetched import Fetched, Origin, numbered
from flambeau.vision.datasets.utils import verify_str_arg
from flambeau.vision.pillow import open_image

_ADDRESS = "https://www.robots.ox.ac.uk/~vgg/data/pets/data/"
_HOME = "oxford-iiit-pet"


class OxfordIIITPet(Fetched):
    """Photographs of pets.

    Args:
        root: the folder that holds or will hold `oxford-iiit-pet`.
        split: "trainval" or "test".
        target_types: "category" (the breed), "binary-category" (cat or dog), "segmentation" (a
            picture of 1 for the pet, 2 for the rest, 3 for the border), or several of them.
        transforms: a function of a PIL image and its target, instead of the next two.
        transform: a function of a PIL image.
        target_transform: a function of a target.
        download: bring the archives and unpack them, if the folders are not there.
    """

    _VALID_TARGET_TYPES = ("category", "binary-category", "segmentation")
    _origin = Origin(
        (
            (f"{_ADDRESS}images.tar.gz", "5c4f3ee8e5d25df40f4fd59a7f44e54c"),
            (f"{_ADDRESS}annotations.tar.gz", "95a8c909bbe2e81eed6a22bccdf3f68f"),
        ),
        into=_HOME,
        makes=(f"{_HOME}/images", f"{_HOME}/annotations"),
    )

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str = "trainval",
        target_types: Sequence[str] | str = "category",
        transforms: Callable | None = None,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
    ) -> None:
        kinds = [target_types] if isinstance(target_types, str) else target_types
        self._target_types = [
            verify_str_arg(kind, "target_types", self._VALID_TARGET_TYPES) for kind in kinds
        ]
        self._split = verify_str_arg(split, "split", ("trainval", "test"))
        super().__init__(root, download, (transforms, transform, target_transform))
        images, annotations = map(self._below, self._origin.makes)
        self._read_list(annotations / f"{split}.txt", images, annotations / "trimaps")

    def _read_list(self, path: pathlib.Path, images: pathlib.Path, outlines: pathlib.Path) -> None:
        """Lines of a name, the number of its breed, 1 for a cat or 2 for a dog, and one more."""
        rows = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
        if any(len(row) != 4 for row in rows):
            raise RuntimeError(f"{path} has lines that are not a name and three numbers")
        self._images = [images / f"{name}.jpg" for name, *_ in rows]
        self._segs = [outlines / f"{name}.png" for name, *_ in rows]
        self._labels, self._bin_labels = (
            [int(row[column]) - 1 for row in rows] for column in (1, 2)
        )
        breeds = {int(row[1]): row[0].rpartition("_")[0] or row[0] for row in rows}
        self.classes = [breeds[number].replace("_", " ").title() for number in sorted(breeds)]
        self.class_to_idx = numbered(self.classes)
        self.bin_classes = ["Cat", "Dog"]
        self.bin_class_to_idx = numbered(self.bin_classes)

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        image = open_image(self._images[idx], "RGB")
        targets = tuple(self._target(kind, idx) for kind in self._target_types)
        target = (targets if len(targets) > 1 else targets[0]) if targets else None
        return self.transforms(image, target) if self.transforms else (image, target)

    def _target(self, kind: str, index: int) -> Any:
        if kind == "category":
            return self._labels[index]
        if kind == "binary-category":
            return self._bin_labels[index]
        return open_image(self._segs[index])
