"""Resampling on a GPU, by the tables and descriptions of templates/resampling.py.

A thread per result of a few images reads what the tables of its three coordinates name. Planes of
rows are pixels with one channel.
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
IMAGES = 4  # planes that a thread fills with the same weights
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

    each = d.depth * d.height * d.width * d.line  # results of an image
    images = d.rows / (d.depth * d.height)
    blocks = (images + (IMAGES - 1)) / IMAGES
    deep, high, wide = tables[:3], tables[3:6], tables[6:]
    with (
        kernel.threads(last=True) as thread,
        fn.loop(kernel.group * THREADS + thread, blocks * each, step) as index,
    ):
        rest, found = index, []
        for size in (d.line, d.width, d.height, d.depth):
            quotient = divided(fn, rest, size)
            found.append(rest - quotient * size)
            rest = quotient
        channel, column, y, z = found
        first = rest * IMAGES
        numbers = [first + k for k in range(IMAGES)]
        planes = [fn.gep(source, number * d.plane, memory) for number in numbers]
        exist = [number < images for number in numbers]
        totals = [fn.var(fn.value(0.0, LLVM_TYPE[type])) for _ in range(IMAGES)]
        with fn.loop(*taps(deep, z)) as t0:
            k, one = tap(deep, t0)
            with fn.loop(*taps(high, y)) as t1:
                i, two = tap(high, t1)
                line = (k * d.in_height + i) * d.in_width
                with fn.loop(*taps(wide, column)) as t2:
                    j, three = tap(wide, t2)
                    at, weight = (line + j) * d.line + channel, three * two * one
                    for plane, total, exists in zip(planes, totals, exist):
                        with fn.when(exists):
                            x = load_element(fn, fn.gep(plane, at, memory), code, 1, "c")
                            x = convert(fn, x, COMPUTE_TYPE[code], type)
                            total.set(fn.intrinsic("fma", x, weight, total.get()))
        place = index - rest * each
        for number, total, exists in zip(numbers, totals, exist):
            with fn.when(exists):
                goal = fn.gep(out, number * each + place, memory)
                store_element(fn, _rounded(fn, total.get(), code, type), goal, code, 1, "c")
    kernel.done()

    def groups(fn, word):
        d = Resampling(*[word(k) for k in range(WORDS)])
        count = d.rows / (d.depth * d.height)
        blocks = (count + (IMAGES - 1)) / IMAGES
        each = d.depth * d.height * d.width * d.line
        return (blocks * each + (THREADS - 1)) / THREADS

    add_host_entry(module, kernel, groups)
    return module_text(module)


def _rounded(fn, value, code, type):
    """Bytes are rounded and kept in their range."""
    if code != "u8":
        return value
    value = fn.intrinsic("floor", value + 0.5)
    value = fn.max(fn.min(value, fn.value(255.0, value.type)), fn.value(0.0, value.type))
    return convert(fn, value, type, "u8")
