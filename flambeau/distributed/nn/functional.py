"""Collectives as functions of tensors: nothing is written in place, and backward knows the way.

What flows back is the transposed collective: a broadcast's gradients are summed at its source, a
gather's are scattered, an all-to-all's go back the way they came.
"""

from typing import Any

import flambeau
from flambeau import Tensor, distributed
from flambeau.autograd.function import Function
from flambeau.distributed.reduce_ops import ReduceOp

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]


def _summed(grad, group, op=ReduceOp.SUM):
    total = grad.contiguous().clone()
    distributed.all_reduce(total, op, group)
    return total


class _AllReduce(Function):
    @staticmethod
    def forward(ctx, op, group, tensor):
        ctx.op, ctx.group = op, group
        return _summed(tensor, group, op)

    @staticmethod
    def backward(ctx, grad):
        return None, None, _summed(grad, ctx.group, ctx.op)


class _Broadcast(Function):
    @staticmethod
    def forward(ctx, src, group, tensor):
        ctx.src, ctx.group = src, group
        out = tensor.contiguous().clone()
        distributed.broadcast(out, src, group)
        return out

    @staticmethod
    def backward(ctx, grad):
        total = _summed(grad, ctx.group)
        return (
            None,
            None,
            total if distributed.get_rank() == ctx.src else flambeau.zeros_like(total),
        )


class _Reduce(Function):
    @staticmethod
    def forward(ctx, dst, op, group, tensor):
        ctx.dst, ctx.group = dst, group
        out = tensor.contiguous().clone()
        distributed.reduce(out, dst, op, group)
        return out

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous().clone()
        distributed.broadcast(grad, ctx.dst, ctx.group)
        return None, None, None, grad


class _AllGather(Function):
    @staticmethod
    def forward(ctx, group, tensor):
        ctx.group = group
        outs = [flambeau.empty_like(tensor) for _ in range(distributed.get_world_size(group))]
        distributed.all_gather(outs, tensor.contiguous(), group)
        return tuple(outs)

    @staticmethod
    def backward(ctx, *grads):
        mine = flambeau.empty_like(grads[0])
        distributed.reduce_scatter(mine, [g.contiguous() for g in grads], group=ctx.group)
        return None, mine


class _Gather(Function):
    @staticmethod
    def forward(ctx, dst, group, tensor):
        ctx.dst, ctx.group = dst, group
        outs = [flambeau.zeros_like(tensor) for _ in range(distributed.get_world_size(group))]
        here = distributed.get_rank() == dst
        distributed.gather(tensor.contiguous(), outs if here else None, dst, group)
        return tuple(outs)

    @staticmethod
    def backward(ctx, *grads):
        mine = flambeau.empty_like(grads[0])
        here = distributed.get_rank() == ctx.dst
        parts = [g.contiguous() for g in grads] if here else None
        distributed.scatter(mine, parts, ctx.dst, ctx.group)
        return None, None, mine


class _Scatter(Function):
    @staticmethod
    def forward(ctx, src, group, *tensors):
        ctx.src, ctx.group, ctx.count = src, group, len(tensors)
        out = flambeau.zeros_like(tensors[0])
        here = distributed.get_rank() == src
        distributed.scatter(out, [t.contiguous() for t in tensors] if here else None, src, group)
        return out

    @staticmethod
    def backward(ctx, grad):
        outs = [flambeau.zeros_like(grad) for _ in range(ctx.count)]
        here = distributed.get_rank() == ctx.src
        distributed.gather(grad.contiguous(), outs if here else None, ctx.src, ctx.group)
        return None, None, *outs


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx, op, group, out, *tensors):
        ctx.group = group
        result = flambeau.empty_like(out)
        distributed.reduce_scatter(result, [t.contiguous() for t in tensors], op, group)
        return result

    @staticmethod
    def backward(ctx, grad):
        outs = [flambeau.empty_like(grad) for _ in range(distributed.get_world_size(ctx.group))]
        distributed.all_gather(outs, grad.contiguous(), ctx.group)
        return None, None, None, *outs


class _AllToAll(Function):
    @staticmethod
    def forward(ctx, group, shapes, *tensors):
        ctx.group, ctx.shapes = group, [t.shape for t in tensors]
        outs = [flambeau.empty(shape, dtype=tensors[0].dtype) for shape in shapes]
        distributed.all_to_all(outs, [t.contiguous() for t in tensors], group)
        return tuple(outs)

    @staticmethod
    def backward(ctx, *grads):
        outs = [flambeau.empty(shape, dtype=grads[0].dtype) for shape in ctx.shapes]
        distributed.all_to_all(outs, [g.contiguous() for g in grads], ctx.group)
        return None, None, *outs


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The reduction of all tensors, everywhere."""
    return _AllReduce.apply(op, group, tensor)


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """The tensor of src, everywhere."""
    return _Broadcast.apply(src, group, tensor)


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The reduction of all tensors, on dst."""
    return _Reduce.apply(dst, op, group, tensor)


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all processes, everywhere."""
    return _AllGather.apply(group, tensor)


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all processes, on dst; zeros elsewhere."""
    return _Gather.apply(dst, group, tensor)


def scatter(tensors: list[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """tensors[r] of src, on process r."""
    return _Scatter.apply(src, group, *tensors)


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: Any = ReduceOp.SUM, group: Any = None
) -> Tensor:
    """The reduction of everybody's input_list[r], on process r."""
    return _ReduceScatter.apply(op, group, output, *input_list)


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None
) -> tuple[Tensor, ...]:
    """What every process has for this one; shapes are those of output_tensor_list."""
    shapes = [t.shape for t in output_tensor_list]
    return _AllToAll.apply(group, shapes, *input_tensor_list)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Any = None,
    input_split_sizes: Any = None,
    group: Any = None,
) -> Tensor:
    """all_to_all of pieces along the first dimension."""
    size = distributed.get_world_size(group)
    theirs = output_split_sizes or [output.shape[0] // size] * size
    mine = input_split_sizes or [input.shape[0] // size] * size
    shapes = [(count, *output.shape[1:]) for count in theirs]
    return flambeau.cat(_AllToAll.apply(group, shapes, *input.split(list(mine))))
