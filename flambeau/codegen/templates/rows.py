"""Row programs: a few passes over a row that stays in cache, each with totals or results.

A program names its operands and where they live: `element` (one per element of the row), `column`
(one per position, the same for all rows: weights), `row` (one number per row; `row out` if it is
only written; `piece` where a row comes in pieces or in several layers) and `tally` (totals per
position over all rows of a chunk). Its steps are functions in the scalar language. A `Pass`
sees the elements and says what to add up (`Sum`), compare (`Max`) or store (`Put`); a `Between`
works with the numbers of the row that are known so far; `Tallies` add up over rows. Here rows lie
side by side in memory and lanes are neighbours. The same programs run over rows in segments
(`rows_planes.py`) and down columns (`rows_columns.py`). Programs are in `row_programs.py`.
"""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import NamedTuple

from flambeau.codegen import descriptions
from flambeau.codegen import scalar as m
from flambeau.codegen.llvm import Emitter, load_element, store_element
from flambeau.codegen.llvm_names import LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I1, I32, I64, bytes_of, vector
from flambeau.codegen.target import current

NUMBERS = ("row", "row out", "piece", "piece out")  # places of numbers, read or written
UNROLLED = 4  # vectors that are in flight together
TOGETHER = 8  # rows that are tallied in one go
AT_ONCE = 64  # rows that are tallied while they are still in cache
SHORT = 512  # elements of all operands of a row, where rows go through each step in groups
BLOCK = 4096  # elements whose sum is kept in the compute type; sums of blocks are kept in double


class Sum(NamedTuple):
    """Add up over the row; the total is a number of the row from the next step on."""

    value: m.Expr


class Max(NamedTuple):
    """The largest over the row (nan does not count); a number of the row from the next step on."""

    value: m.Expr


class SumExp(NamedTuple):
    """Add up the exponentials less the largest number, which is a number named `top`; GPUs only.

    plain: an infinite largest number is not taken off.
    """

    value: m.Expr
    plain: bool = False


class Put(NamedTuple):
    """Store into the output of that name."""

    value: m.Expr


class SegmentSum(NamedTuple):
    """Add up over one segment of the row (see Planes), and store it under that name."""

    value: m.Expr


class Pass(NamedTuple):
    """body(elements, numbers) -> {name: Sum, Max, SumExp, Put or SegmentSum}."""

    body: Callable


class Between(NamedTuple):
    """body(numbers) -> {name: expression}: more numbers of the row; outputs are stored."""

    body: Callable


class Tallies(NamedTuple):
    """body(elements, numbers) -> {name: expression}: add to totals per position, over all rows.

    It runs for several rows together, after their other steps, and sees only numbers that are
    operands.
    """

    body: Callable


class Part(NamedTuple):
    """Pointwise work on an element operand: before it is read (a head), or once it is put (a tail).

    Arguments of the expressions: what is put (of a tail), then `inputs`, then `numbers`.
    """

    name: str  # of the operand
    values: tuple  # expressions: of the operand itself (of a head), then of each output
    inputs: tuple  # names of element operands
    numbers: tuple  # places among the numbers that follow the program's own
    outputs: tuple  # names of element operands that are stored
    is_stored: bool  # does the operand itself reach memory?


class Program(NamedTuple):
    """operands: name -> (dtype code, place), in the order of the kernel's pointers."""

    operands: dict
    steps: tuple
    scalars: tuple = ()  # names of floating-point arguments, which follow the pointers
    head: Part | None = None
    tail: Part | None = None  # of what is put in a pass without totals


class Walk:
    """What rows and columns share: operands as symbols, and how expressions become values."""

    stores_head = computes_head = False  # in this pass

    def __init__(self, kernel, program, compute):
        self.kernel, self.program, self.type = kernel, program, compute
        self.fn = kernel.fn
        self.width = current().vector_bytes // bytes_of(LLVM_TYPE[compute])
        count = len(program.operands)
        self.bases = dict(zip(program.operands, kernel.arguments))
        self.values = {}  # numbers of the row by name, as machine values
        self.symbols = {}  # name -> symbol, for elements and numbers alike
        self.scalars = {
            name: narrowed(self.fn, value, compute)
            for name, value in zip(program.scalars, kernel.arguments[count:])
        }
        self.more = kernel.arguments[count + len(program.scalars) :]  # numbers of head and tail

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

    # -- elements ----------------------------------------------------------------------------------
    def begin_pass(self, step):
        """Is this the pass that stores what a head computes? Later ones find it in memory."""
        head = self.program.head
        first = next((s for s in self.program.steps if isinstance(s, Pass)), None)
        self.stores_head = head is not None and step is first and (head.is_stored or head.outputs)
        self.computes_head = head is not None and (step is first or not head.is_stored)

    def loaded(self, expressions, lanes, at, mask):
        """What expressions name: numbers in all lanes, elements from memory."""
        values = dict(lanes)
        if self.stores_head:
            head = self.program.head
            found = self.part_values(head, (), at, mask)
            values[head.name] = found[0]
            stored = [*zip(head.outputs, found[1:])]
            for name, value in [*stored, (head.name, found[0])] if head.is_stored else stored:
                self.store(name, value, at, mask)
        for name in self.names_in(expressions):
            if name not in values:
                values[name] = self.element(name, at, mask)
        return values

    def element(self, name, at, mask):
        if self.computes_head and name == self.program.head.name:
            return self.part_values(self.program.head, (), at, mask)[0]
        code = self.program.operands[name][0]
        return load_element(self.fn, self.address(name, at), code, self.width, "c", None, mask)

    def store(self, name, value, at, mask):
        code = self.program.operands[name][0]
        store_element(self.fn, value, self.address(name, at), code, self.width, "c", None, mask)

    def put(self, name, value, at, mask, is_last):
        """Store an element; is_last: are there no totals in this pass?"""
        tail = self.program.tail
        if tail is None or name != tail.name or not is_last:
            return self.store(name, value, at, mask)
        found = self.part_values(tail, (value,), at, mask)
        if tail.is_stored:
            self.store(name, value, at, mask)
        for output, result in zip(tail.outputs, found):
            self.store(output, result, at, mask)

    def part_values(self, part, given, at, mask):
        codes = [self.program.operands[n][0] for n in part.inputs]
        places = [self.address(n, at) for n in part.inputs]
        values = [*given]
        for place, code in zip(places, codes):
            values.append(load_element(self.fn, place, code, self.width, "c", None, mask))
        values += [self.fn.splat(self.more[k], self.width) for k in part.numbers]
        emitter = Emitter(self.fn, self.width, dict(enumerate(values)))
        return [emitter.emit(v) for v in part.values]

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
        words = kernel.described(descriptions.Rows)
        self.n = words.length
        first = kernel.chunk * words.per_chunk
        end = fn.min(first + words.per_chunk, words.rows)
        tallies = [step for step in self.program.steps if isinstance(step, Tallies)]
        together = self.together()
        if not tallies:
            self.in_groups(first, end, together)
            return kernel.text()
        self.clear_tallies()
        with fn.loop(first, end, AT_ONCE) as low:
            high = fn.min(low + AT_ONCE, end)
            self.in_groups(low, high, together)
            whole = low + ((high - low) / TOGETHER) * TOGETHER
            with fn.loop(low, whole, TOGETHER) as row:
                self.tally(tallies[0], row, TOGETHER)
            with fn.loop(whole, high) as row:
                self.tally(tallies[0], row, 1)
        return kernel.text()

    def together(self):
        """How many rows go through each step together: some, if they are short enough for it."""
        fn, places = self.fn, [place for _, place in self.program.operands.values()]
        limit = SHORT // places.count("element")
        return fn.select(self.n <= limit, fn.value(self.width, I64), 1)

    def in_groups(self, first, end, together):
        """All steps of rows, but for tallies; so many rows go through each step together.

        Their numbers lie side by side on shelves, so that `Between` works on all rows at once.
        """
        fn, w = self.fn, self.width
        with fn.loop(first, end, together) as row:
            count = fn.min(together, end - row)
            mask = self.lanes_below(count)
            uniform = {"n": convert_count(fn, self.n, self.type)} | self.scalars
            shelves = {}
            for name, (code, place) in self.program.operands.items():
                if place in ("row", "piece"):
                    value = load_element(fn, self.place(name, row), code, w, "c", None, mask)
                    self.shelve(shelves, name, value, 0)
            for step in self.program.steps:
                if isinstance(step, Between):
                    self.between_rows(step, row, count, mask, uniform, shelves)
                elif isinstance(step, Pass):
                    self.pass_over(step, row, count, uniform, shelves)

    def shelve(self, shelves, name, value, k):
        """Keep a number of row k of the group, or (lanes) those of all its rows."""
        scalar = LLVM_TYPE[self.type]
        if name not in shelves:
            shelves[name] = self.fn.alloca(scalar, self.width)
        self.fn.store(value, self.fn.gep(shelves[name], k, scalar))

    def pass_over(self, step, first, count, uniform, shelves):
        """A pass over every row of a group."""
        fn, scalar = self.fn, LLVM_TYPE[self.type]
        with fn.loop(0, count) as k:
            self.starts = {"element": (first + k) * self.n, "column": fn.value(0, I64)}
            known = {n: fn.load(fn.gep(s, k, scalar), scalar) for n, s in shelves.items()}
            self.values = uniform | known
            self.walk(step)
            for name, value in self.values.items():
                if name not in uniform and value is not known.get(name):
                    self.shelve(shelves, name, value, k)

    def between_rows(self, step, first, count, mask, uniform, shelves):
        """More numbers of all rows of a group."""
        known = dict(shelves)

        def lanes(w):
            """For w rows: a single one need not wait until what was just stored can be read."""
            fn, type = self.fn, vector(LLVM_TYPE[self.type], w)
            self.values = {n: fn.splat(v, w) for n, v in uniform.items()}
            self.values |= {n: fn.load(s, type) for n, s in known.items()}
            found = step.body(self.numbers())
            for name, value in zip(found, self.evaluate(list(found.values()), w)):
                self.shelve(shelves, name, value, 0)
                code, place = self.program.operands.get(name, ("", ""))
                if place in NUMBERS:
                    at = self.place(name, first)
                    store_element(fn, value, at, code, w, "c", None, mask if w > 1 else None)

        self.fn.if_else(count == 1, lambda: lanes(1), lambda: lanes(self.width))

    def begin_row(self, indices, count):
        """Numbers known from the start; indices: where numbers of each place are kept."""
        self.indices = indices
        self.starts = {"element": indices["row"] * self.n, "column": self.fn.value(0, I64)}
        self.values = {"n": convert_count(self.fn, count, self.type)} | self.scalars
        for name, (code, place) in self.program.operands.items():
            if place in ("row", "piece"):
                at = self.place(name, indices[place])
                self.values[name] = load_element(self.fn, at, code, 1, "s")

    def clear_tallies(self):
        fn = self.fn
        for name, (_, place) in self.program.operands.items():
            if place == "tally":
                with fn.loop(0, self.n) as i:
                    fn.store(self.zero(Sum, 1), self.place(name, self.kernel.chunk * self.n + i))

    def tally(self, step, first, count):
        """Add `count` rows to the tallies, a vector of positions at a time."""
        fn, w = self.fn, self.width
        rows = []
        self.begin_pass(step)
        for k in range(count):
            row = first + k
            self.begin_row(dict.fromkeys(NUMBERS, row), self.n)
            found = step.body(self.elements(), self.numbers())
            used = [n for n in self.names_in(found.values()) if n.startswith("row ")]
            rows.append((found, self.starts, {n: fn.splat(self.values[n[4:]], w) for n in used}))

        def add(i, mask):
            sums = {}
            for found, starts, lanes in rows:
                self.starts = starts
                emitter = self.emitter(self.loaded(found.values(), lanes, i, mask), w)
                for name, e in found.items():
                    at = self.place(name, self.kernel.chunk * self.n + i)
                    code = self.program.operands[name][0]
                    total = sums.get(name)
                    if total is None:
                        total = load_element(fn, at, code, w, "c", None, mask)
                    sums[name] = self.contribute(emitter, Sum, e, total)
            for name, total in sums.items():
                at = self.place(name, self.kernel.chunk * self.n + i)
                code = self.program.operands[name][0]
                store_element(fn, total, at, code, w, "c", None, mask)

        whole = (self.n / w) * w
        with fn.loop(0, whole, w) as i:
            add(i, None)
        with fn.loop(whole, self.n, w) as i:
            add(i, self.lanes_below(self.n - i))

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
        self.begin_pass(step)
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
        """Elements low to high: whole groups of vectors, vectors, and what is left with a mask."""
        fn, w = self.fn, self.width
        big, first = UNROLLED * w, {n: c[0] for n, c in cells.items()}
        groups = low + ((high - low) / big) * big
        with fn.loop(low, groups, big) as i:
            for k in range(UNROLLED):
                self.act(actions, lanes, i + k * w, None, {n: c[k] for n, c in cells.items()})
        whole = low + ((high - low) / w) * w
        with fn.loop(groups, whole, w) as i:
            self.act(actions, lanes, i, None, first)
        with fn.when(whole < high):
            self.act(actions, lanes, whole, self.lanes_below(high - whole), first)

    def act(self, actions, lanes, i, mask, cells):
        """One vector of elements at i."""
        fn, w = self.fn, self.width
        expressions = [a.value for a in actions.values()]
        emitter = self.emitter(self.loaded(expressions, lanes, i, mask), w)
        for name, action in actions.items():
            if name in cells:
                total = cells[name].get()
                kind = Max if type(action) is Max else Sum
                new = self.contribute(emitter, kind, action.value, total)
                cells[name].set(new if mask is None else fn.select(mask, new, total))
                continue
            self.put(name, emitter.emit(action.value), i, mask, not cells)


def convert_count(fn, count, type):
    """A number of elements in the compute type."""
    return fn.convert("sitofp", count, LLVM_TYPE[type])


def widened(fn, value, type):
    return fn.convert("fpext", value, LLVM_TYPE[type])


def narrowed(fn, value, type):
    return fn.convert("fptrunc", value, LLVM_TYPE[type])
