"""Collectives of tensors on GPUs, by NCCL: put into a stream of their own, in the order of calls.

Nobody waits on the host. A collective's stream waits for the current stream before, and `Work.wait`
lets the current stream wait for it; so backward goes on beside what DDP sends. Programs (see
progress.py) yield once, when their collective is in the stream: `StreamWork` runs them up to there
at once and finishes them in wait().
"""

import threading
import time
from collections import deque
from typing import Any

import flambeau
from flambeau import cuda
from flambeau.autograd.grad_mode import no_grad
from flambeau.runtime import nccl

from .errors import DistBackendError
from .progress import Work, bounded
from .reduce_ops import RedOpType, kind_of

__all__ = ["GpuEngine", "StreamWork"]

BYTES = 1  # ncclUint8: what is only moved, and what has no type there
CODES = {
    flambeau.int8: 0,
    flambeau.uint8: BYTES,
    flambeau.int32: 2,
    flambeau.uint32: 3,
    flambeau.int64: 4,
    flambeau.uint64: 5,
    flambeau.float16: 6,
    flambeau.float32: 7,
    flambeau.float64: 8,
    flambeau.bfloat16: 9,
}
OPS = {
    RedOpType.SUM: 0,
    RedOpType.PREMUL_SUM: 0,  # the factor is in the numbers already
    RedOpType.PRODUCT: 1,
    RedOpType.MAX: 2,
    RedOpType.MIN: 3,
    RedOpType.AVG: 4,
}
TRUTH = {RedOpType.SUM: 2, RedOpType.BOR: 2, RedOpType.MAX: 2, RedOpType.PRODUCT: 3}
TRUTH |= {RedOpType.MIN: 3, RedOpType.BAND: 3}
LOOKS = 0.1  # seconds between two looks at what is under way


class StreamWork(Work):
    """A collective that is in a stream already."""

    def __init__(self, *facts: Any) -> None:
        super().__init__(*facts)
        with no_grad():
            self._event = next(self._program)

    def wait(self, timeout: Any = None) -> bool:
        """The current stream waits for it; the host does not."""
        if not self._done:
            with no_grad():
                for _ in self._program:
                    pass
            self._finish()
        return True

    def is_completed(self) -> bool:
        """Has the GPU done it?"""
        return self._event.query()

    is_success = is_completed


class GpuEngine:
    """The collectives of one group on one GPU.

    Args:
        group: the group; its store tells how members find each other.
        index: the GPU of this process.
        api: the library, for tests.
    """

    def __init__(self, group: Any, index: int, api: Any = None) -> None:
        self.api = nccl.library() if api is None else api
        self.group, self.index, self.size = group, index, group.size()
        self.rank = group.rank()
        self.stream = cuda.Stream(index)
        self.under_way: deque = deque()  # (event, name, latest time, tensors that must live on)
        self.error: BaseException | None = None
        store, key = group.get_group_store(), "nccl"
        if self.rank == 0:
            store.set(key, self.api.unique_id())
        identity = store.get(key)

        def join():
            cuda.set_device(index)
            return self.api.join(identity, self.size, self.rank)

        what = "the forming of an NCCL communicator"
        alone = self.size == 1
        self.comm = join() if alone else bounded(join, group._seconds, group._world.health, what)
        if not alone:
            threading.Thread(target=self._watch, name="nccl", daemon=True).start()

    # -- into the stream ---------------------------------------------------------------------------
    def queued(self, name, calls, tensors):
        """Calls of the library behind all work so far; tensors: what they read and write."""
        if self.error is not None:
            raise DistBackendError(f"this process group is broken since: {self.error}")
        self._forget()
        stream = self.stream
        stream.wait_stream(cuda.current_stream(self.index))
        many = len(calls) > 1
        if many:
            self.api.call("GroupStart")
        for function, *arguments in calls:
            self.api.call(function, *arguments, self.comm, stream.cuda_stream)
        if many:
            self.api.call("GroupEnd")
        done = stream.record_event()
        self.under_way.append((done, name, time.monotonic() + self.group._seconds, tensors))
        yield done
        if self.error is not None:
            raise self.error
        cuda.current_stream(self.index).wait_event(done)

    def _forget(self):
        while self.under_way and self.under_way[0][0].query():
            self.under_way.popleft()

    def _watch(self):
        """A member that has died would be waited for without end, by the GPU."""
        while self.error is None:
            time.sleep(LOOKS)
            self._look()

    def _look(self):
        if not self.under_way or self.under_way[0][0].query():
            return
        _, name, latest, _ = self.under_way[0]
        gone = self.group._world.health.gone
        dead = [rank for rank in self.group._ranks if gone.get(rank) == "died"]
        if dead:
            why = f"rank {', '.join(map(str, dead))} died; {name} cannot be completed."
        elif time.monotonic() > latest:
            waited = f"{self.group._seconds * 1e3:.0f}ms"
            why = f"Timed out waiting {waited} for {name} operation to complete."
        else:
            return
        self.error = DistBackendError(why)
        self.api.call("CommAbort", self.comm)

    def close(self) -> None:
        """Members need it no more."""
        if self.error is None:
            self.error = DistBackendError("it was destroyed")
            self.stream.synchronize()
            self.api.call("CommDestroy", self.comm)

    # -- reductions --------------------------------------------------------------------------------
    def all_reduce(self, flat, op):
        """In place, everywhere."""
        numbers, code, operation = numbers_of(flat, op)
        place = numbers.data_ptr()
        call = ("AllReduce", place, place, numbers.numel(), code, operation)
        yield from self.queued("all_reduce", [call], [flat])

    def reduce(self, flat, root, op):
        """In place, on the root."""
        numbers, code, operation = numbers_of(flat, op)
        place = numbers.data_ptr()
        call = ("Reduce", place, place, numbers.numel(), code, operation, root)
        yield from self.queued("reduce", [call], [flat])

    def reduce_scatter(self, out, parts, op):
        """out becomes the reduction of everybody's part for this member."""
        whole = joined(parts)
        numbers, code, operation = numbers_of(whole, op)
        target, _, _ = numbers_of(out, op)
        call = (
            "ReduceScatter", numbers.data_ptr(), target.data_ptr(), target.numel(), code, operation,
        )  # fmt: skip
        yield from self.queued("reduce_scatter", [call], [whole, out])

    # -- moves, by bytes ---------------------------------------------------------------------------
    def broadcast(self, flat, root):
        """In place, from the root."""
        place = flat.data_ptr()
        call = ("Broadcast", place, place, flat.nbytes, BYTES, root)
        yield from self.queued("broadcast", [call], [flat])

    def all_gather(self, outs, flat):
        """outs[r] becomes what member r has."""
        whole = side_by_side(outs)
        direct = whole is not None
        if whole is None:
            whole = flambeau.empty(self.size * flat.numel(), dtype=flat.dtype, device=flat.device)
        call = ("AllGather", flat.data_ptr(), whole.data_ptr(), flat.nbytes, BYTES)
        yield from self.queued("all_gather", [call], [whole, flat])
        if not direct:
            for out, part in zip(outs, whole.chunk(self.size)):
                out.copy_(part)

    def gather(self, outs, flat, root):
        """On the root, outs[r] becomes what member r has."""
        moves = [("send", flat, root)]
        if self.rank == root:
            moves += [("receive", out, r) for r, out in enumerate(outs)]
        yield from self.moves("gather", moves)

    def scatter(self, out, parts, root):
        """out becomes this member's part of the root's."""
        moves = [("send", part, r) for r, part in enumerate(parts)] if self.rank == root else []
        yield from self.moves("scatter", [*moves, ("receive", out, root)])

    def all_to_all(self, outs, parts):
        """outs[s] becomes what member s has for this one."""
        moves = [("send", part, r) for r, part in enumerate(parts)]
        moves += [("receive", out, r) for r, out in enumerate(outs)]
        yield from self.moves("all_to_all", moves)

    def moves(self, name, moves):
        """Sends and receives that go on at the same time: (which, tensor, other member)."""
        names = {"send": "Send", "receive": "Recv"}
        calls = [
            (names[which], flat.data_ptr(), flat.nbytes, BYTES, other)
            for which, flat, other in moves
            if flat.numel()
        ]
        yield from self.queued(name, calls, [flat for _, flat, _ in moves])


def numbers_of(flat, op):
    """(what the library reduces, its type there, the operation)"""
    kind = kind_of(op)
    if flat.dtype is flambeau.bool and kind in TRUTH:
        return flat.view(flambeau.uint8), BYTES, TRUTH[kind]
    if kind not in OPS:
        raise ValueError(f"Cannot use ReduceOp.{kind.name} with NCCL")
    if flat.is_complex():
        flat = flambeau.view_as_real(flat).view(-1)
    if flat.dtype not in CODES:
        raise TypeError(
            f"Input tensor data type is not supported for NCCL process group: {flat.dtype}"
        )
    return flat, CODES[flat.dtype], OPS[kind]


def side_by_side(parts):
    """The tensor whose equal pieces these are, if they lie one behind the other; else None."""
    first = parts[0]
    for k, part in enumerate(parts):
        if part.nbytes != first.nbytes or part.data_ptr() != first.data_ptr() + k * first.nbytes:
            return None
    whole = len(parts) * first.numel()
    storage = first.untyped_storage()
    if storage.nbytes() < (first.storage_offset() + whole) * first.element_size():
        return None
    return first.as_strided((whole,), (1,))


def joined(parts):
    """Parts one behind the other, copied only if they are not."""
    found = side_by_side(parts)
    return flambeau.cat(list(parts)) if found is None else found
