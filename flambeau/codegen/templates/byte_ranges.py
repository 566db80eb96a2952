"""Numbers as bytes by their own range: least and largest number, scale and zero point, levels.

One chunk does all of it: inputs of dynamic layers are small beside their weights.
"""

import struct

from flambeau.codegen.descriptions_quantized import ByteRange
from flambeau.codegen.llvm import masked_load, masked_store
from flambeau.codegen.loops import I1, I8, I32, vector
from flambeau.codegen.target import current
from flambeau.codegen.templates.sorting import Kernel

SMALLEST = 6.1e-5  # as in eager/quantized.py


def build_range():
    """(out, input, facts): bytes, and their zero point and scale."""
    kernel = Kernel("ppp")
    fn, (out, input, facts) = kernel.fn, kernel.arguments
    _, count, high = kernel.described(ByteRange)
    w = current().vector_bytes // 4
    least, most = _ends(fn, input, count, w)
    double = "double"
    top = fn.convert("sitofp", high, double)
    scale, zero = _chosen(
        fn, fn.convert("fpext", least, double), fn.convert("fpext", most, double), top
    )
    short = fn.convert("fptrunc", scale, "float")
    fn.store(fn.convert("fptosi", zero, I32), facts, 4)
    fn.store(short, fn.gep(facts, 1, "float"), 4)
    inverse = fn.splat(fn.value(1.0, "float") / short, w)
    shift = fn.splat(fn.convert("fptrunc", zero, "float"), w)
    limit = fn.splat(fn.value(255.0, "float"), w)

    def step(i, mask):
        x = masked_load(fn, fn.gep(input, i, "float"), vector("float", w), mask)
        level = fn.intrinsic("rint", fn.intrinsic("fma", x, inverse, shift))
        level = fn.max(fn.min(level, limit), fn.value(0.0, level.type))
        number = fn.convert("fptosi", level, vector(I32, w))
        masked_store(fn, fn.convert("trunc", number, vector(I8, w)), fn.gep(out, i, I8), mask)

    _over(fn, count, w, step)
    return kernel.text()


def _over(fn, count, w, step):
    whole = (count / w) * w
    with fn.loop(0, whole, w) as i:
        step(i, None)
    with fn.when(whole < count):
        step(whole, _mask(fn, count - whole, w))


def _mask(fn, left, w):
    rest = fn.splat(fn.convert("trunc", left, I32), w)
    return fn.pure(f"icmp slt {fn.iota(rest.type)}, {rest.name}", vector(I1, w))


def _ends(fn, input, count, w):
    """The least and the largest number, and zero between them."""
    zero = fn.value(0.0, vector("float", w))
    low, high = [fn.var(zero) for _ in range(4)], [fn.var(zero) for _ in range(4)]

    def met(k, x):
        low[k].set(fn.intrinsic("minnum", low[k].get(), x))
        high[k].set(fn.intrinsic("maxnum", high[k].get(), x))

    many = (count / (4 * w)) * (4 * w)
    with fn.loop(0, many, 4 * w) as i:
        for k in range(4):
            met(k, fn.load(fn.gep(input, i + k * w, "float"), zero.type))
    whole = (count / w) * w
    with fn.loop(many, whole, w) as i:
        met(0, fn.load(fn.gep(input, i, "float"), zero.type))
    with fn.when(whole < count):
        met(
            0,
            masked_load(fn, fn.gep(input, whole, "float"), zero.type, _mask(fn, count - whole, w)),
        )
    for k in range(1, 4):
        met(0, low[k].get())
        met(0, high[k].get())
    ends = []
    for name, cell in (("fmin", low[0]), ("fmax", high[0])):
        full = f"llvm.vector.reduce.{name}.v{w}f32"
        ends.append(fn.call(full, "float", cell.get(), pure=False))
    return ends


def _chosen(fn, least, most, top):
    """(scale, zero point) as doubles, for levels from 0 to top."""
    span = (most - least) / top
    short = fn.convert("fptrunc", span, "float")
    endless = fn.value(1.0, "float") / short == float("inf")
    span = fn.select((short == 0.0) | endless, 0.1, span)
    small = span < SMALLEST
    floor = fn.value(_short(SMALLEST), "double")
    wide = floor * top
    one, two = least == 0.0, most == 0.0
    grown = floor / span
    most_small = fn.select(one, wide, fn.select(two, most, _rounded(fn, most * grown)))
    least_small = fn.select(one, least, fn.select(two, -wide, _rounded(fn, least * grown)))
    scale = fn.select(small, floor, span)
    most, least = fn.select(small, most_small, most), fn.select(small, least_small, least)
    from_low = fn.value(0.0, "double") - least / scale
    from_high = top - most / scale
    error_low = fn.intrinsic("fabs", least / scale)
    error_high = top + fn.intrinsic("fabs", most / scale)
    exact = fn.select(error_low < error_high, from_low, from_high)
    exact = fn.max(fn.min(exact, top), fn.value(0.0, "double"))
    return scale, fn.intrinsic("rint", exact)


def _rounded(fn, x):
    return fn.convert("fpext", fn.convert("fptrunc", x, "float"), "double")


def _short(x):
    return struct.unpack("f", struct.pack("f", x))[0]
