"""Labeled Faces in the Wild: 13,233 faces of 5,749 people, one by one or in pairs."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from flambeau.vision.datasets.fetched import ensure, numbered
from flambeau.vision.datasets.folder import default_loader
from flambeau.vision.datasets.utils import (
    check_integrity,
    download_and_extract_archive,
    download_url,
    verify_str_arg,
)
from flambeau.vision.datasets.vision import VisionDataset

Path = str | os.PathLike[str]


class _LFW(VisionDataset):
    """Lists of people or pairs, in ten folds or two sets, and pictures in folders by name."""

    base_folder = "lfw-py"
    download_url_prefix = "http://vis-www.cs.umass.edu/lfw/"
    file_dict = {
        "original": ("lfw", "lfw.tgz", "a17d05bd522c52d84eca14327a23d494"),
        "funneled": ("lfw_funneled", "lfw-funneled.tgz", "1b42dfed7d15c9b2dd63d5e5840c86ad"),
        "deepfunneled": (
            "lfw-deepfunneled", "lfw-deepfunneled.tgz", "68331da3eb755a505a502b5aacb3c201",
        ),
    }  # fmt: skip
    checksums = {
        "pairs.txt": "9f1ba174e4e1c508ff7cdf10ac338a7d",
        "pairsDevTest.txt": "5132f7440eb68cf58910c8a45a2ac10b",
        "pairsDevTrain.txt": "4f27cbf15b2da4a85c1907eb4181ad21",
        "people.txt": "450f0863dd89e85e73936a6d71a3474b",
        "peopleDevTest.txt": "e4bf5be0a43b5dcd9dc5ccfcb8fb19c5",
        "peopleDevTrain.txt": "54eaac34beb6d042ed3a7d883e247a21",
        "lfw-names.txt": "a6d0a479bd074669f656265a6e693f6d",
    }
    annot_file = {"10fold": "", "train": "DevTrain", "test": "DevTest"}
    names = "lfw-names.txt"
    _view = ""

    def __init__(
        self,
        root: Path,
        split: str = "10fold",
        image_set: str = "funneled",
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        home = os.path.join(root, self.base_folder)
        super().__init__(home, transform=transform, target_transform=target_transform)
        self.image_set = verify_str_arg(image_set.lower(), "image_set", tuple(self.file_dict))
        images, self.filename, self.md5 = self.file_dict[self.image_set]
        self.images_dir = os.path.join(self.root, images)
        self.view, self.loader = self._view, loader
        self.split = verify_str_arg(split.lower(), "split", tuple(self.annot_file))
        self.labels_file = f"{self.view}{self.annot_file[self.split]}.txt"
        self.data: list[Any] = []
        fetch = self.download if download else None
        ensure(fetch, self._check_integrity, f"put its files into {self.root}")

    def _lines(self, name: str | None = None) -> list[list[str]]:
        path = os.path.join(self.root, name or self.labels_file)
        with open(path, encoding="utf-8") as file:
            return [line.strip().split("\t") for line in file if line.strip()]

    def _blocks(self) -> list[list[list[str]]]:
        """The lines of each fold; the first line says how many folds there are, or lines."""
        (first, *rest), *lines = self._lines()
        if self.split != "10fold":
            return [lines]
        folds, blocks = int(first), []
        for _ in range(folds):
            # pairs: all folds are of one length, in the first line; people: a length before each
            count = 2 * int(rest[0]) if rest else int(lines.pop(0)[0])
            blocks.append(lines[:count])
            lines = lines[count:]
        return blocks

    def _get_path(self, identity: str, no: int | str) -> str:
        return os.path.join(self.images_dir, identity, f"{identity}_{int(no):04d}.jpg")

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        return f"Alignment: {self.image_set}\nSplit: {self.split}"

    def _check_integrity(self) -> bool:
        names = {self.labels_file, *((self.names,) if self.view == "people" else ())}
        return os.path.isdir(self.images_dir) and all(
            check_integrity(os.path.join(self.root, name), self.checksums[name]) for name in names
        )

    def download(self) -> None:
        """Bring the archive and the lists, unless they are there."""
        if self._check_integrity():
            return
        address = self.download_url_prefix
        download_and_extract_archive(f"{address}{self.filename}", self.root, md5=self.md5)
        for name in (self.labels_file, *((self.names,) if self.view == "people" else ())):
            download_url(address + name, self.root, md5=self.checksums[name])


class LFWPeople(_LFW):
    """Faces and the numbers of those whom they belong to.

    Args:
        root: the folder that holds or will hold `lfw-py`.
        split: "10fold", "train" or "test".
        image_set: "original", "funneled" or "deepfunneled": how faces were aligned.
        transform: a function of what the loader gives, by default a PIL image.
        target_transform: a function of a number.
        download: bring the archive and the lists.
        loader: a function of a path that reads the image.
    """

    _view = "people"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.class_to_idx = numbered(name for name, *_ in self._lines(self.names))
        pairs = [(name, int(count)) for block in self._blocks() for name, count in block]
        self.data = [self._get_path(name, k + 1) for name, count in pairs for k in range(count)]
        self.targets = [self.class_to_idx[name] for name, count in pairs for _ in range(count)]

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._transformed(self.loader(self.data[index]), self.targets[index])

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}\nClasses (identities): {len(self.class_to_idx)}"


class LFWPairs(_LFW):
    """Two faces each, and 1 if they are of one person, 0 otherwise.

    Args:
        root: the folder that holds or will hold `lfw-py`.
        split: "10fold", "train" or "test".
        image_set: "original", "funneled" or "deepfunneled": how faces were aligned.
        transform: a function of what the loader gives, by default a PIL image.
        target_transform: a function of a number.
        download: bring the archive and the lists.
        loader: a function of a path that reads the image.
    """

    _view = "pairs"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pair_names: list[tuple[str, str]] = []
        self.targets: list[int] = []
        for row in (row for block in self._blocks() for row in block):
            first, second = row[0], row[0] if len(row) == 3 else row[2]
            self.pair_names.append((first, second))
            self.data.append((self._get_path(first, row[1]), self._get_path(second, row[-1])))
            self.targets.append(int(len(row) == 3))

    def __getitem__(self, index: int) -> tuple[Any, Any, Any]:
        first, second = (self.loader(path) for path in self.data[index])
        if self.transform is not None:
            first, second = self.transform(first), self.transform(second)
        target = self.targets[index]
        return (
            first,
            second,
            target if self.target_transform is None else (self.target_transform(target)),
        )
