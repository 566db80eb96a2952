"""From one set of placements to another, with gradients.

Gradients flow on local tensors. There is one convention: the gradient of a sharded tensor is
sharded alike, that of a replicated or partial one is whole on every process. So backward of a
change of placements is another change, between the placements of gradients.
"""

from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import Tensor, distributed
from flambeau.autograd.function import Function
from flambeau.autograd.grad_mode import is_grad_enabled, no_grad
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.tensor._utils import part_of
from flambeau.distributed.tensor.placement_types import (
    Partial,
    Placement,
    Replicate,
    Shard,
    _StridedShard,
)

Placements = tuple[Placement, ...]
REPLICATE = Replicate()
_OPS = {"sum": "SUM", "avg": "SUM", "max": "MAX", "min": "MIN", "product": "PRODUCT"}


def of_gradient(placements: Sequence[Placement]) -> Placements:
    """How the gradient of a tensor with some placements lies."""
    return tuple(REPLICATE if isinstance(p, Partial) else p for p in placements)


# -- steps along one dimension of a mesh -----------------------------------------------------------


def all_gathered(part: Tensor, dim: int, size: int, group: Any) -> Tensor:
    """Parts of all members side by side; size: of the whole along dim."""
    count = group.size()
    if count == 1:
        return part
    step = -(-size // count)
    moved = part.movedim(dim, 0)
    if moved.shape[0] < step:
        fill = moved.new_zeros((step - moved.shape[0], *moved.shape[1:]))
        moved = flambeau.cat([moved, fill])
    whole = moved.new_empty((step * count, *moved.shape[1:]))
    distributed.all_gather_into_tensor(whole, moved.contiguous(), group=group)
    whole = whole[:size].movedim(0, dim)
    return whole.contiguous()


def reduce_scattered(summand: Tensor, dim: int, op: str, group: Any) -> Tensor:
    """This member's part of the sum of all members' tensors."""
    count, size = group.size(), summand.shape[dim]
    step = -(-size // count)
    moved = summand.movedim(dim, 0)
    if step * count > size:
        fill = moved.new_zeros((step * count - size, *moved.shape[1:]))
        moved = flambeau.cat([moved, fill])
    out = moved.new_empty((step, *moved.shape[1:]))
    kind = getattr(distributed.ReduceOp, _OPS[op])
    distributed.reduce_scatter_tensor(out, moved.contiguous(), op=kind, group=group)
    if op == "avg":
        out /= count
    length, _ = part_of(size, count, group.rank())
    return out[:length].movedim(0, dim).contiguous()


def all_reduced(summand: Tensor, op: str, group: Any) -> Tensor:
    """The sum of all members' tensors."""
    total = summand.detach().clone(memory_format=flambeau.contiguous_format)
    distributed.all_reduce(total, op=getattr(distributed.ReduceOp, _OPS[op]), group=group)
    if op == "avg":
        total /= group.size()
    return total


def own_part(whole: Tensor, dim: int, group: Any) -> Tensor:
    """This member's part of a tensor that all have."""
    length, begin = part_of(whole.shape[dim], group.size(), group.rank())
    return whole.narrow(dim, begin, length).contiguous()


def own_summand(whole: Tensor, op: str, group: Any) -> Tensor:
    """Summands that add up to a tensor that all have: the first member's is all of it."""
    if op in ("avg", "max", "min") or group.rank() == 0:
        return whole
    return flambeau.ones_like(whole) if op == "product" else flambeau.zeros_like(whole)


# -- all dimensions --------------------------------------------------------------------------------


def _is_below_a_change(k, src, dst):
    """Does an outer dimension of the mesh that changes cut the same dimension of the tensor?"""
    d = src[k].dim
    return any(
        src[j] != dst[j] and (src[j].is_shard(d) or dst[j].is_shard(d)) for j in range(k)
    ) or any(src[j] != dst[j] and src[j].is_partial() and dst[j].is_shard(d) for j in range(k))


def _size_at(shape, mesh, placements, k):
    """The length that a dimension of the mesh cuts, within the cuts of outer ones."""
    d, place = placements[k].dim, mesh.get_coordinate()
    size = shape[d]
    for j in range(k):
        if placements[j].is_shard(d):
            size, _ = part_of(size, mesh.size(j), place[j])
    return size


def changed(
    local: Tensor, shape: Sequence[int], mesh: DeviceMesh, src: Placements, dst: Placements
) -> Tensor:
    """A local tensor under other placements; nothing is recorded."""
    if src == dst or mesh.get_coordinate() is None:
        return local
    if any(isinstance(p, _StridedShard) for p in (*src, *dst)):
        raise NotImplementedError("tensors in strided shards cannot be redistributed")
    now: list[Any] = list(src)
    for k in reversed(range(mesh.ndim)):  # inner cuts are undone first
        if isinstance(now[k], Shard) and (now[k] != dst[k] or _is_below_a_change(k, now, dst)):
            size = _size_at(shape, mesh, now, k)
            local = all_gathered(local, now[k].dim, size, mesh.get_group(k))
            now[k] = REPLICATE
    for k in range(mesh.ndim):
        if now[k] != dst[k]:
            local = _changed_along(local, now[k], dst[k], mesh.get_group(k))
            now[k] = dst[k]
    return local


def _changed_along(local, now, then, group):
    if isinstance(now, Partial):
        if isinstance(then, Shard):
            return reduce_scattered(local, then.dim, now.reduce_op, group)
        total = all_reduced(local, now.reduce_op, group)
        return total if isinstance(then, Replicate) else own_summand(total, then.reduce_op, group)
    if isinstance(then, Shard):
        return own_part(local, then.dim, group)
    return own_summand(local, then.reduce_op, group)


def _share_of_averages(mesh, src, dst):
    """What gradients of averages are divided by."""
    factor = 1
    for k, (now, then) in enumerate(zip(src, dst)):
        if now != then:
            factor *= mesh.size(k) if now.is_partial("avg") else 1
    return factor


class _Redistribute(Function):
    @staticmethod
    def forward(ctx, local, shape, mesh, src, dst, grad_dst):
        ctx.facts = shape, mesh, src, dst, grad_dst
        out = changed(local, shape, mesh, src, dst)
        return out.view(out.shape) if out is local else out

    @staticmethod
    def backward(ctx, grad):
        shape, mesh, src, dst, grad_dst = ctx.facts
        back = redistributed(grad, shape, mesh, grad_dst, of_gradient(src))
        factor = _share_of_averages(mesh, src, dst)
        return (back / factor if factor != 1 else back), None, None, None, None, None


def redistributed(
    local: Tensor,
    shape: Sequence[int],
    mesh: DeviceMesh,
    src: Placements,
    dst: Placements,
    grad_dst: Placements | None = None,
) -> Tensor:
    """A local tensor under other placements; grad_dst says how what flows back lies."""
    if grad_dst is None:
        grad_dst = of_gradient(dst)
    is_same = src == dst and grad_dst == of_gradient(src)
    if is_same or not (is_grad_enabled() and local.requires_grad):
        return local if src == dst else _quietly(local, shape, mesh, src, dst)
    return _Redistribute.apply(local, tuple(shape), mesh, src, dst, grad_dst)


def _quietly(local, shape, mesh, src, dst):
    with no_grad():
        return changed(local, shape, mesh, src, dst)
