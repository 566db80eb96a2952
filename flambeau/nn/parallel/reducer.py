"""Gradients of several processes become one: buckets that are reduced while backward goes on.

Parameters are put into buckets in the reverse of their order, as backward mostly meets them; after
the first pass, in the order in which their gradients came. A hook on each counts its bucket down;
full buckets leave in their order, the same on every process, as asynchronous collectives. When the
pass is over, what has arrived is written into `.grad`.
"""

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import Tensor, distributed
from flambeau.autograd.engine import queue_callback
from flambeau.autograd.node import edge_of
from flambeau.futures import Future

__all__ = ["GradBucket", "Reducer", "broadcast_coalesced"]

FIRST_BUCKET = 1 << 20
UNFINISHED = (
    "Expected to have finished reduction in the prior iteration before starting a new one. This "
    "error indicates that your module has parameters that were not used in producing loss. You can "
    "enable unused parameter detection by passing the keyword argument "
    "`find_unused_parameters=True` to `torch.nn.parallel.DistributedDataParallel`, and by \nmaking "
    "sure all `forward` function outputs participate in calculating loss. \nIf you already have "
    "done the above, then the distributed data parallel module wasn't able to locate the output "
    "tensors in the return value of your module's `forward` function. Please include the loss "
    "function and the structure of the return value of `forward` of your module when reporting "
    "this issue (e.g. list, dict, iterable)."
)


class GradBucket:
    """Some gradients side by side, as communication hooks see them."""

    def __init__(self, index: int, places: list[int], params: list[Tensor]) -> None:
        self._index, self.places, self._params = index, places, params
        self._is_last = False
        self.sizes = [p.numel() for p in params]
        self._buffer = flambeau.zeros(
            sum(self.sizes), dtype=params[0].dtype, device=params[0].device
        )
        self.views = self._cut(self._buffer)
        self.waiting = len(params)
        self.future: Any = None

    def _cut(self, buffer):
        parts = buffer.split(self.sizes)
        return [
            part.as_strided(p.shape, p.stride()) if _is_dense(p) else part.view(p.shape)
            for part, p in zip(parts, self._params)
        ]

    def index(self) -> int:
        """Its number; bucket 0 leaves first."""
        return self._index

    def buffer(self) -> Tensor:
        """All gradients, flat."""
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Other memory in place of the buffer."""
        self._buffer = buffer
        self.views = self._cut(buffer)

    def gradients(self) -> list[Tensor]:
        """Views of the buffer in the shapes of the parameters."""
        return list(self.views)

    def parameters(self) -> list[Tensor]:
        """The parameters whose gradients these are."""
        return list(self._params)

    def is_last(self) -> bool:
        """Is it the last of the pass?"""
        return self._is_last


def _is_dense(p):
    return (
        not p.is_contiguous()
        and p.dim() == 4
        and p.is_contiguous(memory_format=flambeau.channels_last)
    )


def broadcast_coalesced(
    tensors: list[Tensor], group: Any, root: int = 0, limit: int = 250 << 20
) -> None:
    """Every process gets the tensors of member root; those of one dtype travel together."""
    by_dtype: dict = {}
    for t in tensors:
        by_dtype.setdefault(t.dtype, []).append(t.detach())
    for same in by_dtype.values():
        while same:
            some: list[Tensor] = []
            nbytes = 0
            while same and (not some or nbytes + same[0].nbytes <= limit):
                nbytes += same[0].nbytes
                some.append(same.pop(0))
            if len(some) == 1:
                distributed.broadcast(some[0], group=group, group_src=root)
                continue
            whole = flambeau.cat([t.reshape(-1) for t in some])
            distributed.broadcast(whole, group=group, group_src=root)
            if distributed.get_rank(group) != root:
                for t, part in zip(some, whole.split([t.numel() for t in some])):
                    t.copy_(part.view(t.shape))


class Reducer:
    """The buckets of a model, and where a pass stands."""

    def __init__(
        self,
        params: list[Tensor],
        names: list[str],
        group: Any,
        first: int,
        cap: int,
        find_unused: bool,
        as_views: bool,
        static: bool,
    ) -> None:
        self.params, self.names, self.group = params, names, group
        self.find_unused, self.as_views, self.static = find_unused, as_views, static
        self.hook: tuple | None = None
        self.divisor = distributed.get_world_size(group)
        self.limits = first, cap
        self._make_buckets(list(reversed(range(len(params)))))
        self.arrivals: dict[int, int] = {}  # place -> when its gradient came, in the first pass
        self.passes = 0
        self.expecting = False  # is a pass going on whose gradients are to be reduced?
        self.finished = True
        self.queued = False
        self.counts: list[int] | None = None  # static: how often each hook fires in a pass
        self.seen = [0] * len(params)
        self.ready: set[int] = set()
        self.used: set[int] = set()
        self.next = 0
        self.handles = [
            p.register_post_accumulate_grad_hook(self._hook_of(k)) for k, p in enumerate(params)
        ]

    def _make_buckets(self, order):
        self.order = order
        self.buckets = self._assigned(*self.limits)
        self.home = {place: (b, k) for b in self.buckets for k, place in enumerate(b.places)}

    def _rebuild(self):
        """After the first pass: buckets in the order of gradients, which is process 0's for all."""
        if self.passes != 1 or (self.find_unused and not self.static):
            return
        self.passes += 1
        last = len(self.params)
        order = sorted(self.order, key=lambda place: self.arrivals.get(place, last))
        agreed = flambeau.tensor(order)
        distributed.broadcast(agreed, group=self.group, group_src=0)
        if agreed.tolist() != self.order:
            self._make_buckets(agreed.tolist())

    def _assigned(self, first, cap):
        groups: list[list[int]] = []
        open_: dict = {}  # (dtype, device) -> (places, bytes) of the bucket that still has room
        for place in self.order:
            p = self.params[place]
            kind = p.dtype, p.device
            places, nbytes = open_.get(kind, ([], 0))
            places.append(place)
            nbytes += p.nbytes
            if nbytes >= (first if not groups else cap):
                groups.append(places)
                open_.pop(kind, None)
            else:
                open_[kind] = (places, nbytes)
        groups += [places for places, _ in open_.values()]
        buckets = [
            GradBucket(k, places, [self.params[i] for i in places])
            for k, places in enumerate(groups)
        ]
        if buckets:
            buckets[-1]._is_last = True
        return buckets

    def _hook_of(self, place):
        return lambda p: self.arrived(place)

    # -- a pass ------------------------------------------------------------------------------------
    def prepare(self, outputs: list[Tensor]) -> None:
        """Forward is over: what comes back is to be reduced."""
        if not self.finished:
            raise RuntimeError(UNFINISHED + self._unready())
        self._rebuild()
        self.expecting, self.finished, self.queued = True, False, False
        self.next, self.ready, self.used = 0, set(), set()
        self.seen = [0] * len(self.params)
        for bucket in self.buckets:
            bucket.waiting, bucket.future = len(bucket.places), None
        if self.find_unused and not self.static:
            reached = _leaves_of(outputs)
            self.used = {k for k, p in enumerate(self.params) if id(p) in reached}
            for place in range(len(self.params)):
                if place not in self.used:
                    self._zero(place)
                    self._mark(place)

    def _unready(self):
        missing = [k for k in range(len(self.params)) if k not in self.ready]
        rank = distributed.get_rank(self.group)
        indices = " ".join(map(str, missing))
        text = f"\nParameter indices which did not receive grad for rank {rank}: {indices}"
        if distributed.get_debug_level() is not distributed.DebugLevel.OFF:
            names = ", ".join(self.names[k] for k in missing)
            text += f"\nParameters which did not receive grad for rank {rank}: {names}"
        return text

    def _zero(self, place):
        bucket, k = self.home[place]
        bucket.views[k].zero_()

    def arrived(self, place: int) -> None:
        """A parameter has got its gradient."""
        if not self.expecting:
            return
        if not self.queued:
            self.queued = True
            queue_callback(self.finish)
        self.seen[place] += 1
        if not self.passes:
            self.arrivals[place] = sum(self.seen)  # the last one counts
        if self.static:
            if self.counts is None or self.seen[place] < self.counts[place]:
                return  # the first pass only counts
        elif place in self.ready:
            raise RuntimeError(
                "Expected to mark a variable ready only once. This error is caused by one of the "
                "following reasons: 1) Use of a module parameter outside the `forward` function. "
                "2) Reused parameters in multiple reentrant backward passes. Parameter at index "
                f"{place} with name {self.names[place]} has been marked as ready twice."
            )
        self._fill(place)
        self._mark(place)

    def _fill(self, place):
        bucket, k = self.home[place]
        grad, view = self.params[place].grad, bucket.views[k]
        self.used.add(place)
        if grad is None:
            view.zero_()
        elif grad.data_ptr() != view.data_ptr():
            view.copy_(grad.detach())

    def _mark(self, place):
        bucket, _ = self.home[place]
        self.ready.add(place)
        bucket.waiting -= 1
        while self.next < len(self.buckets) and self.buckets[self.next].waiting == 0:
            self._leave(self.buckets[self.next])
            self.next += 1

    def _leave(self, bucket):
        """A full bucket sets out."""
        if self.hook is not None:
            function, state = self.hook
            bucket.future = function(state, bucket)
            return
        buffer = bucket._buffer
        buffer.mul_(1 / self.divisor)
        work = distributed.all_reduce(buffer, group=self.group, async_op=True)
        bucket.future = work

    def finish(self) -> None:
        """The pass is over: wait for what is under way, and write it into `.grad`."""
        self.expecting = False
        if self.static and self.counts is None:
            self.counts = list(self.seen)
            self._leave_all()
        elif self.static:
            self._leave_all()
        if self.next < len(self.buckets):
            return  # the next forward will complain
        unused = self._unused_everywhere()
        for bucket in self.buckets:
            result = bucket.future.wait()
            if self.hook is not None:
                self._take(bucket, result)
            for place, view in zip(bucket.places, bucket.views):
                if place not in unused:
                    self._deliver(self.params[place], view)
        self.finished = True
        self.passes += 1

    def _leave_all(self):
        for place in range(len(self.params)):
            if place not in self.ready:
                if self.seen[place]:
                    self._fill(place)
                else:
                    self._zero(place)
                self._mark(place)

    def _take(self, bucket, result):
        value = result[0] if isinstance(result, (list, tuple)) else result
        if value.data_ptr() != bucket._buffer.data_ptr():
            bucket._buffer.copy_(value.view(-1))

    def _unused_everywhere(self):
        """Parameters that no process has used keep their `.grad` as it was."""
        if not self.find_unused and not self.static:
            return ()
        marks = [int(place in self.used) for place in range(len(self.params))]
        used = flambeau.tensor(marks, dtype=flambeau.int32)
        distributed.all_reduce(used, group=self.group)
        return {place for place, count in enumerate(used.tolist()) if not count}

    def _deliver(self, p, view):
        if self.as_views:
            if p.grad is None or p.grad.data_ptr() != view.data_ptr():
                p.grad = view
        elif p.grad is None:
            p.grad = view.clone()
        else:
            p.grad.detach().copy_(view)

    # -- what others ask for -----------------------------------------------------------------------
    def shadow(self) -> None:
        """Take part in the reductions of others with zeros."""
        self._rebuild()
        for bucket in self.buckets:
            bucket._buffer.zero_()
            self._leave(bucket)
        self._unused_everywhere()
        for bucket in self.buckets:
            bucket.future.wait()
        self.passes += 1

    def register(self, state: Any, hook: Callable[[Any, GradBucket], Future]) -> None:
        """From now on hook(state, bucket) sends buckets."""
        if self.hook is not None:
            raise RuntimeError(
                "register_comm_hook or register_builtin_comm_hook can only be called once."
            )
        self.hook = (hook, state)


def _leaves_of(outputs):
    """The ids of leaves that gradients of these tensors reach."""
    leaves, seen = set(), set()
    stack = [edge_of(t) for t in outputs if t.requires_grad]
    while stack:
        edge = stack.pop()
        if edge is None:
            continue
        target = edge[0]
        if isinstance(target, Tensor):
            leaves.add(id(target))
        elif id(target) not in seen:
            seen.add(id(target))
            stack += target.edges
    return leaves
