"""Counting and searching on a GPU: a thread per value (see templates/counting.py)."""

from flambeau.codegen.descriptions_places import Counted, Lines, Search
from flambeau.codegen.gpu.pointwise import divided
from flambeau.codegen.gpu.together import raised, unsigned
from flambeau.codegen.llvm import convert
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry
from flambeau.codegen.llvm_names import COMPUTE_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I32, I64, Module
from flambeau.codegen.templates.counting import _value

THREADS = 256
BINS = 4096  # that are counted in shared memory
EACH, GROUPS = 16, 1024  # values of a thread at least, groups at most


class _Values:
    """A kernel with a thread per value; word 1 of its description is how many there are."""

    def __init__(self, kinds, description):
        self.module = Module()
        words = len(description._fields)
        self.kernel = kernel = Kernel(self.module, "p" + kinds, THREADS, words=words)
        self.fn = kernel.fn
        self.d = description(*[kernel.word(k) for k in range(words)])
        self.arguments = [kernel.argument(1 + k) for k in range(len(kinds))]

    def each(self, visit):
        """visit(number); both texts."""
        fn, kernel = self.fn, self.kernel
        first, step = kernel.group * THREADS, kernel.groups * THREADS
        with kernel.threads(last=True) as thread, fn.loop(first + thread, self.d.count, step) as i:
            visit(i)
        kernel.done()
        add_host_entry(self.module, kernel, lambda fn, word: (word(1) + (THREADS - 1)) / THREADS)
        return module_text(self.module)


def build_search(dtype, out, right, in_rows, by_sorter):
    """Where values belong among sorted boundaries: (found, boundaries, values, sorter)."""
    k = _Values("pppp", Search)
    fn, d, (found, boundaries, values, sorter) = k.fn, k.d, k.arguments

    def goes_behind(at, value, base):
        if by_sorter:
            at = fn.load(fn.gep(sorter, base + at, I64), I64)
        here = _value(fn, boundaries, base + at, dtype)
        if dtype[0] == "u":
            return ~value.below(here) if right else here.below(value)
        return ~(here > value) if right else ~(here >= value)

    def visit(i):
        value = _value(fn, values, i, dtype)
        base = divided(fn, i, d.per_row) * d.length if in_rows else fn.value(0, I64)
        low, high = fn.var(fn.value(0, I64)), fn.var(d.length)
        with fn.while_(lambda: low.get() < high.get()):
            middle = (low.get() + high.get()) >> 1
            behind = goes_behind(middle, value, base)
            start, end = low.get(), high.get()
            low.set(fn.select(behind, middle + 1, start))
            high.set(fn.select(behind, end, middle))
        result = convert(fn, low.get(), "i64", out)
        fn.store(result, fn.gep(found, i, MEMORY_TYPE[out]))

    return k.each(visit)


def build_bincount(dtype, weight):
    """Occurrences of integers: (counts, values, nothing)."""
    k = _Values("ppp", Counted)
    fn, (counts, values, _) = k.fn, k.arguments

    def visit(i):
        value = convert(fn, _value(fn, values, i, dtype), COMPUTE_TYPE[dtype], "i64")
        raised(fn, fn.gep(counts, value, I64), fn.value(1, I64))

    return k.each(visit)


def build_few_bins(dtype):
    """The same for at most BINS of them, counted in shared memory first: (counts, values)."""
    k = _Values("pp", Lines)
    fn, kernel, d, (counts, values) = k.fn, k.kernel, k.d, k.arguments
    table = kernel.shared(I32, BINS)
    with kernel.threads() as thread, fn.loop(thread, d.length, THREADS) as bin:
        fn.store(fn.value(0, I32), fn.gep(table, bin, I32))
    first, step = kernel.group * THREADS, kernel.groups * THREADS
    with kernel.threads() as thread, fn.loop(first + thread, d.count, step) as i:
        value = convert(fn, _value(fn, values, i, dtype), COMPUTE_TYPE[dtype], "i64")
        raised(fn, fn.gep(table, value, I32), fn.value(1, I32))
    with kernel.threads(last=True) as thread, fn.loop(thread, d.length, THREADS) as bin:
        found = fn.load(fn.gep(table, bin, I32), I32)
        with fn.when(found != 0):
            raised(fn, fn.gep(counts, bin, I64), unsigned(fn, found))
    kernel.done()

    def groups(fn, word):
        return fn.min((word(1) + (EACH * THREADS - 1)) / (EACH * THREADS), fn.value(GROUPS, I64))

    add_host_entry(k.module, kernel, groups)
    return module_text(k.module)


def build_sorter_check():
    """Are all indices within 0 .. length - 1? (indices)."""
    k = _Values("p", Lines)
    fn, (indices,) = k.fn, k.arguments

    def visit(i):
        with fn.when(~fn.load(fn.gep(indices, i, I64), I64).below(k.d.length)):
            fn.store(fn.value(1, I64), k.kernel.status, 8)

    return k.each(visit)
