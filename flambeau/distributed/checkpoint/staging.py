"""Copies of a state that can be written while training goes on."""

from typing import Any, Protocol, runtime_checkable

import flambeau
from flambeau import Tensor
from flambeau.utils import _pytree as pytree

__all__ = ["AsyncStager", "BlockingAsyncStager"]


@runtime_checkable
class AsyncStager(Protocol):
    """Makes the copy."""

    def stage(self, state_dict: dict[str, Any]) -> Any:
        """A state dict that nobody changes any more."""
        ...

    def close(self) -> None:
        """It is needed no more."""
        ...


class BlockingAsyncStager(AsyncStager):
    """Copies everything before it returns.

    Args:
        cache_staged_state_dict: keep the memory for the next copy.
    """

    def __init__(self, cache_staged_state_dict: bool = False, type_check: bool = False) -> None:
        self.cache_staged_state_dict = cache_staged_state_dict
        self._kept: dict[int, Tensor] = {}

    def stage(self, state_dict: dict[str, Any]) -> dict[str, Any]:
        """Copies of all tensors, on the host."""
        place = iter(range(1 << 62))
        return pytree.tree_map(
            lambda value: self._copied(value, next(place)) if isinstance(value, Tensor) else value,
            state_dict,
        )

    def _copied(self, value, place):
        value = value.detach()
        if not self.cache_staged_state_dict or type(value) is not Tensor:
            return value.clone() if value.device.type == "cpu" else value.cpu()
        kept = self._kept.get(place)
        if kept is None or kept.size() != value.size() or kept.dtype is not value.dtype:
            kept = self._kept[place] = flambeau.empty(value.size(), dtype=value.dtype)
        return kept.copy_(value)

    def close(self) -> None:
        """Kept memory goes."""
        self._kept = {}
