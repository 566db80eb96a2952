"""Flickr8k and Flickr30k: photographs, each with five captions."""

from __future__ import annotations

import glob
import os
from collections import defaultdict
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

from flambeau.vision.datasets.folder import default_loader
from flambeau.vision.datasets.vision import VisionDataset

Path = str | os.PathLike[str]


class Flickr8kParser(HTMLParser):
    """Reads a page of tables, in which a link to a picture is followed by a list of captions.

    Args:
        root: the folder of the pictures, whose names begin as the links end.
    """

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.annotations: dict[str, list[str]] = {}
        self.in_table = False
        self.current_tag: str | None = None
        self.current_img: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.current_tag = tag
        self.in_table = self.in_table or tag == "table"

    def handle_endtag(self, tag: str) -> None:
        self.current_tag = None
        self.in_table = self.in_table and tag != "table"

    def handle_data(self, data: str) -> None:
        if not self.in_table:
            return
        if data == "Image Not Found":
            self.current_img = None
        elif self.current_tag == "a":
            found = glob.glob(os.path.join(self.root, data.split("/")[-2] + "_*.jpg"))
            self.current_img = found[0]
            self.annotations[self.current_img] = []
        elif self.current_tag == "li" and self.current_img:
            self.annotations[self.current_img].append(data.strip())


class _Captions(VisionDataset):
    """Pictures in the order of their names, with all of their captions."""

    annotations: dict[str, list[str]]

    def __init__(
        self,
        root: Path,
        ann_file: str,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.ann_file = os.path.expanduser(ann_file)
        self.annotations = self._read()
        self.ids = sorted(self.annotations)
        self.loader = loader

    def _read(self) -> dict[str, list[str]]:
        raise NotImplementedError

    def _path(self, name: str) -> str:
        return name

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        name = self.ids[index]
        return self._transformed(self.loader(self._path(name)), self.annotations[name])

    def __len__(self) -> int:
        return len(self.ids)


class Flickr8k(_Captions):
    """8,000 photographs; the captions are a page of HTML.

    Args:
        root: the folder of the pictures.
        ann_file: the page.
        transform: a function of what the loader gives, by default a PIL image.
        target_transform: a function of a list of captions.
        loader: a function of a path that reads the image.
    """

    def _read(self) -> dict[str, list[str]]:
        parser = Flickr8kParser(self.root)
        with open(self.ann_file, encoding="utf-8") as file:
            parser.feed(file.read())
        return parser.annotations


class Flickr30k(_Captions):
    """31,000 photographs; the captions are lines `name.jpg#number<tab>caption`.

    Args:
        root: the folder of the pictures.
        ann_file: the file of the lines.
        transform: a function of what the loader gives, by default a PIL image.
        target_transform: a function of a list of captions.
        loader: a function of a path that reads the image.
    """

    def _read(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        with open(self.ann_file, encoding="utf-8") as file:
            for line in file:
                place, caption = line.strip().split("\t")
                found[place.rpartition("#")[0]].append(caption)
        return found

    def _path(self, name: str) -> str:
        return os.path.join(self.root, name)
