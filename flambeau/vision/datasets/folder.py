"""Folders of files, one folder per class: `DatasetFolder`, and `ImageFolder` for pictures."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

from flambeau import vision
from flambeau.vision.datasets.vision import VisionDataset
from flambeau.vision.pillow import pillow

Path = str | os.PathLike[str]
Extensions = str | tuple[str, ...]

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def has_file_allowed_extension(filename: str, extensions: Extensions) -> bool:
    """Does a name end in one of these, in capitals or not?"""
    endings = extensions if isinstance(extensions, str) else tuple(extensions)
    return filename.lower().endswith(endings)


def is_image_file(filename: str) -> bool:
    """Does a name end like that of an image file?"""
    return has_file_allowed_extension(filename, IMG_EXTENSIONS)


def find_classes(directory: Path) -> tuple[list[str], dict[str, int]]:
    """The names of the folders in a folder, sorted, and their numbers."""
    with os.scandir(directory) as entries:
        classes = sorted(entry.name for entry in entries if entry.is_dir())
    if not classes:
        raise FileNotFoundError(f"Couldn't find any class folder in {directory}.")
    return classes, {name: index for index, name in enumerate(classes)}


def make_dataset(
    directory: Path,
    class_to_idx: dict[str, int] | None = None,
    extensions: Extensions | None = None,
    is_valid_file: Callable[[str], bool] | None = None,
    allow_empty: bool = False,
) -> list[tuple[str, int]]:
    """The files below class folders, as (path, class), in the order of their names.

    Args:
        directory: the folder of the class folders.
        class_to_idx: which folders to look into, and their numbers; `find_classes` says if None.
        extensions: endings of the files to take; or else
        is_valid_file: a function of a path that says whether to take it.
        allow_empty: classes without a file are no error.
    """
    directory = os.path.expanduser(os.fspath(directory))
    if class_to_idx is None:
        _, class_to_idx = find_classes(directory)
    elif not class_to_idx:
        raise ValueError("'class_to_index' must have at least one entry to collect any samples.")
    if (extensions is None) == (is_valid_file is None):
        raise ValueError(
            "Both extensions and is_valid_file cannot be None or not None at the same time"
        )
    wanted = is_valid_file or _ends_in(extensions)

    samples: list[tuple[str, int]] = []
    empty = []
    for name in sorted(class_to_idx):
        before = len(samples)
        folder = os.path.join(directory, name)
        if os.path.isdir(folder):
            number = class_to_idx[name]
            samples += [(path, number) for path in _files_below(folder) if wanted(path)]
        if len(samples) == before:
            empty.append(name)
    if empty and not allow_empty:
        message = f"Found no valid file for the classes {', '.join(sorted(empty))}. "
        if extensions is not None:
            known = extensions if isinstance(extensions, str) else ", ".join(extensions)
            message += f"Supported extensions are: {known}"
        raise FileNotFoundError(message)
    return samples


def _ends_in(extensions: Any) -> Callable[[str], bool]:
    endings = extensions if isinstance(extensions, str) else tuple(extensions)
    return lambda path: path.lower().endswith(endings)


def _files_below(folder: str) -> list[str]:
    """All files below a folder, links followed, sorted by folder and then by name."""
    return [
        os.path.join(root, name)
        for root, _, names in sorted(os.walk(folder, followlinks=True))
        for name in sorted(names)
    ]


class DatasetFolder(VisionDataset):
    """Files in folders that are named after their classes.

    Args:
        root: the folder of the class folders.
        loader: a function of a path that reads the sample.
        extensions: endings of the files to take; or else `is_valid_file`.
        transform: a function of a sample.
        target_transform: a function of a class number.
        is_valid_file: a function of a path that says whether to take it.
        allow_empty: folders without a file are classes too.

    Attributes:
        classes: the names, sorted.
        class_to_idx: their numbers.
        samples: pairs of path and class number.
        targets: the class numbers.
    """

    def __init__(
        self,
        root: Path,
        loader: Callable[[str], Any],
        extensions: tuple[str, ...] | None = None,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        super().__init__(root, None, transform, target_transform)
        self.loader, self.extensions = loader, extensions
        self.classes, self.class_to_idx = self.find_classes(self.root)
        wanted = extensions, is_valid_file, allow_empty
        self.samples = self.make_dataset(self.root, self.class_to_idx, *wanted)
        self.targets = [number for _, number in self.samples]

    @staticmethod
    def make_dataset(
        directory: Path,
        class_to_idx: dict[str, int],
        extensions: tuple[str, ...] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> list[tuple[str, int]]:
        """The pairs of path and class number; to be overridden for other arrangements."""
        if class_to_idx is None:
            # the function would look for classes itself, past a find_classes that was overridden
            raise ValueError("The class_to_idx parameter cannot be None.")
        return make_dataset(directory, class_to_idx, extensions, is_valid_file, allow_empty)

    def find_classes(self, directory: Path) -> tuple[list[str], dict[str, int]]:
        """The names of the classes and their numbers; to be overridden for other arrangements."""
        return find_classes(directory)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, number = self.samples[index]
        return self._transformed(self.loader(path), number)

    def __len__(self) -> int:
        return len(self.samples)


def pil_loader(path: Path) -> Any:
    """An RGB image of Pillow."""
    with open(path, "rb") as file:  # opened here, so that it is closed here
        return pillow().open(file).convert("RGB")


def accimage_loader(path: Path) -> Any:
    """An image of the package accimage, or of Pillow where that cannot read it."""
    accimage = importlib.import_module("accimage")
    try:
        return accimage.Image(path)
    except OSError:
        return pil_loader(path)


def default_loader(path: Path) -> Any:
    """An image, read with the package that `set_image_backend` chose."""
    if vision.get_image_backend() == "accimage":
        return accimage_loader(path)
    return pil_loader(path)


class ImageFolder(DatasetFolder):
    """Image files in folders that are named after their classes: root/dog/1.png, root/cat/2.jpg.

    Args:
        root: the folder of the class folders.
        transform: a function of what the loader gives, by default a PIL image.
        target_transform: a function of a class number.
        loader: a function of a path that reads the image.
        is_valid_file: a function of a path that says whether to take it; by default the endings
            of image files are known.
        allow_empty: folders without an image are classes too.
    """

    def __init__(
        self,
        root: Path,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        loader: Callable[[str], Any] = default_loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        endings = None if is_valid_file is not None else IMG_EXTENSIONS
        functions = transform, target_transform, is_valid_file
        super().__init__(root, loader, endings, *functions, allow_empty)
        self.imgs = self.samples
