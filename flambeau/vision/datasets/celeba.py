"""CelebA: 202,599 faces of known people, with attributes, identities, boxes and landmarks."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import flambeau as torch
from flambeau import Tensor
from flambeau.vision.datasets.fetched import ensure
from flambeau.vision.datasets.utils import (
    check_integrity,
    download_file_from_google_drive,
    extract_archive,
    verify_str_arg,
)
from flambeau.vision.datasets.vision import VisionDataset
from flambeau.vision.pillow import open_image


class CSV(NamedTuple):
    """A table of whole numbers: names of columns, names of rows, numbers."""

    header: list[str]
    index: list[str]  # type: ignore[assignment]
    data: Tensor


_FILES = """
0B7EVK8r0v71pZjFTYXZWM3FlRnM 00d2c5bc6d35e252742224ab0c1e8fcb img_align_celeba.zip
0B7EVK8r0v71pblRyaVFSWGxPY0U 75e246fa4810816ffd6ee81facbd244c list_attr_celeba.txt
1_ee_0u7vcNLOfNLegJRHmolfH5ICW-XS 32bd1bd63d3c78cd57e08160ec5ed1e2 identity_CelebA.txt
0B7EVK8r0v71pbThiMVRxWXZ4dU0 00566efa6fedff7a56946cd1c10f1c16 list_bbox_celeba.txt
0B7EVK8r0v71pd0FJY3Blby1HUTQ cc24ecafdb5b50baae59b03474781f8c list_landmarks_align_celeba.txt
0B7EVK8r0v71pY0NSMzRuSXJEVkk d32c9cbf5e040fd4025c592c306e6668 list_eval_partition.txt
"""


class CelebA(VisionDataset):
    """Faces, aligned and cut to 178 by 218 pixels.

    Args:
        root: the folder that holds or will hold `celeba`.
        split: "train", "valid", "test" or "all".
        target_type: "attr" (40 numbers, 0 or 1), "identity" (a number), "bbox" (x, y, width and
            height in the picture before it was cut), "landmarks" (5 points), or a list of them.
        transform: a function of a PIL image.
        target_transform: a function of a target.
        download: bring the files with the package gdown, if they are not there.
    """

    base_folder = "celeba"
    # number in Google Drive, checksum, name
    file_list = [tuple(line.split()) for line in _FILES.strip().splitlines()]

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str = "train",
        target_type: list[str] | str = "attr",
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, None, transform, target_transform)
        kinds = target_type if isinstance(target_type, list) else [target_type]
        if target_transform is not None and not kinds:
            raise RuntimeError("target_transform is specified but target_type is empty")
        self.target_type, self.split = kinds, split
        names = ", ".join(name for _, _, name in self.file_list)
        remedy = f"put {names} into {self._path('')} and unpack the archive"
        ensure(self.download if download else None, self._check_integrity, remedy)
        parts = ("train", "valid", "test", "all")
        part = verify_str_arg(split.lower() if isinstance(split, str) else split, "split", parts)
        self._read(None if part == "all" else parts.index(part))

    def _read(self, part: int | None) -> None:
        """The tables, and of each the rows that belong to this part."""
        splits = self._load_csv("list_eval_partition.txt")
        tables = {
            "identity": self._load_csv("identity_CelebA.txt"),
            "bbox": self._load_csv("list_bbox_celeba.txt", header=1),
            "landmarks_align": self._load_csv("list_landmarks_align_celeba.txt", header=1),
            "attr": self._load_csv("list_attr_celeba.txt", header=1),
        }
        for name, table in tables.items():
            if len(table.index) != len(splits.index):
                raise RuntimeError(f"the tables of {name} and of the splits differ in length")
        if part is None:
            rows: Any = slice(None)
            self.filename = splits.index
        else:
            part_of: Any = splits.data[:, 0]
            rows = part_of == part
            self.filename = [splits.index[row] for row in rows.nonzero()[:, 0].tolist()]
        self.identity = tables["identity"].data[rows]
        self.bbox = tables["bbox"].data[rows]
        self.landmarks_align = tables["landmarks_align"].data[rows]
        # -1 and 1 in the file
        self.attr = torch.div(tables["attr"].data[rows] + 1, 2, rounding_mode="floor")
        self.attr_names = tables["attr"].header

    def _path(self, name: str) -> str:
        return os.path.join(self.root, self.base_folder, name)

    def _load_csv(self, filename: str, header: int | None = None) -> CSV:
        """A table of words between spaces; the header ends in an empty column, as in the files."""
        with open(self._path(filename), encoding="utf-8") as file:
            lines = file.read().splitlines()
        names: list[str] = []
        if header is not None:
            last = lines[header].endswith(" ")
            names = lines[header].split() + [""] * last
            lines = lines[header + 1 :]
        rows = [line.split() for line in lines if line.strip()]
        try:
            numbers = torch.tensor([[int(word) for word in row[1:]] for row in rows])
        except ValueError as error:
            raise RuntimeError(f"{filename} is not a table of whole numbers ({error})") from None
        return CSV(names, [row[0] for row in rows], numbers)

    def _check_integrity(self) -> bool:
        """Are the tables right, and the pictures unpacked? The archive may be gone."""
        tables = (entry for entry in self.file_list if not entry[2].endswith((".zip", ".7z")))
        whole = all(check_integrity(self._path(name), md5) for _, md5, name in tables)
        return whole and os.path.isdir(self._path("img_align_celeba"))

    def download(self) -> None:
        """Bring all files and unpack the pictures, unless they are there."""
        if not self._check_integrity():
            for number, md5, name in self.file_list:
                download_file_from_google_drive(number, self._path(""), name, md5)
            extract_archive(self._path("img_align_celeba.zip"))

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image = open_image(self._path(os.path.join("img_align_celeba", self.filename[index])))
        targets = tuple(self._target(kind, index) for kind in self.target_type)
        if self.transform is not None:
            image = self.transform(image)
        if not targets:
            return image, None
        target = targets if len(targets) > 1 else targets[0]
        return image, target if self.target_transform is None else self.target_transform(target)

    def _target(self, kind: str, index: int) -> Tensor:
        if kind == "attr":
            return self.attr[index, :]
        if kind == "identity":
            return self.identity[index, 0]
        if kind == "bbox":
            return self.bbox[index, :]
        if kind == "landmarks":
            return self.landmarks_align[index, :]
        raise ValueError(f'Target type "{kind}" is not recognized.')

    def __len__(self) -> int:
        return len(self.attr)

    def extra_repr(self) -> str:
        return f"Target type: {self.target_type}\nSplit: {self.split}"
