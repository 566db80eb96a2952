"""MS COCO: photographs with boxes and outlines, or with captions, listed in one JSON file.

With the package pycocotools, `coco` is its `COCO` object; without it, a small index that answers
the same questions, but draws no masks.
"""

from __future__ import annotations

import importlib
import json
import os
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from flambeau.vision.datasets.vision import VisionDataset
from flambeau.vision.pillow import open_image


class Annotations:
    """Images and annotations of a JSON file, by their numbers, as `pycocotools.coco.COCO`."""

    def __init__(self, annotation_file: Any) -> None:
        with open(annotation_file, encoding="utf-8") as file:
            self.dataset = json.load(file)
        if not isinstance(self.dataset, dict):
            raise RuntimeError(f"{annotation_file} is not a dictionary of images and annotations")
        self.imgs = {image["id"]: image for image in self.dataset.get("images", [])}
        self.anns = {each["id"]: each for each in self.dataset.get("annotations", [])}
        self.cats = {each["id"]: each for each in self.dataset.get("categories", [])}
        self.imgToAnns: dict[int, list[Any]] = defaultdict(list)
        for each in self.anns.values():
            self.imgToAnns[each["image_id"]].append(each)

    def loadImgs(self, ids: Any = ()) -> list[Any]:
        return [self.imgs[number] for number in _listed(ids)]

    def loadAnns(self, ids: Any = ()) -> list[Any]:
        return [self.anns[number] for number in _listed(ids)]

    def loadCats(self, ids: Any = ()) -> list[Any]:
        return [self.cats[number] for number in _listed(ids)]

    def getAnnIds(self, imgIds: Any = ()) -> list[int]:
        wanted = _listed(imgIds) or list(self.imgs)
        return [each["id"] for number in wanted for each in self.imgToAnns.get(number, [])]

    def getImgIds(self) -> list[int]:
        return list(self.imgs)

    def getCatIds(self) -> list[int]:
        return list(self.cats)


def _listed(ids: Any) -> list[Any]:
    return list(ids) if hasattr(ids, "__iter__") else [ids]


def _index(path: Any) -> Any:
    try:
        return importlib.import_module("pycocotools.coco").COCO(path)
    except ModuleNotFoundError:
        return Annotations(path)


class CocoDetection(VisionDataset):
    """Photographs and lists of what is in them.

    Args:
        root: the folder of the photographs.
        annFile: the JSON file.
        transform: a function of a PIL image.
        target_transform: a function of a list of annotations.
        transforms: a function of both, instead of the two.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        annFile: str,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        transforms: Callable | None = None,
    ) -> None:
        super().__init__(root, transforms, transform, target_transform)
        self.coco: Any = _index(annFile)
        self.ids = sorted(self.coco.imgs)

    def _load_image(self, id: int) -> Any:
        name = self.coco.loadImgs(id)[0]["file_name"]
        return open_image(os.path.join(self.root, name), "RGB")

    def _load_target(self, id: int) -> list[Any]:
        return self.coco.loadAnns(self.coco.getAnnIds(id))

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if isinstance(index, int):
            number = self.ids[index]
        else:
            raise ValueError(f"Index must be of type integer, got {type(index)} instead.")
        sample = self._load_image(number), self._load_target(number)
        return sample if self.transforms is None else self.transforms(*sample)

    def __len__(self) -> int:
        return len(self.ids)


class CocoCaptions(CocoDetection):
    """Photographs and lists of sentences about them; the arguments are those of `CocoDetection`."""

    def _load_target(self, id: int) -> list[str]:
        return [each["caption"] for each in super()._load_target(id)]
