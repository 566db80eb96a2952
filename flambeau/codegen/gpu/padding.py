"""Padding on a GPU: a thread per few results, for the descriptions of templates/padding.py."""

from flambeau.codegen.descriptions_places import Pad, PaddedSide
from flambeau.codegen.gpu.pointwise import divided
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry
from flambeau.codegen.loops import I32, I64, Module, vector
from flambeau.codegen.templates.padding import _source

THREADS = 256
EACH = 4  # results side by side of a thread
SIDE = len(PaddedSide._fields)
WORDS = len(Pad._fields) + 3 * SIDE
WIDTH = len(Pad._fields) + 2 * SIDE  # the word with the width of the result


def _of_type(fn, given, type):
    """Sides whose fields are of a type."""
    if type == I64:
        return given
    return [s._make([fn.convert("trunc", v, type) for v in s]) for s in given]


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
    lanes, align = vector(integer, EACH), min(16, EACH * bits // 8)
    aligned = (fn.pure(f"ptrtoint {out} to i64", I64) & 15) == 0
    total = d.rows * wide.out
    given = deep, high, wide

    def results(type, thread):
        """All results of a thread, with places that are numbers of a type."""
        deep, high, wide = _of_type(fn, given, type)

        def quotient(a, b):
            return divided(fn, a, b) if type == I64 else fn.pure(f"udiv {a}, {b.name}", I32)

        def place(at):
            """(plane, depth, row, column) of a result."""
            row = quotient(at, wide.out)
            rest = quotient(row, high.out)
            plane = quotient(rest, deep.out)
            return plane, rest - plane * deep.out, row - rest * high.out, at - row * wide.out

        def following(plane, z, y, column):
            """The place after one."""
            column = column + 1
            over = column == wide.out
            y = y + fn.convert("zext", over, type)
            under = y == high.out
            z = z + fn.convert("zext", under, type)
            beyond = z == deep.out
            plane = plane + fn.convert("zext", beyond, type)
            return plane, *(
                fn.select(o, 0, v) for o, v in ((beyond, z), (under, y), (over, column))
            )

        def value_at(plane, *places):
            z, y, column = (_source(fn, p, s, mode) for p, s in zip(places, (deep, high, wide)))

            def read():
                line = (plane * deep.size + z) * high.size + y
                at = line * wide.size + column
                at = at if type == I64 else fn.convert("zext", at, I64)
                return fn.load(fn.gep(x, at, integer), integer)

            return fn.if_else((z | y | column) >= 0, read, lambda: constant)

        def number(value):
            return value if type == I64 else fn.convert("trunc", value, I32)

        first, step = kernel.group * THREADS + thread, kernel.groups * THREADS
        whole = fn.select(aligned, (total / EACH) * EACH, fn.value(0, I64))
        with fn.loop(first * EACH, whole, step * EACH) as at:
            here, found = place(number(at)), fn.value(0, lanes)
            for k in range(EACH):
                found = fn.insert(found, value_at(*here), k)
                here = following(*here)
            fn.store(found, fn.gep(out, at, integer), align)
        with fn.loop(whole + first, total, step) as at:
            fn.store(value_at(*place(number(at))), fn.gep(out, at, integer))

    with kernel.threads(last=True) as thread:
        is_short = total < (1 << 31)  # and so is the input, where nothing is cut off
        for side in (deep, high, wide):
            is_short = is_short & (side.size <= side.out)
        fn.if_else(is_short, lambda: results(I32, thread), lambda: results(I64, thread))
    kernel.done()

    def groups(fn, word):
        return (word(1) * word(WIDTH) + (EACH * THREADS - 1)) / (EACH * THREADS)

    add_host_entry(module, kernel, groups)
    return module_text(module)
