"""Depthwise convolutions of bytes: every channel with taps of its own, channels in lanes.

Pictures have channels last, so a vector is a run of channels of one pixel, and the taps of a tap
lie side by side in the same order. Sums and results are as in byte_products.py.
"""

from flambeau.codegen.descriptions_quantized import Taps
from flambeau.codegen.llvm import masked_load, masked_store
from flambeau.codegen.loops import I1, I8, I32, I64, vector
from flambeau.codegen.templates.byte_products import _whole, lanes
from flambeau.codegen.templates.sorting import Kernel

AT_ONCE = 2  # vectors of channels


def build_taps():
    """(out, pictures, taps as i32, table, facts): lines of pixels, one chunk some lines."""
    kernel = Kernel("ppppb")
    fn, (out, a, taps, table, facts) = kernel.fn, kernel.arguments
    d = kernel.described(Taps)
    zero = fn.splat(fn.load(facts, I32, 4), lanes())
    ends = [
        fn.splat(fn.convert("trunc", word, I32), lanes()) for word in (d.low, d.high, d.out_zero)
    ]
    begin = kernel.chunk * d.per_chunk
    with fn.loop(begin, fn.min(begin + d.per_chunk, d.lines)) as line:
        picture, inside = line / d.height, line % d.height
        source = fn.gep(a, picture * d.picture_step + inside * d.line_step, I8)
        with fn.loop(0, d.width) as place:
            pixel = fn.gep(source, place * d.pixel_step, I8)
            goal = fn.gep(out, (line * d.width + place) * d.channels, I8)
            whole = (d.channels / lanes()) * lanes()
            with fn.loop(0, whole, lanes()) as channel:
                _channels(fn, d, pixel, goal, taps, table, channel, None, zero, ends)
            with fn.when(whole < d.channels):
                left = fn.splat(fn.convert("trunc", d.channels - whole, I32), lanes())
                mask = fn.pure(f"icmp slt {fn.iota(left.type)}, {left.name}", vector(I1, lanes()))
                _channels(fn, d, pixel, goal, taps, table, whole, mask, zero, ends)
    return kernel.text()


def _channels(fn, d, pixel, goal, taps, table, channel, mask, zero, ends):
    """A vector of channels of one pixel."""
    w = lanes()
    sums = vector(I32, w)
    low, high, out_zero = ends

    def tap(total, at, k):
        raw = masked_load(fn, fn.gep(pixel, at + channel, I8), vector(I8, w), mask)
        weights = fn.load(fn.gep(taps, k * d.padded + channel, I32), sums, 4)
        return total + fn.convert("zext", raw, sums) * weights

    def line(held):
        total, down, k = held

        def across(more):
            part, at, number = more
            part = tap(part, at, number)
            step = fn.emit(f"add {at}, {d.tap_across.name}", I64)
            return [part, step, fn.emit(f"add {number}, 1", I64)]

        total, _, k = fn.carry(d.taps_across, [total, down, k], across)
        return [total, fn.emit(f"add {down}, {d.tap_down.name}", I64), k]

    start = [fn.value(0, sums), fn.value(0, I64), fn.value(0, I64)]
    total, _, _ = fn.carry(d.taps, start, line)
    weight_sums, factor, bias = (
        fn.load(fn.gep(table, d.padded * k + channel, I32), vector(type, w), 4)
        for k, type in enumerate((I32, "float", "float"))
    )
    number = fn.convert("sitofp", total - zero * weight_sums, factor.type)
    level = _whole(fn, fn.intrinsic("rint", (number + bias) * factor), w) + out_zero
    level = fn.max(fn.min(level, high), low)
    masked_store(fn, fn.convert("trunc", level, vector(I8, w)), fn.gep(goal, channel, I8), mask)
