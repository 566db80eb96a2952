"""KeyPoints: places in an image."""

from typing import Any, Self

from flambeau import Tensor
from flambeau.vision.tv_tensors.base import TVTensor


class KeyPoints(TVTensor):
    """Points as (x, y), (..., 2), on a canvas of (height, width)."""

    canvas_size: tuple[int, int]
    _says = ("canvas_size",)

    @classmethod
    def _wrap(
        cls, tensor: Tensor, *, canvas_size: tuple[int, int], check_dims: bool = True
    ) -> Self:
        if check_dims:
            is_one = tensor.ndim == 1
            if not is_one and tensor.shape[-1] != 2:
                raise ValueError(f"Expected a tensor of shape (..., 2), not {tensor.shape}")
            tensor = tensor.unsqueeze(0) if is_one else tensor
        return tensor.as_subclass(cls)._saying(canvas_size=canvas_size)

    def __new__(
        cls,
        data: Any,
        *,
        canvas_size: tuple[int, int],
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool | None = None,
    ) -> Self:
        tensor = cls._to_tensor(data, dtype, device, requires_grad)
        return cls._wrap(tensor, canvas_size=canvas_size)
