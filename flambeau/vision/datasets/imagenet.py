"""ImageNet 2012: folders of photographs, unpacked from archives that one gets by registering."""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
from typing import Any

import flambeau as torch
from flambeau.vision.datasets.folder import ImageFolder
from flambeau.vision.datasets.utils import check_integrity, extract_archive, verify_str_arg

Path = str | os.PathLike[str]

ARCHIVE_META = {
    "train": ("ILSVRC2012_img_train.tar", "1d675b47d978889d74fa0da5fadfb00e"),
    "val": ("ILSVRC2012_img_val.tar", "29b22e2961454d5413ddabcf34fc5622"),
    "devkit": ("ILSVRC2012_devkit_t12.tar.gz", "fa75699e90414af021442c21a62c3abf"),
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
        root = self.root = os.path.expanduser(os.fspath(root))
        self.split = verify_str_arg(split, "split", ("train", "val"))
        self.parse_archives()
        names = load_meta_file(self.root)[0]
        super().__init__(self.split_folder, **kwargs)
        self.root = root
        self.wnids, self.wnid_to_idx = self.classes, self.class_to_idx
        self.classes: list[Any] = [names[wnid] for wnid in self.wnids]
        self.class_to_idx = {
            name: index for index, several in enumerate(self.classes) for name in several
        }

    def parse_archives(self) -> None:
        """Unpack what has not been unpacked yet."""
        if not check_integrity(os.path.join(self.root, META_FILE)):
            parse_devkit_archive(self.root)
        if not os.path.isdir(self.split_folder):
            (parse_train_archive if self.split == "train" else parse_val_archive)(self.root)

    @property
    def split_folder(self) -> str:
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


def _verify_archive(root: Path, file: str, md5: str) -> None:
    if not check_integrity(os.path.join(root, file), md5):
        raise RuntimeError(
            f"The archive {file} is not present in the root directory or is corrupted. "
            f"You need to download it externally and place it in {root}."
        )


def parse_devkit_archive(root: Path, file: str | None = None) -> None:
    """Make meta.bin from the archive of the development kit."""
    name, md5 = ARCHIVE_META["devkit"]
    file = name if file is None else file
    _verify_archive(root, file, md5)
    try:
        loadmat = importlib.import_module("scipy.io").loadmat
    except ModuleNotFoundError as error:
        raise ImportError(
            "this archive is read with the package scipy: pip install scipy"
        ) from error
    with tempfile.TemporaryDirectory() as folder:
        extract_archive(os.path.join(root, file), folder)
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
    name, md5 = ARCHIVE_META["train"]
    file = name if file is None else file
    _verify_archive(root, file, md5)
    target = os.path.join(root, folder)
    extract_archive(os.path.join(root, file), target)
    for archive in sorted(os.listdir(target)):
        path = os.path.join(target, archive)
        extract_archive(path, os.path.splitext(path)[0], remove_finished=True)


def parse_val_archive(
    root: Path, file: str | None = None, wnids: list[str] | None = None, folder: str = "val"
) -> None:
    """Unpack the validation pictures and sort them into folders, one per class."""
    name, md5 = ARCHIVE_META["val"]
    file = name if file is None else file
    if wnids is None:
        wnids = load_meta_file(root)[1]
    _verify_archive(root, file, md5)
    target = os.path.join(root, folder)
    extract_archive(os.path.join(root, file), target)
    pictures = sorted(os.listdir(target))
    for wnid in set(wnids):
        os.mkdir(os.path.join(target, wnid))
    for wnid, picture in zip(wnids, pictures):
        shutil.move(os.path.join(target, picture), os.path.join(target, wnid, picture))
