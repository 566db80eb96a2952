"""WIDER FACE: 32,203 photographs and 393,703 faces in them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.vision.datasets.fetched import ensure
from flambeau.vision.datasets.utils import (
    download_and_extract_archive,
    download_file_from_google_drive,
    extract_archive,
    verify_str_arg,
)
from flambeau.vision.datasets.vision import VisionDataset
from flambeau.vision.pillow import open_image

_FACTS = "blur expression illumination occlusion pose invalid".split()


class WIDERFace(VisionDataset):
    """Pictures and dictionaries of tensors, one row for each face ("bbox" is x, y, width, height).

    Args:
        root: the folder that holds or will hold `widerface`.
        split: "train", "val" or "test"; the last has no targets (None).
        transform: a function of a PIL image.
        target_transform: a function of a dictionary.
        download: bring the archives and unpack them.
    """

    BASE_FOLDER = "widerface"
    FILE_LIST = [
        ("15hGDLhsx8bLgLcIRD5DhYt5iBxnjNF1M", "3fedf70df600953d25982bcd13d91ba2",
         "WIDER_train.zip"),
        ("1GUCogbp16PMGa39thoMMeWxp7Rp5oM8Q", "dfa7d7e790efa35df3788964cf0bbaea", "WIDER_val.zip"),
        ("1HIfDbVEWKmsYKJZm4lchTBDLW5N7dY5T", "e5d8f4248ed24c334bbd12f49c29dd40",
         "WIDER_test.zip"),
    ]  # fmt: skip
    ANNOTATIONS_FILE = (
        "http://shuoyang1213.me/WIDERFACE/support/bbx_annotation/wider_face_split.zip",
        "0e3767bcf0e326556d407bf5bff5d27c",
        "wider_face_split.zip",
    )

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str = "train",
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
    ) -> None:
        home = os.path.join(root, self.BASE_FOLDER)
        super().__init__(home, transform=transform, target_transform=target_transform)
        self.split = verify_str_arg(split, "split", ("train", "val", "test"))
        fetch = self.download if download else None
        ensure(fetch, self._check_integrity, f"unpack its archives into {self.root}")
        self.img_info: list[dict[str, Any]] = []
        if split == "test":
            self.parse_test_annotations_file()
        else:
            self.parse_train_val_annotations_file()

    def _lines(self, name: str) -> list[str]:
        with open(os.path.join(self.root, "wider_face_split", name), encoding="utf-8") as file:
            return [line.rstrip() for line in file]

    def _image_path(self, name: str) -> str:
        return os.path.abspath(os.path.join(self.root, f"WIDER_{self.split}", "images", name))

    def parse_train_val_annotations_file(self) -> None:
        """Read blocks of a name, a count, and a line for each face (one of zeros for none)."""
        lines = iter(self._lines(f"wider_face_{self.split}_bbx_gt.txt"))
        for name in lines:
            if not name:
                continue
            count = int(next(lines))
            rows = [[int(n) for n in next(lines).split()] for _ in range(max(count, 1))]
            table = torch.tensor(rows)
            facts = {fact: table[:, 4 + k] for k, fact in enumerate(_FACTS)}
            annotations = {"bbox": table[:, :4], **facts}
            self.img_info.append({"img_path": self._image_path(name), "annotations": annotations})

    def parse_test_annotations_file(self) -> None:
        """Read the names of pictures."""
        names = self._lines("wider_face_test_filelist.txt")
        self.img_info += [{"img_path": self._image_path(name)} for name in names if name]

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, target = (self.img_info[index].get(key) for key in ("img_path", "annotations"))
        if target is not None:
            return self._transformed(open_image(path), target)
        image = open_image(path)
        return image if self.transform is None else self.transform(image), None

    def __len__(self) -> int:
        return len(self.img_info)

    def extra_repr(self) -> str:
        return f"Split: {self.split}"

    def _check_integrity(self) -> bool:
        names = [name for *_, name in (*self.FILE_LIST, self.ANNOTATIONS_FILE)]
        folders = [os.path.join(self.root, name.removesuffix(".zip")) for name in names]
        return all(map(os.path.exists, folders))

    def download(self) -> None:
        """Bring the archives and unpack them, unless their folders are there."""
        if self._check_integrity():
            return
        for number, md5, name in self.FILE_LIST:
            download_file_from_google_drive(number, self.root, name, md5)
            extract_archive(os.path.join(self.root, name))
        address, md5, _ = self.ANNOTATIONS_FILE
        download_and_extract_archive(address, self.root, md5=md5)
