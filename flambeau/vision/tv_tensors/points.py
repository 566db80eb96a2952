"""KeyPoints: places in an image."""

from typing import Any, Self

from flambeau import Tensor
from flambeau.vision.tv_tensors.base import TVTensor


class KeyPoints(TVTensor):
    """Points as (x, y), (..., 2), on a canvas of (height, width)."""

    canvas_size: tuple[int, int]

    @classmethod
    def _wrap(
        cls, tensor: Tensor, *, canvas_size: tuple[int, int], check_dims: bool = True
    ) -> Self:
        if check_dims:
            if tensor.ndim == 1:
                tensor = tensor.unsqueeze(0)
            elif tensor.shape[-1] != 2:
                raise ValueError(f"Expected a tensor of shape (..., 2), not {tensor.shape}")
        out = tensor.as_subclass(cls)
        out.canvas_size = canvas_size
        return out

    @classmethod
    def wrap(cls, tensor: Any, like: Any, **kwargs: Any) -> Self:
        """A tensor as points on a canvas like others."""
        return cls._wrap(tensor, **{"canvas_size": like.canvas_size, **kwargs})

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

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return self._make_repr(canvas_size=self.canvas_size)
