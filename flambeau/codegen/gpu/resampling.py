"""Resampling on a GPU, by the tables and descriptions of templates/resampling.py.

A thread per result reads what the tables of its three coordinates name. Planes of rows are pixels
with one channel.
"""

from flambeau.codegen.descriptions_images import Resampling
from flambeau.codegen.gpu.pointwise import divided
from flambeau.codegen.llvm import convert, load_element, store_element
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry, as_global
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I64, PTR, Module
from flambeau.codegen.templates.resampling import compute_type

THREADS = 256
WORDS = len(Resampling._fields)


def build_pixels(code):
    """Both texts: (out, input, nothing)."""
    module = Module()
    kernel = Kernel(module, "pppp", THREADS, words=WORDS)
    fn, d = kernel.fn, Resampling(*[kernel.word(k) for k in range(WORDS)])
    tables = [as_global(fn, fn.convert("inttoptr", word, PTR)) for word in d[-9:]]
    type, memory = compute_type(code), MEMORY_TYPE[code]
    out, source = kernel.argument(1), kernel.argument(2)
    step = kernel.groups * THREADS

    def taps(table, at):
        return tuple(fn.load(fn.gep(table[0], at + k, I64), I64) for k in (0, 1))

    def tap(table, t):
        weight = fn.load(fn.gep(table[2], t, LLVM_TYPE[type]), LLVM_TYPE[type])
        return fn.load(fn.gep(table[1], t, I64), I64), weight

    with (
        kernel.threads(last=True) as thread,
        fn.loop(kernel.group * THREADS + thread, d.rows * d.width * d.line, step) as index,
    ):
        rest, found = index, []
        for size in (d.line, d.width, d.height, d.depth):
            quotient = divided(fn, rest, size)
            found.append(rest - quotient * size)
            rest = quotient
        channel, column, y, z = found
        image = fn.gep(source, rest * d.plane, memory)
        total = fn.var(fn.value(0.0, LLVM_TYPE[type]))
        deep, high, wide = tables[:3], tables[3:6], tables[6:]
        with fn.loop(*taps(deep, z)) as t0:
            k, first = tap(deep, t0)
            with fn.loop(*taps(high, y)) as t1:
                i, second = tap(high, t1)
                line = (k * d.in_height + i) * d.in_width
                with fn.loop(*taps(wide, column)) as t2:
                    j, third = tap(wide, t2)
                    at = fn.gep(image, (line + j) * d.line + channel, memory)
                    x = load_element(fn, at, code, 1, "c")
                    x = convert(fn, x, COMPUTE_TYPE[code], type)
                    total.set(fn.intrinsic("fma", x, third * second * first, total.get()))
        value = total.get()
        if code == "u8":
            value = fn.intrinsic("floor", value + 0.5)
            value = fn.max(fn.min(value, fn.value(255.0, value.type)), fn.value(0.0, value.type))
            value = convert(fn, value, type, "u8")
        store_element(fn, value, fn.gep(out, index, memory), code, 1, "c")
    kernel.done()

    def groups(fn, word):
        d = Resampling(*[word(k) for k in range(WORDS)])
        return (d.rows * d.width * d.line + (THREADS - 1)) / THREADS

    add_host_entry(module, kernel, groups)
    return module_text(module)
