"""Multi-class margins: what the scores of a row lack to be a margin below the score of its class.

A row is walked in vectors, its own class left out; the gradient of the own score is minus the sum
of all others, so one walk gives it too. Launcher: `eager/losses_margin.py`.
"""

from flambeau.codegen import descriptions
from flambeau.codegen.llvm import convert, masked_load, masked_store
from flambeau.codegen.llvm_names import LLVM_TYPE
from flambeau.codegen.loops import I1, I64, bytes_of, vector
from flambeau.codegen.target import current
from flambeau.codegen.templates.sorting import Kernel

OUT_OF_RANGE = 1  # what a kernel reports


class _Rows:
    """The walk that both kernels share."""

    def __init__(self, kinds, code, power):
        self.kernel = Kernel(kinds)
        self.fn, self.type, self.power = self.kernel.fn, LLVM_TYPE[code], power
        self.w = current().vector_bytes // bytes_of(self.type)
        words = self.kernel.described(descriptions.Margins)
        _, self.samples, self.classes, self.per_chunk, self.step = words

    def narrowed(self, number):
        return convert(self.fn, number, "f64", "f32" if self.type == "float" else "f64")

    def each(self, scores, targets, weights, visit):
        """visit(sample, its scores, its class, the weight of that class or None)."""
        fn, kernel = self.fn, self.kernel
        first = kernel.chunk * self.per_chunk
        with fn.loop(first, fn.min(first + self.per_chunk, self.samples)) as sample:
            own = fn.load(fn.gep(targets, sample, I64), I64)
            inside = own.below(self.classes)
            kernel.fail(~inside, OUT_OF_RANGE)
            with fn.when(inside):
                row = fn.gep(scores, sample * self.classes, self.type)
                weight = weights and fn.load(fn.gep(weights, own, self.type), self.type)
                visit(sample, row, own, weight)

    def others(self, row, own, margin, run):
        """run(column, shortfall, mask) in vectors; the shortfall of the own class is zero."""
        fn, w = self.fn, self.w
        base = fn.splat(margin - fn.load(fn.gep(row, own, self.type), self.type), w)
        with fn.loop(0, self.classes, w) as column:
            left = fn.splat(self.classes - column, w)
            lanes = fn.iota(vector(I64, w))
            mask = fn.pure(f"icmp slt {lanes}, {left.name}", vector(I1, w))
            place = fn.gep(row, column, self.type)
            short = base + masked_load(fn, place, vector(self.type, w), mask)
            other = lanes + fn.splat(column, w) != fn.splat(own, w)
            run(column, fn.select(other & mask & (short > 0.0), short, 0.0), mask)

    def across(self, lanes):
        fn, w = self.fn, self.w
        total = fn.extract(lanes, 0)
        for k in range(1, w):
            total = total + fn.extract(lanes, k)
        return total


def build_multi_margin(code, power, weighted):
    """Losses of samples: (losses, scores, targets, weights, margin)."""
    rows = _Rows("ppppf", code, power)
    fn, type, w = rows.fn, rows.type, rows.w
    losses, scores, targets, weights, margin = rows.kernel.arguments
    margin = rows.narrowed(margin)

    def visit(sample, row, own, weight):
        total = fn.var(fn.value(0.0, vector(type, w)))

        def add(column, short, mask):
            total.set(total.get() + (short if power == 1 else short * short))

        rows.others(row, own, margin, add)
        loss = rows.across(total.get()) / fn.convert("sitofp", rows.classes, type)
        fn.store(loss if weight is None else loss * weight, fn.gep(losses, sample, type))

    rows.each(scores, targets, weights if weighted else None, visit)
    return rows.kernel.text()


def build_multi_margin_gradient(code, power, weighted):
    """Gradients of scores: (gradient, gradient of losses, scores, targets, weights, margin, share).

    share: what every sample's part is multiplied by.
    """
    rows = _Rows("pppppff", code, power)
    fn, type, w = rows.fn, rows.type, rows.w
    out, outer, scores, targets, weights, margin, share = rows.kernel.arguments
    margin, share = rows.narrowed(margin), rows.narrowed(share)

    def visit(sample, row, own, weight):
        g = fn.load(fn.gep(outer, sample * rows.step, type), type) * share
        g = g if weight is None else g * weight
        base = fn.gep(out, sample * rows.classes, type)
        total = fn.var(fn.value(0.0, vector(type, w)))

        def put(column, short, mask):
            slope = short * 2.0
            if power == 1:
                slope = fn.select(short > 0.0, fn.value(1.0, short.type), 0.0)
            slope = slope * fn.splat(g, w)
            total.set(total.get() + slope)
            masked_store(fn, slope, fn.gep(base, column, type), mask)

        rows.others(row, own, margin, put)
        fn.store(-rows.across(total.get()), fn.gep(base, own, type))

    rows.each(scores, targets, weights if weighted else None, visit)
    return rows.kernel.text()
