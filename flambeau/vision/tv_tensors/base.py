"""TVTensor: what images, masks, boxes and points share."""

import contextlib
from collections.abc import Iterator
from typing import Any, Self

import flambeau
from flambeau import Tensor
from flambeau.eager.overriding import disabled


class TVTensor(Tensor):
    """A tensor that says what it is. Operations give plain tensors; copies stay what they are."""

    __torch_function__ = disabled  # what is kept is said by the methods below

    @staticmethod
    def _to_tensor(
        data: Any, dtype: Any = None, device: Any = None, requires_grad: bool | None = None
    ) -> Tensor:
        if requires_grad is None:
            requires_grad = data.requires_grad if isinstance(data, Tensor) else False
        out = flambeau.as_tensor(data, dtype=dtype, device=device)
        if isinstance(out, TVTensor):
            out = out.as_subclass(Tensor)
        return out.requires_grad_(requires_grad)

    @classmethod
    def wrap(cls, tensor: Any, like: Any, **kwargs: Any) -> Self:
        """A tensor as this kind, saying what another one says."""
        return tensor.as_subclass(cls)

    def clone(self, *args: Any, **kwargs: Any) -> Self:
        return type(self).wrap(super().clone(*args, **kwargs), self)  # type: ignore[misc]

    def to(self, *args: Any, **kwargs: Any) -> Self:
        return type(self).wrap(super().to(*args, **kwargs), self)  # type: ignore[misc]

    def detach(self) -> Self:
        return type(self).wrap(super().detach(), self)  # type: ignore[misc]

    def __deepcopy__(self, memo: dict) -> Self:
        return self.detach().clone().requires_grad_(self.requires_grad)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass  # all is done when the tensor is made

    def _make_repr(self, **facts: Any) -> str:
        listed = ", ".join(f"{name}={value}" for name, value in facts.items())
        return f"{Tensor.__repr__(self)[:-1]}, {listed})"


@contextlib.contextmanager
def _nothing_to_undo() -> Iterator[None]:
    yield


def set_return_type(return_type: str) -> Any:
    """What operations on these tensors give: "Tensor", the only choice here."""
    if return_type.lower() not in ("tensor", "tvtensor"):
        raise ValueError(f"return_type must be 'TVTensor' or 'Tensor', got {return_type.lower()}")
    if return_type.lower() == "tvtensor":
        raise NotImplementedError(
            "operations on tv_tensors give plain tensors here. Wrap results with "
            "tv_tensors.wrap(result, like=tensor) where the kind is needed."
        )
    return _nothing_to_undo()
