"""Cityscapes: streets of fifty cities, every pixel with a class."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any, NamedTuple

from flambeau.vision.datasets.utils import extract_archive, verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset
from flambeau.vision.pillow import open_image

_OTHER = 255
# category, number of its classes: name, id, id in training, whether single things are told apart,
# whether it is left out of scores, colour
_CLASSES = """
void: unlabeled 0 255 0 1 0,0,0; ego_vehicle 1 255 0 1 0,0,0; rectification_border 2 255 0 1 0,0,0;
 out_of_roi 3 255 0 1 0,0,0; static 4 255 0 1 0,0,0; dynamic 5 255 0 1 111,74,0;
 ground 6 255 0 1 81,0,81
flat: road 7 0 0 0 128,64,128; sidewalk 8 1 0 0 244,35,232; parking 9 255 0 1 250,170,160;
 rail_track 10 255 0 1 230,150,140
construction: building 11 2 0 0 70,70,70; wall 12 3 0 0 102,102,156; fence 13 4 0 0 190,153,153;
 guard_rail 14 255 0 1 180,165,180; bridge 15 255 0 1 150,100,100; tunnel 16 255 0 1 150,120,90
object: pole 17 5 0 0 153,153,153; polegroup 18 255 0 1 153,153,153;
 traffic_light 19 6 0 0 250,170,30; traffic_sign 20 7 0 0 220,220,0
nature: vegetation 21 8 0 0 107,142,35; terrain 22 9 0 0 152,251,152
sky: sky 23 10 0 0 70,130,180
human: person 24 11 1 0 220,20,60; rider 25 12 1 0 255,0,0
vehicle: car 26 13 1 0 0,0,142; truck 27 14 1 0 0,0,70; bus 28 15 1 0 0,60,100;
 caravan 29 255 1 1 0,0,90; trailer 30 255 1 1 0,0,110; train 31 16 1 0 0,80,100;
 motorcycle 32 17 1 0 0,0,230; bicycle 33 18 1 0 119,11,32; license_plate -1 -1 0 1 0,0,142
"""
_SUFFIXES = {"instance": "instanceIds.png", "semantic": "labelIds.png", "color": "color.png"}


class CityscapesClass(NamedTuple):
    """What there is to know of a class."""

    name: str
    id: int
    train_id: int
    category: str
    category_id: int
    has_instances: bool
    ignore_in_eval: bool
    color: tuple[int, ...]


def _read_classes() -> list[CityscapesClass]:
    found = []
    for number, line in enumerate(_CLASSES.replace("\n ", " ").strip().splitlines()):
        category, _, entries = line.partition(":")
        for entry in entries.split(";"):
            name, own, train, apart, ignored, color = entry.split()
            shade = tuple(int(part) for part in color.split(","))
            found.append(
                CityscapesClass(
                    name.replace("_", " "), int(own), int(train), category, number, apart == "1",
                    ignored == "1", shade,
                )
            )  # fmt: skip
    return found


class Cityscapes(VisionDataset):
    """Photographs and pictures of classes, or outlines.

    Args:
        root: the folder that holds `leftImg8bit` and `gtFine` or `gtCoarse`, or their archives.
        split: "train", "val" or "test"; for coarse ones "train", "train_extra" or "val".
        mode: "fine" or "coarse".
        target_type: "instance", "semantic", "polygon" or "color", or a list of them.
        transform: a function of a PIL image.
        target_transform: a function of a target.
        transforms: a function of both.
    """

    CityscapesClass = CityscapesClass
    classes = _read_classes()

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str = "train",
        mode: str = "fine",
        target_type: list[str] | str = "instance",
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        transforms: Callable | None = None,
    ) -> None:
        super().__init__(root, transforms, transform, target_transform)
        verify_str_arg(mode, "mode", ("fine", "coarse"))
        fine = mode == "fine"
        self.mode = "gtFine" if fine else "gtCoarse"
        known = ("train", "test", "val") if fine else ("train", "train_extra", "val")
        text = f"Unknown value '{split}' for argument split for mode '{mode}'. Valid values are "
        verify_str_arg(split, "split", known, text + "{{{}}}.".format(", ".join(known)))
        self.split = split
        self.target_type = target_type if isinstance(target_type, list) else [target_type]
        for kind in self.target_type:
            verify_str_arg(kind, "target_type", ("instance", "semantic", "polygon", "color"))
        self.images_dir = os.path.join(self.root, "leftImg8bit", split)
        self.targets_dir = os.path.join(self.root, self.mode, split)
        self._unpack()
        self.images: list[str] = []
        self.targets: list[list[str]] = []
        for city in os.listdir(self.images_dir):
            for name in os.listdir(os.path.join(self.images_dir, city)):
                start = name.split("_leftImg8bit")[0]
                self.images.append(os.path.join(self.images_dir, city, name))
                self.targets.append([
                    os.path.join(
                        self.targets_dir, city, f"{start}_{self._get_target_suffix(self.mode, t)}"
                    )
                    for t in self.target_type
                ])  # fmt: skip

    def _unpack(self) -> None:
        """Unpack archives that lie in the root, if folders are missing."""
        whole = os.path.isdir(self.images_dir) and os.path.isdir(self.targets_dir)
        part = "trainextra" if self.split == "train_extra" else "trainvaltest"
        names = (
            f"leftImg8bit_{part}.zip",
            (f"{self.mode}.zip" if self.mode == "gtCoarse" else f"{self.mode}_trainvaltest.zip"),
        )
        paths = [os.path.join(self.root, name) for name in names]
        if not whole and all(map(os.path.isfile, paths)):
            for path in paths:
                extract_archive(path, self.root)
        elif not whole:
            raise RuntimeError(
                "Dataset not found or incomplete. Please make sure all required folders for the "
                'specified "split" and "mode" are inside the "root" directory'
            )

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image = open_image(self.images[index], "RGB")
        targets = tuple(
            self._load_json(path) if kind == "polygon" else open_image(path)
            for kind, path in zip(self.target_type, self.targets[index])
        )
        target = targets if len(targets) > 1 else targets[0]
        return (image, target) if self.transforms is None else self.transforms(image, target)

    def __len__(self) -> int:
        return len(self.images)

    def extra_repr(self) -> str:
        return f"Split: {self.split}\nMode: {self.mode}\nType: {self.target_type}"

    def _load_json(self, path: str) -> dict[str, Any]:
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def _get_target_suffix(self, mode: str, target_type: str) -> str:
        return f"{mode}_{_SUFFIXES.get(target_type, 'polygons.json')}"
