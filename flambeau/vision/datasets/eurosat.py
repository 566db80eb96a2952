"""EuroSAT: 27,000 satellite pictures of ten kinds of land."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from flambeau.vision.datasets.folder import ImageFolder, default_loader
from flambeau.vision.datasets.utils import download_and_extract_archive


class EuroSAT(ImageFolder):
    """Satellite pictures in colour, 64 by 64 pixels.

    Args:
        root: the folder that holds or will hold `eurosat/2750`.
        transform: a function of what the loader gives, by default a PIL image.
        target_transform: a function of a class number.
        download: bring the archive and unpack it, if the folder is not there.
        loader: a function of a path that reads the image.
    """

    _URL = (
        "https://huggingface.co/datasets/torchgeo/eurosat/resolve/"
        "c877bcd43f099cd0196738f714544e355477f3fd/EuroSAT.zip"
    )
    _MD5 = "c8fa014336c82ac7804f0398fcb19387"

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        self.root = os.path.expanduser(os.fspath(root))
        self._base_folder = os.path.join(self.root, "eurosat")
        self._data_folder = os.path.join(self._base_folder, "2750")
        if download:
            self.download()
        if not self._check_exists():
            raise RuntimeError(
                "Dataset not found. You can use download=True to download it, or unpack "
                f"EuroSAT.zip into {self._base_folder}"
            )
        super().__init__(self._data_folder, transform, target_transform, loader)
        self.root = os.path.expanduser(os.fspath(root))

    def _check_exists(self) -> bool:
        return os.path.exists(self._data_folder)

    def download(self) -> None:
        """Bring the archive and unpack it, unless the folder is there."""
        if not self._check_exists():
            download_and_extract_archive(self._URL, self._base_folder, md5=self._MD5)
