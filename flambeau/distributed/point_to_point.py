"""Messages from one process to another: MPI's, beside all collectives."""

from typing import Any

from flambeau import Tensor

from .arguments import flat_of, is_outside, one_tensor, root_of, written
from .groups import ProcessGroup, given_group
from .progress import Work

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]


def _other(group, rank, group_rank):
    if group_rank is None and rank is not None and not 0 <= rank < group._world.size:
        raise ValueError(f"Invalid rank {rank}: the world has {group._world.size} processes.")
    return root_of("", group, rank, group_rank)


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """Begin to send a tensor to one process; it must stay as it is until wait()."""
    one_tensor(tensor, "tensor")
    if is_outside(group, "isend"):
        return None
    group = given_group(group)
    target = _other(group, dst, group_dst)
    if target == group.rank():
        raise ValueError(
            "Invalid destination rank: destination rank should not be the same as the rank of the "
            "current process."
        )
    flat = flat_of(tensor, group)[0]
    if flat.is_cuda:
        program = group.engine_for(flat).moves("send", [("send", flat, target)])
        return group.run("send", program, True, [tensor], on_gpu=True)
    return group.run_message("send", lambda work: group.messages.send(flat, target, tag), [tensor])


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work | None:
    """Begin to receive a tensor, from one process or from anybody (src=None)."""
    one_tensor(tensor, "tensor")
    if is_outside(group, "irecv"):
        return None
    group = given_group(group)
    source = None if src is None and group_src is None else _other(group, src, group_src)
    if source == group.rank() or group.size() == 1:
        raise ValueError(
            "Invalid source rank: source rank should not be the same as the rank of the "
            "current process."
        )

    if tensor.is_cuda and group.serves(tensor):
        return _received_on_gpu(tensor, source, group)

    def make(work):
        def tell(member):
            work._source = group._ranks[member]

        flat = flat_of(tensor, group)
        yield from group.messages.receive(flat[0], source, tag, tell)
        written([tensor], [flat])

    return group.run_message("recv", make, [tensor])


def _received_on_gpu(tensor, source, group):
    if source is None:
        raise ValueError("recv from any source is not supported by NCCL; src= must be given.")

    def program():
        flat = flat_of(tensor, group)
        yield from group.engine_for(flat[0]).moves("recv", [("receive", flat[0], source)])
        written([tensor], [flat])

    work = group.run("recv", program(), True, [tensor], on_gpu=True)
    work._source = group._ranks[source]
    return work


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Send a tensor to one process."""
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receive a tensor, from one process or from anybody; the rank it came from."""
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    return work.source_rank()


class P2POp:
    """A send or receive for batch_isend_irecv."""

    def __init__(
        self,
        op: Any,
        tensor: Tensor,
        peer: int | None = None,
        group: ProcessGroup | None = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        one_tensor(tensor, "tensor")
        self.op, self.tensor, self.peer = op, tensor, peer
        self.group, self.tag, self.group_peer = group, tag, group_peer


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begin several sends and receives."""
    if not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError(
            "Invalid ``p2p_op_list``. Each op is expected to to be of type "
            "``torch.distributed.P2POp``."
        )
    if not p2p_op_list:
        raise IndexError("list index out of range")
    first = p2p_op_list[0]
    group = given_group(first.group)
    if first.tensor.is_cuda and group._uses_nccl:
        return [_batch_on_gpu(p2p_op_list, group)]
    works = []
    for each in p2p_op_list:
        word = "group_dst" if each.op is isend else "group_src"
        works.append(
            each.op(each.tensor, each.peer, each.group, each.tag, **{word: each.group_peer})
        )
    return [work for work in works if work is not None]


def _batch_on_gpu(ops, group):
    """All of them at once: a GPU that waits in one would never come to the next."""

    def program():
        flats = [flat_of(each.tensor, group) for each in ops]
        moves = [
            (
                "send" if each.op is isend else "receive",
                flat,
                _other(group, each.peer, each.group_peer),
            )
            for each, (flat, _) in zip(ops, flats)
        ]
        yield from group.engine_for(flats[0][0]).moves("batch_isend_irecv", moves)
        for each, flat in zip(ops, flats):
            if each.op is irecv:
                written([each.tensor], [flat])

    work = group.run("batch_isend_irecv", program(), True, [o.tensor for o in ops], on_gpu=True)
    assert work is not None
    return work
