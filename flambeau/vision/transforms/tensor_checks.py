"""What operations on image tensors share: sizes, refusals, largest values, casts around kernels.

An image tensor is (..., C, H, W), or (H, W) where an operation does not look at channels. Floats
lie between 0 and 1, integers between 0 and the largest of their dtype.
"""

import flambeau
from flambeau import Tensor

# how many bits of an integer hold its value: all but the sign
VALUE_BITS = {
    getattr(flambeau, ("int" if signed else "uint") + str(bits)): bits - signed
    for bits, signed in ((8, 0), (8, 1), (16, 0), (16, 1), (32, 1), (64, 1))
}
_MAX_VALUES = {dtype: 2**bits - 1 for dtype, bits in VALUE_BITS.items()}
_ROUNDED = frozenset(
    (flambeau.uint8, flambeau.int8, flambeau.int16, flambeau.int32, flambeau.int64)
)


def max_value(dtype: flambeau.dtype) -> int:
    """What white is in this dtype."""
    return _MAX_VALUES.get(dtype, 1)


def check_image(img: Tensor) -> None:
    if img.ndim < 2:
        raise TypeError("Tensor is not a torch image.")


def check_channels(img: Tensor, permitted: list[int]) -> None:
    channels = get_dimensions(img)[0]
    if channels not in permitted:
        raise TypeError(
            f"Input image tensor permitted channel values are {permitted}, but found {channels}"
        )


def check_three_dimensions(img: Tensor) -> None:
    if img.ndim < 3:
        raise TypeError(
            f"Input image tensor should have at least 3 dimensions, but found {img.ndim}"
        )


def get_dimensions(img: Tensor) -> list[int]:
    """Channels, height and width."""
    check_image(img)
    shape = img.shape
    return [1 if len(shape) == 2 else shape[-3], shape[-2], shape[-1]]


def get_image_size(img: Tensor) -> list[int]:
    """Width and height."""
    check_image(img)
    return [img.shape[-1], img.shape[-2]]


def get_image_num_channels(img: Tensor) -> int:
    """How many channels an image has; one that is a plane has one."""
    return get_dimensions(img)[0]


def working_dtype(img: Tensor) -> flambeau.dtype:
    """The dtype to compute in: floats keep theirs."""
    return img.dtype if img.is_floating_point() else flambeau.float32


class AsBatch:
    """A batch of images in one of the given dtypes, and the way back to what was given."""

    __slots__ = ("images", "dtype", "is_single")

    def __init__(self, img: Tensor, *dtypes: flambeau.dtype) -> None:
        self.dtype = img.dtype
        self.is_single = img.ndim < 4
        if self.is_single:
            img = img.unsqueeze(0)
        self.images = img if self.dtype in dtypes else img.to(dtypes[0])

    def restore(self, images: Tensor) -> Tensor:
        """Images in the shape and dtype that were given; integers are rounded to the nearest."""
        if self.is_single:
            images = images.squeeze(0)
        if self.dtype is not self.images.dtype:
            if self.dtype in _ROUNDED:
                images = images.round()
            images = images.to(self.dtype)
        return images
