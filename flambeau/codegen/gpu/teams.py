"""Teams: threads of a group that work on one row together, and how they join what they found.

How many make a team is known when a kernel is launched: a few for short rows, a whole group for
long ones. Joins go through shuffles inside a warp and through shared memory between warps, always
in the same order, and every thread of a team knows the result.
"""

from flambeau.codegen.llvm_gpu import _register
from flambeau.codegen.loops import I32, I64, PTR, bytes_of
from flambeau.codegen.target import current

GROUP = 256  # threads
WARP = 32
LONG = 8  # vectors of each thread of a warp, from which a row is worth a whole group
MANY = 4096  # rows from which short teams keep the device busy


def team_of(fn, length, lanes, rows):
    """Threads of a team for rows of so many elements, `lanes` of which are taken at once."""
    vectors = (length + (lanes - 1)) / lanes
    size = fn.value(GROUP, I64)
    # (large ones first: the smallest that will do is chosen last)
    long = (vectors > WARP * LONG) | ((rows < MANY) & (vectors > WARP))
    size = fn.select(long, size, fn.value(WARP, I64))
    for count in (16, 8, 4):
        size = fn.select(vectors <= count, fn.value(count, I64), size)
    return size


def groups_of(fn, length, lanes, rows):
    """How many groups such rows take."""
    each = fn.value(GROUP, I64) / team_of(fn, length, lanes, rows)
    return (rows + each - 1) / each


class Team:
    """The threads that a thread belongs to."""

    def __init__(self, kernel, length, lanes, rows):
        self.kernel, self.fn = kernel, kernel.fn
        self.size = team_of(kernel.fn, length, lanes, rows)
        self.shared: dict = {}

    def items(self, count):
        """A loop over rows that all threads go through alike: with it as first: ... (see `mine`)"""
        each = self.fn.value(GROUP, I64) / self.size
        return self.fn.loop(self.kernel.group * each, count, self.kernel.groups * each)

    def mine(self, first, thread):
        """(row of a thread, its number in the team)"""
        return first + thread / self.size, thread % self.size

    def join(self, cells, join):
        """Join what the threads of each team have in cells (Privates); all know the result.

        join(a, b) writes the join of two lists of values.
        """
        if current().gpu == "ptx":
            self._join(cells, join)
        else:
            self._emulate(cells, join)

    def _join(self, cells, join):
        fn, thread = self.fn, _register(self.fn, "tid")
        for offset in (16, 8, 4, 2, 1):
            with fn.when(self.size > offset):
                own = [c.get(thread) for c in cells]
                other = [_shuffled(fn, v, offset) for v in own]
                upper = (thread & offset) != 0
                first = [fn.select(upper, b, a) for a, b in zip(own, other)]
                second = [fn.select(upper, a, b) for a, b in zip(own, other)]
                for cell, value in zip(cells, join(first, second)):
                    cell.set(thread, value)
        with fn.when(self.size > WARP):
            self._join_warps(thread, cells, join)

    def _join_warps(self, thread, cells, join):
        fn, warps = self.fn, GROUP // WARP
        places = [self._memory(k, c.type) for k, c in enumerate(cells)]
        with fn.when((thread & (WARP - 1)) == 0):
            for cell, place in zip(cells, places):
                fn.store(cell.get(thread), fn.gep(place, thread / WARP, stored(cell.type)))
        self.kernel.barrier()
        total = None
        for w in range(warps):
            part = [
                fn.load(fn.gep(place, w, stored(c.type)), c.type) for c, place in zip(cells, places)
            ]
            total = part if total is None else join(total, part)
        for cell, value in zip(cells, total):
            cell.set(thread, value)
        self.kernel.barrier()

    def _memory(self, k, type, count=GROUP // WARP):
        """Shared memory for component k; the same for all joins of a kernel."""
        found = self.shared.get((k, type, count))
        if found is None:
            found = self.shared[k, type, count] = self.kernel.shared(stored(type), count)
        return found

    def _emulate(self, cells, join):
        """The same joins in the same order, by phases."""
        fn, kernel = self.fn, self.kernel
        places = [self._memory(k, c.type, 2 * GROUP) for k, c in enumerate(cells)]
        for offset in (16, 8, 4, 2, 1):
            with fn.when(self.size > offset):
                self._put(cells, places, 0)
                with kernel.threads() as thread:
                    partner = thread ^ offset
                    low, high = fn.min(thread, partner), fn.max(thread, partner)
                    values = join(self._at(cells, places, low), self._at(cells, places, high))
                    for cell, value in zip(cells, values):
                        cell.set(thread, value)
        with fn.when(self.size > WARP):
            self._put(cells, places, 0)
            with kernel.threads() as thread:
                total = None
                for w in range(GROUP // WARP):
                    part = self._at(cells, places, fn.value(w * WARP, I64))
                    total = part if total is None else join(total, part)
                for cell, value in zip(cells, total):
                    cell.set(thread, value)

    def _put(self, cells, places, start):
        fn = self.fn
        with self.kernel.threads() as thread:
            for cell, place in zip(cells, places):
                fn.store(cell.get(thread), fn.gep(place, thread + start, stored(cell.type)))

    def _at(self, cells, places, k):
        fn = self.fn
        return [fn.load(fn.gep(p, k, stored(c.type)), c.type) for c, p in zip(cells, places)]


def stored(type):
    """The type that a value has in shared memory."""
    return "i8" if type == "i1" else type


def _shuffled(fn, value, offset):
    """The value that the thread has whose number differs in one bit."""
    type = value.type
    if type == "i1" or bytes_of(type) < 4:
        bits = value if type.startswith("i") else fn.convert("bitcast", value, "i16")
        wide = _exchange(fn, fn.convert("zext", bits, I32), offset)
        found = fn.convert("trunc", wide, bits.type)
        return found if type.startswith("i") else fn.convert("bitcast", found, type)
    if bytes_of(type) == 4:
        bits = value if type == I32 else fn.convert("bitcast", value, I32)
        found = _exchange(fn, bits, offset)
        return found if type == I32 else fn.convert("bitcast", found, type)
    bits = value if type in (I64, PTR) else fn.convert("bitcast", value, I64)
    low = _exchange(fn, fn.convert("trunc", bits, I32), offset)
    high = _exchange(fn, fn.convert("trunc", bits >> 32, I32), offset)
    found = fn.convert("zext", low, I64) | (fn.convert("zext", high, I64) << 32)
    return found if type == I64 else fn.convert("bitcast", found, type)


def _exchange(fn, value, offset):
    return fn.call(
        "llvm.nvvm.shfl.sync.bfly.i32", I32, fn.value(-1, I32), value, fn.value(offset, I32),
        fn.value(31, I32), pure=False,
    )  # fmt: skip
