"""Rows of quantization: floats to integers and back, and the same in floats while training.

A number x becomes the integer round(x / scale) + zero_point, halves to even, within the bounds of
its dtype. PyTorch multiplies by the reciprocal of the scale, and rounds at one place or at two,
which shows where a number lies in the middle between two steps; each row says which it is.
"""

from flambeau import _dtype as d
from flambeau.codegen import scalar as m
from flambeau.ops.table import pointwise

BOUNDS = {"u8": (0, 255), "i8": (-128, 127)}


def _integers(result):
    return lambda operands: (d.float32, result)


def _within(value, code):
    """A rounded float as an integer; what is no number becomes the upper bound, as in PyTorch."""
    low, high = BOUNDS[code]
    return m.cast(m.fmax(m.select(value < high, value, m.lift(float(high), "f32")), low), code)


def _to_int32(value):
    """The same for 32 bits, whose upper bound is no float; what is no number becomes the lower."""
    wide = m.cast(value, "f64")
    high = m.lift(2147483647.0, "f64")
    inside = m.select(wide < high, wide, high)
    inside = m.select(inside > -2147483648.0, inside, m.lift(-2147483648.0, "f64"))
    return m.cast(m.select(wide == wide, inside, m.lift(-2147483648.0, "f64")), "i32")


@pointwise(dtype=_integers(d.uint8), variants="")
def quantized_u8(input, inverse: float, zero_point: float):
    """Unsigned bytes, rounded once after scaling and shifting."""
    return _within(m.rint(m.fma(input, inverse, zero_point)), "u8")


@pointwise(dtype=_integers(d.int8), variants="")
def quantized_i8(input, inverse: float, zero_point: float):
    """Signed bytes, rounded once after scaling and shifting."""
    return _within(m.rint(m.fma(input, inverse, zero_point)), "i8")


@pointwise(dtype=_integers(d.int32), variants="")
def quantized_i32(input, inverse: float, zero_point: float):
    """32-bit integers: the product is rounded before the sum."""
    return _to_int32(m.rint(input * inverse + zero_point))


@pointwise(dtype=_integers(d.uint8), variants="")
def quantized_channels_u8(input, inverse, zero_point):
    """Unsigned bytes with a scale per channel: the product is rounded before the sum."""
    return _within(m.rint(input * inverse + zero_point), "u8")


@pointwise(dtype=_integers(d.int8), variants="")
def quantized_channels_i8(input, inverse, zero_point):
    """Signed bytes with a scale per channel."""
    return _within(m.rint(input * inverse + zero_point), "i8")


@pointwise(dtype=_integers(d.int32), variants="")
def quantized_channels_i32(input, inverse, zero_point):
    """32-bit integers with a scale per channel."""
    return _to_int32(m.rint(input * inverse + zero_point))


@pointwise(dtype=_integers(d.uint8), variants="")
def leveled_u8(input, inverse: float, zero_point: float):
    """Unsigned bytes, rounded before the shift."""
    return _within(m.rint(input * inverse) + zero_point, "u8")


@pointwise(dtype=_integers(d.int8), variants="")
def leveled_i8(input, inverse: float, zero_point: float):
    """Signed bytes, rounded before the shift."""
    return _within(m.rint(input * inverse) + zero_point, "i8")


@pointwise(dtype=_integers(d.int32), variants="")
def leveled_i32(input, inverse: float, zero_point: float):
    """32-bit integers, rounded before the shift."""
    return _to_int32(m.rint(input * inverse) + zero_point)


def _floats(operands):
    return (d.float64 if operands[0][0] is d.int32 else d.float32), d.float32


@pointwise(dtype=_floats, variants="")
def dequantized(input, scale, zero_point):
    """The numbers that integers stand for."""
    return m.cast(input - zero_point, "f32") * m.cast(scale, "f32")


@pointwise(dtype=lambda operands: (d.float32, d.float32), variants="")
def dequantized_shifted(input, scale: float, shift: float):
    """The numbers that bytes stand for, as PyTorch's vectors compute them: rounded once."""
    return m.fma(input, scale, shift)


def _summed(code, a, b, scale_a, shift_a, scale_b, shift_b, least, inverse, zero_point):
    """Both numbers, their sum (nothing below `least`), and its level: rounded before the shift."""
    total = m.fmax(m.fma(a, scale_a, shift_a) + m.fma(b, scale_b, shift_b), least)
    return _within(m.rint(total * inverse) + zero_point, code)


@pointwise(dtype=_integers(d.uint8), variants="")
def summed_u8(
    a, b, scale_a: float, shift_a: float, scale_b: float, shift_b: float, least: float,
    inverse: float, zero_point: float,
):  # fmt: skip
    """A sum of unsigned bytes with levels of their own, as unsigned bytes with others."""
    return _summed("u8", a, b, scale_a, shift_a, scale_b, shift_b, least, inverse, zero_point)


@pointwise(dtype=_integers(d.int8), variants="")
def summed_i8(
    a, b, scale_a: float, shift_a: float, scale_b: float, shift_b: float, least: float,
    inverse: float, zero_point: float,
):  # fmt: skip
    """The same for signed bytes."""
    return _summed("i8", a, b, scale_a, shift_a, scale_b, shift_b, least, inverse, zero_point)


def _level(input, scale, zero_point):
    return m.rint(input * (1 / scale)) + zero_point


def _kept(g, input, scale, zero_point, quant_min, quant_max):
    """Gradients pass where the number was within bounds."""
    level = _level(input, scale, zero_point)
    return m.where((level >= quant_min) & (level <= quant_max), g, g * 0)


def _same_floats(operands):
    return operands[0][0], operands[0][0]


@pointwise(
    dtype=_same_floats,
    variants="",
    grad=dict(input=_kept),
    node="FakeQuantizePerTensorAffineCachemaskBackward0",
)
def faked(input, scale, zero_point, quant_min: float, quant_max: float):
    """To integers within bounds and back, in floats."""
    level = m.fmin(m.fmax(_level(input, scale, zero_point), quant_min), quant_max)
    return (level - zero_point) * scale


@pointwise(dtype=lambda operands: (d.float32, d.float32), variants="")
def rounding_error(counts, place, width: float, step: float, levels: float):
    """What rounding changes in the numbers of a bin, squared, if they are spread evenly over it.

    place: bins from the first level to the bin, which is `width` wide; levels are `step` apart.
    """
    begin, half = place * width, step / 2
    end = begin + width
    first, last = (
        m.fmin(m.fmax(m.floor(edge / step), 0.0), levels - 1) for edge in (begin, end)
    )  # the levels around the edges
    density = counts / width

    def integral(low, high):
        """Of the square of the distance from a level."""
        return density * ((high * high * high - low * low * low) / 3)

    change = integral(begin - (first + 0.5) * step, half)
    change = change + (last - first - 1) * integral(-half, half)
    return change + integral(-half, end - (last * step + half))
