"""Cross entropy of rows of scores against class numbers, and the loss of given log-probabilities.

Cross entropy keeps two numbers per row (the largest score and the logarithm of the sum) and no
log-probabilities: the backward computes softmax from them while it writes. Class numbers are
checked before they are used as an address; a wrong one makes the kernel fail. Totals of a chunk are
kept in double and joined by `build_total`.
"""

from flambeau.codegen import descriptions
from flambeau.codegen import scalar as m
from flambeau.codegen.llvm import Emitter, load_element, store_element
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I64, bytes_of
from flambeau.codegen.templates.rows import (
    Between,
    Max,
    Pass,
    Program,
    Put,
    Rows,
    Sum,
    narrowed,
    widened,
)
from flambeau.codegen.templates.sorting import Kernel

HEADER = 2  # numbers of the statistics before those of the rows; the first is the total weight


class _Classes:
    """Class numbers and their weights, as every kernel here reads them."""

    def __init__(self, kernel, count, target, weights, ignored, codes):
        self.kernel, self.fn = kernel, kernel.fn
        self.count, self.target, self.weights, self.ignored = count, target, weights, ignored
        self.code, self.target_code, self.weighted = codes
        self.type = LLVM_TYPE[COMPUTE_TYPE[self.code]]

    def at(self, position):
        """(class, is it one, is it to be ignored)."""
        fn, kind = self.fn, MEMORY_TYPE[self.target_code]
        found = fn.load(fn.gep(self.target, position, kind), kind)
        found = fn.convert("zext", found, I64)
        ignored = found == self.ignored
        return found, found.below(self.count) & ~ignored, ignored

    def checked(self, position):
        found, usable, ignored = self.at(position)
        self.kernel.fail(~(usable | ignored))
        return found, usable

    def weight(self, found, usable):
        """The weight of a class, 0 where there is none to be used."""
        fn = self.fn
        one, nothing = fn.value(1.0, self.type), fn.value(0.0, self.type)
        if not self.weighted:
            return fn.select(usable, one, nothing)
        place = fn.gep(self.weights, fn.select(usable, found, 0), MEMORY_TYPE[self.code])
        return fn.select(usable, load_element(fn, place, self.code, 1, "s"), nothing)


class _Totals:
    """Sums of losses and weights of one chunk."""

    def __init__(self, kernel):
        self.fn, self.kernel = kernel.fn, kernel
        self.loss, self.weight = (kernel.fn.var(kernel.fn.value(0.0, "double")) for _ in range(2))

    def add(self, loss, weight):
        for cell, value in ((self.loss, loss), (self.weight, weight)):
            cell.set(cell.get() + widened(self.fn, value, "f64"))

    def finish(self, reduction, code, out, statistics, partials):
        """The result at once if this is the only chunk, else totals for build_total."""
        fn, kernel = self.fn, self.kernel
        loss, weight = self.loss.get(), self.weight.get()

        def alone():
            _write_total(fn, reduction, code, out, statistics, loss, weight)

        def together():
            place = fn.gep(partials, kernel.chunk * 2, "double")
            fn.store(loss, place, 8)
            fn.store(weight, fn.gep(place, 1, "double"), 8)

        chunks = fn.load(kernel.description, I64, 8)
        fn.if_else(chunks == 1, alone, together)


def _write_total(fn, reduction, code, out, statistics, loss, weight):
    compute = COMPUTE_TYPE[code]
    result = loss / weight if reduction == "mean" else loss
    store_element(fn, narrowed(fn, result, compute), out, code, 1, "c")
    fn.store(narrowed(fn, weight, compute), statistics)


def build_total(code, reduction):
    """Join the totals of chunks: (out, statistics, partials)."""
    kernel = Kernel("ppp")
    fn, (out, statistics, partials) = kernel.fn, kernel.arguments
    count = kernel.described(descriptions.Totals).count
    cells = [fn.var(fn.value(0.0, "double")) for _ in range(2)]
    with fn.loop(0, count) as k:
        for j, cell in enumerate(cells):
            cell.set(cell.get() + fn.load(fn.gep(partials, k * 2 + j, "double"), "double", 8))
    _write_total(fn, reduction, code, out, statistics, *(c.get() for c in cells))
    return kernel.text()


class _Scores(Rows):
    """Rows of scores: the largest, and the sum of the exponentials."""

    def __init__(self, kernel, code, bases):
        program = Program(dict.fromkeys(bases, (code, "element")), ())
        super().__init__(kernel, program, COMPUTE_TYPE[code])
        self.bases = bases

    def begin(self, row, n):
        self.n, self.starts = n, {"element": row * n}
        self.values = {}

    def normalised(self, first, end, n):
        """For each row: (row, a function that gives its numbers: top, total, log_total)."""
        fn, scalar, self.n = self.fn, LLVM_TYPE[self.type], n
        together = self.together()
        with fn.loop(first, end, together) as low:
            count, shelves = fn.min(together, end - low), {}
            self.pass_over(Pass(lambda e, r: {"top": Max(e.x)}), low, count, {}, shelves)
            powers = Pass(lambda e, r: {"total": Sum(m.exp(e.x - r.top))})
            self.pass_over(powers, low, count, {}, shelves)
            logarithm = Between(lambda r: {"log_total": m.log(r.total)})
            self.between_rows(logarithm, low, count, None, {}, shelves)
            with fn.loop(0, count) as k:
                yield low + k, lambda name: fn.load(fn.gep(shelves[name], k, scalar), scalar)

    def score(self, position):
        """One score of the row."""
        code = self.program.operands["x"][0]
        return load_element(self.fn, self.address("x", position), code, 1, "s")

    def compute(self, function, *values):
        """A formula of the scalar language on single numbers."""
        symbols = [m.argument(k, self.type) for k in range(len(values))]
        return Emitter(self.fn, 1, values).emit(function(*symbols))


def build_cross_entropy(code, target_code, weighted, reduction):
    """(out, statistics, partials, scores, classes, weights, ignored class)."""
    kernel = Kernel("pppppp" + "i")
    fn, (out, statistics, partials, x, target, weights, ignored) = kernel.fn, kernel.arguments
    _, rows, n, per_chunk, _ = kernel.described(descriptions.Scores)
    walk = _Scores(kernel, code, {"x": x})
    classes = _Classes(kernel, n, target, weights, ignored, (code, target_code, weighted))
    totals = _Totals(kernel)
    compute, size = LLVM_TYPE[walk.type], bytes_of(LLVM_TYPE[walk.type])
    first = kernel.chunk * per_chunk
    for row, numbers in walk.normalised(first, fn.min(first + per_chunk, rows), n):
        found, usable = classes.checked(row)
        walk.begin(row, n)
        top, log_total = (numbers(name) for name in ("top", "log_total"))
        place = fn.gep(statistics, row * 2 + HEADER, compute)
        fn.store(top, place, size)
        fn.store(log_total, fn.gep(place, 1, compute), size)
        weight = classes.weight(found, usable)
        score = walk.score(fn.select(usable, found, 0))
        nothing = fn.value(0.0, compute)
        loss = fn.select(usable, (log_total - (score - top)) * weight, nothing)
        if reduction == "none":
            store_element(fn, loss, fn.gep(out, row, MEMORY_TYPE[code]), code, 1, "c")
        else:
            totals.add(loss, weight)
    if reduction != "none":
        totals.finish(reduction, code, out, statistics, partials)
    return kernel.text()


def build_cross_entropy_backward(code, target_code, weighted, reduction):
    """(dx, g, scores, classes, weights, statistics, ignored class)."""
    kernel = Kernel("pppppp" + "i")
    fn, (dx, g, x, target, weights, statistics, ignored) = kernel.fn, kernel.arguments
    _, rows, n, per_chunk, step = kernel.described(descriptions.Scores)
    walk = _Scores(kernel, code, {"dx": dx, "x": x})
    classes = _Classes(kernel, n, target, weights, ignored, (code, target_code, weighted))
    compute, size = LLVM_TYPE[walk.type], bytes_of(LLVM_TYPE[walk.type])
    first = kernel.chunk * per_chunk
    with fn.loop(first, fn.min(first + per_chunk, rows)) as row:
        found, usable, _ = classes.at(row)
        walk.begin(row, n)
        place = fn.gep(statistics, row * 2 + HEADER, compute)
        gradient = load_element(fn, fn.gep(g, row * step, MEMORY_TYPE[code]), code, 1, "s")
        scale = gradient * classes.weight(found, usable)
        if reduction == "mean":
            scale = scale / fn.load(statistics, compute, size)
        walk.values = {
            "scale": fn.select(usable, scale, fn.value(0.0, compute)),
            "top": fn.load(place, compute, size),
            "log_total": fn.load(fn.gep(place, 1, compute), compute, size),
        }

        def slope(e, r):
            return {"dx": Put(m.exp(e.x - r.top - r.log_total) * r.scale)}

        walk.walk(Pass(slope))
        with fn.when(usable):
            values = [walk.values[k] for k in ("top", "log_total", "scale")]
            value = walk.compute(
                lambda x, top, log_total, scale: (m.exp(x - top - log_total) - 1) * scale,
                walk.score(found),
                *values,
            )
            store_element(fn, value, walk.address("dx", found), code, 1, "c")
    return kernel.text()


# -- losses of given log-probabilities -------------------------------------------------------------


def build_nll_loss(code, target_code, weighted, reduction):
    """(out, statistics, partials, log-probabilities, classes, weights, ignored class)."""
    kernel = Kernel("pppppp" + "i")
    fn, (out, statistics, partials, x, target, weights, ignored) = kernel.fn, kernel.arguments
    _, positions, n, inner, per_chunk, _ = kernel.described(descriptions.Positions)
    classes = _Classes(kernel, n, target, weights, ignored, (code, target_code, weighted))
    totals = _Totals(kernel)
    nothing = fn.value(0.0, LLVM_TYPE[COMPUTE_TYPE[code]])
    first = kernel.chunk * per_chunk
    with fn.loop(first, fn.min(first + per_chunk, positions)) as p:
        found, usable = classes.checked(p)
        weight = classes.weight(found, usable)
        at = ((p / inner) * n + found) * inner + p % inner
        place = fn.gep(x, fn.select(usable, at, 0), MEMORY_TYPE[code])
        loss = fn.select(usable, -(load_element(fn, place, code, 1, "s") * weight), nothing)
        if reduction == "none":
            store_element(fn, loss, fn.gep(out, p, MEMORY_TYPE[code]), code, 1, "c")
        else:
            totals.add(loss, weight)
    if reduction != "none":
        totals.finish(reduction, code, out, statistics, partials)
    return kernel.text()


def build_nll_loss_backward(code, target_code, weighted, reduction):
    """Write -g * weight where the classes are.

    (dx, g, classes, weights, statistics, ignored class).
    """
    kernel = Kernel("ppppp" + "i")
    fn, (dx, g, target, weights, statistics, ignored) = kernel.fn, kernel.arguments
    _, positions, n, inner, per_chunk, step = kernel.described(descriptions.Positions)
    classes = _Classes(kernel, n, target, weights, ignored, (code, target_code, weighted))
    compute = LLVM_TYPE[COMPUTE_TYPE[code]]
    first = kernel.chunk * per_chunk
    with fn.loop(first, fn.min(first + per_chunk, positions)) as p:
        found, usable, _ = classes.at(p)
        gradient = load_element(fn, fn.gep(g, p * step, MEMORY_TYPE[code]), code, 1, "s")
        value = -(gradient * classes.weight(found, usable))
        if reduction == "mean":
            value = value / fn.load(statistics, compute)
        with fn.when(usable):
            at = ((p / inner) * n + found) * inner + p % inner
            store_element(fn, value, fn.gep(dx, at, MEMORY_TYPE[code]), code, 1, "c")
    return kernel.text()
