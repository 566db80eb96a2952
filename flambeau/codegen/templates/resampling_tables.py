"""Filling the tables that resampling reads by: which inputs an output reads, and how much of each.

A table lists the taps of every output along a dimension: pointers[k] .. pointers[k + 1] are those
of output k, with an index and a weight each. Neighbours at regular places are computed here;
`eager/resampling_tables.py` lists the others. `build_turned` gives the table of the gradient,
`build_blocks` the form in which registers of columns read. All of this takes nanoseconds per tap,
so that pictures of any size can have tables of their own.
"""

from flambeau.codegen import descriptions_images as descriptions
from flambeau.codegen.loops import I32, I64
from flambeau.codegen.templates.resampling import Regular, compute_type, lanes, reach
from flambeau.codegen.templates.sorting import Kernel


class _Table:
    """A table in memory; weights are double if it is wide, else float."""

    def __init__(self, fn, places, wide):
        self.fn, (self.pointers, self.indices, self.weights) = fn, places
        self.scalar = "double" if wide else "float"

    def range(self, k):
        fn = self.fn
        return tuple(fn.load(fn.gep(self.pointers, k + j, I64), I64) for j in (0, 1))

    def begin(self, k, at):
        self.fn.store(at, self.fn.gep(self.pointers, k, I64))

    def index(self, t):
        return self.fn.load(self.fn.gep(self.indices, t, I64), I64)

    def weight(self, t):
        return self.fn.load(self.fn.gep(self.weights, t, self.scalar), self.scalar)

    def put(self, t, index, weight):
        fn = self.fn
        fn.store(index, fn.gep(self.indices, t, I64))
        if self.scalar == "float":
            weight = fn.convert("fptrunc", weight, "float")
        fn.store(weight, fn.gep(self.weights, t, self.scalar))


def build_regular(kind, aligned, exact, wide):
    """Neighbours of places at equal distances (Regular): (pointers, indices, weights, step)."""
    kernel = Kernel("pppf")
    fn, (*places, step) = kernel.fn, kernel.arguments
    _, size, wanted = kernel.described(descriptions.Regular)
    table = _Table(fn, places, wide)
    regular = Regular(fn, kind, aligned, exact, step, size - 1)
    at = fn.var(fn.value(0, I64))

    def put(index, weight):
        table.put(at.get(), index, weight)
        at.set(at.get() + 1)

    def linear(k):
        low, first, inside, second = regular.linear(k)
        put(low, first)
        with fn.when(inside):
            put(low + 1, second)

    def nearest(k):
        put(regular.nearest(k), fn.value(1.0, "double"))

    with fn.loop(0, wanted) as k:
        table.begin(k, at.get())
        (linear if kind == "linear" else nearest)(k)
    _finish(table, wanted, at.get())
    return kernel.text()


def _finish(table, outputs, end):
    table.begin(outputs, end)
    # a place without taps is asked for its first one, which counts for nothing
    table.put(end, table.fn.value(0, I64), table.fn.value(0.0, "double"))


def build_turned(wide):
    """The table of the gradient, for every input the outputs that read it: (old ..., new ...)."""
    kernel = Kernel("pppppp")
    fn, places = kernel.fn, kernel.arguments
    _, outputs, inputs = kernel.described(descriptions.Turned)
    old, new = _Table(fn, places[:3], wide), _Table(fn, places[3:], wide)
    zero = fn.value(0, I64)

    def each(visit):
        with fn.loop(0, outputs) as k, fn.loop(*old.range(k)) as t:
            weight = old.weight(t)
            with fn.when(weight != 0.0):
                visit(k, old.index(t), fn.convert("fpext", weight, "double"))

    def place(i):
        return fn.gep(new.pointers, i, I64)

    with fn.loop(0, inputs + 1) as i:
        fn.store(zero, place(i))
    each(lambda k, i, weight: fn.store(fn.load(place(i), I64) + 1, place(i)))
    total = fn.var(zero)
    with fn.loop(0, inputs) as i:  # counts become beginnings,
        count = fn.load(place(i), I64)
        fn.store(total.get(), place(i))
        total.set(total.get() + count)

    def put(k, i, weight):
        at = fn.load(place(i), I64)
        new.put(at, k, weight)
        fn.store(at + 1, place(i))

    each(put)  # and these the ends,
    with fn.loop(0, inputs) as i:  # which are the beginnings of the next
        fn.store(fn.load(place(inputs - 1 - i), I64), place(inputs - i))
    fn.store(zero, place(zero))
    _finish(new, inputs, fn.load(place(inputs), I64))
    return kernel.text()


WAYS = ("near", "far", "gather")  # how a register reads columns


def build_spread(code):
    """How registers of outputs read: (pointers, indices) -> a number.

    It holds, from its lowest bit on: a one; whether some outputs have fewer taps than others; 2
    bits, the number of the way of reading that reaches far enough; 16 bits, the lanes of a
    register; how many taps an output has at most.
    """
    kernel = Kernel("pp")
    fn, (pointers, indices) = kernel.fn, kernel.arguments
    outputs = kernel.described(descriptions.Spread).outputs
    table, width = _Table(fn, (pointers, indices, pointers), True), lanes(code)
    most, least = fn.var(fn.value(1, I64)), fn.var(fn.value(1 << 62, I64))
    with fn.loop(0, outputs) as k:
        low, high = table.range(k)
        most.set(fn.max(most.get(), high - low))
        least.set(fn.min(least.get(), high - low))
    count, far = most.get(), fn.var(fn.value(0, I64))
    with fn.loop(0, outputs, width) as first, fn.loop(0, count) as k:
        low, high = _extent(fn, table, first, k, width, outputs)
        far.set(fn.max(far.get(), high - low))
    way = fn.value(WAYS.index("gather"), I64)
    for name, limit in sorted(reach(code).items(), key=lambda r: -r[1]):
        way = fn.select(far.get() < limit, fn.value(WAYS.index(name), I64), way)
    ragged = fn.convert("zext", least.get() < count, I64)
    kernel.report((count << 20) | (fn.value(width, I64) << 4) | (way << 2) | (ragged << 1) | 1)
    return kernel.text()


def _extent(fn, table, first, k, width, outputs):
    """(smallest, largest) index among the taps number k of a register; (0, 0) of none."""
    low, high = fn.var(fn.value(1 << 62, I64)), fn.var(fn.value(0, I64))
    with fn.loop(first, fn.min(first + width, outputs)) as j:
        begin, end = table.range(j)
        with fn.when(begin + k < end):
            index = table.index(begin + k)
            low.set(fn.min(low.get(), index))
            high.set(fn.max(high.get(), index))
    return fn.min(low.get(), high.get()), high.get()


def build_blocks(code, gathers):
    """A table for registers of outputs: (old ..., bases, lane indices, lane weights).

    Taps are padded to the same number with zero weights. Indices count from a base of their own for
    the taps number k of each register, or (gathers) from the first input.
    """
    kernel = Kernel("pppppp")
    fn, (*places, bases, lane_indices, lane_weights) = kernel.fn, kernel.arguments
    _, outputs, count = kernel.described(descriptions.Blocks)
    wide, width = compute_type(code) == "f64", lanes(code)
    table, integer = _Table(fn, places, wide), I64 if wide else I32
    with fn.loop(0, outputs, width) as first, fn.loop(0, count) as k:
        slot = (first / width) * count + k
        base, _ = _extent(fn, table, first, k, width, outputs)
        fn.store(base, fn.gep(bases, slot, I64))
        origin = fn.value(0, I64) if gathers else base
        with fn.loop(0, width) as lane:
            output = fn.min(first + lane, outputs - 1)
            begin, end = table.range(output)
            used = (first + lane < outputs) & (begin + k < end)
            tap = fn.select(used, begin + k, 0)
            index = fn.select(used, table.index(tap), base) - origin
            index = index if wide else fn.convert("trunc", index, I32)
            weight = fn.select(used, table.weight(tap), fn.value(0.0, table.scalar))
            at = slot * width + lane
            fn.store(index, fn.gep(lane_indices, at, integer))
            fn.store(weight, fn.gep(lane_weights, at, table.scalar))
    return kernel.text()
