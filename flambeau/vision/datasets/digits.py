"""`Digits`: 1,797 handwritten digits of 8 by 8 pixels that come with the package.

They are the test set of *Optical Recognition of Handwritten Digits* by E. Alpaydin and C. Kaynak
(1998), UCI Machine Learning Repository, https://doi.org/10.24432/C50P49, licensed under Creative
Commons Attribution 4.0 (https://creativecommons.org/licenses/by/4.0/). `digits.npz` holds the
numbers unchanged, as bytes: `images` (1797, 8, 8) with values from 0 to 16, and `labels`. They were
taken from the copy that scikit-learn distributes.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import flambeau as torch
from flambeau import Tensor
from flambeau.vision.datasets.tensor_images import TensorImages

TRAINING = 1437  # the first are for training, the last 360 for testing
_DARKEST = 16
_FILE = os.path.join(os.path.dirname(__file__), "digits.npz")


def read_digits() -> tuple[Tensor, Tensor]:
    """All 1,797 images, bytes from 0 to 16, and their labels, int64, in the order of the file."""
    import numpy

    with numpy.load(_FILE) as file:
        return torch.from_numpy(file["images"]), torch.from_numpy(file["labels"]).long()


class Digits(TensorImages):
    """Handwritten digits, small and at hand: items are like those of MNIST.

    Args:
        root: ignored; the data comes with the package.
        train: the first 1,437 digits, or the last 360.
        transform: a function of a PIL image.
        target_transform: a function of a label.
        download: ignored; there is nothing to download.
        size: the height and width of the images: 8 as they were taken, or larger, drawn with
            linear interpolation (28 gives what programs for MNIST expect).

    Attributes:
        data: a tensor of bytes, (count, size, size), from 0 to 255.
        targets: a tensor of labels, int64.

    Example:
        >>> Digits(train=False).data.shape
        torch.Size([360, 8, 8])
    """

    classes = [str(number) for number in range(10)]

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        train: bool = True,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
        size: int = 8,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        if not isinstance(size, int) or size < 1:
            raise ValueError(f"size should be a positive integer, but got {size}")
        self.train = train
        self.size = size
        images, labels = read_digits()
        part = slice(TRAINING) if train else slice(TRAINING, None)
        self.data = _drawn(images[part], size)
        self.targets = labels[part].clone()

    def extra_repr(self) -> str:
        return f"Split: {'Train' if self.train else 'Test'}"


def _drawn(images: Tensor, size: int) -> Tensor:
    """From 0..16 to 0..255, and to another size if one is wanted."""
    values = images.float() * (255 / _DARKEST)
    if size != images.shape[-1]:
        resized = torch.nn.functional.interpolate(
            values[:, None], size=(size, size), mode="bilinear", align_corners=False
        )
        values = resized[:, 0]
    return values.add(0.5).clamp(0, 255).to(torch.uint8)
