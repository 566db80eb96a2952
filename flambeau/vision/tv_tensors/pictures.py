"""Image, Video and Mask: tensors of pixels."""

from typing import Any, Self

from flambeau.vision.transforms.conversion import is_pil_image, pil_to_tensor
from flambeau.vision.tv_tensors.base import TVTensor


class Image(TVTensor):
    """An image, (..., C, H, W), from a tensor, a PIL image or what `torch.as_tensor` takes."""

    def __new__(
        cls,
        data: Any,
        *,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool | None = None,
    ) -> Self:
        if is_pil_image(data):
            data = pil_to_tensor(data)
        tensor = cls._to_tensor(data, dtype, device, requires_grad)
        if tensor.ndim < 2:
            raise ValueError(f"Tensor must be 2D or higher, got {tensor.ndim}D tensor.")
        if tensor.ndim == 2:
            tensor = tensor.unsqueeze(0)
        return tensor.as_subclass(cls)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return self._make_repr()


class Video(TVTensor):
    """A video, (..., T, C, H, W)."""

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

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return self._make_repr()


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
        if is_pil_image(data):
            data = pil_to_tensor(data)
        return cls._to_tensor(data, dtype, device, requires_grad).as_subclass(cls)
