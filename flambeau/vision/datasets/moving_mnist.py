"""MovingMNIST: 10,000 films of 20 frames, in which two digits move about."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy

import flambeau as torch
from flambeau.vision.datasets.fetched import NOT_FOUND, ensure
from flambeau.vision.datasets.utils import download_url, verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset


class MovingMNIST(VisionDataset):
    """Films of 64 by 64 pixels: tensors of bytes (frames, 1, 64, 64).

    Args:
        root: the folder that holds or will hold `MovingMNIST/mnist_test_seq.npy`.
        split: None for all frames, "train" for those before split_ratio, "test" for the others.
        split_ratio: how many frames "train" has.
        download: bring the file if it is not there.
        transform: a function of a film.

    Attributes:
        data: all films, (films, frames, 1, 64, 64).
    """

    _URL = "http://www.cs.toronto.edu/~nitish/unsupervised_video/mnist_test_seq.npy"

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str | None = None,
        split_ratio: int = 10,
        download: bool = False,
        transform: Callable | None = None,
    ) -> None:
        super().__init__(root, transform=transform)
        self.split = split if split is None else verify_str_arg(split, "split", ("train", "test"))
        self._base_folder, self._filename = (
            os.path.join(self.root, "MovingMNIST"), self._URL.rpartition("/")[2],
        )  # fmt: skip
        if not isinstance(split_ratio, int):
            raise TypeError(f"`split_ratio` should be an integer, but got {type(split_ratio)}")
        if not 1 <= split_ratio <= 19:
            raise ValueError(f"`split_ratio` should be `1 <= split_ratio <= 19`, but got "
                             f"{split_ratio} instead.")  # fmt: skip
        self.split_ratio = split_ratio
        fetch = self.download if download else None
        ensure(fetch, self._check_exists, f"put it into {self._base_folder}", NOT_FOUND)
        frames = numpy.load(os.path.join(self._base_folder, self._filename))
        parts = {None: frames, "train": frames[:split_ratio], "test": frames[split_ratio:]}
        self.data = torch.from_numpy(parts[split]).transpose(0, 1).unsqueeze(2).contiguous()

    def __getitem__(self, idx: int) -> Any:
        film = self.data[idx]
        return film if self.transform is None else self.transform(film)

    def __len__(self) -> int:
        return len(self.data)

    def _check_exists(self) -> bool:
        return os.path.exists(os.path.join(self._base_folder, self._filename))

    def download(self) -> None:
        """Bring the file, unless it is there."""
        if not self._check_exists():
            download_url(self._URL, self._base_folder, self._filename)
