"""SVHN: house numbers cut out of street views, kept in files of MATLAB (read with scipy)."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

from flambeau.vision.datasets.fetched import ensure
from flambeau.vision.datasets.utils import check_integrity, download_url, verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset
from flambeau.vision.pillow import image_of

_ADDRESS = "http://ufldl.stanford.edu/housenumbers/"


class SVHN(VisionDataset):
    """Digits of house numbers, 32 by 32 pixels in colour.

    Args:
        root: the folder that holds or will hold the .mat file.
        split: "train" (73,257), "test" (26,032) or "extra" (531,131).
        transform: a function of a PIL image.
        target_transform: a function of a label.
        download: bring the file if it is not there.

    Attributes:
        data: a NumPy array of bytes, (count, 3, 32, 32).
        labels: a NumPy array; the digit 0, which the files call 10, is 0.
    """

    split_list = {
        split: [f"{_ADDRESS}{split}_32x32.mat", f"{split}_32x32.mat", md5]
        for split, md5 in (
            ("train", "e26dedcc434d2e4c54c9b2d4a06d8373"),
            ("test", "eb5a983be6a315427106f1b164d9cef3"),
            ("extra", "a93ce644f1a588dc4d68dda5feec44a7"),
        )
    }

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str = "train",
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
    ) -> None:
        self.split = verify_str_arg(split, "split", tuple(self.split_list))
        self.url, self.filename, self.file_md5 = self.split_list[split]
        super().__init__(root, None, transform, target_transform)
        fetch = self.download if download else None
        ensure(fetch, self._check_integrity, f"put {self.filename} into {self.root}")
        self.data, self.labels = _read_mat(os.path.join(self.root, self.filename))

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image, target = image_of(self.data[index].transpose(1, 2, 0)), int(self.labels[index])
        return self._transformed(image, target)

    def __len__(self) -> int:
        return len(self.data)

    def _check_integrity(self) -> bool:
        return check_integrity(os.path.join(self.root, self.filename), self.file_md5)

    def download(self) -> None:
        """Bring the file of this split, unless it is there."""
        download_url(self.url, self.root, self.filename, self.file_md5)

    def extra_repr(self) -> str:
        return f"Split: {self.split}"


def _read_mat(path: str) -> tuple[Any, Any]:
    """Pictures and labels of a file whose X is (32, 32, 3, count) and whose y is (count, 1)."""
    try:
        loadmat = importlib.import_module("scipy.io").loadmat
    except ModuleNotFoundError as error:
        raise ImportError("SVHN is read with the package scipy: pip install scipy") from error
    import numpy

    try:
        content = loadmat(path)
        pixels, labels = content["X"], content["y"]
    except Exception as error:  # scipy raises whatever a broken header leads it to
        raise RuntimeError(f"{path} is no such file of MATLAB ({error})") from error
    if pixels.dtype != numpy.uint8 or pixels.ndim != 4 or pixels.shape[2] != 3:
        raise RuntimeError(f"{path} holds {pixels.dtype} of shape {pixels.shape}: not pictures")
    if labels.size != pixels.shape[3]:
        raise RuntimeError(f"{path} holds {pixels.shape[3]} pictures and {labels.size} labels")
    labels = labels.astype(numpy.int64).reshape(-1)
    labels[labels == 10] = 0
    return numpy.transpose(pixels, (3, 2, 0, 1)), labels
