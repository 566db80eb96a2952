"""PCAM: patches of lymph nodes, kept in files of HDF5 (read with the package h5py)."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

from flambeau.vision.datasets.archives import extract_archive
from flambeau.vision.datasets.fetched import ensure
from flambeau.vision.datasets.utils import download_url, verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset
from flambeau.vision.pillow import image_of

_ADDRESS = "https://zenodo.org/record/2546921/files/"


def _h5py() -> Any:
    try:
        return importlib.import_module("h5py")
    except ModuleNotFoundError as error:
        raise RuntimeError(
            "h5py is not found. This dataset needs to have h5py installed: please run pip install "
            "h5py"
        ) from error


class PCAM(VisionDataset):
    """Patches of 96 by 96 pixels, with and without metastatic tissue;
    https://github.com/basveeling/pcam.

    Args:
        root: the folder that holds or will hold `pcam`.
        split: "train" (262,144), "test" or "val" (32,768 each).
        transform: a function of a PIL image.
        target_transform: a function of a label.
        download: bring the files of the split if they are not there.
    """

    _FILES = {  # MD5 sums of the packed files of images and of labels
        "train": ("train", "1571f514728f59376b705fc836ff4b63", "35c2d7259d906cfc8143347bb8e05be7"),
        "test": ("test", "d8c2d60d490dbd479f8199bdfa0cf6ec", "60a7035772fbdb7f34eb86d4420cf66a"),
        "val": ("valid", "d5b63470df7cfa627aeec8b9dc0c066e", "2b85f58b927af9964a4c15b8f7e8f179"),
    }

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str = "train",
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
    ) -> None:
        self.h5py = _h5py()
        self._split = verify_str_arg(split, "split", tuple(self._FILES))
        super().__init__(root, None, transform, target_transform)
        self._base_folder = os.path.join(self.root, "pcam")
        stem, *self._sums = self._FILES[split]
        names = [f"camelyonpatch_level_2_split_{stem}_{part}.h5" for part in "xy"]
        self._paths = [os.path.join(self._base_folder, name) for name in names]
        fetch = self._download if download else None
        ensure(fetch, self._check_exists, f"put {' and '.join(names)} into {self._base_folder}")

    def _read(self, part: str, look: Callable[[Any], Any]) -> Any:
        """What a look at the images (x) or the labels (y) gives; files are open no longer."""
        with self.h5py.File(self._paths["xy".index(part)]) as file:
            return look(file[part])

    def __len__(self) -> int:
        return self._read("x", len)

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        pixels, label = (self._read(part, lambda kept: kept[idx]) for part in "xy")
        return self._transformed(image_of(pixels).convert("RGB"), int(label.item()))

    def _check_exists(self) -> bool:
        return all(os.path.exists(path) for path in self._paths)

    def _download(self) -> None:
        if self._check_exists():
            return
        for path, md5 in zip(self._paths, self._sums):
            name = f"{os.path.basename(path)}.gz"
            download_url(_ADDRESS + name, self._base_folder, name, md5)
            extract_archive(os.path.join(self._base_folder, name), self._base_folder)
