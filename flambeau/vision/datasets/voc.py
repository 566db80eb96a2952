"""Pascal VOC: photographs with outlines of things (segmentation) or boxes around them."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any
from xml.etree.ElementTree import Element, ParseError, parse

from flambeau.vision.datasets.fetched import ensure
from flambeau.vision.datasets.utils import download_and_extract_archive, verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset
from flambeau.vision.pillow import open_image

_ADDRESS = "https://thor.robots.ox.ac.uk/pascal/VOC/"


def _year(folder: str, archive: str, md5: str, base: str, filename: str = "") -> dict[str, str]:
    return {
        "url": f"{_ADDRESS}{folder}/{archive}",
        "filename": filename or archive,
        "md5": md5,
        "base_dir": os.path.join(*base.split("/")),
    }


DATASET_YEAR_DICT = {
    "2012": _year(
        "voc2012",
        "VOCtrainval_11-May-2012.tar",
        "6cd6e144f989b92b3379bac3b3de84fd",
        "VOCdevkit/VOC2012",
    ),
    "2011": _year(
        "voc2011",
        "VOCtrainval_25-May-2011.tar",
        "6c3384ef61512963050cb5d687e5bf1e",
        "TrainVal/VOCdevkit/VOC2011",
    ),
    "2010": _year(
        "voc2010",
        "VOCtrainval_03-May-2010.tar",
        "da459979d0c395079b5c75ee67908abb",
        "VOCdevkit/VOC2010",
    ),
    "2009": _year(
        "voc2009",
        "VOCtrainval_11-May-2009.tar",
        "a3e00b113cfcfebf17e343f59da3caa1",
        "VOCdevkit/VOC2009",
    ),
    "2008": _year(
        "voc2008",
        "VOCtrainval_14-Jul-2008.tar",
        "2629fa636546599198acfcfbfcf1904a",
        "VOCdevkit/VOC2008",
        "VOCtrainval_11-May-2012.tar",
    ),
    "2007": _year(
        "voc2007",
        "VOCtrainval_06-Nov-2007.tar",
        "c52e279531787c972589f7e41ab4ae64",
        "VOCdevkit/VOC2007",
    ),
    "2007-test": _year(
        "voc2007",
        "VOCtest_06-Nov-2007.tar",
        "b6e924de25625d8de591ea690078ad9f",
        "VOCdevkit/VOC2007",
    ),
}


class _VOCBase(VisionDataset):
    """Photographs that a text file lists, each with a file that says what is in it.

    Args:
        root: the folder that holds or will hold `VOCdevkit`.
        year: "2007" to "2012".
        image_set: "train", "trainval", "val", and for 2007 also "test".
        download: bring the archive and unpack it.
        transform: a function of a PIL image.
        target_transform: a function of a target.
        transforms: a function of both, instead of the two.
    """

    # lists, targets and how the names of targets end
    _SPLITS_DIR: str
    _TARGET_DIR: str
    _TARGET_FILE_EXT: str

    def __init__(
        self,
        root: str | os.PathLike[str],
        year: str = "2012",
        image_set: str = "train",
        download: bool = False,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        transforms: Callable | None = None,
    ) -> None:
        self.year = verify_str_arg(year, "year", [f"20{end:02d}" for end in range(7, 13)])
        # only the test pictures of 2007 were published, in an archive of their own
        sets = ("train", "trainval", "val", "test")[: 4 if year == "2007" else 3]
        self.image_set = verify_str_arg(image_set, "image_set", sets)
        entry = DATASET_YEAR_DICT["2007-test" if image_set == "test" else year]
        self.url, self.filename, self.md5 = (entry[key] for key in ("url", "filename", "md5"))
        super().__init__(root, transforms, transform, target_transform)
        below = partial(os.path.join, self.root, entry["base_dir"])
        remedy = f"unpack {self.filename} into {self.root}"
        ensure(self._fetch if download else None, lambda: os.path.isdir(below()), remedy)
        with open(below("ImageSets", self._SPLITS_DIR, f"{image_set}.txt"), encoding="utf-8") as f:
            names = f.read().split()

        def files(kind: str, ending: str) -> list[str]:
            return [below(kind, name + ending) for name in names]

        self.images = files("JPEGImages", ".jpg")
        self.targets = files(self._TARGET_DIR, self._TARGET_FILE_EXT)

    def _fetch(self) -> None:
        download_and_extract_archive(self.url, self.root, None, self.filename, self.md5)

    def __len__(self) -> int:
        return len(self.images)

    def _item(self, image: Any, target: Any) -> tuple[Any, Any]:
        return (image, target) if self.transforms is None else self.transforms(image, target)


class VOCSegmentation(_VOCBase):
    __doc__ = f"Photographs and pictures of the classes of their pixels.\n\n{_VOCBase.__doc__}"

    _SPLITS_DIR = "Segmentation"
    _TARGET_DIR = "SegmentationClass"
    _TARGET_FILE_EXT = ".png"

    @property
    def masks(self) -> list[str]:
        return self.targets

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._item(open_image(self.images[index], "RGB"), open_image(self.masks[index]))


class VOCDetection(_VOCBase):
    __doc__ = f"Photographs and dictionaries of what is where in them.\n\n{_VOCBase.__doc__}"

    _SPLITS_DIR = "Main"
    _TARGET_DIR = "Annotations"
    _TARGET_FILE_EXT = ".xml"

    @property
    def annotations(self) -> list[str]:
        return self.targets

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path = self.annotations[index]
        try:
            tree = parse(path).getroot()
        except ParseError as error:
            raise RuntimeError(f"{path} is not XML ({error})") from None
        return self._item(open_image(self.images[index], "RGB"), self.parse_voc_xml(tree))

    @staticmethod
    def parse_voc_xml(node: Element) -> dict[str, Any]:
        """A node as {tag: text} or {tag: {child: ...}}; children of one tag make a list."""
        children = list(node)
        if not children:
            return {node.tag: node.text.strip()} if node.text else {}
        found: dict[str, list[Any]] = {}
        for child in children:
            for tag, value in VOCDetection.parse_voc_xml(child).items():
                found.setdefault(tag, []).append(value)
        if node.tag == "annotation":
            found["object"] = [found.get("object", [])]  # a list even if there is one
        return {node.tag: {tag: v[0] if len(v) == 1 else v for tag, v in found.items()}}
