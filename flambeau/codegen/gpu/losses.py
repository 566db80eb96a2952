"""Totals of pointwise nests on a GPU, for the arguments of templates/losses.py.

Every thread adds up its values, a group joins its threads. A group that is alone writes the result;
several write their totals as doubles where the result would be, and `build_total_join` joins those
(`eager/losses.py` gives them room). Orders are fixed, so a loss has the same bits in every run.
"""

from flambeau.codegen.descriptions import MOST_GROUPS, ONE_GROUP, PER_GROUP
from flambeau.codegen.gpu.pointwise import LINE, THREADS, GpuPointwise
from flambeau.codegen.gpu.teams import Whole
from flambeau.codegen.llvm import convert, to_memory
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry
from flambeau.codegen.llvm_names import COMPUTE_TYPE
from flambeau.codegen.loops import I64, Module
from flambeau.codegen.templates.losses import _TotalBody

TOGETHER = 4  # vectors that a thread has on the way


class GpuTotal(GpuPointwise, _TotalBody):
    """The walk of a nest; values are added up instead of stored."""

    def write(self):
        kernel = self.kernel
        self.total = kernel.private("double")
        super().write()

    def finish(self):
        fn, kernel = self.fn, self.kernel
        Whole(kernel).join([self.total], _added)
        with kernel.threads(last=True) as thread, fn.when(thread == 0):
            total = self.total.get(thread)

            def alone():
                divisor = self.scalars[-1]
                _write(fn, total, divisor, self.bases[0], self.nest.outputs[0][0])

            place = fn.gep(self.bases[0], kernel.group, "double")
            fn.if_else(kernel.groups == 1, alone, lambda: fn.store(total, place, 8))

    def walk(self, index, step, total, thread):
        self.own = self.fn.var(self.fn.value(0.0, "double"))
        super().walk(index, step, total, thread)
        self.total.set(thread, self.own.get())

    def _wide(self, index, step, total):
        fn, n = self.fn, self.lanes
        at = fn.var(index * n)
        whole = (total / n) * n if self.nest.rank == 0 else total
        far = step * (n * (TOGETHER - 1))

        def value(place):
            bases, column, _ = self._place(place)
            return self._value(bases, column, None)

        fn.vector_align, self.width = LINE, n
        with fn.while_(lambda: (at.get() + far) < whole):
            here = at.get()
            self._add(*[value(here + step * (n * k)) for k in range(TOGETHER)])
            at.set(here + step * (n * TOGETHER))
        with fn.loop(at.get(), whole, step * n) as place:
            self._add(value(place))
        fn.vector_align, self.width = None, 1
        if self.nest.rank == 0:
            with fn.loop(whole + index, total, step) as place:
                self._add(self._value(self.bases, place, None))

    def _add(self, *values):
        """Values of vectors, added as they are, into the total."""
        fn, values = self.fn, list(values)
        while len(values) > 1:
            values = [a + b for a, b in zip(values[::2], values[1::2])]
        lanes = [fn.extract(values[0], k) for k in range(self.width)]
        while len(lanes) > 1:
            lanes = [a + b for a, b in zip(lanes[::2], lanes[1::2])]
        self.own.set(self.own.get() + fn.convert("fpext", lanes[0], "double"))

    def grid(self, fn, word):
        elements = word(4) * word(5)
        groups = fn.min((elements + (PER_GROUP - 1)) / PER_GROUP, MOST_GROUPS)
        return fn.select(elements <= ONE_GROUP, fn.value(1, I64), groups)


def _added(a, b):
    return [x + y for x, y in zip(a, b)]


def _write(fn, total, divisor, out, dtype):
    result = convert(fn, total / divisor, "f64", COMPUTE_TYPE[dtype])
    fn.store(to_memory(fn, result, dtype), out)


def build_total(nest):
    """Both texts of a total; the last scalar argument is what the sum is divided by."""
    module = Module()
    body = GpuTotal(module, nest)
    body.write()
    add_host_entry(module, body.kernel, body.grid)
    return module_text(module)


def build_total_join(code):
    """Both texts: (out, totals of groups, divisor), described by (1, how many groups)."""
    module = Module()
    kernel = Kernel(module, "pppf", THREADS, words=2)
    fn, total = kernel.fn, kernel.private("double")
    out, totals, divisor = (kernel.argument(1 + k) for k in range(3))
    with kernel.threads(last=True) as thread:
        own = fn.var(fn.value(0.0, "double"))
        with fn.loop(thread, kernel.word(1), THREADS) as k:
            own.set(own.get() + fn.load(fn.gep(totals, k, "double"), "double", 8))
        total.set(thread, own.get())
    Whole(kernel).join([total], _added)
    with kernel.threads(last=True) as thread, fn.when(thread == 0):
        _write(fn, total.get(thread), divisor, out, code)
    kernel.done()
    add_host_entry(module, kernel, lambda fn, word: fn.value(1, I64))
    return module_text(module)
