"""Row programs: a few passes over a row that stays in cache, each with totals or results.

A program names its operands and where they live: `element` (one per element of the row), `column`
(one per position, the same for all rows: weights), `row` (one number per row) and `tally` (totals
per position over all rows of a chunk). Its steps are functions in the scalar language. A `Pass`
sees the elements and says what to add up (`Sum`), compare (`Max`), store (`Put`) or tally
(`Tally`); a `Between` works with the numbers of the row that are known so far. The same program
runs along rows that lie side by side in memory (`build_rows`: lanes are neighbours) and down
columns (`build_columns`: lanes are rows of their own). Programs are in `row_programs.py`.
"""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import NamedTuple

from flambeau.codegen import scalar as m
from flambeau.codegen.llvm import Emitter, load_element, store_element
from flambeau.codegen.llvm_cpu import host
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I1, I32, I64, bytes_of, vector
from flambeau.codegen.templates.sorting import Kernel

UNROLLED = 4  # vectors that are in flight together
BLOCK = 4096  # elements whose sum is kept in the compute type; sums of blocks are kept in double
COLUMN_BLOCK = 64  # the same down a column, where both sums are in the compute type


class Sum(NamedTuple):
    """Add up over the row; the total is a number of the row from the next step on."""

    value: m.Expr


class Max(NamedTuple):
    """The largest over the row (nan does not count); a number of the row from the next step on."""

    value: m.Expr


class Put(NamedTuple):
    """Store into the output of that name."""

    value: m.Expr


class Tally(NamedTuple):
    """Add to the totals of that name, which are kept per position over all rows of a chunk."""

    value: m.Expr


class SegmentSum(NamedTuple):
    """Add up over one segment of the row (see Planes), and store it under that name."""

    value: m.Expr


class Pass(NamedTuple):
    """body(elements, numbers) -> {name: Sum, Max, Put or Tally}."""

    body: Callable


class Between(NamedTuple):
    """body(numbers) -> {name: expression}: more numbers of the row; outputs are stored."""

    body: Callable


class Program(NamedTuple):
    """operands: name -> (dtype code, place), in the order of the kernel's pointers."""

    operands: dict
    steps: tuple
    scalars: tuple = ()  # names of floating-point arguments, which follow the pointers


class Walk:
    """What rows and columns share: operands as symbols, and how expressions become values."""

    def __init__(self, kernel, program, compute):
        self.kernel, self.program, self.type = kernel, program, compute
        self.fn = kernel.fn
        self.width = host().vector_bytes // bytes_of(LLVM_TYPE[compute])
        count = len(program.operands)
        self.bases = dict(zip(program.operands, kernel.arguments))
        self.values = {}  # numbers of the row by name, as machine values
        self.symbols = {}  # name -> symbol, for elements and numbers alike
        self.scalars = {
            name: narrowed(self.fn, value, compute)
            for name, value in zip(program.scalars, kernel.arguments[count:])
        }

    def symbol(self, name):
        if name not in self.symbols:
            self.symbols[name] = m.argument(len(self.symbols), self.type)
        return self.symbols[name]

    def elements(self):
        places = ("element", "column")
        found = {n: self.symbol(n) for n, (_, p) in self.program.operands.items() if p in places}
        return SimpleNamespace(**found)

    def numbers(self):
        return SimpleNamespace(**{n: self.symbol("row " + n) for n in self.values})

    def zero(self, kind, width):
        start = -math.inf if kind is Max else 0.0
        return self.fn.value(start, vector(LLVM_TYPE[self.type], width))

    def names_in(self, expressions):
        """Names of the symbols that expressions use."""
        by_number = {s.data: n for n, s in self.symbols.items()}
        found, seen, stack = [], set(), list(expressions)
        while stack:
            e = stack.pop()
            if id(e) in seen:
                continue
            seen.add(id(e))
            if e.op == "argument":
                found.append(by_number[e.data])
            stack.extend(e.args)
        return sorted(set(found))

    def emitter(self, values, width):
        return Emitter(self.fn, width, {self.symbols[n].data: v for n, v in values.items()})

    def join(self, kind, a, b):
        return a + b if kind is Sum else self.fn.select(b > a, b, a)

    def contribute(self, emitter, kind, expression, total):
        """total with the contribution of some elements; products are added without rounding."""
        if kind is Sum and expression.op == "mul":
            a, b = (emitter.emit(x) for x in expression.args)
            return self.fn.intrinsic("fma", a, b, total)
        return self.join(kind, total, emitter.emit(expression))

    def lanes_below(self, left):
        """A mask of the first `left` lanes."""
        w = self.width
        left = self.fn.splat(self.fn.convert("trunc", self.fn.min(left, w), I32), w)
        return self.fn.pure(f"icmp slt {self.fn.iota(left.type)}, {left.name}", vector(I1, w))

    def across(self, kind, value):
        """The lanes of a vector joined, by halves."""
        fn, w = self.fn, self.width
        while w > 1:
            w //= 2
            low = fn.shuffle(value, None, range(w)) if w > 1 else fn.extract(value, 0)
            high = fn.shuffle(value, None, range(w, 2 * w)) if w > 1 else fn.extract(value, 1)
            value = self.join(kind, low, high)
        return value

    def place(self, name, at):
        code = self.program.operands[name][0]
        return self.fn.gep(self.bases[name], at, MEMORY_TYPE[code])

    def evaluate(self, expressions, width):
        """Numbers of the row, computed from numbers of the row."""
        used = self.names_in(expressions)
        values = {n: self.values[n.removeprefix("row ")] for n in used}
        emitter = self.emitter(values, width)
        return [emitter.emit(e) for e in expressions]


class Rows(Walk):
    """Rows side by side in memory."""

    def run(self):
        fn, kernel = self.fn, self.kernel
        rows, self.n, per_chunk, period = kernel.words(4)
        self.clear_tallies(period)
        first = kernel.chunk * per_chunk
        with fn.loop(first, fn.min(first + per_chunk, rows)) as row:
            column = (row % period) * self.n
            tally = kernel.chunk * (period * self.n) + column
            self.starts = {"element": row * self.n, "column": column, "tally": tally}
            self.begin_row({"row": row, "row out": row}, self.n)
            for step in self.program.steps:
                self.take(step)
        return kernel.text()

    def begin_row(self, indices, count):
        """Numbers known from the start; indices: where numbers of each place are kept."""
        self.indices = indices
        self.values = {"n": convert_count(self.fn, count, self.type)} | self.scalars
        for name, (code, place) in self.program.operands.items():
            if place == "row":
                at = self.place(name, indices["row"])
                self.values[name] = load_element(self.fn, at, code, 1, "s")

    def take(self, step):
        if isinstance(step, Between):
            self.between(step)
        else:
            self.walk(step)

    def clear_tallies(self, period):
        fn = self.fn
        for name, (_, place) in self.program.operands.items():
            if place == "tally":
                start = self.kernel.chunk * (period * self.n)
                with fn.loop(0, period * self.n) as i:
                    fn.store(self.zero(Sum, 1), self.place(name, start + i))

    def between(self, step):
        found = step.body(self.numbers())
        for name, value in zip(found, self.evaluate(list(found.values()), 1)):
            self.values[name] = value
            code, place = self.program.operands.get(name, ("", ""))
            if place in self.indices:
                at = self.place(name, self.indices[place])
                store_element(self.fn, value, at, code, 1, "c")

    def address(self, name, i):
        return self.place(name, self.starts[self.program.operands[name][1]] + i)

    def actions(self, step):
        """What a pass does, what of it are totals, and the numbers it uses, one per lane."""
        actions = step.body(self.elements(), self.numbers())
        totals = {k: a for k, a in actions.items() if isinstance(a, (Sum, Max))}
        used = self.names_in(a.value for a in actions.values())
        lanes = {
            n: self.fn.splat(self.values[n[4:]], self.width) for n in used if n.startswith("row ")
        }
        return actions, totals, lanes

    def walk(self, step):
        actions, totals, lanes = self.actions(step)
        if not totals:
            self.visit(actions, lanes, self.fn.value(0, I64), self.n, {})
            return
        sums = self.no_sums(totals)
        with self.fn.loop(0, self.n, BLOCK) as low:
            cells = self.cells(totals)
            self.visit(actions, lanes, low, self.fn.min(low + BLOCK, self.n), cells)
            self.fold(totals, cells, sums)
        self.settle(totals, sums)

    # -- totals: cells are lanes of a block in the compute type, sums are single and wide ----------
    def cells(self, totals):
        fn, w = self.fn, self.width
        return {
            k: [fn.var(self.zero(type(a), w)) for _ in range(UNROLLED)] for k, a in totals.items()
        }

    def no_sums(self, totals):
        sums = {}
        for k, a in totals.items():
            start = self.zero(type(a), 1)
            sums[k] = self.fn.var(widened(self.fn, start, "f64") if type(a) is Sum else start)
        return sums

    def fold(self, totals, cells, sums):
        """Add a block to the sums."""
        for k, a in totals.items():
            value = self.joined_lanes(type(a), cells[k])
            value = widened(self.fn, value, "f64") if type(a) is Sum else value
            sums[k].set(self.join(type(a), sums[k].get(), value))

    def joined_lanes(self, kind, cells):
        a, b, c, d = (cell.get() for cell in cells)
        return self.across(kind, self.join(kind, self.join(kind, a, b), self.join(kind, c, d)))

    def settle(self, totals, sums):
        """Totals become numbers of the row."""
        for k, a in totals.items():
            value = sums[k].get()
            self.values[k] = narrowed(self.fn, value, self.type) if type(a) is Sum else value

    # -- elements ----------------------------------------------------------------------------------
    def visit(self, actions, lanes, low, high, cells):
        """Elements low to high: whole groups of vectors, then vectors with a mask."""
        fn, w = self.fn, self.width
        big = UNROLLED * w
        whole = low + ((high - low) / big) * big
        with fn.loop(low, whole, big) as i:
            for k in range(UNROLLED):
                self.act(actions, lanes, i + k * w, None, {n: c[k] for n, c in cells.items()})
        with fn.loop(whole, high, w) as i:
            mask = self.lanes_below(high - i)
            self.act(actions, lanes, i, mask, {n: c[0] for n, c in cells.items()})

    def act(self, actions, lanes, i, mask, cells):
        """One vector of elements at i."""
        fn, w = self.fn, self.width
        values = dict(lanes)
        for name in self.names_in(a.value for a in actions.values()):
            if name not in values:
                code = self.program.operands[name][0]
                values[name] = load_element(fn, self.address(name, i), code, w, "c", None, mask)
        emitter = self.emitter(values, w)
        for name, action in actions.items():
            if name in cells:
                total = cells[name].get()
                kind = Max if type(action) is Max else Sum
                new = self.contribute(emitter, kind, action.value, total)
                cells[name].set(new if mask is None else fn.select(mask, new, total))
                continue
            value, at = emitter.emit(action.value), self.address(name, i)
            code = self.program.operands[name][0]
            if type(action) is Tally:
                value = value + load_element(fn, at, code, w, "c", None, mask)
            store_element(fn, value, at, code, w, "c", None, mask)


class Planes(Rows):
    """Rows in segments: each is a run of memory, at a fixed distance from the one before.

    Numbers of the place `segment` (weights of channels in a group) belong to one segment. A row may
    be cut into pieces, each with totals of its own (place `piece out`).
    """

    def run(self):
        fn, kernel = self.fn, self.kernel
        words = kernel.words(10)
        rows, length, segments, segment_step, row_step, pieces, run, part, period, per_chunk = words
        first = kernel.chunk * per_chunk
        with fn.loop(first, fn.min(first + per_chunk, rows * pieces)) as item:
            row, piece = item % rows, item / rows
            # pieces are runs of segments, or (where those are few) parts of every segment
            parts = (length + part - 1) / part
            self.first_segment = (piece / parts) * run
            self.last_segment = fn.min(self.first_segment + run, segments)
            self.low = (piece % parts) * part
            self.high = fn.min(self.low + part, length)
            self.origin, self.segment_step = row * row_step, segment_step
            self.first_number = (row % period) * segments
            self.first_total = row * segments
            self.indices = {"row": row, "row out": row, "piece out": item}
            count = (self.last_segment - self.first_segment) * (self.high - self.low)
            self.begin_row(self.indices, count)
            for step in self.program.steps:
                self.take(step)
        return kernel.text()

    def elements(self):
        found = super().elements()
        for name, (_, place) in self.program.operands.items():
            if place == "segment":
                setattr(found, name, self.symbol(name))
        return found

    def walk(self, step):
        fn = self.fn
        actions, totals, lanes = self.actions(step)
        inner = {k: a for k, a in actions.items() if type(a) is SegmentSum}
        sums = self.no_sums(totals)
        # as many short segments as make a block, or the blocks of a long one
        together = fn.max(fn.value(BLOCK, I64) / fn.max(self.high - self.low, 1), 1)
        # (whole segments, where sums are wanted per segment)
        block = fn.max(self.high - self.low, 1) if inner else fn.value(BLOCK, I64)
        with (
            fn.loop(self.first_segment, self.last_segment, together) as first,
            fn.loop(self.low, self.high, block) as low,
        ):
            high = fn.min(low + block, self.high)
            cells = self.cells(totals)
            last = fn.min(first + together, self.last_segment)
            with fn.loop(first, last) as segment:
                self.starts = {"element": self.origin + segment * self.segment_step}
                own = self.cells(inner)
                numbers = lanes | self.numbers_of(segment, actions)
                self.visit(actions, numbers, low, high, cells | own)
                for name in inner:
                    value = self.joined_lanes(Sum, own[name])
                    fn.store(value, self.place(name, self.first_total + segment))
            self.fold(totals, cells, sums)
        self.settle(totals, sums)

    def numbers_of(self, segment, actions):
        """Numbers of a segment, one per lane."""
        fn, found = self.fn, {}
        used = self.names_in(a.value for a in actions.values())
        for name, (code, place) in self.program.operands.items():
            if place == "segment" and name in used:
                at = self.place(name, self.first_number + segment)
                found[name] = load_element(fn, at, code, self.width, "s")
        return found


class Columns(Walk):
    """Rows that run across memory: each lane is a row of its own."""

    def run(self):
        fn, kernel, w = self.fn, self.kernel, self.width
        height, per_piece, self.inner, groups, per_group = kernel.words(5)
        outer = kernel.chunk / groups
        # several tensors of per_piece rows each, or one of `height` rows in pieces
        self.n = fn.min(per_piece, height - outer * per_piece)
        self.start, self.piece_start = outer * per_piece * self.inner, outer * self.inner
        begin = (kernel.chunk % groups) * per_group
        end = fn.min(begin + per_group, self.inner)
        many = UNROLLED * w
        whole = begin + ((end - begin) / many) * many
        with fn.loop(begin, whole, many) as column:
            self.group(column, UNROLLED, None)
        with fn.loop(whole, end, w) as column:
            self.group(column, 1, self.lanes_below(end - column))
        return kernel.text()

    def group(self, column, vectors, mask):
        """Some vectors of columns, from top to bottom once per pass."""
        fn, w = self.fn, self.width
        count = fn.splat(convert_count(fn, self.n, self.type), w)
        scalars = {name: fn.splat(value, w) for name, value in self.scalars.items()}
        lanes = [{"n": count} | scalars for _ in range(vectors)]
        for name, (code, place) in self.program.operands.items():
            if place == "row":
                for v, numbers in enumerate(lanes):
                    at = self.place(name, column + v * w)
                    numbers[name] = load_element(fn, at, code, w, "c", None, mask)
        for step in self.program.steps:
            if isinstance(step, Between):
                for v, numbers in enumerate(lanes):
                    self.between(step, numbers, column + v * w, mask)
            else:
                self.walk(step, column, lanes, mask)

    def between(self, step, numbers, column, mask):
        self.values = numbers
        found = step.body(self.numbers())
        for name, value in zip(found, self.evaluate(list(found.values()), self.width)):
            numbers[name] = value
            code, place = self.program.operands.get(name, ("", ""))
            if place:
                at = column if place != "piece out" else self.piece_start + column
                at = self.place(name, at)
                store_element(self.fn, value, at, code, self.width, "c", None, mask)

    def walk(self, step, column, lanes, mask):
        fn, w = self.fn, self.width
        self.values = lanes[0]
        actions = step.body(self.elements(), self.numbers())
        totals = {k: a for k, a in actions.items() if isinstance(a, (Sum, Max))}

        def down(low, high, cells):
            with fn.loop(low, high) as i:
                for v, numbers in enumerate(lanes):
                    at = self.start + i * self.inner + (column + v * w)
                    self.act(actions, numbers, at, mask, {k: c[v] for k, c in cells.items()})

        def fresh():
            return {k: [fn.var(self.zero(type(a), w)) for _ in lanes] for k, a in totals.items()}

        if not totals:
            down(fn.value(0, I64), self.n, {})
            return
        sums = fresh()
        with fn.loop(0, self.n, COLUMN_BLOCK) as low:
            cells = fresh()
            down(low, fn.min(low + COLUMN_BLOCK, self.n), cells)
            for k, a in totals.items():
                for total, part in zip(sums[k], cells[k]):
                    total.set(self.join(type(a), total.get(), part.get()))
        for k in totals:
            for numbers, total in zip(lanes, sums[k]):
                numbers[k] = total.get()

    def act(self, actions, numbers, at, mask, cells):
        fn, w = self.fn, self.width
        values = {}
        for name in self.names_in(a.value for a in actions.values()):
            if name.startswith("row "):
                values[name] = numbers[name[4:]]
            else:
                code = self.program.operands[name][0]
                values[name] = load_element(fn, self.place(name, at), code, w, "c", None, mask)
        emitter = self.emitter(values, w)
        for name, action in actions.items():
            if isinstance(action, (Sum, Max)):
                total = cells[name].get()
                cells[name].set(self.contribute(emitter, type(action), action.value, total))
                continue
            value, code = emitter.emit(action.value), self.program.operands[name][0]
            store_element(fn, value, self.place(name, at), code, w, "c", None, mask)


def convert_count(fn, count, type):
    """A number of elements in the compute type."""
    return fn.convert("sitofp", count, LLVM_TYPE[type])


def widened(fn, value, type):
    return fn.convert("fpext", value, LLVM_TYPE[type])


def narrowed(fn, value, type):
    return fn.convert("fptrunc", value, LLVM_TYPE[type])


def _walk(kind, program):
    first = next(iter(program.operands.values()))[0]
    kernel = Kernel("p" * len(program.operands) + "f" * len(program.scalars))
    return kind(kernel, program, COMPUTE_TYPE[first]).run()


def build_rows(program):
    """IR for rows side by side; words: rows, length, rows per chunk, period.

    Weights are given for `period` rows and then repeat.
    """
    return _walk(Rows, program)


def build_planes(program):
    """IR for rows in segments.

    Words: rows, length of a segment, segments, elements between segments and between rows, pieces,
    segments per piece, elements of a segment per piece, period (of weights, in rows), items (rows
    times pieces) per chunk.
    """
    return _walk(Planes, program)


def build_columns(program):
    """IR for rows across memory; words: height, length, inner, groups, columns per group.

    There are outer x groups chunks; height is the sum of all lengths, so that the last may be
    shorter.
    """
    return _walk(Columns, program)


def build_tally_totals(code, count):
    """Sums over chunks of `count` tallies, rounded to a dtype: (outputs..., tallies...).

    Words: chunks that tallied, positions, positions per chunk of this kernel. Sums are in double
    where the tallies are float.
    """
    kernel = Kernel("p" * (2 * count))
    fn = kernel.fn
    pieces, n, per_chunk = kernel.words(3)
    compute = COMPUTE_TYPE[code]
    w = host().vector_bytes // 8
    wide = vector("double", w)
    first = kernel.chunk * per_chunk
    with fn.loop(first, fn.min(first + per_chunk, n), w) as i:
        left = fn.splat(fn.convert("trunc", fn.min(n - i, w), I32), w)
        mask = fn.pure(f"icmp slt {fn.iota(left.type)}, {left.name}", vector(I1, w))
        for out, tally in zip(kernel.arguments[:count], kernel.arguments[count:]):
            total = fn.var(fn.value(0.0, wide))
            with fn.loop(0, pieces) as p:
                at = fn.gep(tally, p * n + i, LLVM_TYPE[compute])
                part = load_element(fn, at, compute, w, "c", None, mask)
                total.set(total.get() + fn.convert("fpext", part, wide))
            value = fn.convert("fptrunc", total.get(), vector(LLVM_TYPE[compute], w))
            at = fn.gep(out, i, MEMORY_TYPE[code])
            store_element(fn, value, at, code, w, "c", None, mask)
    return kernel.text()
