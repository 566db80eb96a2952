"""Where rows of matrices go when they are swapped one after the other, as pivots say.

Swaps follow one another, so one thread makes them; it does so on numbers of rows in memory that a
group of threads shares, which is near. Rows themselves are moved later, all at once.
"""

from flambeau.codegen.descriptions_linalg import Places
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry
from flambeau.codegen.loops import I32, I64, Module
from flambeau.codegen.templates.embedding import OUT_OF_RANGE

THREADS = 128
ROWS = 4096  # what fits


def build_places():
    """Both texts: numbers of rows, swapped: (out, pivots), 64 and 32 bits. A group per matrix."""
    module = Module()
    words = len(Places._fields)
    kernel = Kernel(module, "ppp", THREADS, words=words)
    fn, d = kernel.fn, Places(*[kernel.word(k) for k in range(words)])
    out, pivots = kernel.argument(1), kernel.argument(2)
    places, given = kernel.shared(I32, ROWS), kernel.shared(I32, ROWS)
    with fn.loop(kernel.group, d.count, kernel.groups) as item:
        with kernel.threads() as thread:
            with fn.loop(thread, d.rows, THREADS) as k:
                fn.store(fn.convert("trunc", k, I32), fn.gep(places, k, I32))
            with fn.loop(thread, d.many, THREADS) as k:
                pivot = fn.load(fn.gep(pivots, item * d.many + k, I32), I32)
                fn.store(pivot, fn.gep(given, k, I32))
        with (
            kernel.threads() as thread,
            fn.when(thread == 0),
            fn.loop(0, d.many) as step,
        ):
            upper = fn.select(d.backward == 1, d.many - 1 - step, step)
            row = fn.convert("sext", fn.load(fn.gep(given, upper, I32), I32), I64) - 1
            outside = (row < 0) | (row >= d.rows)
            with fn.when(outside):
                fn.store(fn.value(OUT_OF_RANGE, I64), kernel.status, 8)
            with fn.when(~outside):
                high, low = fn.gep(places, upper, I32), fn.gep(places, row, I32)
                one, other = fn.load(high, I32), fn.load(low, I32)
                fn.store(other, high)
                fn.store(one, low)
        with kernel.threads() as thread, fn.loop(thread, d.rows, THREADS) as k:
            place = fn.convert("sext", fn.load(fn.gep(places, k, I32), I32), I64)
            fn.store(place, fn.gep(out, item * d.rows + k, I64), 8)
    kernel.done()
    add_host_entry(module, kernel, lambda fn, word: word(1))
    return module_text(module)
