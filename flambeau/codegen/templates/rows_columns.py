"""Row programs down columns: softmax over channels, batch_norm where channels are innermost.

Each lane of a vector is a row of its own, and a few vectors of neighbouring columns go down
together; nothing is joined across lanes. Also here: the sum of tallies over chunks, which runs
down columns too. See `rows.py` for the language.
"""

from flambeau.codegen import descriptions
from flambeau.codegen.llvm import load_element, store_element
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I1, I32, I64, vector
from flambeau.codegen.target import current
from flambeau.codegen.templates.rows import (
    UNROLLED,
    Between,
    Max,
    Sum,
    Walk,
    convert_count,
)
from flambeau.codegen.templates.sorting import Kernel

COLUMN_BLOCK = 64  # elements of a column whose sum is kept apart from the sum of such sums


class Columns(Walk):
    """Rows that run across memory: each lane is a row of its own."""

    def run(self):
        fn, kernel, w = self.fn, self.kernel, self.width
        words = kernel.described(descriptions.Columns)
        self.inner = words.inner
        outer = kernel.chunk / words.groups
        # several tensors of `length` rows each, or one of `height` rows in pieces
        self.n = fn.min(words.length, words.height - outer * words.length)
        self.start, self.piece_start = outer * words.length * self.inner, outer * self.inner
        begin = (kernel.chunk % words.groups) * words.per_group
        end = fn.min(begin + words.per_group, self.inner)
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
            if place in ("row", "piece"):
                start = column if place == "row" else self.piece_start + column
                for v, numbers in enumerate(lanes):
                    at = self.place(name, start + v * w)
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
        self.begin_pass(step)
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
        expressions = [a.value for a in actions.values()]
        used = [n for n in self.names_in(expressions) if n.startswith("row ")]
        lanes = {n: numbers[n[4:]] for n in used}
        emitter = self.emitter(self.loaded(expressions, lanes, at, mask), self.width)
        for name, action in actions.items():
            if isinstance(action, (Sum, Max)):
                total = cells[name].get()
                cells[name].set(self.contribute(emitter, type(action), action.value, total))
                continue
            self.put(name, emitter.emit(action.value), at, mask, not cells)

    def address(self, name, at):
        return self.place(name, at)


def build_tally_totals(code, count):
    """Sums over chunks of `count` tallies, rounded to a dtype: (outputs..., tallies...).

    Sums are in double where the tallies are float.
    """
    kernel = Kernel("p" * (2 * count))
    fn = kernel.fn
    words = kernel.described(descriptions.Tallies)
    n = words.positions
    compute = COMPUTE_TYPE[code]
    w = current().vector_bytes // 8
    wide = vector("double", w)
    first = kernel.chunk * words.per_chunk
    with fn.loop(first, fn.min(first + words.per_chunk, n), w) as i:
        left = fn.splat(fn.convert("trunc", fn.min(n - i, w), I32), w)
        mask = fn.pure(f"icmp slt {fn.iota(left.type)}, {left.name}", vector(I1, w))
        for out, tally in zip(kernel.arguments[:count], kernel.arguments[count:]):
            total = fn.var(fn.value(0.0, wide))
            with fn.loop(0, words.pieces) as p:
                at = fn.gep(tally, p * n + i, LLVM_TYPE[compute])
                part = load_element(fn, at, compute, w, "c", None, mask)
                total.set(total.get() + fn.convert("fpext", part, wide))
            value = fn.convert("fptrunc", total.get(), vector(LLVM_TYPE[compute], w))
            at = fn.gep(out, i, MEMORY_TYPE[code])
            store_element(fn, value, at, code, w, "c", None, mask)
    return kernel.text()
