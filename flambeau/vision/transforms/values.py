"""Transforms of values: to and from tensors, dtypes, normalisation, whitening."""

from typing import Any

import flambeau
from flambeau import Tensor, nn
from flambeau.vision.transforms import functional as F


class ToTensor:
    """A PIL image or an (H, W, C) array as a (C, H, W) tensor.

    Images of 8 bits (and arrays of uint8) become floats from 0 to 1; others keep their values.
    """

    def __call__(self, pic: Any) -> Tensor:
        return F.to_tensor(pic)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class PILToTensor:
    """A PIL image as a (C, H, W) tensor of the same values."""

    def __call__(self, pic: Any) -> Tensor:
        return F.pil_to_tensor(pic)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class ConvertImageDtype(nn.Module):
    """The same picture in another dtype, scaled to its range."""

    def __init__(self, dtype: flambeau.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, image):
        return F.convert_image_dtype(image, self.dtype)


class ToPILImage:
    """A (C, H, W) tensor or an (H, W, C) array as a PIL image, in a mode that suits it."""

    def __init__(self, mode=None):
        self.mode = mode

    def __call__(self, pic: Any) -> Any:
        return F.to_pil_image(pic, self.mode)

    def __repr__(self) -> str:
        mode = "" if self.mode is None else f"mode={self.mode}"
        return f"{type(self).__name__}({mode})"


class Normalize(nn.Module):
    """Subtract a mean from each channel, and divide by a standard deviation."""

    def __init__(self, mean, std, inplace=False):
        super().__init__()
        self.mean = mean
        self.std = std
        self.inplace = inplace

    def forward(self, tensor: Tensor) -> Tensor:
        return F.normalize(tensor, self.mean, self.std, self.inplace)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(mean={self.mean}, std={self.std})"


class LinearTransformation(nn.Module):
    """Subtract a mean image and multiply by a matrix, as whitening does.

    transformation_matrix: (D, D) with D = C * H * W; mean_vector: (D,).
    """

    def __init__(self, transformation_matrix, mean_vector):
        super().__init__()
        size = tuple(transformation_matrix.size())
        if size[0] != size[1]:
            raise ValueError(
                f"transformation_matrix should be square. Got {size} rectangular matrix."
            )
        if mean_vector.size(0) != size[0]:
            raise ValueError(
                f"mean_vector should have the same length {mean_vector.size(0)} as any one of the "
                f"dimensions of the transformation_matrix [{size}]"
            )
        if transformation_matrix.device != mean_vector.device:
            raise ValueError(
                "Input tensors should be on the same device. "
                f"Got {transformation_matrix.device} and {mean_vector.device}"
            )
        if transformation_matrix.dtype != mean_vector.dtype:
            raise ValueError(
                "Input tensors should have the same dtype. "
                f"Got {transformation_matrix.dtype} and {mean_vector.dtype}"
            )
        self.transformation_matrix = transformation_matrix
        self.mean_vector = mean_vector

    def forward(self, tensor: Tensor) -> Tensor:
        shape = tensor.shape
        count = shape[-3] * shape[-2] * shape[-1]
        if count != self.transformation_matrix.shape[0]:
            raise ValueError(
                "Input tensor and transformation matrix have incompatible shape."
                f"[{shape[-3]} x {shape[-2]} x {shape[-1]}] != "
                f"{self.transformation_matrix.shape[0]}"
            )
        if tensor.device.type != self.mean_vector.device.type:
            raise ValueError(
                "Input tensor should be on the same device as transformation matrix and mean "
                f"vector. Got {tensor.device} vs {self.mean_vector.device}"
            )
        flat = tensor.view(-1, count) - self.mean_vector
        return flambeau.mm(flat, self.transformation_matrix.to(flat.dtype)).view(shape)

    def __repr__(self) -> str:
        matrix, mean = self.transformation_matrix.tolist(), self.mean_vector.tolist()
        return f"{type(self).__name__}(transformation_matrix={matrix}, mean_vector={mean})"
