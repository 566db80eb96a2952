"""Counting and searching: runs of equal values, binary search, occurrences of integers.

Runs turn sorted values into unique ones; lines are compared as their keys (see `sorting.py`), by a
merge sort that reads two lines at a time. Launchers: `eager/counting.py`.
"""

from flambeau.codegen.descriptions_places import Counted, Lines, Search
from flambeau.codegen.llvm import convert, load_element
from flambeau.codegen.llvm_names import COMPUTE_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I1, I32, I64, PTR, V
from flambeau.codegen.templates.sorting import Kernel, key_type, order_key


def _value(fn, base, i, dtype):
    return load_element(fn, fn.gep(base, i, MEMORY_TYPE[dtype]), dtype, 1, "c")


def build_runs(dtype, placed):
    """Runs of equal values: (found, inverse, starts, values, places); reports how many.

    found gets the first value of each run, starts where it begins (and n at the end), inverse the
    run of each element, at places[i] if they are placed.
    """
    kernel = Kernel("ppppp")
    fn, (found, inverse, starts, values, places) = kernel.fn, kernel.arguments
    _, n = kernel.described(Counted)
    k = key_type(dtype)
    count = fn.var(fn.value(0, I64))
    before = fn.var(_value(fn, values, fn.value(0, I64), dtype))
    with fn.loop(0, n) as i:
        value = _value(fn, values, i, dtype)
        # nan differs from itself, so every nan is a run of its own
        with fn.when((value != before.get()) | (i == 0)):
            at = count.get()
            fn.store(fn.load(fn.gep(values, i, k), k), fn.gep(found, at, k))
            fn.store(i, fn.gep(starts, at, I64))
            count.set(at + 1)
        before.set(value)
        place = fn.load(fn.gep(places, i, I64), I64) if placed else i
        fn.store(count.get() - 1, fn.gep(inverse, place, I64))
    fn.store(n, fn.gep(starts, count.get(), I64))
    kernel.report(count.get())
    return kernel.text()


# -- lines: several values compared in order -------------------------------------------------------


def _line_order(module, dtype, apart=False):
    """Add `compare(lines, i, j, m)`: -1, 0 or 1 as line i is below, equal to or above line j.

    apart: are lines with a nan equal to no other?
    """
    fn = module.function(
        "compare", [(PTR, "lines"), (I64, "i"), (I64, "j"), (I64, "m")], I32, internal=True
    )
    lines, i, j, m = fn.params
    k = key_type(dtype)
    flat = fn.value(0, k)
    at, result = fn.var(fn.value(0, I64)), fn.var(fn.value(0, I32))
    a, b = i * m, j * m
    with fn.while_(lambda: (at.get() < m) & (result.get() == 0)):
        c = at.get()
        x, y = (order_key(fn, fn.load(fn.gep(lines, p + c, k), k), dtype, flat) for p in (a, b))
        above = fn.convert("zext", y.below(x), I32)
        result.set(above - fn.convert("zext", x.below(y), I32))
        if apart:
            value = _value(fn, lines, a + c, dtype)
            result.set(fn.select(value != value, fn.value(1, I32), result.get()))
        at.set(c + 1)
    fn.ret(result.get())
    return lambda caller, lines, i, j, m: caller.emit(
        f"call i32 @compare({lines}, {i}, {j}, {m})", I32
    )


def build_sort_lines(dtype):
    """Positions of n lines of m values in order: (a, b, lines); reports 1 if they are in b."""
    kernel = Kernel("ppp")
    compare = _line_order(kernel.module, dtype)
    fn, (a, b, lines) = kernel.fn, kernel.arguments
    _, n, m = kernel.described(Lines)
    with fn.loop(0, n) as i:
        fn.store(i, fn.gep(a, i, I64))
    source, target, width = fn.var(a), fn.var(b), fn.var(fn.value(1, I64))
    swapped = fn.var(fn.value(0, I64))
    with fn.while_(lambda: width.get() < n):
        src, dst, w = source.get(), target.get(), width.get()
        with fn.loop(0, n, w * 2) as low:
            middle, high = fn.min(low + w, n), fn.min(low + w * 2, n)
            left, right = fn.var(low), fn.var(middle)
            with fn.loop(low, high) as out:
                i, j = left.get(), right.get()
                second = fn.var(fn.value(True, I1))
                with fn.when((i < middle) & (j < high)):
                    x, y = (fn.load(fn.gep(src, p, I64), I64) for p in (i, j))
                    second.set(compare(fn, lines, y, x, m) < 0)
                with fn.when((i < middle) & (j >= high)):
                    second.set(False)
                step = fn.convert("zext", second.get(), I64)
                from_ = fn.select(second.get(), j, i)
                fn.store(fn.load(fn.gep(src, from_, I64), I64), fn.gep(dst, out, I64))
                right.set(j + step)
                left.set(i + (1 - step))
        source.set(dst)
        target.set(src)
        width.set(w * 2)
        swapped.set(1 - swapped.get())
    kernel.report(swapped.get())
    return kernel.text()


def build_line_runs(dtype):
    """Runs of equal lines: (inverse, starts, lines, places); reports how many."""
    kernel = Kernel("pppp")
    compare = _line_order(kernel.module, dtype, apart=dtype[0] in "fb")
    fn, (inverse, starts, lines, places) = kernel.fn, kernel.arguments
    _, n, m = kernel.described(Lines)
    count = fn.var(fn.value(0, I64))
    before = fn.var(fn.load(places, I64))
    with fn.loop(0, n) as i:
        place = fn.load(fn.gep(places, i, I64), I64)
        differs = compare(fn, lines, before.get(), place, m) != 0
        with fn.when(differs | (i == 0)):
            fn.store(i, fn.gep(starts, count.get(), I64))
            count.set(count.get() + 1)
        before.set(place)
        fn.store(count.get() - 1, fn.gep(inverse, place, I64))
    fn.store(n, fn.gep(starts, count.get(), I64))
    kernel.report(count.get())
    return kernel.text()


# -- search ----------------------------------------------------------------------------------------


def build_search(dtype, out, right, in_rows, by_sorter):
    """Where values belong among sorted boundaries: (found, boundaries, values, sorter).

    The number of steps depends on the number of boundaries only, so the processor predicts them all
    and works ahead.
    """
    kernel = Kernel("pppp")
    fn, (found, boundaries, values, sorter) = kernel.fn, kernel.arguments
    _, count, block, length, per_row = kernel.described(Search)
    low = kernel.chunk * block

    def is_before(at, value, base):
        """Does the value go behind boundary `at`? Written with "not": a nan goes to the end."""
        if by_sorter:
            at = fn.load(fn.gep(sorter, base + at, I64), I64)
        here = _value(fn, boundaries, base + at, dtype)
        if dtype[0] == "u":
            return ~value.below(here) if right else here.below(value)
        return ~(here > value) if right else ~(here >= value)

    with fn.loop(low, fn.min(low + block, count)) as i:
        value = _value(fn, values, i, dtype)
        base = (i / per_row) * length if in_rows else fn.value(0, I64)
        start, left = fn.var(fn.value(0, I64)), fn.var(length)
        with fn.while_(lambda left=left: left.get() > 1):
            n, at = left.get(), start.get()
            half = n >> 1
            start.set(fn.select(is_before(at + half - 1, value, base), at + half, at))
            left.set(n - half)
        with fn.when(left.get() == 1):
            at = start.get()
            start.set(at + fn.convert("zext", is_before(at, value, base), I64))
        result = convert(fn, start.get(), "i64", out)
        fn.store(result, fn.gep(found, i, MEMORY_TYPE[out]))
    return kernel.text()


# -- occurrences -----------------------------------------------------------------------------------


def build_bincount(dtype, weight):
    """Occurrences (or sums of weights) of integers: (counts, values, weights).

    weight is None, f32 or f64; counts are cleared by the caller.
    """
    kernel = Kernel("ppp")
    fn, (counts, values, weights) = kernel.fn, kernel.arguments
    _, n = kernel.described(Counted)
    t = I64 if weight is None else MEMORY_TYPE[weight]
    with fn.loop(0, n) as i:
        value = convert(fn, _value(fn, values, i, dtype), COMPUTE_TYPE[dtype], "i64")
        slot = fn.gep(counts, value, t)
        amount = fn.value(1, I64) if weight is None else _value(fn, weights, i, weight)
        fn.store(fn.load(slot, t) + amount, slot)
    return kernel.text()


def build_sorter_check():
    """Are all indices within 0 .. length - 1? (indices). Fails with 1 if not."""
    kernel = Kernel("p")
    fn, (indices,) = kernel.fn, kernel.arguments
    _, n, length = kernel.described(Lines)
    bad = fn.var(V(fn, I1, "false"))
    with fn.loop(0, n) as i:
        bad.set(bad.get() | ~fn.load(fn.gep(indices, i, I64), I64).below(length))
    kernel.fail(bad.get())
    return kernel.text()
