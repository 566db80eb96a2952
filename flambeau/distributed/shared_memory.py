"""Collectives of processes on one machine: rounds over memory that all of them see.

Every member has a counter and a slot of two halves. A round: write into my half, raise my counter,
wait for the counters of those I read from, read. The next round uses the other half, and begins
when everybody has entered the one before; so nobody writes what somebody still reads. Tensors are
flat and contiguous here; large ones go in pieces. All methods are programs (see progress.py): they
yield the member they wait for.
"""

import platform
from collections.abc import Callable
from typing import Any

import flambeau

from .reduce_ops import combine, finish

__all__ = ["SharedMemory", "HEAD", "bytes_needed"]

HALF = 1 << 20  # bytes of half a slot: both halves of a few members stay in the cache
SMALL = 1 << 15  # bytes that everybody adds up alone, which saves a wait
LINE = 16  # words of 8 bytes between counters: two cache lines, as processors fetch them in pairs
HEAD = 8 * LINE
NAMES = (
    "barrier all_reduce broadcast reduce all_gather gather scatter reduce_scatter all_to_all sizes"
).split()
CODES = {name: number for number, name in enumerate(NAMES)}
BYTES = (1 << 40) - 1
_STRONG = platform.machine().lower() in ("x86_64", "amd64", "i386", "i686")  # stores stay in order


def bytes_needed(size: int) -> int:
    """Of the memory for a group of so many members."""
    return size * (HEAD + 2 * HALF)


def code_of(name, nbytes, root=0):
    """What a call is, in one number; all members must bring the same."""
    return CODES[name] << 56 | (root & 0xFFFF) << 40 | nbytes & BYTES


def described(code):
    root = code >> 40 & 0xFFFF
    where = f", root {root}" if root else ""
    return f"{NAMES[code >> 56]} ({code & BYTES} bytes{where})"


class Mismatch(RuntimeError):
    """Members of a group call different things."""


class SharedMemory:
    """The collectives of one group.

    Args:
        memory: `bytes_needed(size)` writable bytes that all members see, zeros at first.
        size: how many members there are.
        index: which one this is.
        fence: orders stores and loads where the processor does not.
    """

    def __init__(self, memory: Any, size: int, index: int, fence: Callable | None = None) -> None:
        view = memoryview(memory).cast("B")
        self.words = view[: size * HEAD].cast("q")
        self.slots = view[size * HEAD :]
        self.size, self.index = size, index
        self.mine = index * LINE
        self.others = [(r, r * LINE) for r in range(size) if r != index]
        self.step, self.half = 0, 0
        self.fence = None if _STRONG else fence
        self.views: dict = {}

    # -- rounds ----------------------------------------------------------------------------------
    def enter(self):
        """Until everybody has entered the round before; then the other half is mine to write."""
        words, step = self.words, self.step
        for member, place in self.others:
            while words[place] < step:
                yield member
        self.half ^= 1

    def publish(self, code):
        """My half is written."""
        words = self.words
        self.step += 1
        words[self.mine + 1 + self.half] = code
        if self.fence is not None:
            self.fence()
        words[self.mine] = self.step

    def meet(self, places, code):
        """Until these members have written theirs, for the same call."""
        words, step, mark = self.words, self.step, 1 + self.half
        for member, place in places:
            while words[place] < step:
                yield member
        if self.fence is not None:
            self.fence()
        for member, place in places:
            if words[place + mark] != code:
                raise Mismatch(
                    f"Detected mismatch between collectives on ranks. Member {self.index} is "
                    f"running {described(code)}, but member {member} is running "
                    f"{described(words[place + mark])}."
                )

    def place(self, member):
        return [(member, member * LINE)] if member != self.index else []

    def areas(self, dtype):
        """The current half of every member, as flat tensors."""
        found = self.views.get(dtype)
        if found is None:
            count = HALF // dtype.itemsize
            found = self.views[dtype] = [
                [
                    flambeau.frombuffer(
                        self.slots, dtype=dtype, count=count, offset=(2 * r + half) * HALF
                    )
                    for r in range(self.size)
                ]
                for half in range(2)
            ]
        return found[self.half]

    def pieces(self, count, itemsize, parts=1):
        """Ranges that cover count elements, small enough for a half cut into parts."""
        step = max(1, HALF // itemsize // parts)
        return [(a, min(a + step, count)) for a in range(0, count, step)] or [(0, 0)]

    # -- collectives -----------------------------------------------------------------------------
    def barrier(self):
        """Until everybody is here."""
        code = code_of("barrier", 0)
        yield from self.enter()
        self.publish(code)
        yield from self.meet(self.others, code)

    def all_reduce(self, flat, op):
        """Everybody gets the reduction of all, in place."""
        itemsize = flat.dtype.itemsize
        code = code_of("all_reduce", flat.numel() * itemsize)
        for a, b in self.pieces(flat.numel(), itemsize):
            piece, count = flat[a:b], b - a
            yield from self.enter()
            areas = self.areas(flat.dtype)
            areas[self.index][:count].copy_(piece)
            self.publish(code)
            yield from self.meet(self.others, code)
            if count * itemsize <= SMALL:
                self.reduce_into(piece, [area[:count] for area in areas], op)
                continue
            bounds = [count * r // self.size for r in range(self.size + 1)]
            lo, hi = bounds[self.index : self.index + 2]
            self.reduce_into(areas[self.index][lo:hi], [area[lo:hi] for area in areas], op)
            self.publish(code)
            yield from self.meet(self.others, code)
            for area, lo, hi in zip(areas, bounds, bounds[1:]):
                piece[lo:hi].copy_(area[lo:hi])

    def reduce_into(self, out, parts, op):
        """out, which may be one of the parts, becomes their reduction."""
        own = parts[self.index]
        if out.data_ptr() != own.data_ptr():
            out.copy_(parts[0])
            rest = parts[1:]
        else:
            rest = parts[: self.index] + parts[self.index + 1 :]
        reduce = combine(op)
        for part in rest:
            reduce(out, part)
        finish(op, out, self.size)

    def broadcast(self, flat, root):
        """Everybody gets what root has."""
        itemsize = flat.dtype.itemsize
        code = code_of("broadcast", flat.numel() * itemsize, root)
        for a, b in self.pieces(flat.numel(), itemsize):
            yield from self.enter()
            area = self.areas(flat.dtype)[root][: b - a]
            if self.index == root:
                area.copy_(flat[a:b])
            self.publish(code)
            if self.index != root:
                yield from self.meet(self.place(root), code)
                flat[a:b].copy_(area)

    def reduce(self, flat, root, op):
        """Root gets the reduction of all, in place."""
        itemsize = flat.dtype.itemsize
        code = code_of("reduce", flat.numel() * itemsize, root)
        for a, b in self.pieces(flat.numel(), itemsize):
            yield from self.enter()
            areas = self.areas(flat.dtype)
            areas[self.index][: b - a].copy_(flat[a:b])
            self.publish(code)
            if self.index == root:
                yield from self.meet(self.others, code)
                self.reduce_into(flat[a:b], [area[: b - a] for area in areas], op)

    def all_gather(self, outs, flat):
        """outs[r] becomes what member r brings."""
        yield from self._collect("all_gather", outs, flat, None)

    def gather(self, outs, flat, root):
        """The same, for root only."""
        yield from self._collect("gather", outs, flat, root)

    def _collect(self, name, outs, flat, root):
        itemsize = flat.dtype.itemsize
        code = code_of(name, flat.numel() * itemsize, root or 0)
        for a, b in self.pieces(flat.numel(), itemsize):
            yield from self.enter()
            areas = self.areas(flat.dtype)
            areas[self.index][: b - a].copy_(flat[a:b])
            self.publish(code)
            if root in (None, self.index):
                yield from self.meet(self.others, code)
                for out, area in zip(outs, areas):
                    out[a:b].copy_(area[: b - a])

    def scatter(self, out, parts, root):
        """Member r gets parts[r] of root."""
        itemsize, size = out.dtype.itemsize, self.size
        code = code_of("scatter", out.numel() * itemsize, root)
        for a, b in self.pieces(out.numel(), itemsize, size):
            yield from self.enter()
            area, count = self.areas(out.dtype)[root], b - a
            if self.index == root:
                for r, part in enumerate(parts):
                    area[r * count : (r + 1) * count].copy_(part[a:b])
            self.publish(code)
            yield from self.meet(self.place(root), code)
            out[a:b].copy_(area[self.index * count : (self.index + 1) * count])

    def reduce_scatter(self, out, parts, op):
        """Member r gets the reduction of everybody's parts[r]."""
        itemsize, size = out.dtype.itemsize, self.size
        code = code_of("reduce_scatter", out.numel() * itemsize)
        for a, b in self.pieces(out.numel(), itemsize, size):
            yield from self.enter()
            areas, count = self.areas(out.dtype), b - a
            for r, part in enumerate(parts):
                areas[self.index][r * count : (r + 1) * count].copy_(part[a:b])
            self.publish(code)
            yield from self.meet(self.others, code)
            lo = self.index * count
            self.reduce_into(out[a:b], [area[lo : lo + count] for area in areas], op)

    def all_to_all(self, outs, parts):
        """outs[s] becomes parts[me] of member s; they may differ in length."""
        dtype, size = outs[0].dtype, self.size
        lengths = [None] * size
        row = flambeau.tensor([part.numel() for part in parts], dtype=flambeau.int64)
        table = [flambeau.empty(size, dtype=flambeau.int64) for _ in range(size)]
        yield from self._collect("all_gather", table, row, None)
        lengths = [each.tolist() for each in table]
        self._check_lengths(outs, lengths)
        longest = max(max(line) for line in lengths)
        code = code_of("all_to_all", longest * dtype.itemsize)
        for a, b in self.pieces(longest, dtype.itemsize, size):
            yield from self.enter()
            areas, count = self.areas(dtype), b - a
            for r, part in enumerate(parts):
                here = part[a:b]
                areas[self.index][r * count : r * count + here.numel()].copy_(here)
            self.publish(code)
            yield from self.meet(self.others, code)
            lo = self.index * count
            for out, area in zip(outs, areas):
                here = out[a:b]
                here.copy_(area[lo : lo + here.numel()])

    def _check_lengths(self, outs, lengths):
        for member, out in enumerate(outs):
            sent = lengths[member][self.index]
            if sent != out.numel():
                raise Mismatch(
                    f"all_to_all: member {member} sends {sent} elements to member {self.index}, "
                    f"which expects {out.numel()}."
                )
