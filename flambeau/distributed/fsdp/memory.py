"""Memory of parameters that comes and goes while tensors keep looking at it.

What autograd saved of a parameter is a tensor over its storage. The storage gives its block back
after forward and gets another one, with the same values, before backward; its version stays, as
nothing has changed.
"""

from typing import Any

from flambeau import Tensor
from flambeau.storage import new_storage

__all__ = ["fill", "free", "is_there", "unnoticed"]


def _exchanged(storage: Any, other: Any) -> None:
    """Two storages swap their blocks."""
    storage.pointer, other.pointer = other.pointer, storage.pointer
    storage.give, other.give = other.give, storage.give
    storage.nbytes, other.nbytes = other.nbytes, storage.nbytes


def free(tensor: Tensor) -> None:
    """Give the memory of a tensor back; the tensor stays."""
    _exchanged(tensor._storage, new_storage(0, tensor.device))


def fill(tensor: Tensor, nbytes: int) -> None:
    """Memory for a tensor that has none."""
    if tensor._storage.nbytes < nbytes:
        _exchanged(tensor._storage, new_storage(nbytes, tensor.device))


def is_there(tensor: Tensor, nbytes: int) -> bool:
    """Does it have its memory?"""
    return tensor._storage.nbytes >= nbytes


class unnoticed:
    """Writes in here are not counted: autograd does not hear of them."""

    def __init__(self, *tensors: Any) -> None:
        self.storages = [t._storage for t in tensors]

    def __enter__(self) -> None:
        self.versions = [s.version for s in self.storages]

    def __exit__(self, *error: Any) -> None:
        for storage, version in zip(self.storages, self.versions):
            storage.version = version
