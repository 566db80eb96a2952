"""Kernels that keep the elements a mask names: counting, nonzero, masked_select, masked_scatter.

All work in two passes over fixed chunks: `count` notes how many elements of each chunk are kept (or
gives the number, if there is only one chunk), the caller turns the counts into starting places, and
the second pass writes, each chunk its own part of the result. `repeats` is the inverse: how often
each position occurs, written out. Memory is contiguous.
"""

from flambeau.codegen.descriptions_places import Compaction
from flambeau.codegen.llvm import load_element, masked_store
from flambeau.codegen.llvm_names import MEMORY_TYPE
from flambeau.codegen.loops import I64, V, bytes_of, mangle, vector
from flambeau.codegen.target import current
from flambeau.codegen.templates.indexing import MOVES
from flambeau.codegen.templates.sorting import Kernel


class _Part(Kernel):
    """A kernel on elements side by side: the range of its chunk is begin .. end."""

    def __init__(self, kinds):
        super().__init__(kinds)
        d, fn = self.described(Compaction), self.fn
        self.begin = self.chunk * d.per_chunk
        self.end = fn.min(self.begin + d.per_chunk, d.total)

    def result(self, counts, value):
        """What one chunk alone counted is the status; of several, each leaves its own."""
        fn = self.fn
        where = fn.gep(counts, self.chunk, I64)
        fn.if_else(
            self.word(0) == 1,
            lambda: self.report(value),
            lambda: fn.store(value, where, 8),
        )


def _mask(fn, pointer, dtype, i, w):
    """Which of w elements are not zero?"""
    e = MEMORY_TYPE[dtype]
    value = load_element(fn, fn.gep(pointer, i * 2 if dtype[0] == "c" else i, e), dtype, w, "c")
    if dtype == "bool":
        return value
    if dtype[0] == "c":
        return (value[0] != 0) | (value[1] != 0)
    return value != 0


def _count(fn, mask, w):
    bits = fn.convert("bitcast", mask, f"i{w}") if w > 1 else mask
    if w < 8:
        return fn.intrinsic("ctpop", fn.convert("zext", bits, I64))
    return fn.convert("zext", fn.intrinsic("ctpop", bits), I64)


def build_count(dtype):
    """Arguments: description, elements, counts (one per chunk)."""
    k = _Part("pp")
    fn, (source, counts) = k.fn, k.arguments
    e = MEMORY_TYPE[dtype]
    least = 1 if dtype in ("bool", "u8", "i8") else 4
    w = max(1, min(64, current().vector_bytes // max(bytes_of(e), least)))
    total = fn.var(V(fn, I64, "0"))
    whole = k.begin + ((k.end - k.begin) / w) * w
    with fn.loop(k.begin, whole, w) as i:
        total.set(total.get() + _count(fn, _mask(fn, source, dtype, i, w), w))
    with fn.loop(whole, k.end) as i:
        total.set(total.get() + _count(fn, _mask(fn, source, dtype, i, 1), 1))
    k.result(counts, total.get())
    return k.text()


def _compress(fn, value, mask):
    """The kept lanes first, then anything."""
    rest = V(fn, value.type, "poison")
    name = f"llvm.experimental.vector.compress.{mangle(value.type)}"
    return fn.call(name, value.type, value, mask, rest, pure=False)


def _put(fn, value, target, position, kept, limit, w, e):
    """Store the first `kept` lanes at target[position]; beyond limit lies another chunk's part."""

    def whole():
        fn.store(value, fn.gep(target, position, e))

    def part():
        lanes = fn.convert("trunc", kept, "i32")
        mask = fn.iota(vector("i32", w)).below(fn.splat(lanes, w))
        masked_store(fn, value, fn.gep(target, position, e), mask)

    fn.if_else(position + w <= limit, whole, part)


def build_select(size):
    """masked_select. Arguments: description, elements, mask, starts (and the total), result."""
    k = _Part("ppbp")
    fn, (source, mask, starts, result) = k.fn, k.arguments
    e = MOVES[f"b{size}"]
    position = fn.var(fn.load(fn.gep(starts, k.chunk, I64), I64, 8))
    limit = fn.load(fn.gep(starts, k.chunk + 1, I64), I64, 8)
    # one- and two-byte lanes have no compress instruction on most machines, but widening does
    wide = e if size in (4, 8) else "i32"
    w = 1 if size == 16 else current().vector_bytes // bytes_of(wide)
    whole = k.begin + ((k.end - k.begin) / w) * w if w > 1 else k.begin
    if w > 1:
        with fn.loop(k.begin, whole, w) as i:
            keep = _mask(fn, mask, "bool", i, w)
            count = _count(fn, keep, w)
            with fn.when(count != 0):
                value = fn.load(fn.gep(source, i, e), vector(e, w))
                value = _compress(fn, fn.convert("zext", value, vector(wide, w)), keep)
                value = fn.convert("trunc", value, vector(e, w))
                at = position.get()
                _put(fn, value, result, at, count, limit, w, e)
                position.set(at + count)
    with fn.loop(whole, k.end) as i, fn.when(_mask(fn, mask, "bool", i, 1)):
        at = position.get()
        fn.store(fn.load(fn.gep(source, i, e), e), fn.gep(result, at, e))
        position.set(at + 1)
    return k.text()


def build_nonzero(dtype):
    """Coordinates of elements that are not zero.

    Arguments: description (with rank and sizes), elements, starts, result: a column per dimension,
    the first dimension first.
    """
    k = _Part("pbp")
    fn, (source, starts, result) = k.fn, k.arguments
    w = current().vector_bytes // 8
    at = len(Compaction._fields)  # of the rank; sizes follow
    rank = k.word(at)
    length = k.word(rank + at)
    total = fn.load(fn.gep(starts, k.word(0), I64), I64, 8)
    position = fn.var(fn.load(fn.gep(starts, k.chunk, I64), I64, 8))
    limit = fn.load(fn.gep(starts, k.chunk + 1, I64), I64, 8)
    columns = rank - 1
    coordinates = fn.alloca(I64, 64, 64)
    inner_column = columns * total
    t = vector(I64, w)

    def spell(row):
        """Coordinates of a row, for the columns before the last."""
        rest = fn.var(row)
        with fn.loop(0, columns) as n:
            d = columns - 1 - n
            size = k.word(d + at + 1)
            now = rest.get()
            quotient = fn.pure(f"udiv {now}, {size.name}", I64)
            fn.store(now - quotient * size, fn.gep(coordinates, d, I64), 8)
            rest.set(quotient)

    def step(i, j, width):
        keep = _mask(fn, source, dtype, i, width)
        count = _count(fn, keep, width)
        with fn.when(count != 0):
            at = position.get()
            if width == 1:
                fn.store(j, fn.gep(result, inner_column + at, I64))
            else:
                value = _compress(fn, fn.splat(j, w) + fn.iota(t), keep)
                _put(fn, value, fn.gep(result, inner_column, I64), at, count, limit, w, I64)
            with fn.loop(0, columns) as d:
                value = fn.load(fn.gep(coordinates, d, I64), I64, 8)
                column = fn.gep(result, d * total, I64)
                if width == 1:
                    fn.store(value, fn.gep(column, at, I64))
                else:
                    _put(fn, fn.splat(value, w), column, at, count, limit, w, I64)
            position.set(at + count)

    row = fn.var(fn.pure(f"udiv {k.begin}, {length.name}", I64))
    cell = fn.var(k.begin)
    with fn.while_(lambda: cell.get() < k.end):
        now, r = cell.get(), row.get()
        first = r * length
        stop = fn.min(first + length, k.end)
        spell(r)
        whole = now + ((stop - now) / w) * w
        with fn.loop(now, whole, w) as i:
            step(i, i - first, w)
        with fn.loop(whole, stop) as i:
            step(i, i - first, 1)
        cell.set(stop)
        row.set(r + 1)
    return k.text()


def build_scatter(size):
    """masked_scatter. Arguments: description, target, mask (bool), starts, source."""
    k = _Part("ppbp")
    fn, (target, mask, starts, source) = k.fn, k.arguments
    e = MOVES[f"b{size}"]
    position = fn.var(fn.load(fn.gep(starts, k.chunk, I64), I64, 8))
    w = 1 if size == 16 else current().vector_bytes // max(4, bytes_of(e))
    whole = k.begin + ((k.end - k.begin) / w) * w if w > 1 else k.begin
    if w > 1:
        with fn.loop(k.begin, whole, w) as i:
            t = vector(e, w)
            keep = _mask(fn, mask, "bool", i, w)
            count = _count(fn, keep, w)
            with fn.when(count != 0):
                at, to = position.get(), fn.gep(target, i, e)
                name = f"llvm.masked.expandload.{mangle(t)}"
                fn.store(
                    fn.call(name, t, fn.gep(source, at, e), keep, fn.load(to, t), pure=False), to
                )
                position.set(at + count)
    with fn.loop(whole, k.end) as i, fn.when(_mask(fn, mask, "bool", i, 1)):
        at = position.get()
        fn.store(fn.load(fn.gep(source, at, e), e), fn.gep(target, i, e))
        position.set(at + 1)
    return k.text()


NEGATIVE = -(1 << 60)  # more than all sums of repeats make up for


def build_sum_repeats():
    """Arguments: description, repeats, sums (one per chunk), far below 0 if one is negative."""
    k = _Part("pp")
    fn, (repeats, sums) = k.fn, k.arguments
    total, low = fn.var(V(fn, I64, "0")), fn.var(V(fn, I64, "0"))
    with fn.loop(k.begin, k.end) as i:
        value = fn.load(fn.gep(repeats, i, I64), I64, 8)
        low.set(fn.min(low.get(), value))
        total.set(total.get() + value)
    k.result(sums, fn.select(low.get() < 0, fn.value(NEGATIVE, I64), total.get()))
    return k.text()


def build_repeats():
    """Each position as often as it is repeated. Arguments: description, repeats, starts, result."""
    k = _Part("pbp")
    fn, (repeats, starts, result) = k.fn, k.arguments
    position = fn.var(fn.load(fn.gep(starts, k.chunk, I64), I64, 8))
    with fn.loop(k.begin, k.end) as i:
        at = position.get()
        until = at + fn.load(fn.gep(repeats, i, I64), I64, 8)
        with fn.loop(at, until) as j:
            fn.store(i, fn.gep(result, j, I64))
        position.set(until)
    return k.text()
