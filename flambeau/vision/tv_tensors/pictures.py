"""Image, Video and Mask: tensors of pixels."""

from typing import Any, Self

from flambeau.vision.transforms.conversion import is_pil_image, pil_to_tensor
from flambeau.vision.tv_tensors.base import TVTensor


def _pixels(data: Any) -> Any:
    return pil_to_tensor(data) if is_pil_image(data) else data


class Image(TVTensor):
    """An image, (..., C, H, W), from a tensor, a PIL image or what `torch.as_tensor` takes."""

    _says = ()

    def __new__(
        cls,
        data: Any,
        *,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool | None = None,
    ) -> Self:
        pixels = cls._to_tensor(_pixels(data), dtype, device, requires_grad)
        if pixels.ndim < 2:
            raise ValueError(f"Tensor must be 2D or higher, got {pixels.ndim}D tensor.")
        return (pixels[None] if pixels.ndim == 2 else pixels).as_subclass(cls)


class Video(TVTensor):
    """A video, (..., T, C, H, W)."""

    _says = ()

    def __new__(
        cls,
        data: Any,
        *,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool | None = None,
    ) -> Self:
        tensor = cls._to_tensor(data, dtype, device, requires_grad)
        if tensor.ndim < 4:
            raise ValueError(f"a video is (..., T, C, H, W), but got {tensor.ndim} dimensions")
        return tensor.as_subclass(cls)


class Mask(TVTensor):
    """A mask of segmentation or detection, (..., H, W)."""

    def __new__(
        cls,
        data: Any,
        *,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool | None = None,
    ) -> Self:
        return cls._to_tensor(_pixels(data), dtype, device, requires_grad).as_subclass(cls)
