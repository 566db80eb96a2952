"""Rows of a table by number on a GPU: threads side by side copy what lies side by side."""

from flambeau.codegen.descriptions import Lookup
from flambeau.codegen.gpu.pointwise import divided
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry
from flambeau.codegen.loops import I8, I64, Module
from flambeau.codegen.templates.embedding import OUT_OF_RANGE, _index

THREADS = 256
WORDS = len(Lookup._fields)
UNITS = (16, 8, 4, 2, 1)  # bytes that a thread copies at once: as many as everything is aligned to


def build_lookup(size, index):
    """Both texts: copy rows of elements of `size` bytes: (out, table, index)."""
    module = Module()
    kernel = Kernel(module, "pppp", THREADS, words=WORDS)
    fn = kernel.fn
    d = Lookup(*[kernel.word(k) for k in range(WORDS)])
    out, table, places = (kernel.argument(1 + k) for k in range(3))
    bits = d.length | d.stride
    for base in (out, table):
        bits = bits | fn.pure(f"ptrtoint {base} to i64", I64)

    def copy(unit):
        type = {16: "<4 x i32>"}.get(unit, f"i{8 * unit}")
        per_row = d.length / unit
        first = kernel.group * THREADS + thread
        with fn.loop(first, d.places * per_row, kernel.groups * THREADS) as at:
            place = divided(fn, at, per_row)
            row = _index(fn, places, place, index)
            inside = row.below(d.rows)
            with fn.when(~inside):
                fn.store(fn.value(OUT_OF_RANGE, I64), kernel.status, 8)
            with fn.when(inside):
                source = fn.gep(table, row * d.stride + (at - place * per_row) * unit, I8)
                value = fn.load(source, type, unit)
                fn.store(value, fn.gep(out, at * unit, I8), unit)

    def choose(units):
        unit, *rest = units
        if not rest or unit == size:
            copy(unit)
            return
        fn.if_else((bits & (unit - 1)) == 0, lambda: copy(unit), lambda: choose(rest))

    with kernel.threads(last=True) as thread:
        choose([unit for unit in UNITS if unit >= size] or [16])
    kernel.done()

    def groups(fn, word):
        return (word(1) * word(2) / max(size, 4) + (4 * THREADS - 1)) / (4 * THREADS)

    add_host_entry(module, kernel, groups)
    return module_text(module)
