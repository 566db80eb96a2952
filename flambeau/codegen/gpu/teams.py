"""Teams: threads of a group that work on one row together, and how they join what they found.

How many make a team is known when a kernel is launched: a few for short rows, a whole group for
long ones. Joins go through shuffles inside a warp and through shared memory between warps, always
in the same order, and every thread of a team knows the result.
"""

from flambeau.codegen.llvm_gpu import _register
from flambeau.codegen.loops import I32, I64, PTR, V, bytes_of
from flambeau.codegen.target import current

GROUP = 256  # threads
WARP = 32
LONG = 8  # vectors that a thread takes, if there are rows enough for all threads of a GPU
ENOUGH = 1 << 17  # threads that keep a GPU busy


def team_of(fn, length, lanes, rows, each=LONG):
    """Threads of a team for rows of so many elements, `lanes` of which are taken at once.

    each: vectors of a thread, if there are enough rows; otherwise more threads take fewer.
    """
    vectors = (length + (lanes - 1)) / lanes
    size = fn.value(GROUP, I64)
    for count in (128, 64, 32, 16, 8, 4):
        few = (vectors <= count * each) & (rows * count >= ENOUGH) | (vectors <= count)
        size = fn.select(few, fn.value(count, I64), size)
    return size


def groups_of(fn, length, lanes, rows, each=LONG):
    """How many groups such rows take."""
    teams = fn.value(GROUP, I64) / team_of(fn, length, lanes, rows, each)
    return (rows + teams - 1) / teams


class Team:
    """The threads that a thread belongs to."""

    def __init__(self, kernel, length, lanes, rows, each=LONG):
        self.kernel, self.fn = kernel, kernel.fn
        self.size = team_of(kernel.fn, length, lanes, rows, each)
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
        places = self._put_warps(thread, cells)
        self._fold_warps(thread, cells, places, join, 1)
        self.kernel.barrier()

    def _put_warps(self, thread, cells):
        """What each warp has found into shared memory."""
        fn = self.fn
        places = [self._memory(k, c.type) for k, c in enumerate(cells)]
        with fn.when((thread & (WARP - 1)) == 0):
            for cell, place in zip(cells, places):
                fn.store(cell.get(thread), fn.gep(place, thread / WARP, stored(cell.type)))
        self.kernel.barrier()
        return places

    def _fold_warps(self, thread, cells, places, join, scale):
        """Join what the warps of a team have found; places are `scale` numbers apart."""
        fn = self.fn
        first = (thread & -self.size) / WARP
        total = [fn.var(v) for v in self._at(cells, places, first * scale)]
        for w in range(1, GROUP // WARP):
            with fn.when(self.size > w * WARP):
                part = self._at(cells, places, (first + w) * scale)
                for cell, value in zip(total, join([t.get() for t in total], part)):
                    cell.set(value)
        for cell, value in zip(cells, total):
            cell.set(thread, value.get())

    def scan(self, cells, before, combine, identity):
        """Combine what the threads of each team have in cells, in order.

        Afterwards cells have the total of the team, and `before` what comes before the thread.
        combine(a, b) writes the state of two stretches; identity: values of an empty one.
        """
        if current().gpu == "ptx":
            self._scan(cells, before, combine, identity)
        else:
            self._emulate_scan(cells, before, combine, identity)

    def _scan(self, cells, before, combine, identity):
        fn, thread = self.fn, _register(self.fn, "tid")
        inner = thread & (self.size - 1) & (WARP - 1)
        for offset in (1, 2, 4, 8, 16):
            with fn.when(self.size > offset):
                own = [c.get(thread) for c in cells]
                other = [_shuffled(fn, v, offset, "up") for v in own]
                both = combine(other, own)
                for cell, a, b in zip(cells, both, own):
                    cell.set(thread, fn.select(inner >= offset, a, b))
        own = [c.get(thread) for c in cells]
        for cell, value, nothing in zip(before, own, identity):
            cell.set(thread, fn.select(inner == 0, nothing, _shuffled(fn, value, 1, "up")))
        last = (thread | (self.size - 1)) & (WARP - 1)
        for cell, value in zip(cells, own):
            cell.set(thread, _shuffled(fn, value, last, "idx"))
        with fn.when(self.size > WARP):
            self._scan_warps(thread, cells, before, combine, identity)

    def _scan_warps(self, thread, cells, before, combine, identity):
        places = self._put_warps(thread, cells)
        self._fold_before(thread, cells, before, places, combine, identity, 1)
        self.kernel.barrier()

    def _fold_before(self, thread, cells, before, places, combine, identity, scale):
        """The same for a scan: what the warps before this one have found, and all."""
        fn = self.fn
        first = (thread & -self.size) / WARP
        total = mine = identity
        for w in range(GROUP // WARP):
            here, inside = (thread / WARP) == first + w, self.size > w * WARP
            mine = [fn.select(here, a, b) for a, b in zip(total, mine)]
            at = fn.select(inside, first + w, first) * scale
            both = combine(total, self._at(cells, places, at))
            total = [fn.select(inside, a, b) for a, b in zip(both, total)]
        for cell, value in zip(before, combine(mine, [c.get(thread) for c in before])):
            cell.set(thread, value)
        for cell, value in zip(cells, total):
            cell.set(thread, value)

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
                self._fold_warps(thread, cells, places, join, WARP)

    def _emulate_scan(self, cells, before, combine, identity):
        """The same scan in the same order, by phases."""
        fn, kernel = self.fn, self.kernel
        places = [self._memory(k, c.type, 2 * GROUP) for k, c in enumerate(cells)]

        def inner(thread):
            return thread & (self.size - 1) & (WARP - 1)

        for offset in (1, 2, 4, 8, 16):
            with fn.when(self.size > offset):
                self._put(cells, places, 0)
                with kernel.threads() as thread, fn.when(inner(thread) >= offset):
                    earlier = self._at(cells, places, thread - offset)
                    both = combine(earlier, self._at(cells, places, thread))
                    for cell, value in zip(cells, both):
                        cell.set(thread, value)
        self._put(cells, places, 0)
        with kernel.threads() as thread:
            earlier = self._at(cells, places, fn.max(thread - 1, 0))
            for cell, value, nothing in zip(before, earlier, identity):
                cell.set(thread, fn.select(inner(thread) == 0, nothing, value))
            last = thread | (fn.min(self.size, WARP) - 1)
            for cell, value in zip(cells, self._at(cells, places, last)):
                cell.set(thread, value)
        with fn.when(self.size > WARP):
            self._put(cells, places, 0)
            with kernel.threads() as thread:
                self._fold_before(thread, cells, before, places, combine, identity, WARP)

    def _put(self, cells, places, start):
        fn = self.fn
        with self.kernel.threads() as thread:
            for cell, place in zip(cells, places):
                fn.store(cell.get(thread), fn.gep(place, thread + start, stored(cell.type)))

    def _at(self, cells, places, k):
        fn = self.fn
        return [fn.load(fn.gep(p, k, stored(c.type)), c.type) for c, p in zip(cells, places)]


class Whole(Team):
    """A team of all threads of a group."""

    def __init__(self, kernel):
        self.kernel, self.fn, self.shared = kernel, kernel.fn, {}
        self.size = kernel.fn.value(GROUP, I64)


def stored(type):
    """The type that a value has in shared memory."""
    return "i8" if type == "i1" else type


def _shuffled(fn, value, offset, how="bfly"):
    """The value of another thread of the warp: whose number differs in one bit (bfly), is so much
    less (up), or is given (idx).
    """
    type = value.type
    if type == "i1" or bytes_of(type) < 4:
        bits = value if type.startswith("i") else fn.convert("bitcast", value, "i16")
        wide = _exchange(fn, fn.convert("zext", bits, I32), offset, how)
        found = fn.convert("trunc", wide, bits.type)
        return found if type.startswith("i") else fn.convert("bitcast", found, type)
    if bytes_of(type) == 4:
        bits = value if type == I32 else fn.convert("bitcast", value, I32)
        found = _exchange(fn, bits, offset, how)
        return found if type == I32 else fn.convert("bitcast", found, type)
    bits = value if type in (I64, PTR) else fn.convert("bitcast", value, I64)
    low = _exchange(fn, fn.convert("trunc", bits, I32), offset, how)
    high = _exchange(fn, fn.convert("trunc", bits >> 32, I32), offset, how)
    found = fn.convert("zext", low, I64) | (fn.convert("zext", high, I64) << 32)
    return found if type == I64 else fn.convert("bitcast", found, type)


def _exchange(fn, value, offset, how):
    offset = fn.convert("trunc", offset, I32) if isinstance(offset, V) else fn.value(offset, I32)
    clamp = fn.value(0 if how == "up" else 31, I32)
    return fn.call(
        f"llvm.nvvm.shfl.sync.{how}.i32", I32, fn.value(-1, I32), value, offset, clamp, pure=False
    )
