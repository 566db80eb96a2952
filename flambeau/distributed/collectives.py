"""The collectives: arguments checked in PyTorch's words, then a program of the group's engine.

Engines take flat tensors. A contiguous tensor is flat as it is, over its own memory; another one is
copied before and, if it is written, after.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import flambeau
from flambeau import Tensor

from .arguments import (
    checked_op,
    flat_of,
    is_outside,
    one_tensor,
    root_of,
    same_dtype,
    same_shape,
    several_tensors,
    shape_text,
    written,
)
from .debug import check_alike, is_detailed
from .groups import given_group
from .reduce_ops import ReduceOp

__all__ = [
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_single",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "gather",
    "monitored_barrier",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "scatter",
]


def _run(group, name, tensors, program, async_op, result):
    """Start a program; under DETAIL after the members have compared their arguments."""
    if is_detailed():
        check_alike(group, name, tensors)
    on_gpu = any(t.is_cuda for t in (*tensors, *result)) and group._uses_nccl
    return group.run(name, program, async_op, result, on_gpu)


# -- one tensor each -------------------------------------------------------------------------------


def all_reduce(
    tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """Every process gets the reduction of all tensors, in place.

    Example:
        >>> import flambeau.distributed as dist
        >>> import flambeau as torch
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> t = torch.tensor([1.0, 2.0])
        >>> dist.all_reduce(t)
        >>> t
        tensor([1., 2.])
        >>> dist.destroy_process_group()
    """
    one_tensor(tensor, "tensor")
    if is_outside(group, "all_reduce"):
        return None
    group = given_group(group)
    checked_op("all_reduce", op, tensor)

    def program():
        flat = flat_of(tensor, group)
        if isinstance(op, ReduceOp) and op.factor is not None:
            flat[0].mul_(op.factor)
        yield from group.engine_for(flat[0]).all_reduce(flat[0], op)
        written([tensor], [flat])

    return _run(group, "all_reduce", [tensor], program(), async_op, [tensor])


def all_reduce_coalesced(
    tensors: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """all_reduce of several tensors as one."""
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    several_tensors(tensors, "tensor")
    same_dtype(*tensors)
    if is_outside(group, "all_reduce_coalesced"):
        return None
    group = given_group(group)
    checked_op("all_reduce", op, tensors[0])

    def program():
        whole = flambeau.cat([flat_of(t, group)[0] for t in tensors])
        yield from group.engine_for(whole).all_reduce(whole, op)
        for t, part in zip(tensors, whole.split([t.numel() for t in tensors])):
            t.detach().copy_(part.view(t.shape))

    return _run(group, "all_reduce_coalesced", tensors, program(), async_op, tensors)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Any:
    """Every process gets the tensor of src, in place."""
    one_tensor(tensor, "tensor")
    if is_outside(group, "broadcast"):
        return None
    group = given_group(group)
    root = root_of("broadcast", group, src, group_src)

    def program():
        flat = flat_of(tensor, group)
        yield from group.engine_for(flat[0]).broadcast(flat[0], root)
        if group.rank() != root:
            written([tensor], [flat])

    return _run(group, "broadcast", [tensor], program(), async_op, [tensor])


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """Process dst gets the reduction of all tensors, in place."""
    one_tensor(tensor, "tensor")
    if is_outside(group, "reduce"):
        return None
    group = given_group(group)
    root = root_of("reduce", group, dst, group_dst)
    checked_op("reduce", op, tensor)

    def program():
        flat = flat_of(tensor, group)
        yield from group.engine_for(flat[0]).reduce(flat[0], root, op)
        if group.rank() == root:
            written([tensor], [flat])

    return _run(group, "reduce", [tensor], program(), async_op, [tensor])


def barrier(
    group: Any = None,
    async_op: bool = False,
    device_ids: Any = None,
    timeout: timedelta | None = None,
) -> Any:
    """Until all processes are here."""
    if is_outside(group, "barrier"):
        return None
    group = given_group(group)
    if group._uses_nccl and not async_op:
        flambeau.cuda.current_stream().synchronize()  # what this process has started is done
    return _run(group, "barrier", [], group.engine.barrier(), async_op, [])


def monitored_barrier(
    group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """A barrier that says which ranks have not come; rank 0 asks, all others answer."""
    if is_outside(group, "monitored_barrier"):
        return
    group = given_group(group)
    seconds = group._seconds if timeout is None else timeout.total_seconds()
    store, limit = group.get_group_store(), timedelta(seconds=seconds)
    key = f"monitored/{group._calls}"
    group._calls += 1
    if group.rank():
        store.set(f"{key}/{group.rank()}", b"1")
        try:
            store.wait([f"{key}/go"], limit)
        except RuntimeError:
            raise RuntimeError(
                f"Rank {group._world.rank} successfully reached monitoredBarrier, but received "
                "errors while waiting for send/recv from rank 0. Please check rank 0 logs for "
                "faulty rank."
            ) from None
        return
    missing: list[int] = []
    for member in range(1, group.size()):
        try:
            store.wait([f"{key}/{member}"], limit if not missing else timedelta(milliseconds=10))
        except RuntimeError:
            missing.append(group._ranks[member])
            if not wait_all_ranks:
                break
    if missing:
        names = ", ".join(map(str, missing))
        raise RuntimeError(
            f"[Rank {group._world.rank}]: Ranks {names} failed to pass monitoredBarrier in "
            f"{seconds * 1e3:.0f} ms"
        )
    store.set(f"{key}/go", b"1")


# -- many tensors ----------------------------------------------------------------------------------


def all_gather(
    tensor_list: Sequence[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Any:
    """tensor_list[r] becomes the tensor of process r, everywhere."""
    several_tensors(tensor_list, "tensor_list")
    one_tensor(tensor, "tensor")
    same_dtype(*tensor_list, tensor)
    if is_outside(group, "all_gather"):
        return None
    group = given_group(group)
    if len(tensor_list) != group.size():
        raise RuntimeError(
            "ProcessGroupGloo::allgather: invalid output tensor list at index 0 "
            f"(expected length {group.size()}, got {len(tensor_list)})"
        )
    same_shape("allgather", tensor_list, tensor)

    def program():
        outs = [flat_of(t, group) for t in tensor_list]
        mine = flat_of(tensor, group)[0]
        yield from group.engine_for(mine).all_gather([flat for flat, _ in outs], mine)
        written(tensor_list, outs)

    return _run(group, "all_gather", [tensor], program(), async_op, list(tensor_list))


def all_gather_coalesced(
    output_tensor_lists: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Any:
    """all_gather of several tensors."""
    if is_outside(group, "all_gather_coalesced"):
        return None
    several_tensors(input_tensor_list, "tensor_list")
    work = None
    for k, t in enumerate(input_tensor_list):
        work = all_gather([outs[k] for outs in output_tensor_lists], t, group, async_op)
    return work


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Any:
    """The tensors of all processes, one behind the other, or stacked."""
    one_tensor(input_tensor, "input_tensor")
    one_tensor(output_tensor, "output_tensor")
    if is_outside(group, "all_gather_into_tensor"):
        return None
    group = given_group(group)
    if output_tensor.dtype is not input_tensor.dtype:
        raise RuntimeError(
            "ProcessGroupGloo::allgather: invalid tensor type at index 0 "
            f"(expected {input_tensor.dtype}, got {output_tensor.dtype})"
        )
    if output_tensor.numel() != input_tensor.numel() * group.size():
        raise RuntimeError(
            "ProcessGroupGloo::allgather: invalid tensor size at index 0 "
            f"(expected {shape_text(input_tensor)}, got {shape_text(output_tensor)})"
        )

    def program():
        out = flat_of(output_tensor, group)
        parts = out[0].chunk(group.size()) if out[0].numel() else [out[0]] * group.size()
        mine = flat_of(input_tensor, group)[0]
        yield from group.engine_for(mine).all_gather(parts, mine)
        written([output_tensor], [out])

    return _run(
        group, "all_gather_into_tensor", [input_tensor], program(), async_op, [output_tensor]
    )


all_gather_single = all_gather_into_tensor


class _Root(NamedTuple):
    """The words for the member that has a tensor for each."""

    call: str
    side: str
    direction: str


_GATHER = _Root("gather", "destination", "output")
_SCATTER = _Root("scatter", "source", "input")


def _one_and_all(words, tensor, tensors, rank, group, group_rank):
    """Arguments of gather and scatter, checked: (group, root), or None outside of the group."""
    call, side, direction = words
    one_tensor(tensor, "tensor")
    if tensors:
        several_tensors(tensors, f"{call}_list")
        same_dtype(tensor, *tensors)
    if is_outside(group, call):
        return None
    group = given_group(group)
    root = root_of(call, group, 0 if rank is None and group_rank is None else rank, group_rank)
    if group.rank() != root:
        if tensors:
            raise ValueError(f"Argument ``{call}_list`` must NOT be specified on non-{side} ranks.")
        return group, root
    if not tensors:
        raise ValueError(f"Argument ``{call}_list`` must be specified on {side} rank.")
    if len(tensors) != group.size():
        raise RuntimeError(
            f"ProcessGroupGloo::{call}: Incorrect {direction} list size {len(tensors)}. "
            f"{direction.capitalize()} list size should be {group.size()}, same as size of the "
            "process group."
        )
    same_shape(call, tensors, tensor)
    return group, root


def gather(
    tensor: Tensor,
    gather_list: Sequence[Tensor] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """On process dst, gather_list[r] becomes the tensor of process r."""
    found = _one_and_all(_GATHER, tensor, gather_list, dst, group, group_dst)
    if found is None:
        return None
    group, root = found
    targets = list(gather_list or ())

    def program():
        outs = [flat_of(t, group) for t in targets]
        mine = flat_of(tensor, group)[0]
        yield from group.engine_for(mine).gather([flat for flat, _ in outs], mine, root)
        written(targets, outs)

    return _run(group, "gather", [tensor], program(), async_op, targets)


def scatter(
    tensor: Tensor,
    scatter_list: Sequence[Tensor] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Any:
    """Process r gets scatter_list[r] of process src."""
    found = _one_and_all(_SCATTER, tensor, scatter_list, src, group, group_src)
    if found is None:
        return None
    group, root = found

    def program():
        parts = [flat_of(t, group)[0] for t in scatter_list or ()]
        out = flat_of(tensor, group)
        yield from group.engine_for(out[0]).scatter(out[0], parts, root)
        written([tensor], [out])

    return _run(group, "scatter", [tensor], program(), async_op, [tensor])


def reduce_scatter(
    output: Tensor,
    input_list: Sequence[Tensor],
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Process r gets the reduction of everybody's input_list[r]."""
    one_tensor(output, "output")
    several_tensors(input_list, "input_list")
    same_dtype(output, *input_list)
    if is_outside(group, "reduce_scatter"):
        return None
    group = given_group(group)
    checked_op("reduce_scatter", op, output)
    if len(input_list) != group.size():
        raise RuntimeError("invalid input tensor list size, must be world size")
    same_shape("reduce_scatter", input_list, output)
    return _reduce_scatter(
        output, lambda: [flat_of(t, group)[0] for t in input_list], op, group, async_op
    )


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """The same for parts that lie behind each other in one tensor."""
    one_tensor(output, "output")
    one_tensor(input, "input")
    if is_outside(group, "reduce_scatter_tensor"):
        return None
    group = given_group(group)
    checked_op("reduce_scatter_tensor", op, output)
    same_dtype(output, input)
    if output.numel() * group.size() != input.numel():
        raise RuntimeError(
            "Check failed: input must be as large as the outputs of all "
            f"({output.numel()} * {group.size()} vs. {input.numel()})."
        )

    def parts():
        flat = flat_of(input, group)[0]
        return flat.chunk(group.size()) if flat.numel() else [flat] * group.size()

    return _reduce_scatter(output, parts, op, group, async_op)


reduce_scatter_single = reduce_scatter_tensor


def _reduce_scatter(output, parts, op, group, async_op):
    def program():
        out = flat_of(output, group)
        yield from group.engine_for(out[0]).reduce_scatter(out[0], parts(), op)
        written([output], [out])

    return _run(group, "reduce_scatter", [output], program(), async_op, [output])


def all_to_all(
    output_tensor_list: Sequence[Tensor],
    input_tensor_list: Sequence[Tensor],
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """output_tensor_list[s] becomes what process s has for this one."""
    several_tensors(output_tensor_list, "output_tensor_list")
    several_tensors(input_tensor_list, "input_tensor_list")
    same_dtype(*output_tensor_list, *input_tensor_list)
    if is_outside(group, "all_to_all"):
        return None
    group = given_group(group)
    for name, tensors in (("input", input_tensor_list), ("output", output_tensor_list)):
        if len(tensors) != group.size():
            raise RuntimeError(
                f"ProcessGroupGloo::alltoall: {name} tensor list size {len(tensors)} does not "
                f"match world size {group.size()}"
            )

    def program():
        outs = [flat_of(t, group) for t in output_tensor_list]
        parts = [flat_of(t, group)[0] for t in input_tensor_list]
        yield from group.engine_for(parts[0]).all_to_all([flat for flat, _ in outs], parts)
        written(output_tensor_list, outs)

    return _run(group, "all_to_all", [], program(), async_op, list(output_tensor_list))


def _splits(t, sizes, count):
    """The pieces of a tensor along its first dimension, flat."""
    if sizes is None or len(sizes) == 0:
        if t.shape[0] % count:
            raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
        sizes = [t.shape[0] // count] * count
    if len(sizes) != count:
        raise RuntimeError("Number of tensor splits not equal to group size")
    if sum(sizes) != t.shape[0]:
        raise RuntimeError("Split sizes doesn't match total dim 0 size")
    row = t.numel() // t.shape[0] if t.shape[0] else 0
    return [size * row for size in sizes]


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """all_to_all of pieces along the first dimension."""
    one_tensor(output, "output")
    one_tensor(input, "input")
    same_dtype(output, input)
    if is_outside(group, "all_to_all_single"):
        return None
    group = given_group(group)
    theirs = _splits(output, output_split_sizes, group.size())
    mine = _splits(input, input_split_sizes, group.size())

    def program():
        out = flat_of(output, group)
        parts = flat_of(input, group)[0].split(mine)
        yield from group.engine_for(out[0]).all_to_all(list(out[0].split(theirs)), list(parts))
        written([output], [out])

    return _run(group, "all_to_all_single", [], program(), async_op, [output])
