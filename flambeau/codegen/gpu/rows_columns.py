"""Row programs on a GPU down columns, a thread per row, and sums of tallies, which run down too."""

from types import SimpleNamespace

from flambeau.codegen import descriptions
from flambeau.codegen.gpu.pointwise import divided
from flambeau.codegen.gpu.powers import Online
from flambeau.codegen.gpu.teams import GROUP
from flambeau.codegen.llvm import load_element, store_element
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I64, Module
from flambeau.codegen.templates.rows import (
    Between,
    Max,
    Sum,
    SumExp,
    Walk,
    convert_count,
    narrowed,
    widened,
)

DOWN = 8  # elements of a column that a thread has on the way
ACROSS, SHARING = 8, 32  # positions of a group that adds tallies up, and threads that share one


class Columns(Walk):
    """Rows that run across memory: a thread per row, neighbours side by side."""

    words = descriptions.Columns

    def __init__(self, kernel, program, compute):
        arguments = [kernel.argument(1 + k) for k in range(len(kernel.kinds) - 1)]
        super().__init__(SimpleNamespace(fn=kernel.fn, arguments=arguments), program, compute)
        self.kernel, self.width = kernel, 1
        fields = descriptions.Columns._fields
        self.d = descriptions.Columns(*[kernel.word(k) for k in range(len(fields))])

    def groups(self, fn, word):
        d = descriptions.Columns(*[word(k) for k in range(len(descriptions.Columns._fields))])
        pieces = (d.height + d.length - 1) / d.length
        return (pieces * d.inner + (GROUP - 1)) / GROUP

    def run(self):
        fn, kernel, d = self.fn, self.kernel, self.d
        pieces = (d.height + d.length - 1) / d.length
        step = kernel.groups * GROUP
        with (
            kernel.threads(last=True) as thread,
            fn.loop(kernel.group * GROUP + thread, pieces * d.inner, step) as item,
        ):
            outer = divided(fn, item, d.inner)
            self.column, self.item = item - outer * d.inner, item
            self.n = fn.min(d.length, d.height - outer * d.length)
            self.first = outer * d.length * d.inner + self.column
            self.values = {"n": convert_count(fn, self.n, self.type)} | self.scalars
            for name, (code, place) in self.program.operands.items():
                if place in ("row", "piece"):
                    at = self.place(name, self.index(place))
                    self.values[name] = load_element(fn, at, code, 1, "s")
            for step in self.program.steps:
                (self.between if isinstance(step, Between) else self.pass_over)(step)

    def index(self, place):
        return self.item if place in ("piece", "piece out") else self.column

    def between(self, step):
        found = step.body(self.numbers())
        for name, value in zip(found, self.evaluate(list(found.values()), 1)):
            self.values[name] = value
            code, place = self.program.operands.get(name, ("", ""))
            if place:
                at = self.place(name, self.index(place))
                store_element(self.fn, value, at, code, 1, "c")

    def pass_over(self, step):
        fn = self.fn
        actions = step.body(self.elements(), self.numbers())
        totals = {k: a for k, a in actions.items() if isinstance(a, (Sum, Max))}
        cells = {k: fn.var(self.no_total(a)) for k, a in totals.items()}
        powers = {
            k: Online(fn, LLVM_TYPE[self.type], a.plain, wide=True)
            for k, a in actions.items()
            if type(a) is SumExp
        }
        used = self.names_in([a.value for a in actions.values()])

        def take(places):
            emitters = [self.emitter(self.loaded(used, at), 1) for at in places]
            for name, action in actions.items():
                if name in powers:
                    powers[name].take([emitter.emit(action.value) for emitter in emitters])
                    continue
                for at, emitter in zip(places, emitters):
                    value = emitter.emit(action.value)
                    if name in cells:
                        value = widened(fn, value, "f64") if type(action) is Sum else value
                        cells[name].set(self.join(type(action), cells[name].get(), value))
                    else:
                        code = self.program.operands[name][0]
                        store_element(fn, value, self.place(name, at), code, 1, "c")

        i, inner = fn.var(fn.value(0, I64)), self.d.inner
        with fn.while_(lambda: (i.get() + (DOWN - 1)) < self.n):
            here = i.get()
            take([self.first + (here + k) * inner for k in range(DOWN)])
            i.set(here + DOWN)
        with fn.loop(i.get(), self.n) as last:
            take([self.first + last * inner])
        for name, online in powers.items():
            total = narrowed(fn, online.total.get(), self.type)
            self.values |= {"top": online.top.get(), name: total}
        for name, cell in cells.items():
            value, kind = cell.get(), type(totals[name])
            self.values[name] = narrowed(fn, value, self.type) if kind is Sum else value

    def loaded(self, used, at):
        """What a pass names, at a place."""
        values = {}
        for name in used:
            if name.startswith("row "):
                values[name] = self.values[name[4:]]
            else:
                code = self.program.operands[name][0]
                values[name] = load_element(self.fn, self.place(name, at), code, 1, "c")
        return values

    def no_total(self, action):
        """Sums are kept in double."""
        zero = self.zero(type(action), 1)
        return widened(self.fn, zero, "f64") if type(action) is Sum else zero


def build_tally_totals(code, count):
    """Both texts: add up tallies (pieces x positions) in double: (outs..., tallies...)."""
    module = Module()
    kernel = Kernel(module, "p" * (1 + 2 * count), GROUP, words=len(descriptions.Tallies._fields))
    fn = kernel.fn
    d = descriptions.Tallies(*[kernel.word(k) for k in range(len(descriptions.Tallies._fields))])
    arguments = [kernel.argument(1 + k) for k in range(2 * count)]
    compute = LLVM_TYPE[COMPUTE_TYPE[code]]
    shelves = [kernel.shared("double", GROUP) for _ in range(count)]
    with fn.loop(kernel.group * ACROSS, d.positions, kernel.groups * ACROSS) as first:
        with kernel.threads() as thread:
            at = fn.min(first + thread % ACROSS, d.positions - 1)
            for tally, shelf in zip(arguments[count:], shelves):
                total = fn.var(fn.value(0.0, "double"))
                with fn.loop(thread / ACROSS, d.pieces, SHARING) as piece:
                    part = fn.load(fn.gep(tally, piece * d.positions + at, compute), compute)
                    total.set(total.get() + widened(fn, part, "f64"))
                fn.store(total.get(), fn.gep(shelf, thread, "double"))
        with kernel.threads() as thread:
            at = first + thread
            with fn.when((thread < ACROSS) & (at < d.positions)):
                for out, shelf in zip(arguments, shelves):
                    total = fn.value(0.0, "double")
                    for k in range(SHARING):
                        total = total + fn.load(
                            fn.gep(shelf, thread + k * ACROSS, "double"), "double"
                        )
                    value = narrowed(fn, total, COMPUTE_TYPE[code])
                    store_element(fn, value, fn.gep(out, at, MEMORY_TYPE[code]), code, 1, "c")
    kernel.done()
    add_host_entry(module, kernel, lambda fn, word: (word(2) + (ACROSS - 1)) / ACROSS)
    return module_text(module)
