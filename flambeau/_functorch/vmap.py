"""`torch._functorch.vmap`: the pieces of vmap that libraries put together in their own way."""

from typing import Any

from flambeau._C._functorch import _add_batch_dim, _remove_batch_dim
from flambeau._tensor import Tensor
from flambeau.func.vmapping import vmap
from flambeau.utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten

__all__ = [
    "Tensor",
    "_add_batch_dim",
    "_broadcast_to_and_flatten",
    "_get_name",
    "_maybe_remove_batch_dim",
    "_remove_batch_dim",
    "tree_flatten",
    "tree_unflatten",
    "vmap",
]


def _get_name(func: Any) -> str:
    """What messages call a function."""
    return getattr(func, "__name__", repr(func))


def _maybe_remove_batch_dim(
    name: str, batched_output: Any, vmap_level: int, batch_size: int, out_dim: int | None
) -> Any:
    """What a function returned, as its batch; things that are no tensors only for all samples."""
    if out_dim is None:
        return batched_output
    if not isinstance(batched_output, Tensor):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type "
            f"{type(batched_output)}. Did you mean to set out_dims= to None for output?"
        )
    return _remove_batch_dim(batched_output, vmap_level, batch_size, out_dim)
