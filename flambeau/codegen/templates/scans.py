"""Scans: running sums, products, extremes and log-sum-exps along a dimension.

A scan is a state, how an element becomes one and how two states combine, written in the scalar
language. Along columns (the dimension is not the last) lanes are independent lines. Along a row the
lanes of a vector are combined in registers, by doubling distances, and the state before the vector
is combined in last, so one addition is all that each vector waits for. A long row is cut into
blocks of a fixed size: totals first, then every block starts from the totals before it.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from flambeau.codegen import scalar as m
from flambeau.codegen.descriptions_places import ScanColumns, ScanRows
from flambeau.codegen.llvm import Emitter, load_element, store_element
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I1, I64, V, bytes_of, vector
from flambeau.codegen.target import current
from flambeau.codegen.templates.sorting import Kernel

UNROLLED = 2  # vectors of columns that are walked together


class Scan(NamedTuple):
    """What to scan with; states are tuples of expressions."""

    types: tuple  # scalar types of the state
    identity: tuple  # numbers: the state of nothing
    lift: Callable  # (element, position) -> state
    combine: Callable  # (state before, state after) -> state
    lower: Callable  # state -> values, one per output


def _wide(code):
    """Where to accumulate: float32 in double, half types in float, as PyTorch does."""
    return {"f32": "f64", "c64": "f64", "c128": "f64"}.get(code, COMPUTE_TYPE[code])


def _summed(code):
    t = _wide(code)
    parts = 2 if code[0] == "c" else 1
    return Scan(
        (t,) * parts,
        (0,) * parts,
        lambda x, i: _parts(x, t),
        lambda a, b: tuple(p + q for p, q in zip(a, b)),
        lambda s: (s,),
    )


def _multiplied(code):
    t = _wide(code)
    if code[0] != "c":
        return Scan(
            (t,), (1,), lambda x, i: _parts(x, t), lambda a, b: (a[0] * b[0],), lambda s: (s,)
        )

    def combine(a, b):
        return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]

    return Scan((t, t), (1, 0), lambda x, i: _parts(x, t), combine, lambda s: (s,))


def _parts(x, type):
    if isinstance(x, m.Complex):
        return m.cast(x.re, type), m.cast(x.im, type)
    return (m.cast(x, type),)


def _extreme(code, better, worst):
    t = COMPUTE_TYPE[code]
    t = "i32" if t == "bool" else t

    def combine(a, b):
        # the later one wins a tie, and a nan wins over everything before it
        take = better(b[0], a[0])
        if m.is_float(t):
            take = take | (b[0] != b[0])
        return m.where(take, b[0], a[0]), m.where(take, b[1], a[1])

    return Scan(
        (t, "i64"),
        (worst(t), 0),
        lambda x, i: (m.cast(x, t), i),
        combine,
        lambda s: ((s[0],), (s[1],)),
    )


def _lowest(type):
    return -math.inf if m.is_float(type) else -(1 << m.BITS[type] - 1) if m.is_signed(type) else 0


def _highest(type):
    if m.is_float(type):
        return math.inf
    return (1 << m.BITS[type] - m.is_signed(type)) - 1


def _log_summed(code):
    """State: the largest exponent so far, and the sum of exponentials scaled by it."""

    # doubles cost little on the host, and much on a GPU
    t = "f32" if current().gpu and code != "f64" else "f64"

    def combine(a, b):
        later = (b[0] > a[0]) | (b[0] != b[0])
        (top, low), (most, rest) = (
            (m.where(later, y, x), m.where(later, x, y)) for x, y in zip(a, b)
        )
        # equal exponents first: the difference of two infinities is nan
        return top, m.fma(rest, m.where(low == top, m.const(1, t), m.exp(low - top)), most)

    return Scan(
        (t, t),
        (-math.inf, 0),
        lambda x, i: (m.cast(x, t), m.const(1, t)),
        combine,
        lambda s: ((s[0] + m.log(s[1]),),),
    )


SCANS = {
    "cumsum": _summed,
    "cumprod": _multiplied,
    "cummax": lambda code: _extreme(code, lambda b, a: b >= a, _lowest),
    "cummin": lambda code: _extreme(code, lambda b, a: b <= a, _highest),
    "logcumsumexp": _log_summed,
}


class _Walk:
    """Writes the steps of one scan into a kernel."""

    def __init__(self, kernel, name, source, targets):
        self.fn, self.source, self.targets = kernel.fn, source, targets
        self.scan = SCANS[name](targets[0] if name in ("cumsum", "cumprod") else source)
        widest = max(bytes_of(MEMORY_TYPE[t]) for t in (*self.scan.types, *targets))
        self.width = current().vector_bytes // widest

    def evaluate(self, expressions, values, width):
        """Values of expressions over `values`, which are (lanes of) machine values by number."""
        emitter = Emitter(self.fn, width, values)
        return tuple(emitter.emit(e) for e in expressions)

    def identity(self, width):
        fn, types = self.fn, self.scan.types
        return tuple(
            fn.value(v, vector(LLVM_TYPE[t], width)) for t, v in zip(types, self.scan.identity)
        )

    def combine(self, before, after, width):
        types = self.scan.types
        n = len(types)
        a = tuple(m.argument(k, t) for k, t in enumerate(types))
        b = tuple(m.argument(n + k, t) for k, t in enumerate(types))
        return self.evaluate(self.scan.combine(a, b), dict(enumerate((*before, *after))), width)

    def load(self, base, at, position, width, mask=None):
        """States of the elements base[at], base[at + 1], ... at a position of their line."""
        fn, code = self.fn, self.source
        parts = 2 if code[0] == "c" else 1
        found = load_element(
            fn, fn.gep(base, at * parts, MEMORY_TYPE[code]), code, width, "c", None, mask
        )
        values = dict(enumerate(found if parts == 2 else (found,)))
        t = COMPUTE_TYPE[code]
        x = m.Complex(m.argument(0, t), m.argument(1, t)) if parts == 2 else m.argument(0, t)
        values[2] = position
        return self.evaluate(self.scan.lift(x, m.argument(2, "i64")), values, width)

    def store(self, bases, at, state, width, mask=None):
        fn = self.fn
        arguments = tuple(m.argument(k, t) for k, t in enumerate(self.scan.types))
        lowered = self.scan.lower(arguments)
        for base, code, parts in zip(bases, self.targets, lowered):
            t = COMPUTE_TYPE[code]
            parts = self.evaluate([m.cast(p, t) for p in parts], dict(enumerate(state)), width)
            pointer = fn.gep(base, at * len(parts), MEMORY_TYPE[code])
            value = parts if len(parts) == 2 else parts[0]
            store_element(fn, value, pointer, code, width, "c", None, mask)

    def within(self, state):
        """Scan the lanes of a vector."""
        fn, w, step = self.fn, self.width, 1
        while step < w:
            # rotate and choose: shifting zeros in becomes vexpand, which is several times slower
            lanes = [(k - step) % w for k in range(w)]
            bits = ", ".join(f"i1 {'true' if k >= step else 'false'}" for k in range(w))
            reached = V(fn, vector(I1, w), f"<{bits}>")
            both = self.combine(tuple(self.turned(s, lanes) for s in state), state, w)
            state = tuple(fn.select(reached, b, s) for b, s in zip(both, state))
            step *= 2
        return state

    def turned(self, value, lanes):
        """The value with its lanes in another order, all of them: where some do not matter LLVM
        takes what is in any register, and every vector then waits for the one before.
        """
        moved = self.fn.shuffle(value, None, lanes)
        return self.fn.pure(f"freeze {moved}", moved.type)

    def last(self, state):
        """The last lane, in all lanes."""
        w = self.width
        return tuple(self.fn.shuffle(s, None, [w - 1] * w) for s in state)

    def row(self, base, bases, low, high, carry):
        """Scan base[low:high] from a state (in variables of width 1), writing results."""
        fn, w = self.fn, self.width
        whole = low + (((high - low) / w) * w) if w > 1 else low
        if w > 1:
            wide = [fn.var(fn.splat(c.get(), w)) for c in carry]
            with fn.loop(low, whole, w) as i:
                position = fn.splat(i, w) + fn.iota(vector(I64, w))
                local = self.within(self.load(base, i, position, w))
                before = tuple(c.get() for c in wide)
                self.store(bases, i, self.combine(before, local, w), w)
                for c, v in zip(wide, self.combine(before, self.last(local), w)):
                    c.set(v)
            for c, v in zip(carry, wide):
                c.set(fn.extract(v.get(), 0))
        with fn.loop(whole, high) as i:
            state = self.combine(tuple(c.get() for c in carry), self.load(base, i, i, 1), 1)
            self.store(bases, i, state, 1)
            for c, v in zip(carry, state):
                c.set(v)


def _offset(fn, base, at, code):
    return fn.gep(base, at * (2 if code[0] == "c" else 1), MEMORY_TYPE[code])


def build_scan_rows(name, source, targets):
    """Scan rows or blocks of rows: (targets..., source, totals).

    With one block per row totals is not read; else it holds the state of each block (see
    build_scan_totals).
    """
    kernel = Kernel("p" * (len(targets) + 2))
    fn, (*outs, x, totals) = kernel.fn, kernel.arguments
    _, pieces, n, block, blocks, per_chunk = kernel.described(ScanRows)
    walk = _Walk(kernel, name, source, targets)
    size = len(walk.scan.types)
    nothing = walk.identity(1)
    carry = [fn.var(v) for v in nothing]
    first = kernel.chunk * per_chunk
    with fn.loop(first, fn.min(first + per_chunk, pieces)) as piece:
        row, number = piece / blocks, piece % blocks
        for c, v in zip(carry, nothing):
            c.set(v)
        with fn.loop(0, number) as k:
            after = _load_state(fn, walk, totals, (row * blocks + k) * size)
            for c, v in zip(carry, walk.combine(tuple(c.get() for c in carry), after, 1)):
                c.set(v)
        low = number * block
        bases = [_offset(fn, o, row * n, code) for o, code in zip(outs, targets)]
        walk.row(_offset(fn, x, row * n, source), bases, low, fn.min(low + block, n), carry)
    return kernel.text()


def _load_state(fn, walk, totals, at):
    types = [LLVM_TYPE[t] for t in walk.scan.types]
    return tuple(fn.load(fn.gep(totals, at + k, I64), t, 8) for k, t in enumerate(types))


def build_scan_totals(name, source, targets):
    """The state of each block: (totals, source)."""
    kernel = Kernel("pp")
    fn, (totals, x) = kernel.fn, kernel.arguments
    _, pieces, n, block, blocks, per_chunk = kernel.described(ScanRows)
    walk = _Walk(kernel, name, source, targets)
    w, size = walk.width, len(walk.scan.types)
    first = kernel.chunk * per_chunk
    with fn.loop(first, fn.min(first + per_chunk, pieces)) as piece:
        base = _offset(fn, x, (piece / blocks) * n, source)
        low = (piece % blocks) * block
        high = fn.min(low + block, n)
        whole = low + (((high - low) / w) * w)
        # lanes hold stretches that are not neighbours, so positions of equal values must not
        # decide: extremes take the doubling scan of each vector instead
        carry = [fn.var(v) for v in walk.identity(w)]
        with fn.loop(low, whole, w) as i:
            position = fn.splat(i, w) + fn.iota(vector(I64, w))
            state = walk.load(base, i, position, w)
            if name.startswith("cumm"):
                state = walk.last(walk.within(state))
            for c, v in zip(carry, walk.combine(tuple(c.get() for c in carry), state, w)):
                c.set(v)
        lanes = tuple(c.get() for c in carry)
        total = walk.last(lanes) if name.startswith("cumm") else walk.last(walk.within(lanes))
        cells = [fn.var(fn.extract(v, 0)) for v in total]
        with fn.loop(whole, high) as i:
            state = walk.combine(tuple(c.get() for c in cells), walk.load(base, i, i, 1), 1)
            for c, v in zip(cells, state):
                c.set(v)
        for k, c in enumerate(cells):
            fn.store(c.get(), fn.gep(totals, piece * size + k, I64), 8)
    return kernel.text()


def build_scan_columns(name, source, targets):
    """Scan down columns that lie side by side: (targets..., source, nothing)."""
    kernel = Kernel("p" * (len(targets) + 2))
    fn, (*outs, x, _) = kernel.fn, kernel.arguments
    _, n, inner, groups, per_group = kernel.described(ScanColumns)
    walk = _Walk(kernel, name, source, targets)
    w = walk.width
    base = (kernel.chunk / groups) * n * inner
    begin = (kernel.chunk % groups) * per_group
    end = fn.min(begin + per_group, inner)

    def down(column, vectors, mask):
        carry = [[fn.var(v) for v in walk.identity(w)] for _ in range(vectors)]
        with fn.loop(0, n) as i:
            at = base + i * inner + column
            position = fn.splat(i, w)
            for k, cells in enumerate(carry):
                state = walk.load(x, at + k * w, position, w, mask)
                state = walk.combine(tuple(c.get() for c in cells), state, w)
                walk.store(outs, at + k * w, state, w, mask)
                for c, v in zip(cells, state):
                    c.set(v)

    many = UNROLLED * w
    whole = begin + (((end - begin) / many) * many)
    with fn.loop(begin, whole, many) as column:
        down(column, UNROLLED, None)
    with fn.loop(whole, end, w) as column:
        left = fn.splat(end - column, w)
        mask = fn.pure(f"icmp slt {fn.iota(left.type)}, {left.name}", vector(I1, w))
        down(column, 1, mask)
    return kernel.text()
