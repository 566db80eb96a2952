"""Quantized tensors: what they are, how they are made, what can be asked of them.

A quantized tensor is a plain Tensor whose dtype is qint8, quint8 or qint32. Its memory holds
integers; the quantizer (scale and zero point, or those of each channel) is kept by the storage, so
views and detached tensors share it without being told. `integers_of` looks at the integers,
`quantized_over` makes a quantized tensor of integers. Which ops take quantized tensors is in
quantized_answers.py. Design: docs/design/017-quantization.md.
"""

import math
import struct
from typing import Any, NamedTuple

from flambeau import _dtype as d
from flambeau import _qscheme, interposing
from flambeau._dtype import QUANTIZED, QuantizedDtype
from flambeau._layout import make_layout
from flambeau._tensor import Tensor, alias, empty_tensor
from flambeau.interposing.overriding import answerable
from flambeau.ops import quantization as rows
from flambeau.ops.table import public
from flambeau.storage import Storage


class PerTensor(NamedTuple):
    """One scale and zero point for all elements."""

    scale: float
    zero_point: int

    @property
    def scheme(self):
        return _qscheme.per_tensor_affine

    def like(self, other):
        return type(other) is PerTensor and self == other


class PerChannel:
    """A scale and a zero point for each index along an axis; floats count as given."""

    __slots__ = ("axis", "scales", "scheme", "zero_points")

    def __init__(self, scales, zero_points, axis):
        floating = zero_points.is_floating_point()
        self.scales = scales.float() if floating else scales.double()
        self.zero_points = zero_points.float() if floating else zero_points.long()
        self.axis = axis
        self.scheme = _qscheme.per_channel_affine
        if floating:
            self.scheme = _qscheme.per_channel_affine_float_qparams

    def spread(self, t, ndim):
        """One number per channel in the shape that meets tensors of so many dimensions."""
        return t.float().reshape([-1 if k == self.axis else 1 for k in range(ndim)])

    def like(self, other):
        return (
            type(other) is PerChannel
            and self.axis == other.axis
            and bool((self.scales == other.scales).all())
            and bool((self.zero_points == other.zero_points).all())
        )


# -- between integers and quantized tensors --------------------------------------------------------


def is_quantized(t):
    """Is a tensor quantized?"""
    return type(t._layout.dtype) is QuantizedDtype


def quantizer_of(t):
    """The quantizer of a tensor, which must be quantized."""
    if not is_quantized(t):
        raise RuntimeError("Expected a quantized tensor, but got one of dtype " + str(t.dtype))
    return t._storage.quantizer


def _retyped(layout, dtype):
    return make_layout(layout.sizes, layout.strides, dtype, layout.device)


def integers_of(q):
    """The integers of a quantized tensor, over the same memory."""
    return alias(q, _retyped(q._layout, QUANTIZED[q._layout.dtype]), q._offset)


def quantized_over(integers, dtype, quantizer):
    """A quantized tensor over the memory of integers that nobody else has."""
    start()
    out = alias(integers, _retyped(integers._layout, dtype), integers._offset)
    out._storage.quantizer = quantizer
    return out


def alike(q, integers):
    """Integers computed from those of q, as a tensor quantized like q; a view stays one."""
    if integers._storage is q._storage:
        return alias(integers, _retyped(integers._layout, q._layout.dtype), integers._offset)
    return quantized_over(integers, q._layout.dtype, quantizer_of(q))


def start():
    """From the first quantized tensor on, functions that take such tensors look for them."""
    from flambeau.eager.quantized_answers import ANSWERS  # which needs this file

    if not interposing.is_pushed(ANSWERS):
        interposing.push(ANSWERS)


# -- making them -----------------------------------------------------------------------------------

_BOUNDS = {d.quint8: (0, 255), d.qint8: (-128, 127), d.qint32: (-(2**31), 2**31 - 1)}
_LETTERS = {d.quint8: "u8", d.qint8: "i8", d.qint32: "i32"}


def as_float32(value):
    """The float32 that is nearest to a number."""
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def reciprocal(scale):
    """1 / scale, all in float32."""
    return as_float32(1.0 / as_float32(scale))


def _check_input(input, function, dtype):
    if type(dtype) is not QuantizedDtype or dtype not in _LETTERS:
        raise RuntimeError(
            f"{function}: expected a quantized dtype such as torch.quint8, but got {dtype}"
        )
    if input.dtype is not d.float32:
        raise RuntimeError(f"Quantize only works on Float Tensor, got {input.dtype.scalar_name}")


def _check_zero_point(zero_point, dtype):
    low, high = _BOUNDS[dtype]
    if not low <= zero_point <= high:
        side, edge = ("below lower", low) if zero_point < low else ("above upper", high)
        raise RuntimeError(
            f"quantize_tensor_per_tensor_affine: zero_point {zero_point} is {side} bound {edge}"
        )


def _number(value):
    return value.item() if isinstance(value, Tensor) else value


def quantize_per_tensor(input, scale, zero_point, dtype):
    """A float tensor with one scale and zero point; several where a list is given."""
    if isinstance(input, (list, tuple)):
        pairs = zip(input, scale.tolist(), zero_point.tolist())
        return tuple(quantize_per_tensor(t, s, z, dtype) for t, s, z in pairs)
    _check_input(input, "quantize_per_tensor", dtype)
    scale, zero_point = float(_number(scale)), int(_number(zero_point))
    _check_zero_point(zero_point, dtype)
    row = getattr(rows, "quantized_" + _LETTERS[dtype])
    integers = row(input.detach(), reciprocal(scale), float(zero_point))
    return quantized_over(integers, dtype, PerTensor(scale, zero_point))


def leveled(input, quantizer, dtype):
    """The same for results of ops on numbers, which PyTorch rounds before it shifts them."""
    row = getattr(rows, "leveled_" + _LETTERS[dtype])
    integers = row(input, reciprocal(quantizer.scale), float(quantizer.zero_point))
    return quantized_over(integers, dtype, quantizer)


def quantize_per_channel(input, scales, zero_points, axis, dtype):
    """A float tensor with a scale and a zero point per index along an axis."""
    _check_input(input, "quantize_per_channel", dtype)
    quantizer = _channels(input, scales, zero_points, axis)
    inverse = quantizer.spread(1.0 / quantizer.scales.float(), input.ndim)
    shift = quantizer.spread(quantizer.zero_points, input.ndim)
    row = getattr(rows, "quantized_channels_" + _LETTERS[dtype])
    return quantized_over(row(input.detach(), inverse, shift), dtype, quantizer)


def _channels(t, scales, zero_points, axis):
    axis = axis + t.ndim if axis < 0 else axis
    if not 0 <= axis < t.ndim:
        raise RuntimeError("Channel axis out of range in per channel affine quantization.")
    for name, numbers in (("scale", scales), ("zero-points", zero_points)):
        if numbers.numel() != t.shape[axis]:
            raise RuntimeError(f"length of {name} must equal to channel")
    return PerChannel(scales.detach().reshape(-1), zero_points.detach().reshape(-1), axis)


def quantize_per_tensor_dynamic(input, dtype, reduce_range):
    """A float tensor with a scale that its own range gives."""
    if dtype is not d.quint8 and dtype is not d.qint8:
        raise RuntimeError(f"dtype {dtype} not supported")
    _check_input(input, "quantize_per_tensor_dynamic", dtype)
    low, high = _BOUNDS[dtype]
    if reduce_range:
        low, high = low // 2, high // 2
    scale, zero_point = chosen(*_range(input), low, high)
    return quantize_per_tensor(input, scale, zero_point, dtype)


def _range(input):
    if not input.numel():
        return 0.0, 0.0
    low, high = public("aminmax")(input.detach())
    return low.item(), high.item()


SMALLEST = 6.1e-5  # a scale below it would make its reciprocal useless


def chosen(least, most, low, high):
    """(scale, zero point) that spread the integers low to high over a range of numbers."""
    least, most = min(least, 0.0), max(most, 0.0)
    scale = (most - least) / (high - low)
    if as_float32(scale) == 0.0 or 1.0 / as_float32(scale) == float("inf"):
        scale = 0.1
    if scale < SMALLEST:  # what is widened is the range
        former, scale = scale, as_float32(SMALLEST)
        if least == 0.0:
            most = scale * (high - low)
        elif most == 0.0:
            least = -scale * (high - low)
        else:
            least, most = (as_float32(x * (scale / former)) for x in (least, most))
    from_low, from_high = low - least / scale, high - most / scale
    error_low = abs(low) + abs(least / scale)
    error_high = abs(high) + abs(most / scale)
    exact = from_low if error_low < error_high else from_high
    return scale, low if exact < low else high if exact > high else round(exact)


def _choose_qparams_per_tensor(input, reduce_range=False):
    """The scale and zero point that quint8 would have for the range of a tensor."""
    return chosen(*_range(input), 0, 127 if reduce_range else 255)


def _make_per_tensor_quantized_tensor(input, scale, zero_point):
    """Integers, copied, with a scale and a zero point."""
    quantizer = PerTensor(float(scale), int(zero_point))
    return quantized_over(input.clone(), _quantized_dtype(input), quantizer)


def _make_per_channel_quantized_tensor(input, scale, zero_point, axis):
    """Integers, copied, with a scale and a zero point per channel."""
    quantizer = _channels(input, scale, zero_point, axis)
    return quantized_over(input.clone(), _quantized_dtype(input), quantizer)


def _quantized_dtype(integers):
    for dtype, plain in QUANTIZED.items():
        if plain is integers.dtype:
            return dtype
    raise RuntimeError(f"no quantized tensor has elements of {integers.dtype}")


def _empty_affine_quantized(*size, scale=1.0, zero_point=0, dtype=None, device=None, **options):
    """A quantized tensor whose integers are not set."""
    integers = empty_tensor(_sizes(size), QUANTIZED[dtype], _device(device))
    return quantized_over(integers, dtype, PerTensor(float(scale), int(zero_point)))


def _empty_per_channel_affine_quantized(
    *size, scales, zero_points, axis, dtype=None, device=None, **options
):
    """The same with a scale and a zero point per channel."""
    integers = empty_tensor(_sizes(size), QUANTIZED[dtype], _device(device))
    return quantized_over(integers, dtype, _channels(integers, scales, zero_points, axis))


def _sizes(size):
    return tuple(size[0]) if size and isinstance(size[0], (list, tuple)) else tuple(size)


def _device(device):
    from flambeau import _device as devices

    return devices.default_device() if device is None else devices.resolve(device)


# -- asking them -----------------------------------------------------------------------------------


def dequantize(input):
    """The numbers that a quantized tensor stands for, as float32; of several in a list."""
    if isinstance(input, (list, tuple)):
        return tuple(dequantize(t) for t in input)
    if not is_quantized(input):
        return input if input.dtype is d.float32 else input.to(d.float32)
    quantizer, integers = quantizer_of(input), integers_of(input)
    if type(quantizer) is PerTensor:
        return rows.dequantized(integers, quantizer.scale, float(quantizer.zero_point))
    scales = quantizer.spread(quantizer.scales, input.ndim)
    shifts = quantizer.spread(quantizer.zero_points, input.ndim)
    if quantizer.scheme is _qscheme.per_channel_affine_float_qparams:
        return (integers.float() - shifts) * scales
    return rows.dequantized(integers, scales, shifts)


def _by_vectors(q):
    """(scale, shift) as PyTorch's elementwise ops see them."""
    quantizer = _per_tensor(q, "dequantize")
    scale = as_float32(quantizer.scale)
    return scale, as_float32(-quantizer.zero_point * scale)


def dequantized_by_vectors(q):
    """The numbers as PyTorch's elementwise ops see them: scale and shift, rounded once."""
    return rows.dequantized_shifted(integers_of(q), *_by_vectors(q))


def summed(a, b, quantizer, relu):
    """The sum of two quantized tensors of bytes, with levels of its own."""
    row = getattr(rows, "summed_" + _LETTERS[a.dtype])
    least = 0.0 if relu else float("-inf")
    facts = (*_by_vectors(a), *_by_vectors(b), least, reciprocal(quantizer.scale))
    integers = row(integers_of(a), integers_of(b), *facts, float(quantizer.zero_point))
    return quantized_over(integers, a.dtype, quantizer)


def int_repr(input):
    """The integers of a quantized tensor, copied."""
    quantizer_of(input)
    return integers_of(input).clone()


def _per_tensor(input, function):
    quantizer = quantizer_of(input)
    if type(quantizer) is not PerTensor:
        raise RuntimeError(
            "Expected quantizer->qscheme() == kPerTensorAffine to be true, but got false "
            f"({function})."
        )
    return quantizer


def _per_channel(input):
    quantizer = quantizer_of(input)
    if type(quantizer) is not PerChannel:
        raise RuntimeError("Expected a tensor that is quantized per channel.")
    return quantizer


def q_scale(input):
    return _per_tensor(input, "q_scale").scale


def q_zero_point(input):
    return _per_tensor(input, "q_zero_point").zero_point


def q_per_channel_scales(input):
    return _per_channel(input).scales


def q_per_channel_zero_points(input):
    return _per_channel(input).zero_points


def q_per_channel_axis(input):
    return _per_channel(input).axis


def qscheme(input):
    return quantizer_of(input).scheme


def described(q) -> list[str]:
    """What the text of a quantized tensor says after its numbers."""
    quantizer = quantizer_of(q)
    words = [f"quantization_scheme={quantizer.scheme}"]
    if type(quantizer) is PerTensor:
        return [*words, f"scale={quantizer.scale}", f"zero_point={quantizer.zero_point}"]
    return [
        *words,
        f"scale={quantizer.scales}",
        f"zero_point={quantizer.zero_points}",
        f"axis={quantizer.axis}",
    ]


def parts_of(q) -> tuple:
    """(scheme, ...) as files say it."""
    quantizer: Any = quantizer_of(q)
    if type(quantizer) is PerTensor:
        return quantizer.scheme, quantizer.scale, quantizer.zero_point
    return quantizer.scheme, quantizer.scales, quantizer.zero_points, quantizer.axis


def quantizer_from(parts, shape):
    """The quantizer that parts_of described; ValueError if there is none."""
    scheme, *rest = parts
    if scheme is _qscheme.per_tensor_affine and list(map(type, rest)) == [float, int]:
        return PerTensor(*rest)
    channels = (_qscheme.per_channel_affine, _qscheme.per_channel_affine_float_qparams)
    if scheme in channels and len(rest) == 3:
        scales, zero_points, axis = rest
        inside = type(axis) is int and 0 <= axis < len(shape)
        tensors = isinstance(scales, Tensor) and isinstance(zero_points, Tensor)
        if inside and tensors and scales.shape == zero_points.shape:
            return PerChannel(scales, zero_points, axis)
    raise ValueError("an unknown quantizer")


def give_quantizer(storage: Storage, quantizer) -> None:
    """A storage that was read from a file learns what its integers stand for."""
    start()
    storage.quantizer = quantizer


QUESTIONS = (
    "dequantize int_repr q_scale q_zero_point q_per_channel_scales q_per_channel_zero_points "
    "q_per_channel_axis qscheme"
).split()


for _name in "quantize_per_tensor quantize_per_channel quantize_per_tensor_dynamic".split():
    globals()[_name] = answerable(globals()[_name], kind="op")
for _name in QUESTIONS:
    globals()[_name] = answerable(globals()[_name])
