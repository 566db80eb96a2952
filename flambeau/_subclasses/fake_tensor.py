"""FakeTensor: what a graph remembers of a value, with sizes that may be symbols."""

import contextlib
from collections.abc import Iterator
from typing import Any

import flambeau
from flambeau._C import _disabled_torch_function_impl
from flambeau._tensor import Tensor

__all__ = ["FakeTensor"]


class FakeTensor(Tensor):
    """A tensor without values that says it is elsewhere; its shape may hold symbols."""

    __torch_function__ = _disabled_torch_function_impl

    @staticmethod
    def of(tensor: Tensor, shape: Any = None, device: Any = None) -> "FakeTensor":
        """What remains of a tensor; shape if it has sizes that are not numbers."""
        empty = flambeau.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta"
        )
        fake = empty.as_subclass(FakeTensor)
        fake._fake_device = tensor.device if device is None else device
        fake._fake_shape = None if shape is None else flambeau.Size(shape)
        if tensor.requires_grad:
            fake.requires_grad_()
        return fake

    @property
    def fake_device(self) -> Any:
        """Where the tensor is."""
        return self._fake_device

    @property
    def device(self) -> Any:
        found = self.__dict__.get("_fake_device")
        return flambeau.device("meta") if found is None else found

    @property
    def shape(self) -> Any:
        return self.__dict__.get("_fake_shape") or self._layout.shape

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> Any:
        total: Any = 1
        for size in self.shape:
            total = total * size
        return total

    def stride(self, dim: int | None = None) -> Any:
        if self.__dict__.get("_fake_shape") is None:
            return self._layout.strides if dim is None else self._layout.strides[dim]
        strides = _strides(self.shape, self._layout)
        return strides if dim is None else strides[dim]

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        parts = [
            "...",
            f"size=({', '.join(map(str, self.shape))}" + (",)" if self.ndim == 1 else ")"),
        ]
        if str(self.device) != "cpu":
            parts.append(f"device='{self.device}'")
        if self.dtype is not flambeau.get_default_dtype():
            parts.append(f"dtype={self.dtype}")
        if self.requires_grad:
            parts.append("requires_grad=True")
        return f"FakeTensor({', '.join(parts)})"


@contextlib.contextmanager
def unset_fake_temporarily() -> Iterator[None]:
    """Real tensors inside: graphs are recorded without a mode that would have to step aside."""
    yield None


def is_fake(x: object) -> bool:
    """Is it a tensor without values?"""
    return isinstance(x, FakeTensor)


def _strides(shape: Any, layout: Any) -> tuple:
    """Strides of a shape with symbols, in the order of the strides of the example."""
    order = sorted(range(len(shape)), key=lambda k: (layout.strides[k], -k))
    found: list[Any] = [0] * len(shape)
    step: Any = 1
    for k in order:
        if layout.strides[k] == 0:
            continue
        found[k] = step
        step = step * shape[k]
    return tuple(found)
