"""EuroSAT: 27,000 satellite pictures of ten kinds of land."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from flambeau.vision.datasets.fetched import Fetched, Origin
from flambeau.vision.datasets.folder import ImageFolder, default_loader

_ADDRESS = (
    "https://huggingface.co/datasets/torchgeo/eurosat/resolve/"
    "c877bcd43f099cd0196738f714544e355477f3fd/EuroSAT.zip"
)


class EuroSAT(Fetched, ImageFolder):
    """Satellite pictures in colour, 64 by 64 pixels.

    Args:
        root: the folder that holds or will hold `eurosat/2750`.
        transform: a function of what the loader gives, by default a PIL image.
        target_transform: a function of a class number.
        download: bring the archive and unpack it, if the folder is not there.
        loader: a function of a path that reads the image.
    """

    _origin = Origin(
        ((_ADDRESS, "c8fa014336c82ac7804f0398fcb19387"),), "eurosat", ("eurosat/2750",)
    )

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        self.root = os.path.expanduser(os.fspath(root))
        self._settle(download)
        folder = os.path.join(self.root, "eurosat", "2750")
        ImageFolder.__init__(self, folder, transform, target_transform, loader)
        self.root = os.path.expanduser(os.fspath(root))
