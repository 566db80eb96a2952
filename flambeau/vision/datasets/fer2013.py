"""FER2013: 35,887 grey faces, 48 by 48 pixels, and their expressions."""

from __future__ import annotations

import csv
import os
import pathlib
from collections.abc import Callable
from typing import Any

import numpy

from flambeau.vision.datasets.utils import check_integrity, verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset
from flambeau.vision.pillow import from_array

_PARTS = {"train": ("Training",), "test": ("PublicTest", "PrivateTest")}


class FER2013(VisionDataset):
    """Faces out of tables whose cells are pixels.

    Args:
        root: the folder that holds `fer2013` with `icml_face_data.csv`, `fer2013.csv`, or
            `train.csv` and `test.csv` (the last has no expressions: None).
        split: "train" or "test".
        transform: a function of a PIL image.
        target_transform: a function of a class number.
    """

    _RESOURCES = {
        "train": ("train.csv", "3f0dfb3d3fd99c811a1299cb947e3131"),
        "test": ("test.csv", "b02c2298636a634e8c2faabbf3ea9a23"),
        "fer": ("fer2013.csv", "f8428a1edbd21e88f42c73edd2a14f95"),
        "icml": ("icml_face_data.csv", "b114b9e04e6949e5fe8b6a98b3892b1d"),
    }

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str = "train",
        transform: Callable | None = None,
        target_transform: Callable | None = None,
    ) -> None:
        self._split = verify_str_arg(split, "split", ("train", "test"))
        super().__init__(root, transform=transform, target_transform=target_transform)
        home = pathlib.Path(self.root, "fer2013")
        kind = next((k for k in ("icml", "fer") if (home / self._RESOURCES[k][0]).exists()), split)
        name, md5 = self._RESOURCES[kind]
        if not check_integrity(str(home / name), md5):
            raise RuntimeError(
                f"{name} not found in {home} or corrupted. It can be had from "
                "https://www.kaggle.com/c/challenges-in-representation-learning-facial-"
                "expression-recognition-challenge"
            )
        with open(home / name, newline="", encoding="utf-8") as file:
            rows = [
                {key.strip(): cell for key, cell in row.items()} for row in csv.DictReader(file)
            ]
        self._samples = [
            (self._pixels(row["pixels"]), int(row["emotion"]) if "emotion" in row else None)
            for row in rows
            if kind == split or row["Usage"] in _PARTS[split]
        ]

    @staticmethod
    def _pixels(text: str) -> Any:
        return numpy.array(text.split(), dtype=numpy.uint8).reshape(48, 48)

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        pixels, target = self._samples[idx]
        return self._transformed(from_array(pixels, "L"), target)

    def extra_repr(self) -> str:
        return f"split={self._split}"
