"""SBD: 11,355 pictures of PASCAL VOC with outlines of all things in them."""

from __future__ import annotations

import os
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import numpy

from flambeau.vision.datasets.mat_files import read_mat
from flambeau.vision.datasets.utils import (
    download_and_extract_archive,
    download_url,
    verify_str_arg,
)
from flambeau.vision.datasets.vision import VisionDataset
from flambeau.vision.pillow import image_of, open_image

CLASSES = 20


class SBDataset(VisionDataset):
    """Pictures and boundaries or areas of 20 classes (read with scipy).

    Args:
        root: the folder that holds or will hold `img`, `cls` and the lists.
        image_set: "train", "val", or "train_noval": what VOC 2012 does not test.
        mode: "boundaries" (an array of 20 planes) or "segmentation" (a PIL image of numbers).
        download: bring the archive and unpack it.
        transforms: a function of a PIL image and its target.
    """

    url = (
        "https://www2.eecs.berkeley.edu/Research/Projects/CS/vision/grouping/semantic_contours/"
        "benchmark.tgz"
    )
    md5 = "82b4d87ceb2ed10f6038a1cba92111cb"
    filename = "benchmark.tgz"
    voc_train_url = "https://www.cs.cornell.edu/~bharathh/train_noval.txt"
    voc_split_filename = "train_noval.txt"
    voc_split_md5 = "79bff800c5f0b1ec6b21080a3c066722"

    def __init__(
        self,
        root: str | os.PathLike[str],
        image_set: str = "train",
        mode: str = "boundaries",
        download: bool = False,
        transforms: Callable | None = None,
    ) -> None:
        super().__init__(root, transforms)
        self.image_set = verify_str_arg(image_set, "image_set", ("train", "val", "train_noval"))
        self.mode = verify_str_arg(mode, "mode", ("segmentation", "boundaries"))
        self.num_classes = CLASSES
        if download:
            self._bring()
        if not os.path.isdir(self.root):
            raise RuntimeError(f"Dataset not found or corrupted in {self.root}. You can use "
                               "download=True to download it")  # fmt: skip
        home = pathlib.Path(self.root)
        names = (home / f"{image_set}.txt").read_text("utf-8").split()
        self.images, self.masks = (
            [str(home / folder / name) + ending for name in names]
            for folder, ending in (("img", ".jpg"), ("cls", ".mat"))
        )

    def _bring(self) -> None:
        download_and_extract_archive(self.url, self.root, filename=self.filename, md5=self.md5)
        unpacked = os.path.join(self.root, "benchmark_RELEASE", "dataset")
        for name in ("cls", "img", "inst", "train.txt", "val.txt"):
            shutil.move(os.path.join(unpacked, name), self.root)
        download_url(self.voc_train_url, self.root, self.voc_split_filename, self.voc_split_md5)

    def _get_segmentation_target(self, filepath: str) -> Any:
        return image_of(read_mat(filepath)["GTcls"][0]["Segmentation"][0])

    def _get_boundaries_target(self, filepath: str) -> Any:
        planes = read_mat(filepath)["GTcls"][0]["Boundaries"][0]
        return numpy.concatenate(
            [numpy.expand_dims(planes[k][0].toarray(), 0) for k in range(CLASSES)]
        )

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image = open_image(self.images[index], "RGB")
        edges = self.mode == "boundaries"
        read = self._get_boundaries_target if edges else self._get_segmentation_target
        target = read(self.masks[index])
        return (image, target) if self.transforms is None else self.transforms(image, target)

    def __len__(self) -> int:
        return len(self.images)

    def extra_repr(self) -> str:
        return f"Image set: {self.image_set}\nMode: {self.mode}"
