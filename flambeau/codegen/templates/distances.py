"""Distances between rows, and their gradients: kernels over pairs of rows.

Coordinates lie side by side in vectors. The distance of a pair is folded at the end; the gradient
of a row sums over all its partners, a few vectors of coordinates at a time. What one coordinate
contributes is a function on expressions that the launcher hands over. With `triangle` both
operands are the same matrix and only pairs i < j exist, numbered row after row.
"""

from flambeau.codegen import scalar as m
from flambeau.codegen.descriptions import Pairs
from flambeau.codegen.llvm import Emitter, masked_load, masked_store
from flambeau.codegen.llvm_cpu import add_entry, argument_word, module_text
from flambeau.codegen.llvm_names import LLVM_TYPE
from flambeau.codegen.loops import I64, PTR, Module, V, vector, width_of
from flambeau.codegen.templates.tiles import lanes, prefix_mask


class _Pairs:
    def __init__(self, code, triangle, kinds):
        self.code, self.triangle, self.width = code, triangle, lanes(code)
        self.module, self.e = Module(), LLVM_TYPE[code]
        self.fn = fn = self.module.function("body", [(PTR, "block"), (I64, "chunk")], internal=True)
        block, chunk = fn.params
        self.args = [argument_word(fn, block, k, kind) for k, kind in enumerate(kinds)]
        self.kinds = kinds
        words = [fn.load(fn.gep(self.args[0], k, I64), I64, 8) for k in range(len(Pairs._fields))]
        (
            _, per_chunk, self.all, self.rows, self.others, self.size, self.by_matrix, self.by_row,
            self.by_column,
        ) = Pairs(*words)  # fmt: skip
        self.first = chunk * per_chunk
        self.last = fn.min(self.first + per_chunk, self.all)

    def text(self):
        self.fn.ret()
        add_entry(self.module, self.kinds)
        return module_text(self.module)

    def pair(self, matrix, i, j):
        """The place of a distance."""
        if self.triangle:
            return i * (self.rows * 2 - i - 1) / 2 + (j - i - 1)
        return matrix * self.by_matrix + i * self.by_row + j * self.by_column

    def vector(self, base, mask):
        return masked_load(self.fn, base, vector(self.e, self.width), mask)

    def splat(self, x):
        return self.fn.splat(x, self.width)

    def power(self, k):
        """Argument k, the exponent, in the compute type, in all lanes."""
        return self.splat(self.fn.convert("fptrunc", self.args[k], self.e))

    def symbols(self, count):
        return [m.argument(k, self.code) for k in range(count)]

    def row(self, base, nth):
        return self.fn.gep(base, nth * self.size, self.e)


def build_forward(code, kind, triangle, term, total):
    """Arguments: description, out, first operand, second operand, exponent."""
    pairs = _Pairs(code, triangle, "ppppf")
    fn, w, e = pairs.fn, pairs.width, pairs.e
    _, out, first, second, _ = pairs.args
    p = pairs.power(4)
    whole = pairs.size / w * w
    x, y, exponent = pairs.symbols(3)
    each = term(x - y, exponent, kind)
    larger = m.where((y > x) | (y != y), y, x)
    joined = larger if kind == "most" else x + y
    with fn.loop(pairs.first, pairs.last) as row:
        matrix, i = row / pairs.rows, row % pairs.rows
        left = pairs.row(first, row)
        low = i + 1 if pairs.triangle else fn.value(0, I64)
        with fn.loop(low, pairs.others) as j:
            right = pairs.row(second, matrix * pairs.others + j)
            zero = V(fn, vector(e, w), "zeroinitializer") if w > 1 else fn.value(0, e)
            sum = fn.var(zero)

            def step(k, mask, left=left, right=right, sum=sum):
                a, b = (pairs.vector(fn.gep(q, k, e), mask) for q in (left, right))
                value = Emitter(fn, w, [a, b, p]).emit(each)
                sum.set(Emitter(fn, w, [sum.get(), value]).emit(joined))

            with fn.loop(0, whole, w) as k:
                step(k, None)
            with fn.when(whole < pairs.size):
                step(whole, prefix_mask(fn, w, pairs.size - whole))
            found = _folded(fn, sum.get(), joined)
            found = Emitter(fn, 1, [found, found, fn.extract(p, 0)]).emit(total(x, exponent, kind))
            fn.store(found, fn.gep(out, pairs.pair(matrix, i, j), e))
    return pairs.text()


def _folded(fn, value, joined):
    """All lanes joined to one, by halves."""
    while (w := width_of(value.type)) > 1:
        half = w // 2
        if half > 1:
            parts = [fn.shuffle(value, None, range(k, k + half)) for k in (0, half)]
        else:
            parts = [fn.extract(value, k) for k in (0, 1)]
        value = Emitter(fn, half, parts).emit(joined)
    return value


def build_gradient(code, kind, triangle, slope):
    """Arguments: description, out, gradient, first, second operand, distances, exponent."""
    pairs = _Pairs(code, triangle, "ppppppf")
    fn, w, e = pairs.fn, pairs.width, pairs.e
    _, out, gradient, first, second, distances, _ = pairs.args
    p = pairs.power(6)
    g, difference, distance, exponent = pairs.symbols(4)
    each = slope(g, difference, distance, exponent, kind)
    with fn.loop(pairs.first, pairs.last) as row:
        matrix, i = row / pairs.rows, row % pairs.rows
        left, target = pairs.row(first, row), pairs.row(out, row)

        def block(k, mask):
            a = pairs.vector(fn.gep(left, k, e), mask)
            sum = fn.var(V(fn, vector(e, w), "zeroinitializer") if w > 1 else fn.value(0, e))

            def partners(low, high, place):
                with fn.loop(low, high) as j:
                    other = fn.gep(pairs.row(second, matrix * pairs.others + j), k, e)
                    at = place(j)
                    here = [
                        pairs.splat(fn.load(fn.gep(q, at, e), e)) for q in (gradient, distances)
                    ]
                    step = a - pairs.vector(other, mask)
                    value = Emitter(fn, w, [here[0], step, here[1], p]).emit(each)
                    sum.set(sum.get() + value)

            if pairs.triangle:
                partners(0, i, lambda j: pairs.pair(matrix, j, i))
                partners(i + 1, pairs.others, lambda j: pairs.pair(matrix, i, j))
            else:
                partners(0, pairs.others, lambda j: pairs.pair(matrix, i, j))
            masked_store(fn, sum.get(), fn.gep(target, k, e), mask)

        with fn.loop(0, pairs.size, w) as k:
            block(k, prefix_mask(fn, w, pairs.size - k) if w > 1 else None)
    return pairs.text()
