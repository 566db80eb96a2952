"""Cross entropy and nll_loss on a GPU, for templates/rows_cross_entropy.py's arguments.

A row of scores is read once: every thread keeps the largest score so far and the sum of the
exponentials scaled by it, and pairs of such numbers are joined in the team. The backward reads
scores and writes gradients in one pass. Groups take chunks of rows; losses of a chunk are summed
in double, always in the same order.
"""

from types import SimpleNamespace

from flambeau.codegen import descriptions
from flambeau.codegen import scalar as m
from flambeau.codegen.gpu.pointwise import LINE, divided
from flambeau.codegen.gpu.powers import Online, joining
from flambeau.codegen.gpu.teams import GROUP, Team, Whole, groups_of
from flambeau.codegen.llvm import Emitter, load_element, store_element
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I32, I64, Module, bytes_of, vector
from flambeau.codegen.templates.rows import narrowed, widened
from flambeau.codegen.templates.rows_cross_entropy import HEADER, _Classes, _write_total

UNROLL = 4  # vectors that a thread has on the way


class _Losses:
    """What the kernels here share: arguments, classes, formulas on machine values."""

    def __init__(self, kinds, described, code, loss=None):
        self.module, self.loss = Module(), loss or code  # dtype of losses and their gradients
        self.kernel = kernel = Kernel(self.module, kinds, GROUP, words=len(described._fields))
        self.fn, self.code, self.type = kernel.fn, code, COMPUTE_TYPE[code]
        self.compute = LLVM_TYPE[self.type]
        self.size = bytes_of(self.compute)
        self.item = bytes_of(MEMORY_TYPE[code])
        self.width = LINE // self.item
        self.d = described(*[kernel.word(k) for k in range(len(described._fields))])
        self.arguments = [kernel.argument(1 + k) for k in range(len(kinds) - 1)]

    def classes(self, target, weights, ignored, facts):
        seen = SimpleNamespace(fn=self.fn, fail=self.fail)
        return _Classes(seen, self.d.classes, target, weights, ignored, (self.code, *facts))

    def fail(self, condition):
        with self.fn.when(condition):
            self.fn.store(self.fn.value(1, I64), self.kernel.status, 8)

    def formula(self, function, *values):
        """A formula of the scalar language on (vectors of) numbers."""
        symbols = [
            m.argument(k, "f64" if "double" in v.type else "f32") for k, v in enumerate(values)
        ]
        width = int(values[0].type[1:].split(" x ")[0]) if values[0].type[0] == "<" else 1
        return Emitter(self.fn, width, values).emit(function(*symbols))

    def place(self, base, at):
        return self.fn.gep(base, at, MEMORY_TYPE[self.code])

    def put_loss(self, value, out, at):
        store_element(
            self.fn, value, self.fn.gep(out, at, MEMORY_TYPE[self.loss]), self.loss, 1, "c"
        )

    def is_aligned(self, *bases):
        fn, bits = self.fn, self.d.classes * self.item
        for base in bases:
            bits = bits | fn.pure(f"ptrtoint {base} to i64", I64)
        return (bits & (LINE - 1)) == 0

    def text(self, groups):
        self.kernel.done()
        add_host_entry(self.module, self.kernel, groups)
        return module_text(self.module)

    def over_row(self, aligned, lane, size, take):
        """take([places], width) for all of a row that is this thread's, vectors if it can be."""
        fn, w, n = self.fn, self.width, self.d.classes

        def some(first, high, step, width):
            at = fn.var(first)
            with fn.while_(lambda: (at.get() + step * (UNROLL - 1)) < high):
                here = at.get()
                take([here + step * k for k in range(UNROLL)], width)
                at.set(here + step * UNROLL)
            with fn.loop(at.get(), high, step) as i:
                take([i], width)

        def vectors():
            whole = (n / w) * w
            fn.vector_align = LINE
            some(lane * w, whole, size * w, w)
            fn.vector_align = None
            with fn.loop(whole + lane, n, size) as i:
                take([i], 1)

        fn.if_else(aligned, vectors, lambda: some(lane, n, size, 1))


class _Totals:
    """Sums of losses and weights of a chunk, in double."""

    def __init__(self, program):
        self.program, self.fn, self.kernel = program, program.fn, program.kernel
        self.cells = [self.kernel.private("double") for _ in range(2)]
        self.whole = Whole(self.kernel)

    def clear(self):
        with self.kernel.threads(last=True) as thread:
            for cell in self.cells:
                cell.set(thread, 0.0)

    def add(self, thread, loss, weight):
        for cell, value in zip(self.cells, (loss, weight)):
            cell.set(thread, cell.get(thread) + widened(self.fn, value, "f64"))

    def finish(self, chunk, reduction, out, statistics, partials):
        """The result at once if this is the only chunk, else totals for build_total."""
        fn = self.fn
        self.whole.join(self.cells, lambda a, b: [x + y for x, y in zip(a, b)])
        with self.kernel.threads() as thread, fn.when(thread == 0):
            loss, weight = (cell.get(thread) for cell in self.cells)

            def alone():
                _write_total(fn, reduction, self.program.loss, out, statistics, loss, weight)

            def together():
                place = fn.gep(partials, chunk * 2, "double")
                fn.store(loss, place, 8)
                fn.store(weight, fn.gep(place, 1, "double"), 8)

            fn.if_else(self.program.d.chunks == 1, alone, together)


def build_total(code, reduction):
    """Both texts: join the totals of chunks: (out, statistics, partials)."""
    program = _Losses("pppp", descriptions.Totals, code)
    fn, (out, statistics, partials) = program.fn, program.arguments
    totals = _Totals(program)
    totals.clear()
    with (
        program.kernel.threads(last=True) as thread,
        fn.loop(thread, program.d.count, GROUP) as k,
    ):
        place = fn.gep(partials, k * 2, "double")
        totals.add(thread, *(fn.load(fn.gep(place, j, "double"), "double") for j in range(2)))
    totals.finish(fn.value(0, I64), reduction, out, statistics, partials)
    return program.text(lambda fn, word: fn.value(1, I64))


def build_cross_entropy(code, target_code, weighted, reduction, loss=None):
    """Both texts: (out, statistics, partials, scores, classes, weights, ignored class).

    loss: the dtype of losses, if it is not that of scores.
    """
    program = _Losses("ppppppp" + "i", descriptions.Scores, code, loss)
    fn, kernel, d = program.fn, program.kernel, program.d
    out, statistics, partials, x, target, weights, ignored = program.arguments
    classes = program.classes(target, weights, ignored, (target_code, weighted))
    team, totals = Team(kernel, d.classes, program.width, d.rows), _Totals(program)
    top, total = kernel.private(program.compute), kernel.private("double")
    aligned = program.is_aligned(x)
    with fn.loop(kernel.group, d.chunks, kernel.groups) as chunk:
        first = chunk * d.per_chunk
        end = fn.min(first + d.per_chunk, d.rows)
        totals.clear()
        with fn.loop(first, end, fn.value(GROUP, I64) / team.size) as low:
            with kernel.threads(last=True) as thread:
                row, lane = team.mine(low, thread)
                start = program.place(x, fn.min(row, end - 1) * d.classes)
                found = Online(fn, program.compute)

                def take(places, width, start=start, found=found):
                    found.take([
                        load_element(fn, program.place(start, at), code, width, "c")
                        for at in places
                    ])  # fmt: skip

                program.over_row(aligned, lane, team.size, take)
                top.set(thread, found.top.get())
                total.set(thread, widened(fn, found.total.get(), "f64"))
            team.join([top, total], joining(fn))
            with kernel.threads(last=True) as thread:
                row, lane = team.mine(low, thread)
                with fn.when((row < end) & (lane == 0)):
                    numbers = top.get(thread), narrowed(fn, total.get(thread), program.type)
                    loss, weight = _row_loss(program, classes, row, numbers, x, statistics)
                    if reduction == "none":
                        program.put_loss(loss, out, row)
                    else:
                        totals.add(thread, loss, weight)
        if reduction != "none":
            totals.finish(chunk, reduction, out, statistics, partials)
    return program.text(lambda fn, word: word(0))


def _row_loss(program, classes, row, numbers, x, statistics):
    """(loss, weight) of a row; what the backward wants is stored."""
    fn, compute, size = program.fn, program.compute, program.size
    found, usable = classes.checked(row)
    top, log_total = numbers[0], program.formula(m.log, numbers[1])
    place = fn.gep(statistics, row * 2 + HEADER, compute)
    fn.store(top, place, size)
    fn.store(log_total, fn.gep(place, 1, compute), size)
    weight = classes.weight(found, usable)
    at = program.place(x, row * program.d.classes + fn.select(usable, found, 0))
    score = load_element(fn, at, program.code, 1, "s")
    loss = (log_total - (score - top)) * weight
    return fn.select(usable, loss, fn.value(0.0, compute)), weight


def build_cross_entropy_backward(code, target_code, weighted, reduction, loss=None):
    """Both texts: (dx, g, scores, classes, weights, statistics, ignored class)."""
    program = _Losses("ppppppp" + "i", descriptions.Scores, code, loss)
    fn, kernel, d = program.fn, program.kernel, program.d
    compute, size = program.compute, program.size
    dx, g, x, target, weights, statistics, ignored = program.arguments
    classes = program.classes(target, weights, ignored, (target_code, weighted))
    team, aligned = Team(kernel, d.classes, program.width, d.rows), program.is_aligned(dx, x)
    with team.items(d.rows) as first, kernel.threads(last=True) as thread:
        row, lane = team.mine(first, thread)
        with fn.when(row < d.rows):
            found, usable, _ = classes.at(row)
            place = fn.gep(statistics, row * 2 + HEADER, compute)
            at_g = fn.gep(g, row * d.step, MEMORY_TYPE[program.loss])
            gradient = load_element(fn, at_g, program.loss, 1, "s")
            scale = gradient * classes.weight(found, usable)
            if reduction == "mean":
                scale = scale / fn.load(statistics, compute, size)
            scale = fn.select(usable, scale, fn.value(0.0, compute))
            shift = fn.load(place, compute, size), fn.load(fn.gep(place, 1, compute), compute, size)

            def take(places, width):
                numbers = [fn.splat(v, width) for v in (*shift, scale)]
                scores = [
                    load_element(fn, program.place(x, row * d.classes + at), code, width, "c")
                    for at in places
                ]
                for at, score in zip(places, scores):
                    lanes = vector(I32, width)
                    away = fn.splat(fn.convert("trunc", found - at, I32), width)
                    hit = fn.pure(f"icmp eq {away}, {fn.iota(lanes).name}", vector("i1", width))
                    ones = fn.select(hit, fn.value(1.0, score.type), fn.value(0.0, score.type))
                    value = program.formula(_slope, score, ones, *numbers)
                    to = program.place(dx, row * d.classes + at)
                    store_element(fn, value, to, code, width, "c")

            program.over_row(aligned, lane, team.size, take)
    return program.text(lambda fn, word: groups_of(fn, word(2), program.width, word(1)))


def _slope(x, one, top, log_total, scale):
    return (m.exp(x - top - log_total) - one) * scale


# -- losses of given log-probabilities -------------------------------------------------------------


def _spot(program, p, found):
    """Where the log-probability of a class is."""
    fn, d = program.fn, program.d
    outer = divided(fn, p, d.inner)
    return (outer * d.classes + found) * d.inner + (p - outer * d.inner)


def build_nll_loss(code, target_code, weighted, reduction):
    """Both texts: (out, statistics, partials, log-probabilities, classes, weights, ignored)."""
    program = _Losses("ppppppp" + "i", descriptions.Positions, code)
    fn, kernel, d = program.fn, program.kernel, program.d
    out, statistics, partials, x, target, weights, ignored = program.arguments
    classes = program.classes(target, weights, ignored, (target_code, weighted))
    totals, nothing = _Totals(program), fn.value(0.0, program.compute)
    with fn.loop(kernel.group, d.chunks, kernel.groups) as chunk:
        first = chunk * d.per_chunk
        end = fn.min(first + d.per_chunk, d.positions)
        totals.clear()
        with kernel.threads(last=True) as thread, fn.loop(first + thread, end, GROUP) as p:
            found, usable = classes.checked(p)
            weight = classes.weight(found, usable)
            at = program.place(x, fn.select(usable, _spot(program, p, found), 0))
            loss = fn.select(usable, -(load_element(fn, at, code, 1, "s") * weight), nothing)
            if reduction == "none":
                store_element(fn, loss, program.place(out, p), code, 1, "c")
            else:
                totals.add(thread, loss, weight)
        if reduction != "none":
            totals.finish(chunk, reduction, out, statistics, partials)
    return program.text(lambda fn, word: word(0))


def build_nll_loss_backward(code, target_code, weighted, reduction):
    """Both texts: write -g * weight where the classes are.

    (dx, g, classes, weights, statistics, ignored class).
    """
    program = _Losses("pppppp" + "i", descriptions.Positions, code)
    fn, kernel, d = program.fn, program.kernel, program.d
    dx, g, target, weights, statistics, ignored = program.arguments
    classes = program.classes(target, weights, ignored, (target_code, weighted))
    with (
        kernel.threads(last=True) as thread,
        fn.loop(kernel.group * GROUP + thread, d.positions, kernel.groups * GROUP) as p,
    ):
        found, usable, _ = classes.at(p)
        gradient = load_element(fn, program.place(g, p * d.step), code, 1, "s")
        value = -(gradient * classes.weight(found, usable))
        if reduction == "mean":
            value = value / fn.load(statistics, program.compute)
        with fn.when(usable):
            at = program.place(dx, _spot(program, p, found))
            store_element(fn, value, at, code, 1, "c")
    return program.text(lambda fn, word: (word(1) + (GROUP - 1)) / GROUP)
