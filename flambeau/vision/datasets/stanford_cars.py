"""Stanford Cars: 16,185 photographs of cars of 196 models."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import Any

from flambeau.vision.datasets.fetched import numbered
from flambeau.vision.datasets.folder import default_loader
from flambeau.vision.datasets.mat_files import read_mat
from flambeau.vision.datasets.utils import verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset


class StanfordCars(VisionDataset):
    """Cars by maker, model and year (the lists are read with scipy).

    Args:
        root: the folder that holds `stanford_cars`.
        split: "train" or "test".
        transform: a function of what the loader gives, by default a PIL image.
        target_transform: a function of a class number.
        download: the files are no longer where they were: an error.
        loader: a function of a path that reads the image.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str = "train",
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self._split = verify_str_arg(split, "split", ("train", "test"))
        self._base_folder = pathlib.Path(self.root, "stanford_cars")
        devkit = self._base_folder / "devkit"
        lists = "cars_train_annos" if split == "train" else "cars_test_annos_withlabels"
        home = devkit if split == "train" else self._base_folder
        self._annotations_mat_path = home / f"{lists}.mat"
        self._images_base_path = self._base_folder / f"cars_{split}"
        if download:
            self.download()
        if not self._check_exists():
            raise RuntimeError(
                f"Dataset not found. Put its folders into {self._base_folder}: the address they "
                "were published at is no more"
            )
        rows = read_mat(self._annotations_mat_path, squeeze_me=True)["annotations"]
        self._samples = [
            (str(self._images_base_path / row["fname"]), int(row["class"]) - 1) for row in rows
        ]
        self.classes = read_mat(devkit / "cars_meta.mat", squeeze_me=True)["class_names"].tolist()
        self.class_to_idx = numbered(self.classes)
        self.loader = loader

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        path, target = self._samples[idx]
        return self._transformed(self.loader(path), target)

    def _check_exists(self) -> bool:
        devkit = self._base_folder / "devkit"
        return (
            devkit.is_dir() and self._annotations_mat_path.exists()
            and self._images_base_path.is_dir()
        )  # fmt: skip

    def download(self) -> None:
        """Say that nobody offers the files any more."""
        raise ValueError("The original URL is broken so the StanfordCars dataset cannot be "
                         "downloaded anymore.")  # fmt: skip
