"""Joins on a GPU: all threads copy one piece after the other, in units as long as is aligned.

Arguments and descriptions are those of templates/joining.py.
"""

from contextlib import contextmanager

from flambeau.codegen.descriptions_places import Join, PaddedPiece, Run
from flambeau.codegen.gpu.pointwise import divided
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry, as_global
from flambeau.codegen.loops import I8, I64, PTR, Module

THREADS = 256
UNITS = (16, 8, 4, 2, 1)  # bytes
TYPES = {16: "<2 x i64>"} | {n: f"i{8 * n}" for n in UNITS[1:]}


def build_join(kind):
    """Both texts: (out, places of the pieces, eight bytes that gaps are filled with)."""
    module = Module()
    kernel = Kernel(module, "ppbi", THREADS)
    fn, size = kernel.fn, len(kind._fields)
    out, sources, value = (kernel.argument(1 + k) for k in range(3))
    d = Join(*[kernel.word(k) for k in range(len(Join._fields))])
    start, rows = fn.var(fn.value(0, I64)), d.total / d.row
    with kernel.threads(last=True) as thread, _from_zero(start), fn.loop(0, d.pieces) as k:
        at = k * size + len(Join._fields)
        piece = kind(*[kernel.word(at + n) for n in range(size)])
        source = as_global(fn, fn.load(fn.gep(sources, k, I64), PTR, 8))
        first = start.get()
        bits = first | d.row | fn.pure(f"ptrtoint {out} to i64", I64)
        for word in (*piece, fn.pure(f"ptrtoint {source} to i64", I64)):
            bits = bits | word

        def copy(unit, piece=piece, source=source, first=first):
            type, per_row = TYPES[unit], piece.width / unit
            begin, step = kernel.group * THREADS + thread, kernel.groups * THREADS
            with fn.loop(begin, rows * per_row, step) as number:
                row = fn.value(0, I64) if kind is Run else divided(fn, number, per_row)
                along = (number - row * per_row) * unit
                there = along if kind is Run else row * piece.step + along
                to = fn.gep(out, row * d.row + first + along, I8)

                def held(there=there):
                    return fn.load(fn.gep(source, there, I8), type, unit)

                if kind is PaddedPiece:
                    inside = (there >= piece.begin) & (there < piece.end)
                    got = fn.if_else(
                        inside, lambda: held(there - piece.begin), lambda: _filling(fn, value, unit)
                    )
                else:
                    got = held()
                fn.store(got, to, unit)

        def choose(units, bits=bits, copy=copy):
            unit, *rest = units
            if not rest:
                copy(unit)
                return
            fn.if_else((bits & (unit - 1)) == 0, lambda: copy(unit), lambda: choose(rest))

        choose(UNITS)
        start.set(first + piece.width)
    kernel.done()

    def groups(fn, word):
        return (word(2) / (16 * word(4)) + THREADS) / THREADS

    add_host_entry(module, kernel, groups)
    return module_text(module)


@contextmanager
def _from_zero(cell):
    """Every thread begins with the first piece."""
    cell.set(0)
    yield


def _filling(fn, value, unit):
    """What fills gaps, as a unit."""
    if unit == 16:
        return fn.splat(value, 2)
    return value + 0 if unit == 8 else fn.convert("trunc", value, TYPES[unit])
