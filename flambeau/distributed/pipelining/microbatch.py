"""Batches in small parts, and results of parts as one."""

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.utils import _pytree as pytree

__all__ = ["TensorChunkSpec", "merge_chunks", "split_args_kwargs_into_chunks"]


class TensorChunkSpec:
    """The dimension along which a tensor is cut."""

    def __init__(self, split_dim: int) -> None:
        self.split_dim = split_dim

    def __repr__(self) -> str:
        return f"TensorChunkSpec({self.split_dim})"

    __str__ = __repr__

    @staticmethod
    def from_tuple(chunk_dims: tuple[int, ...]) -> tuple:
        """A spec per number, however they are nested."""
        return pytree.tree_map(TensorChunkSpec, tuple(chunk_dims))

    @staticmethod
    def from_dict(chunk_dims: dict[str, int]) -> dict:
        """A spec per number."""
        return pytree.tree_map(TensorChunkSpec, chunk_dims)


def _cut(value, spec, chunks):
    """The parts of an argument."""
    if not isinstance(value, Tensor):
        return [value] * chunks
    dim = spec.split_dim if isinstance(spec, TensorChunkSpec) else 0
    if value.dim() == 0:
        return [value] * chunks
    return list(value.tensor_split(chunks, dim)) if value.shape[dim] >= chunks else (
        list(value.split(1, dim))
    )  # fmt: skip


def split_args_kwargs_into_chunks(
    args: tuple,
    kwargs: dict | None,
    chunks: int,
    args_chunk_spec: Any = None,
    kwargs_chunk_spec: Any = None,
) -> tuple[list[tuple], list[dict]]:
    """Arguments of each small batch; tensors are cut along their first dimension unless told."""
    first = _parts(tuple(args), args_chunk_spec, chunks)
    second = _parts(dict(kwargs or {}), kwargs_chunk_spec, chunks)
    count = min(len(first), len(second)) if args and kwargs else max(len(first), len(second))
    count = len(first) if args and not kwargs else count
    return first[:count] or [()] * chunks, second[:count] or [{}] * chunks


def _parts(value, specs, chunks):
    leaves, tree = pytree.tree_flatten(value)
    if not leaves:
        return [value] * chunks
    given = [None] * len(leaves)
    if specs is not None:
        given = pytree.tree_leaves(specs, is_leaf=lambda s: isinstance(s, TensorChunkSpec))
        if len(given) != len(leaves):
            raise ValueError("args and its chunk spec do not have the same structure")
    rows = [_cut(v, s, chunks) for v, s in zip(leaves, given)]
    return [pytree.tree_unflatten(list(row), tree) for row in zip(*rows)]


def merge_chunks(chunks: list, chunk_spec: Any) -> Any:
    """Results of small batches as one."""
    if not chunks:
        return None
    rows = [pytree.tree_leaves(c) for c in chunks]
    tree = pytree.tree_flatten(chunks[0])[1]
    specs: list = [None] * len(rows[0])
    if chunk_spec is not None:
        specs = pytree.tree_leaves(chunk_spec, is_leaf=lambda s: isinstance(s, TensorChunkSpec))
    return pytree.tree_unflatten([_merged(c, s) for c, s in zip(zip(*rows), specs)], tree)


def _merged(values, spec):
    first = values[0]
    if not isinstance(first, Tensor):
        return first
    if first.dim() == 0:
        return flambeau.stack(values)
    return flambeau.cat(values, spec.split_dim if isinstance(spec, TensorChunkSpec) else 0)
