"""Omniglot: 1,623 characters of 50 alphabets, each drawn by twenty people."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from flambeau.vision.datasets.fetched import Fetched, Origin
from flambeau.vision.datasets.utils import list_dir, list_files
from flambeau.vision.pillow import open_image

_ADDRESS = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python/"
_SUMS = {
    "images_background": "68d2efa1b9178cc56df9314c21c6e718",
    "images_evaluation": "6b91aef0f799c5bb55b94e3f2daec811",
}


class Omniglot(Fetched):
    """Characters, by their number among all characters of the part.

    Args:
        root: the folder that holds or will hold `omniglot-py`.
        background: thirty alphabets to learn from, otherwise twenty to test with.
        download: bring the archive and unpack it, if the folder is not there.
        loader: a function of a path that reads the image; gray by default.
    """

    folder = "omniglot-py"

    def __init__(
        self,
        root: str | os.PathLike[str],
        background: bool = True,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
        loader: Callable[[Any], Any] | None = None,
    ) -> None:
        self.background = background
        part = "images_background" if background else "images_evaluation"
        archive = (f"{_ADDRESS}{part}.zip", _SUMS[part])
        self._origin = Origin((archive,), "", (part,))
        home = os.path.join(os.path.expanduser(os.fspath(root)), self.folder)
        super().__init__(home, download, (None, transform, target_transform))
        self.target_folder = os.path.join(self.root, part)
        self._alphabets = list_dir(self.target_folder)
        self._characters = [
            os.path.join(alphabet, character)
            for alphabet in self._alphabets
            for character in list_dir(os.path.join(self.target_folder, alphabet))
        ]
        self._character_images = [
            [
                (image, number)
                for image in list_files(os.path.join(self.target_folder, name), ".png")
            ]
            for number, name in enumerate(self._characters)
        ]
        self._flat_character_images = [pair for images in self._character_images for pair in images]
        self.loader = loader

    def __len__(self) -> int:
        return len(self._flat_character_images)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        name, number = self._flat_character_images[index]
        path = os.path.join(self.target_folder, self._characters[number], name)
        image = self.loader(path) if self.loader is not None else open_image(path, "L")
        return self._transformed(image, number)
