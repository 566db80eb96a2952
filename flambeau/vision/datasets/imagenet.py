"""ImageNet 2012: folders of photographs, unpacked from archives that one gets by registering."""

from __future__ import annotations

import importlib
import os
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.vision.datasets.fetched import each_numbered
from flambeau.vision.datasets.folder import ImageFolder
from flambeau.vision.datasets.utils import check_integrity, extract_archive, verify_str_arg

Path = str | os.PathLike[str]

# name and MD5 sum
ARCHIVE_META = {
    kind: (f"ILSVRC2012_{rest}", md5)
    for kind, rest, md5 in (
        ("train", "img_train.tar", "1d675b47d978889d74fa0da5fadfb00e"),
        ("val", "img_val.tar", "29b22e2961454d5413ddabcf34fc5622"),
        ("devkit", "devkit_t12.tar.gz", "fa75699e90414af021442c21a62c3abf"),
    )
}
META_FILE = "meta.bin"


class ImageNet(ImageFolder):
    """1.3 million photographs of a thousand kinds of things.

    Args:
        root: the folder that holds the archives, or `meta.bin` and the folders `train` and `val`
            that are made of them. (Reading the development kit for `meta.bin` needs scipy.)
        split: "train" or "val".
        **kwargs: what `ImageFolder` takes: transform, target_transform, loader, ...

    Attributes:
        classes: a tuple of names for each class.
        class_to_idx: the class number of each name.
        wnids: the numbers of the classes in WordNet, which are the names of their folders.
        wnid_to_idx: the class number of each.
    """

    def __init__(self, root: Path, split: str = "train", **kwargs: Any) -> None:
        home = os.path.expanduser(os.fspath(root))
        self.root, self.split = home, verify_str_arg(split, "split", ("train", "val"))
        self.parse_archives()
        names, _ = load_meta_file(home)
        super().__init__(self.split_folder, **kwargs)
        self.root = home
        self.wnid_to_idx, self.wnids = self.class_to_idx, self.classes
        self.classes: list[Any] = [names[wnid] for wnid in self.wnids]
        self.class_to_idx = each_numbered(self.classes)

    def parse_archives(self) -> None:
        """Unpack what has not been unpacked yet."""
        made = {"devkit": os.path.join(self.root, META_FILE), self.split: self.split_folder}
        for kind, path in made.items():
            if not os.path.exists(path):
                _PARSERS[kind](self.root)

    @property
    def split_folder(self) -> str:
        """The folder of the folders of this split."""
        return os.path.join(self.root, self.split)

    def extra_repr(self) -> str:
        return f"Split: {self.split}"


def load_meta_file(root: Path, file: str | None = None) -> tuple[dict[str, Any], list[str]]:
    """Names of the classes by WordNet number, and the number of each validation picture."""
    path = os.path.join(root, META_FILE if file is None else file)
    if not check_integrity(path):
        raise RuntimeError(
            f"The meta file {path} is not present in the root directory or is corrupted. "
            "This file is automatically created by the ImageNet dataset."
        )
    return torch.load(path, weights_only=True)


def _archive(root: Path, kind: str, file: str | None) -> str:
    """The path of an archive that is there, and whole."""
    name, md5 = ARCHIVE_META[kind]
    path = os.path.join(root, name if file is None else file)
    if not check_integrity(path, md5):
        raise RuntimeError(
            f"The archive {os.path.basename(path)} is not present in the root directory or is "
            f"corrupted. You need to download it externally and place it in {root}."
        )
    return path


def parse_devkit_archive(root: Path, file: str | None = None) -> None:
    """Make meta.bin from the archive of the development kit."""
    archive = _archive(root, "devkit", file)
    try:
        loadmat = importlib.import_module("scipy.io").loadmat
    except ModuleNotFoundError as error:
        raise ImportError(
            "this archive is read with the package scipy: pip install scipy"
        ) from error
    with tempfile.TemporaryDirectory() as folder:
        extract_archive(archive, folder)
        data = os.path.join(folder, "ILSVRC2012_devkit_t12", "data")
        table = loadmat(os.path.join(data, "meta.mat"), squeeze_me=True)["synsets"]
        leaves = [row for row in table if row[4] == 0]  # those without children are classes
        names = {row[1]: tuple(row[2].split(", ")) for row in leaves}
        wnid_of = {int(row[0]): row[1] for row in leaves}
        with open(os.path.join(data, "ILSVRC2012_validation_ground_truth.txt")) as truth:
            wnids = [wnid_of[int(line)] for line in truth]
    torch.save((names, wnids), os.path.join(root, META_FILE))


def parse_train_archive(root: Path, file: str | None = None, folder: str = "train") -> None:
    """Unpack the training pictures: an archive of one archive per class."""
    target = pathlib.Path(root, folder)
    extract_archive(_archive(root, "train", file), str(target))
    for inner in sorted(target.iterdir()):
        extract_archive(str(inner), str(inner.with_suffix("")), remove_finished=True)


def parse_val_archive(
    root: Path, file: str | None = None, wnids: list[str] | None = None, folder: str = "val"
) -> None:
    """Unpack the validation pictures and sort them into folders, one per class."""
    classes = load_meta_file(root)[1] if wnids is None else wnids
    target = pathlib.Path(root, folder)
    extract_archive(_archive(root, "val", file), str(target))
    pictures = sorted(target.iterdir())
    homes = {wnid: target / wnid for wnid in classes}
    for home in homes.values():
        home.mkdir()
    for picture, wnid in zip(pictures, classes):
        picture.rename(homes[wnid] / picture.name)


_PARSERS: dict[str, Callable[..., None]] = {
    "devkit": parse_devkit_archive,
    "train": parse_train_archive,
    "val": parse_val_archive,
}
