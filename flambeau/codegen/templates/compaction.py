"""Kernels that keep the elements a mask names: counting, nonzero, masked_select, masked_scatter.

All work in two passes over fixed chunks: `count` notes how many elements of each chunk are kept,
the caller turns the counts into starting places, and the second pass writes, each chunk its own
part of the result. `repeats` is the inverse: how often each position occurs, written out. Memory is
contiguous.
"""

from flambeau.codegen.llvm import load_element, masked_store
from flambeau.codegen.llvm_cpu import add_entry, argument_word, module_text
from flambeau.codegen.llvm_names import MEMORY_TYPE
from flambeau.codegen.loops import I64, PTR, Module, V, bytes_of, mangle, vector
from flambeau.codegen.target import current
from flambeau.codegen.templates.indexing import MOVES

# description: chunks, elements per chunk, elements; for nonzero also rank, sizes


class _Kernel:
    """The start of a body: its arguments and the range of its chunk."""

    def __init__(self, pointers):
        self.module = Module()
        fn = self.fn = self.module.function("body", [(PTR, "block"), (I64, "chunk")], internal=True)
        self.block, self.chunk = fn.params
        self.kinds = "p" * (1 + pointers)
        self.description = argument_word(fn, self.block, 0, "p")
        self.pointers = [argument_word(fn, self.block, 1 + k, "p") for k in range(pointers)]
        self.status = fn.gep(self.block, 1 + pointers, I64)
        piece, total = self.word(1), self.word(2)
        self.begin = self.chunk * piece
        self.end = fn.min(self.begin + piece, total)

    def word(self, index):
        return self.fn.load(self.fn.gep(self.description, index, I64), I64, 8)

    def text(self):
        self.fn.ret()
        add_entry(self.module, self.kinds)
        return module_text(self.module)


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
    k = _Kernel(2)
    fn, (source, counts) = k.fn, k.pointers
    e = MEMORY_TYPE[dtype]
    least = 1 if dtype in ("bool", "u8", "i8") else 4
    w = max(1, min(64, current().vector_bytes // max(bytes_of(e), least)))
    total = fn.var(V(fn, I64, "0"))
    whole = k.begin + ((k.end - k.begin) / w) * w
    with fn.loop(k.begin, whole, w) as i:
        total.set(total.get() + _count(fn, _mask(fn, source, dtype, i, w), w))
    with fn.loop(whole, k.end) as i:
        total.set(total.get() + _count(fn, _mask(fn, source, dtype, i, 1), 1))
    fn.store(total.get(), fn.gep(counts, k.chunk, I64), 8)
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


def build_select(dtype):
    """masked_select. Arguments: description, elements, mask, starts (and the total), result."""
    k = _Kernel(4)
    fn, (source, mask, starts, result) = k.fn, k.pointers
    e = MOVES[dtype]
    size = int(dtype[1:])
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
    k = _Kernel(3)
    fn, (source, starts, result) = k.fn, k.pointers
    w = current().vector_bytes // 8
    rank = k.word(3)
    length = fn.load(fn.gep(k.description, rank + 3, I64), I64, 8)
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
            size = fn.load(fn.gep(k.description, d + 4, I64), I64, 8)
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


def build_scatter(dtype):
    """masked_scatter. Arguments: description, target, mask (bool), starts, source."""
    k = _Kernel(4)
    fn, (target, mask, starts, source) = k.fn, k.pointers
    e = MOVES[dtype]
    position = fn.var(fn.load(fn.gep(starts, k.chunk, I64), I64, 8))
    w = 1 if dtype == "b16" else current().vector_bytes // max(4, bytes_of(e))
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


def build_sum_repeats():
    """Arguments: description, repeats, sums (one per chunk); status 1 if one is negative."""
    k = _Kernel(2)
    fn, (repeats, sums) = k.fn, k.pointers
    total = fn.var(V(fn, I64, "0"))
    with fn.loop(k.begin, k.end) as i:
        value = fn.load(fn.gep(repeats, i, I64), I64, 8)
        with fn.when(value < 0):
            fn.store(V(fn, I64, "1"), k.status, 8)
        total.set(total.get() + value)
    fn.store(total.get(), fn.gep(sums, k.chunk, I64), 8)
    return k.text()


def build_repeats():
    """Each position as often as it is repeated. Arguments: description, repeats, starts, result."""
    k = _Kernel(3)
    fn, (repeats, starts, result) = k.fn, k.pointers
    position = fn.var(fn.load(fn.gep(starts, k.chunk, I64), I64, 8))
    with fn.loop(k.begin, k.end) as i:
        at = position.get()
        until = at + fn.load(fn.gep(repeats, i, I64), I64, 8)
        with fn.loop(at, until) as j:
            fn.store(i, fn.gep(result, j, I64))
        position.set(until)
    return k.text()
