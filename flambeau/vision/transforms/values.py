"""Transforms of values: to and from tensors, dtypes, normalisation, whitening."""

import math
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.vision.transforms import functional as F
from flambeau.vision.transforms.arguments import Listed, ListedModule


class ToTensor(Listed):
    """A PIL image or an (H, W, C) array as a (C, H, W) tensor.

    Images of 8 bits (and arrays of uint8) become floats from 0 to 1; others keep their values.
    """

    def __call__(self, pic: Any) -> Tensor:
        return F.to_tensor(pic)


class PILToTensor(Listed):
    """A PIL image as a (C, H, W) tensor of the same values."""

    def __call__(self, pic: Any) -> Tensor:
        return F.pil_to_tensor(pic)


class ConvertImageDtype(ListedModule):
    """The same picture in another dtype, scaled to its range."""

    def __init__(self, dtype: flambeau.dtype) -> None:
        super().__init__(dtype=dtype)

    def forward(self, image):
        return F.convert_image_dtype(image, self.dtype)


class ToPILImage(Listed):
    """A (C, H, W) tensor or an (H, W, C) array as a PIL image, in a mode that suits it."""

    def __init__(self, mode=None):
        self.mode = mode

    def __call__(self, pic: Any) -> Any:
        return F.to_pil_image(pic, self.mode)

    def _facts(self) -> dict[str, Any]:
        return {} if self.mode is None else {"mode": self.mode}


class Normalize(ListedModule):
    """Subtract a mean from each channel, and divide by a standard deviation."""

    _listed = ("mean", "std")

    def __init__(self, mean, std, inplace=False):
        super().__init__(mean=mean, std=std, inplace=inplace)

    def forward(self, tensor: Tensor) -> Tensor:
        return F.normalize(tensor, self.mean, self.std, self.inplace)


def check_whitening(matrix: Tensor, mean: Tensor) -> None:
    """Refuse a matrix that is not square, and a mean that does not fit to it."""
    rows, columns = size = tuple(matrix.size())
    count = mean.size(0)
    if rows != columns:
        raise ValueError(f"transformation_matrix should be square. Got {size} rectangular matrix.")
    if count != rows:
        raise ValueError(
            f"mean_vector should have the same length {count} as any one of the "
            f"dimensions of the transformation_matrix [{size}]"
        )
    for name, verb in (("device", "be on"), ("dtype", "have")):
        first, second = getattr(matrix, name), getattr(mean, name)
        if first != second:
            raise ValueError(
                f"Input tensors should {verb} the same {name}. Got {first} and {second}"
            )


def whitened(tensor: Tensor, matrix: Tensor, mean: Tensor) -> Tensor:
    """Images, less their mean, times a matrix."""
    shape = tensor.shape
    size = [shape[axis] for axis in (-3, -2, -1)]
    if math.prod(size) != len(matrix):
        raise ValueError(
            "Input tensor and transformation matrix have incompatible shape."
            f"[{' x '.join(map(str, size))}] != {len(matrix)}"
        )
    if tensor.device.type != mean.device.type:
        raise ValueError(
            "Input tensor should be on the same device as transformation matrix and mean "
            f"vector. Got {tensor.device} vs {mean.device}"
        )
    centered = tensor.view(-1, len(matrix)) - mean
    return (centered @ matrix.to(centered.dtype)).view(shape)


class LinearTransformation(ListedModule):
    """Subtract a mean image and multiply by a matrix, as whitening does.

    transformation_matrix: (D, D) with D = C * H * W; mean_vector: (D,).
    """

    def __init__(self, transformation_matrix, mean_vector):
        check_whitening(transformation_matrix, mean_vector)
        super().__init__(transformation_matrix=transformation_matrix, mean_vector=mean_vector)

    def forward(self, tensor: Tensor) -> Tensor:
        return whitened(tensor, self.transformation_matrix, self.mean_vector)

    def _facts(self) -> dict[str, Any]:
        names = "transformation_matrix", "mean_vector"
        return {name: getattr(self, name).tolist() for name in names}
