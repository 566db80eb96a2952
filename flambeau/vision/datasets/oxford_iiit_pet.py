"""Oxford-IIIT Pet: cats and dogs of 37 breeds, with outlines."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.vision.datasets.utils import download_and_extract_archive, verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset
from flambeau.vision.pillow import open_image

_ADDRESS = "https://www.robots.ox.ac.uk/~vgg/data/pets/data/"


class OxfordIIITPet(VisionDataset):
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

    _RESOURCES = (
        (f"{_ADDRESS}images.tar.gz", "5c4f3ee8e5d25df40f4fd59a7f44e54c"),
        (f"{_ADDRESS}annotations.tar.gz", "95a8c909bbe2e81eed6a22bccdf3f68f"),
    )
    _VALID_TARGET_TYPES = ("category", "binary-category", "segmentation")

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
        self._split = verify_str_arg(split, "split", ("trainval", "test"))
        kinds = [target_types] if isinstance(target_types, str) else target_types
        self._target_types = [
            verify_str_arg(kind, "target_types", self._VALID_TARGET_TYPES) for kind in kinds
        ]
        super().__init__(root, transforms, transform, target_transform)
        self._base_folder = pathlib.Path(self.root) / "oxford-iiit-pet"
        self._images_folder = self._base_folder / "images"
        self._anns_folder = self._base_folder / "annotations"
        self._segs_folder = self._anns_folder / "trimaps"
        if download:
            self._download()
        if not self._check_exists():
            raise RuntimeError(
                "Dataset not found. You can use download=True to download it, or unpack "
                f"images.tar.gz and annotations.tar.gz into {self._base_folder}"
            )
        self._read_list(self._anns_folder / f"{self._split}.txt")

    def _read_list(self, path: pathlib.Path) -> None:
        """Lines of a name, the number of its breed, 1 for a cat or 2 for a dog, and one more."""
        rows = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
        if not all(len(row) == 4 for row in rows):
            raise RuntimeError(f"{path} has lines that are not a name and three numbers")
        names = [row[0] for row in rows]
        self._labels = [int(row[1]) - 1 for row in rows]
        self._bin_labels = [int(row[2]) - 1 for row in rows]
        breeds = {(name.rsplit("_", 1)[0], label) for name, label in zip(names, self._labels)}
        in_order = sorted(breeds, key=lambda breed: breed[1])
        self.bin_classes = ["Cat", "Dog"]
        self.classes = [
            " ".join(word.title() for word in breed.split("_")) for breed, _ in in_order
        ]
        self.bin_class_to_idx = {"Cat": 0, "Dog": 1}
        self.class_to_idx = {name: index for index, name in enumerate(self.classes)}
        self._images = [self._images_folder / f"{name}.jpg" for name in names]
        self._segs = [self._segs_folder / f"{name}.png" for name in names]

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

    def _check_exists(self) -> bool:
        return self._images_folder.is_dir() and self._anns_folder.is_dir()

    def _download(self) -> None:
        if not self._check_exists():
            for url, md5 in self._RESOURCES:
                download_and_extract_archive(url, str(self._base_folder), md5=md5)
