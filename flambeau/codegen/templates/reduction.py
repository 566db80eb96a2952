"""Reductions: a row program (vectors run along what is reduced) and a column program (across).

A reduction has a state of one or more values: `start` gives the neutral state, `step` takes one
element in, `join` merges two states, `finish` turns a state into results. Both programs walk any
strides. When there are few results and much to reduce, the work is cut into pieces of fixed size
whose states go to a scratch array; a second launch joins them in order. So the tree of additions
depends on sizes only.
"""

from collections.abc import Callable
from typing import NamedTuple

from flambeau.codegen import scalar
from flambeau.codegen.descriptions import Reducing
from flambeau.codegen.llvm import Emitter, from_memory, load_element, store_element
from flambeau.codegen.llvm_cpu import add_entry, argument_word, module_text
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I64, PTR, Module, V, bytes_of, vector
from flambeau.codegen.target import current

# Rounding errors stay small because partial results are short: a column program starts a new one
# every BLOCK rows, a row program every STRETCH elements or TURN vectors; totals of them have wider
# states where there are any.
BLOCK = 8
STRETCH = 1 << 14
TURN = 64
TOTALS = 1 << 14  # bytes of totals that a column program holds at once: they stay in cache


class Head(NamedTuple):
    """Elements that are computed from others, which lie as the input would."""

    inputs: tuple  # (dtype name, c or s: one per element, or one for all)
    scalars: str  # kind letters of numbers
    value: scalar.Expr  # of the inputs, then of the numbers


class Reduction(NamedTuple):
    """What is reduced: everything the machine code depends on besides strides and sizes."""

    input: str  # dtype name of the input
    outputs: tuple  # dtype name per result
    state: tuple  # scalar type per component of the state
    start: Callable  # () -> state
    step: Callable  # (state, element, index, *scalars) -> state; index: place in the reduced range
    join: Callable  # (state, state) -> state
    finish: Callable  # (state, count, *scalars) -> results; count: how many elements were reduced
    scalars: str  # kind letters of extra numbers
    indexed: bool  # does step look at index?
    wide: "Reduction | None" = None  # the same with wider states, for totals of partial results
    head: Head | None = None


class Shape(NamedTuple):
    """The pattern of a launch."""

    kept: int  # number of kept dimensions that are walked row by row
    reduced: int  # number of reduced dimensions that are walked row by row
    access: str  # c or n: along the vector dimension
    source: str  # "elements" or "states"
    sink: str  # "results" or "states"
    long: bool = False  # are runs along the vector dimension long?


# Behind the words of `Reducing`: kept sizes, kept input strides, kept output positions (elements of
# the output), reduced sizes, reduced strides.
HEADER = len(Reducing._fields)


def vector_width(r):
    sizes = [bytes_of(MEMORY_TYPE[COMPUTE_TYPE[r.input]]), bytes_of(MEMORY_TYPE[r.input])]
    sizes += [
        bytes_of(LLVM_TYPE[t]) if t != "bool" else 1 for t in r.state if t != "i64" or not r.indexed
    ]
    return max(1, current().vector_bytes // max(sizes))


class _Program:
    """What both programs share: arguments, odometers, states in registers."""

    def __init__(self, r, shape):
        self.r, self.shape = r, shape
        self.wide = r.wide or r
        self.module = Module()
        self.fn = fn = self.module.function("body", [(PTR, "block"), (I64, "chunk")], internal=True)
        self.block, self.chunk = fn.params
        self.width = vector_width(r)
        self.n_state = len(r.state)
        self.n_out = len(r.outputs) if shape.sink == "results" else self.n_state
        self.n_in = 1 if shape.source == "elements" else self.n_state
        self.head = r.head
        if self.head is not None:
            self.n_in = len(self.head.inputs)
        self.kinds = "p" * (1 + self.n_out + self.n_in) + r.scalars
        self.kinds += "" if self.head is None else self.head.scalars

    def text(self):
        fn = self.fn
        self.description = argument_word(fn, self.block, 0, "p")
        self.outs = [argument_word(fn, self.block, 1 + k, "p") for k in range(self.n_out)]
        self.ins = [
            argument_word(fn, self.block, 1 + self.n_out + k, "p") for k in range(self.n_in)
        ]
        first = 1 + self.n_out + self.n_in
        self.scalars = [
            argument_word(fn, self.block, first + k, kind) for k, kind in enumerate(self.r.scalars)
        ]
        first += len(self.r.scalars)
        self.numbers = (
            []
            if self.head is None
            else [
                argument_word(fn, self.block, first + k, kind)
                for k, kind in enumerate(self.head.scalars)
            ]
        )
        for k, name in enumerate(Reducing._fields):
            setattr(self, name, self.word(k))
        kept, reduced = self.shape.kept, self.shape.reduced
        at = HEADER
        self.kept_sizes = [self.word(at + k) for k in range(kept)]
        self.kept_strides = [self.word(at + kept + k) for k in range(kept)]
        self.kept_outs = [self.word(at + 2 * kept + k) for k in range(kept)]
        at += 3 * kept
        self.reduced_sizes = [self.word(at + k) for k in range(reduced)]
        self.reduced_strides = [self.word(at + reduced + k) for k in range(reduced)]
        self.write()
        fn.ret()
        add_entry(self.module, self.kinds, describe=self.describe)
        return module_text(self.module)

    describe = None

    def word(self, k):
        return self.fn.load(self.fn.gep(self.description, k, I64), I64, 8)

    def offsets(self, index, sizes, *tables):
        """Split a linear index over sizes and weigh the coordinates by each table of strides."""
        fn, sums, rest = self.fn, [fn_zero(self.fn) for _ in tables], index
        for d in range(len(sizes) - 1, -1, -1):
            if d:
                quotient = fn.pure(f"udiv {rest}, {sizes[d].name}", I64)
                coordinate, rest = rest - quotient * sizes[d], quotient
            else:
                coordinate = rest
            sums = [s + coordinate * t[d] for s, t in zip(sums, tables)]
        return sums

    # -- states ------------------------------------------------------------------------------------
    def emit(self, width, function, *values):
        """Run a function of the reduction on values (lists of V per state, or single V)."""
        arguments, symbols = {}, []

        def symbol(value, type):
            key = len(arguments)
            arguments[key] = value
            return scalar.argument(key, type)

        for value, types in values:
            if isinstance(types, tuple):
                symbols.append(tuple(symbol(v, t) for v, t in zip(value, types)))
            elif types[0] == "c":
                real = COMPUTE_TYPE[types]
                symbols.append(scalar.Complex(symbol(value[0], real), symbol(value[1], real)))
            else:
                symbols.append(symbol(value, types))
        found = function(*symbols)
        emitter = Emitter(self.fn, width, arguments)
        return [emitter.emit(e) for e in (found if isinstance(found, tuple) else (found,))]

    def neutral(self, width):
        return self.emit(width, lambda: self.r.start())

    def cells(self, width):
        return [self.fn.var(v) for v in self.neutral(width)]

    def join(self, width, a, b):
        return self.emit(width, self.r.join, (a, self.r.state), (b, self.r.state))

    def totals(self, width):
        """Cells for a total."""
        return [self.fn.var(v) for v in self.emit(width, lambda: self.wide.start())]

    def widened(self, width, state):
        if self.r.wide is None:
            return state
        types = self.wide.state
        return self.emit(
            width,
            lambda s: tuple(scalar.cast(v, t) for v, t in zip(s, types)),
            (state, self.r.state),
        )

    def fold(self, width, cells, state):
        """A partial result into a total."""
        total, types = [c.get() for c in cells], self.wide.state
        found = self.emit(
            width, self.wide.join, (total, types), (self.widened(width, state), types)
        )
        for cell, value in zip(cells, found):
            cell.set(value)

    def step(self, width, state, x, index, mask):
        """Take in one element per lane; masked lanes keep their state."""
        fn, r = self.fn, self.r
        if self.shape.source == "states":
            new = self.join(width, state, x)
        else:
            position = fn.splat(index, width) if index.type == I64 and width > 1 else index
            numbers = [
                (fn.splat(s, width), "f64" if k == "f" else "i64")
                for s, k in zip(self.scalars, r.scalars)
            ]
            kind = r.input if r.input[0] == "c" else COMPUTE_TYPE[r.input]
            new = self.emit(width, r.step, (state, r.state), (x, kind), (position, "i64"), *numbers)
        return new if mask is None else [fn.select(mask, n, o) for n, o in zip(new, state)]

    def load(self, base, width, access, mask):
        """The element(s), or the state(s), at an address (a list of addresses for states)."""
        fn = self.fn
        if self.head is not None:
            return self.computed(base, width, access, mask)
        if self.shape.source == "elements":
            return load_element(fn, base[0], self.r.input, width, access, self.stride, mask)
        return [
            load_element(fn, b, _memory(t), width, access, self.stride, mask)
            for b, t in zip(base, self.r.state)
        ]

    def computed(self, bases, width, access, mask):
        """The element(s) that a head gives."""
        fn, values = self.fn, []
        for base, (dtype, how) in zip(bases, self.head.inputs):
            how = access if how == "c" else how
            step = self.scaled(self.stride, dtype) if how == "n" else None
            values.append(load_element(fn, base, dtype, width, how, step, mask))
        values += [fn.splat(x, width) for x in self.numbers]
        return Emitter(fn, width, dict(enumerate(values))).emit(self.head.value)

    def scaled(self, offset, dtype):
        """Bytes of the input as bytes of elements of another size."""
        new, old = (bytes_of(MEMORY_TYPE[d]) for d in (dtype, self.r.input))
        return offset * (new // old) if new >= old else offset / (old // new)

    def at(self, bases, index, access):
        """Addresses index elements further along the vector dimension."""
        fn, found = self.fn, []
        if self.head is not None:
            return self.moved(bases, index * self.step_of(access))
        for k, b in enumerate(bases):
            if access == "n":
                found.append(fn.gep(b, index * self.stride, "i8"))
            else:
                dtype = (
                    self.r.input if self.shape.source == "elements" else _memory(self.r.state[k])
                )
                found.append(fn.gep(b, index * 2 if dtype[0] == "c" else index, MEMORY_TYPE[dtype]))
        return found

    def step_of(self, access):
        return self.stride if access == "n" else bytes_of(MEMORY_TYPE[self.r.input])

    def moved(self, bases, offset):
        if self.head is None:
            return [self.fn.gep(b, offset, "i8") for b in bases]
        return [
            self.fn.gep(b, self.scaled(offset, dtype), "i8") if how == "c" else b
            for b, (dtype, how) in zip(bases, self.head.inputs)
        ]

    def put(self, width, state, position, access, mask):
        """Store a total as results (or as a state) at an element position of the outputs."""
        fn, r = self.fn, self.wide
        if self.shape.sink == "states":
            values, dtypes = state, [_memory(t) for t in r.state]
        else:
            numbers = [
                (fn.splat(s, width), "f64" if k == "f" else "i64")
                for s, k in zip(self.scalars, r.scalars)
            ]
            count = (fn.splat(self.count, width), "i64")
            dtypes = r.outputs
            values = self.emit(
                width,
                lambda s, c, *n: _as_outputs(r.finish(s, c, *n), dtypes),
                (state, r.state),
                count,
                *numbers,
            )
        for value, out, dtype in zip(values, self.outs, dtypes):
            size = bytes_of(MEMORY_TYPE[dtype]) * (2 if dtype[0] == "c" else 1)
            pointer = fn.gep(out, position * size, "i8")
            store_element(fn, value, pointer, dtype, width, access, self.out_stride * size, mask)


def _memory(type):
    return type


def _as_outputs(values, dtypes):
    values = values if isinstance(values, tuple) else (values,)
    found = []
    for v, d in zip(values, dtypes):
        type = COMPUTE_TYPE[d]
        if isinstance(v, scalar.Complex):
            found.append(scalar.Complex(scalar.cast(v.re, type), scalar.cast(v.im, type)))
        else:
            found.append(scalar.cast(v, type))
    return tuple(found)


def fn_zero(fn):
    return V(fn, I64, "0")


class RowProgram(_Program):
    """Vectors run along the innermost reduced dimension; a row gives one result (or one state)."""

    def write(self):
        fn = self.fn
        first = (self.chunk / self.pieces) * self.per_chunk
        part = self.chunk % self.pieces
        with fn.loop(first, fn.min(first + self.per_chunk, self.rows)) as row:
            start, out = self.offsets(row, self.kept_sizes, self.kept_strides, self.kept_outs)
            bases = self.moved(self.ins, start)
            total = self.reduce_row(bases, part)
            if self.shape.sink == "states":
                out = part * self.rows + row
            self.put(1, total, out, "c", None)

    def reduce_row(self, bases, part):
        fn = self.fn
        low, high = part * self.piece, part * self.piece + self.piece
        unroll = (
            4
            if self.n_state == 1 and self.shape.source == "elements" and self.r.input[0] != "c"
            else 2
        )
        if not self.shape.reduced:
            high = fn.min(high, self.length)
            if not self.shape.long:
                return self.widened(1, self.partial(unroll, bases, low, high))
            return self.long_run(unroll, bases, low, high)
        rows = fn_one(fn)
        for s in self.reduced_sizes:
            rows = rows * s
        high = fn.min(high, rows)
        group = fn_one(fn) * STRETCH / fn.max(self.length, fn_one(fn)) + 1
        total = self.totals(1)
        with fn.loop(low, high, group) as first:
            cells = [self.cells(self.width) for _ in range(unroll)]
            with fn.loop(first, fn.min(first + group, high)) as k:
                (offset,) = self.offsets(k, self.reduced_sizes, self.reduced_strides)
                self.run(
                    self.moved(bases, offset), fn_zero(fn), self.length, k * self.length, cells
                )
            self.fold(1, total, self.across([self.gathered(c) for c in cells]))
        return self.gathered(total)

    def partial(self, unroll, bases, low, high):
        cells = [self.cells(self.width) for _ in range(unroll)]
        self.run(bases, low, high, fn_zero(self.fn), cells)
        return self.across([self.gathered(c) for c in cells])

    def gathered(self, cells):
        return [c.get() for c in cells]

    def run(self, bases, low, high, base_index, cells):
        """One run along the vector dimension, in order, with several states side by side."""
        fn, w = self.fn, self.width
        wide = w * len(cells)
        whole = low + ((high - low) / wide) * wide
        with fn.loop(low, whole, wide) as i:
            for k, state in enumerate(cells):
                self.take(bases, i + k * w, base_index, state, None)
        self.rest(bases, whole, high, base_index, cells)

    def long_run(self, count, bases, low, high):
        """A long run: some of `count` states, 64 bytes of vectors, walk a stretch of their own.

        Several streams keep more of memory busy than one, but a stream should take whole lines of
        the cache. Every TURN vectors a state is folded into a total, lane by lane.
        """
        fn, w = self.fn, self.width
        totals = [self.totals(w) for _ in range(count)]
        beside = min(count, max(1, 64 // current().vector_bytes))
        step = w * beside
        stretch = ((high - low) / (w * count)) * step
        with fn.loop(0, stretch, TURN * step) as turn:
            cells = [self.cells(w) for _ in range(count)]
            with fn.loop(turn, fn.min(turn + TURN * step, stretch), step) as i:
                for k, state in enumerate(cells):
                    stream, nth = divmod(k, beside)
                    at = low + i + stretch * stream + nth * w
                    self.take(bases, at, fn_zero(fn), state, None)
            for total, state in zip(totals, cells):
                self.fold(w, total, self.gathered(state))
        cells = [self.cells(w) for _ in range(count)]
        self.rest(bases, low + stretch * (count // beside), high, fn_zero(fn), cells)
        for total, state in zip(totals, cells):
            self.fold(w, total, self.gathered(state))
        return self.across([self.gathered(t) for t in totals], self.wide)

    def rest(self, bases, whole, high, base_index, cells):
        """What is left after whole vectors."""
        fn, w = self.fn, self.width
        # what is left (fewer than `wide` elements) goes through masks, all states at once
        with fn.when(whole < high):
            for k, state in enumerate(cells):
                left = fn.convert("trunc", high - whole - k * w, "i32")
                if w > 1:
                    mask = fn.iota(vector("i32", w)) < fn.splat(left, w)
                    self.take(bases, whole + k * w, base_index, state, mask)
                else:
                    with fn.when(left > 0):
                        self.take(bases, whole + k * w, base_index, state, None)

    def take(self, bases, i, base_index, cells, mask):
        fn, w = self.fn, self.width
        x = self.load(self.at(bases, i, self.shape.access), w, self.shape.access, mask)
        index = i + base_index
        if w > 1:
            index = (
                fn.splat(index, w) + fn.iota(vector(I64, w))
                if self.r.indexed
                else V(fn, vector(I64, w), "zeroinitializer")
            )
        new = self.step(w, self.gathered(cells), x, index, mask)
        for cell, value in zip(cells, new):
            cell.set(value)

    def across(self, states, reduction=None):
        """Join the states side by side, then the lanes, always in the same order."""
        fn, w, r = self.fn, self.width, reduction or self.r

        def join(width, a, b):
            return self.emit(width, r.join, (a, r.state), (b, r.state))

        while len(states) > 1:
            half = len(states) // 2
            states = [join(w, a, b) for a, b in zip(states[:half], states[half:])]
        state = states[0]
        while w > 1:
            w //= 2
            low = [fn.shuffle(v, None, range(w)) if w > 1 else fn.extract(v, 0) for v in state]
            high = [
                fn.shuffle(v, None, range(w, 2 * w)) if w > 1 else fn.extract(v, 1) for v in state
            ]
            state = join(w, low, high)
        return state


def fn_one(fn):
    return V(fn, I64, "1")


class ColumnProgram(_Program):
    """Vectors run across kept elements; each lane gives one result."""

    @property
    def unroll(self):
        if self.r.input[0] == "c" or self.n_state > 2:
            return 2
        return 8 if self.n_state == 1 else 3 if self.r.indexed else 6

    def write(self):
        fn, w = self.fn, self.width
        # chunk -> (piece of the reduced range, rows, columns); columns are cut by `per_chunk` here
        blocks = (self.length + self.per_chunk - 1) / self.per_chunk
        part = self.chunk % self.pieces
        rest = self.chunk / self.pieces
        row, block = rest / blocks, rest % blocks
        start, out = self.offsets(row, self.kept_sizes, self.kept_strides, self.kept_outs)
        bases = self.moved(self.ins, start)
        if self.shape.sink == "states":
            out = (part * self.rows + row) * self.length
        low = block * self.per_chunk
        high = fn.min(low + self.per_chunk, self.length)
        types = self.wide.state
        columns = TOTALS // sum([bytes_of(MEMORY_TYPE[t]) for t in types]) & -64
        self.totals_at = [fn.alloca(MEMORY_TYPE[t], columns + w) for t in types]
        rows = fn_one(fn)
        for s in self.reduced_sizes:
            rows = rows * s
        first = part * self.piece
        last = fn.min(first + self.piece, rows)
        with fn.loop(low, high, columns) as left:
            right = fn.min(left + columns, high)
            with fn.loop(left, right, w) as j:
                self.keep(j - left, self.emit(w, lambda: self.wide.start()))
            # a few rows at a time, over all columns: as many streams as a prefetcher can follow
            with fn.loop(first, last, BLOCK) as top:
                bottom = fn.min(top + BLOCK, last)
                self.vectors(
                    left,
                    right,
                    self.unroll,
                    lambda j, count, mask: self.columns(bases, left, j, count, mask, top, bottom),
                )
            self.vectors(left, right, 1, lambda j, count, mask: self.results(left, j, mask, out))

    def vectors(self, left, right, unroll, run):
        """run(column, vectors, mask) over columns: several vectors, then one, then a masked one."""
        fn, w = self.fn, self.width
        whole = left
        if unroll > 1:
            wide = w * unroll
            whole = left + ((right - left) / wide) * wide
            with fn.loop(left, whole, wide) as j:
                run(j, unroll, None)
        rest = whole + ((right - whole) / w) * w
        with fn.loop(whole, rest, w) as j:
            run(j, 1, None)
        if w > 1:
            with fn.when(rest < right):
                lanes = fn.convert("trunc", right - rest, "i32")
                mask = fn.iota(vector("i32", w)) < fn.splat(lanes, w)
                run(rest, 1, mask)

    def keep(self, place, values):
        """Totals of a vector of columns into the buffer."""
        for base, t, value in zip(self.totals_at, self.wide.state, values):
            at = self.fn.gep(base, place, MEMORY_TYPE[t])
            store_element(self.fn, value, at, t, self.width, "c")

    def kept(self, place):
        return [self.total(base, place, t) for base, t in zip(self.totals_at, self.wide.state)]

    def total(self, base, place, t):
        """One number of the totals of a vector of columns.

        "volatile", or LLVM makes a masked store of what is chosen between a total and something
        else, which processors without mask registers take many steps for.
        """
        fn, e, w = self.fn, MEMORY_TYPE[t], self.width
        at = fn.gep(base, place, e)
        if t[0] == "c" or w == 1:
            return load_element(fn, at, t, w, "c")
        wide = vector(e, w)
        raw = fn.emit(f"load volatile {wide}, {at}, align {bytes_of(e)}", wide)
        return from_memory(fn, raw, t)

    def columns(self, bases, left, j, count, mask, top, bottom):
        """Reduce rows top to bottom of `count` vectors of columns, and add that to their totals."""
        fn, w = self.fn, self.width
        cells = [self.cells(w) for _ in range(count)]
        with fn.loop(top, bottom) as k:
            (offset,) = self.offsets(k, self.reduced_sizes, self.reduced_strides)
            row = self.moved(bases, offset)
            for c in range(count):
                at = self.at(row, j + c * w, self.shape.access)
                x = self.load(at, w, self.shape.access, mask)
                new = self.step(w, [v.get() for v in cells[c]], x, fn.splat(k, w), None)
                for cell, value in zip(cells[c], new):
                    cell.set(value)
        types = self.wide.state
        for c in range(count):
            place = j - left + c * w
            state = self.widened(w, [v.get() for v in cells[c]])
            self.keep(
                place, self.emit(w, self.wide.join, (self.kept(place), types), (state, types))
            )

    def results(self, left, j, mask, out):
        """Totals of a vector of columns become results (or states)."""
        states = self.shape.sink == "states"
        position = out + (j if states else j * self.out_stride)
        self.put(
            self.width, self.kept(j - left), position, "c" if states else self.out_access, mask
        )

    out_access = "n"


def _describe_whole(fn, block, number):
    """A description for one run of any number of elements, where [0, bytes per element] came in."""
    own = fn.alloca(I64, HEADER, 8)
    given = fn.load(block, PTR)
    with fn.when(fn.load(given, I64, 8) == 0):
        n, size = number(), fn.load(fn.gep(given, 1, I64), I64, 8)
        one = fn.value(1, I64)
        words = Reducing(one, one, one, one, n, n, size, n, one, fn.value(0, I64))
        for k, word in enumerate(words):
            fn.store(word, fn.gep(own, k, I64), 8)
        fn.store(own, block, 8)
    return HEADER


def build_rows(r, shape):
    """IR of a reduction along rows."""
    program = RowProgram(r, Shape(*shape))
    if shape[:5] == (0, 0, "c", "elements", "results") and r.head is None:
        program.describe = _describe_whole
    program.out_access = "c"
    return program.text()


def build_columns(r, shape, out_access):
    """IR of a reduction down columns."""
    program = ColumnProgram(r, Shape(*shape))
    program.out_access = out_access
    return program.text()


class JoinProgram(ColumnProgram):
    """The second launch: columns are results, rows the states of pieces, one array per component.

    Strides are given in states and scaled here, since components differ in size.
    """

    def moved(self, bases, offset):
        fn = self.fn
        return [
            fn.gep(b, offset * bytes_of(MEMORY_TYPE[t]), "i8") for b, t in zip(bases, self.r.state)
        ]


def build_join(r, shape, out_access):
    """IR of the second launch."""
    program = JoinProgram(r.wide or r, Shape(*shape))
    program.out_access = out_access
    return program.text()
