"""Padding on a GPU: a thread per few results, for the descriptions of templates/padding.py."""

from flambeau.codegen.descriptions_places import Pad, PaddedSide
from flambeau.codegen.gpu.pointwise import divided
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry
from flambeau.codegen.loops import I64, Module, vector
from flambeau.codegen.templates.padding import _source

THREADS = 256
EACH = 4  # results side by side of a thread
SIDE = len(PaddedSide._fields)
WORDS = len(Pad._fields) + 3 * SIDE
WIDTH = len(Pad._fields) + 2 * SIDE  # the word with the width of the result


def build_pad(bits, mode):
    """Both texts: (out, input, constant)."""
    module, integer = Module(), f"i{bits}"
    kernel = Kernel(module, "pppi", THREADS, words=WORDS)
    fn, d = kernel.fn, Pad(*[kernel.word(k) for k in range(len(Pad._fields))])
    deep, high, wide = (
        PaddedSide(*[kernel.word(len(Pad._fields) + side * SIDE + n) for n in range(SIDE)])
        for side in range(3)
    )
    out, x, constant = (kernel.argument(1 + k) for k in range(3))
    constant = constant if bits == 64 else fn.convert("trunc", constant, integer)
    first, step = kernel.group * THREADS, kernel.groups * THREADS
    total = d.rows * wide.out
    lanes, align = vector(integer, EACH), min(16, EACH * bits // 8)
    aligned = (fn.pure(f"ptrtoint {out} to i64", I64) & 15) == 0

    def place(at):
        """(plane, depth, row, column) of a result."""
        row = divided(fn, at, wide.out)
        rest = divided(fn, row, high.out)
        plane = divided(fn, rest, deep.out)
        return plane, rest - plane * deep.out, row - rest * high.out, at - row * wide.out

    def following(plane, z, y, column):
        """The place after one."""
        column = column + 1
        over = column == wide.out
        y = y + fn.convert("zext", over, I64)
        under = y == high.out
        z = z + fn.convert("zext", under, I64)
        beyond = z == deep.out
        plane = plane + fn.convert("zext", beyond, I64)
        return plane, *(fn.select(o, 0, v) for o, v in ((beyond, z), (under, y), (over, column)))

    def value_at(plane, *places):
        z, y, column = (_source(fn, p, s, mode) for p, s in zip(places, (deep, high, wide)))

        def read():
            line = (plane * deep.size + z) * high.size + y
            return fn.load(fn.gep(x, line * wide.size + column, integer), integer)

        return fn.if_else((z | y | column) >= 0, read, lambda: constant)

    with kernel.threads(last=True) as thread:
        whole = fn.select(aligned, (total / EACH) * EACH, fn.value(0, I64))
        with fn.loop((first + thread) * EACH, whole, step * EACH) as at:
            here, found = place(at), fn.value(0, lanes)
            for k in range(EACH):
                found = fn.insert(found, value_at(*here), k)
                here = following(*here)
            fn.store(found, fn.gep(out, at, integer), align)
        with fn.loop(whole + first + thread, total, step) as at:
            fn.store(value_at(*place(at)), fn.gep(out, at, integer))
    kernel.done()

    def groups(fn, word):
        return (word(1) * word(WIDTH) + (EACH * THREADS - 1)) / (EACH * THREADS)

    add_host_entry(module, kernel, groups)
    return module_text(module)
