"""`torch.distributed._functional_collectives`: collectives that give new tensors.

The functions of `distributed/nn` do the work, so gradients flow through all of these, also through
those whose PyTorch twin stops them. A result is there when the call returns: nothing is waited for.
"""

from typing import Any

import flambeau
from flambeau import Tensor, distributed
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.nn import functional
from flambeau.distributed.reduce_ops import ReduceOp

__all__ = [
    "all_gather_into_tensor_coalesced",
    "all_gather_tensor",
    "all_gather_tensor_autograd",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all_single",
    "all_to_all_single_autograd",
    "broadcast",
    "permute_tensor",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_autograd",
    "reduce_scatter_tensor_coalesced",
    "wait_tensor",
]

_OPS = {"sum": "SUM", "max": "MAX", "min": "MIN", "product": "PRODUCT", "avg": "SUM"}


class AsyncCollectiveTensor(Tensor):
    """The class of results that are still on their way elsewhere; none is, here."""


def _group(given):
    """A process group, a mesh of one dimension, or a mesh and its dimension."""
    if isinstance(given, DeviceMesh):
        return given.get_group()
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], DeviceMesh):
        return given[0].get_group(given[1])
    if isinstance(given, (list, str)):
        raise ValueError("Invalid type for group, must be one of ProcessGroup, DeviceMesh.")
    return given


def _op(name):
    name = name.lower()
    if name not in _OPS:
        raise ValueError(f"Unsupported reduce operation {name!r}")
    return getattr(ReduceOp, _OPS[name])


def _averaged(result, name, group):
    return result / distributed.get_world_size(group) if name.lower() == "avg" else result


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor itself: it has arrived."""
    return tensor


def broadcast(self: Tensor, src: int, group: Any, tag: str = "") -> Tensor:
    """The tensor of src, everywhere."""
    return functional.broadcast(self, src, _group(group))


def all_reduce(self: Tensor, reduceOp: str, group: Any, tag: str = "") -> Tensor:
    """The reduction of all tensors, everywhere."""
    group = _group(group)
    return _averaged(functional.all_reduce(self, _op(reduceOp), group), reduceOp, group)


def all_gather_tensor(self: Tensor, gather_dim: int, group: Any, tag: str = "") -> Tensor:
    """The tensors of all processes side by side."""
    return flambeau.cat(functional.all_gather(self, _group(group)), gather_dim)


def reduce_scatter_tensor(
    self: Tensor, reduceOp: str, scatter_dim: int, group: Any, tag: str = ""
) -> Tensor:
    """This process's part of the reduction of all tensors."""
    group = _group(group)
    count = distributed.get_world_size(group)
    if self.size(scatter_dim) % count:
        raise AssertionError(
            f"input dimension 0 ({self.size(0)} must be a multiple of group_size {count})"
        )
    parts = list(self.chunk(count, scatter_dim))
    result = functional.reduce_scatter(flambeau.empty_like(parts[0]), parts, _op(reduceOp), group)
    return _averaged(result, reduceOp, group)


def all_to_all_single(
    self: Tensor,
    output_split_sizes: list[int] | None,
    input_split_sizes: list[int] | None,
    group: Any,
    tag: str = "",
) -> Tensor:
    """What every process has for this one, side by side."""
    group = _group(group)
    count = distributed.get_world_size(group)
    given = input_split_sizes or [self.shape[0] // count] * count
    taken = output_split_sizes or [self.shape[0] // count] * count
    outs = [self.new_empty((length, *self.shape[1:])) for length in taken]
    return flambeau.cat(functional.all_to_all(outs, list(self.split(given)), group))


def permute_tensor(self: Tensor, src_dst: list[int], group: Any, tag: str = "") -> Tensor:
    """The tensor of the process that sends to this one: process r sends to src_dst[r]."""
    group = _group(group)
    count, rank = distributed.get_world_size(group), distributed.get_rank(group)
    given, taken = [0] * count, [0] * count
    for source, target in enumerate(src_dst):
        if source == rank:
            given[target] = self.numel()
        if target == rank:
            taken[source] = self.numel()
    moved = all_to_all_single(self.reshape(-1), taken, given, group)
    return moved.view(self.shape) if moved.numel() == self.numel() else moved


def all_reduce_coalesced(
    self: list[Tensor], reduceOp: str, group: Any, tag: str = ""
) -> list[Tensor]:
    """`all_reduce` of each."""
    return [all_reduce(t, reduceOp, group) for t in self]


def all_gather_into_tensor_coalesced(self: list[Tensor], group: Any, tag: str = "") -> list[Tensor]:
    """`all_gather_tensor` of each, along its first dimension."""
    return [all_gather_tensor(t, 0, group) for t in self]


def reduce_scatter_tensor_coalesced(
    inputs: list[Tensor], reduceOp: str, scatter_dim: list[int], group: Any, tag: str = ""
) -> list[Tensor]:
    """`reduce_scatter_tensor` of each."""
    return [reduce_scatter_tensor(t, reduceOp, dim, group) for t, dim in zip(inputs, scatter_dim)]


all_gather_tensor_autograd = all_gather_tensor
reduce_scatter_tensor_autograd = reduce_scatter_tensor
all_to_all_single_autograd = all_to_all_single
