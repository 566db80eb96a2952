"""Collectives of Python objects: pickled, sent as bytes, unpickled. Trust who you talk to."""

import io
import pickle
from typing import Any

import flambeau
from flambeau import Tensor

from .arguments import is_outside, root_of
from .collectives import all_gather, broadcast, gather, scatter
from .groups import given_group
from .point_to_point import recv, send

__all__ = [
    "all_gather_object",
    "broadcast_object_list",
    "gather_object",
    "recv_object_list",
    "scatter_object_list",
    "send_object_list",
]


def _packed(value):
    """(bytes as a tensor, their number as a tensor)"""
    data = bytearray(pickle.dumps(value))
    return flambeau.frombuffer(data, dtype=flambeau.uint8), flambeau.tensor([len(data)])


def _unpacked(data: Tensor, count: int) -> Any:
    return pickle.load(io.BytesIO(data[:count].numpy().tobytes()))


def _everybodys(counts, count, group):
    """The number of bytes of every member, everywhere."""
    all_gather(counts, count, group)
    return [int(each) for each in counts]


def _grown(data, length):
    whole = flambeau.zeros(length, dtype=flambeau.uint8)
    whole[: data.numel()].copy_(data)
    return whole


def all_gather_object(object_list: list, obj: Any, group: Any = None) -> None:
    """object_list[r] becomes the object of process r, everywhere."""
    if is_outside(group, "all_gather_object"):
        return
    size = given_group(group).size()
    data, count = _packed(obj)
    counts = _everybodys(
        [flambeau.zeros(1, dtype=flambeau.int64) for _ in range(size)], count, group
    )
    longest = max(counts)
    outs = [flambeau.empty(longest, dtype=flambeau.uint8) for _ in range(size)]
    all_gather(outs, _grown(data, longest), group)
    for k, (out, count) in enumerate(zip(outs, counts)):
        object_list[k] = _unpacked(out, count)


def gather_object(
    obj: Any,
    object_gather_list: list | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """On process dst, object_gather_list[r] becomes the object of process r."""
    if is_outside(group, "gather_object"):
        return
    given = given_group(group)
    root = root_of("gather", given, 0 if dst is None and group_dst is None else dst, group_dst)
    mine = given.rank() == root
    if mine and not object_gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    data, count = _packed(obj)
    counts = _everybodys(
        [flambeau.zeros(1, dtype=flambeau.int64) for _ in range(given.size())], count, group
    )
    longest = max(counts)
    outs = [flambeau.empty(longest, dtype=flambeau.uint8) for _ in counts] if mine else None
    gather(_grown(data, longest), outs, group=group, group_dst=root)
    if mine and outs is not None and object_gather_list is not None:
        for k, (out, count) in enumerate(zip(outs, counts)):
            object_gather_list[k] = _unpacked(out, count)


def broadcast_object_list(
    object_list: list,
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """The objects of src, into the list of every process."""
    if is_outside(group, "broadcast_object_list"):
        return
    given = given_group(group)
    root = root_of("broadcast", given, 0 if src is None and group_src is None else src, group_src)
    if given.rank() == root:
        packed = [_packed(value) for value in object_list]
        counts = flambeau.cat([count for _, count in packed])
        data = flambeau.cat([data for data, _ in packed])
        broadcast(counts, group=group, group_src=root)
        broadcast(data, group=group, group_src=root)
        return
    counts = flambeau.zeros(len(object_list), dtype=flambeau.int64)
    broadcast(counts, group=group, group_src=root)
    data = flambeau.empty(int(counts.sum()), dtype=flambeau.uint8)
    broadcast(data, group=group, group_src=root)
    for k, part in enumerate(data.split(counts.tolist())):
        object_list[k] = _unpacked(part, part.numel())


def scatter_object_list(
    scatter_object_output_list: list,
    scatter_object_input_list: list | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """The first place of the output list becomes this process's object of src's input list."""
    if is_outside(group, "scatter_object_list"):
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError(
            "Expected argument scatter_object_output_list to be a list of size at least 1."
        )
    given = given_group(group)
    root = root_of("scatter", given, 0 if src is None and group_src is None else src, group_src)
    facts, parts = flambeau.zeros(2, dtype=flambeau.int64), None
    lines = None
    if given.rank() == root:
        if scatter_object_input_list is None:
            raise ValueError("source rank must provide non-None scatter_object_input_list")
        packed = [_packed(value) for value in scatter_object_input_list]
        longest = max(data.numel() for data, _ in packed)
        parts = [_grown(data, longest) for data, _ in packed]
        lines = [flambeau.tensor([int(count), longest]) for _, count in packed]
    scatter(facts, lines, group=group, group_src=root)
    count, longest = facts.tolist()
    out = flambeau.empty(longest, dtype=flambeau.uint8)
    scatter(out, parts, group=group, group_src=root)
    scatter_object_output_list[0] = _unpacked(out, count)


def send_object_list(
    object_list: list,
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send objects to one process."""
    if is_outside(group, "send_object_list"):
        return
    packed = [_packed(value) for value in object_list]
    send(flambeau.cat([count for _, count in packed]), dst, group, group_dst=group_dst)
    send(flambeau.cat([data for data, _ in packed]), dst, group, group_dst=group_dst)


def recv_object_list(
    object_list: list,
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receive as many objects as the list has places; the rank they came from."""
    if is_outside(group, "recv_object_list"):
        return -1
    counts = flambeau.zeros(len(object_list), dtype=flambeau.int64)
    source = recv(counts, src, group, group_src=group_src)
    data = flambeau.empty(int(counts.sum()), dtype=flambeau.uint8)
    recv(data, source, group)
    for k, part in enumerate(data.split(counts.tolist())):
        object_list[k] = _unpacked(part, part.numel())
    return source
