"""Arithmetic, activations and joins of quantized tensors: `torch.ops.quantized.add` and its kin.

All go through the numbers: quantized tensors are scaled, computed with, and rounded to the levels
of the output, where PyTorch rounds.
"""

import flambeau as torch
from flambeau.eager.quantized import (
    PerTensor,
    as_float32,
    dequantized_by_vectors,
    integers_of,
    leveled,
    quantized_over,
    quantizer_of,
    reciprocal,
    summed,
)
from flambeau.eager.quantized_answers import requantized

PUBLIC = (
    "add add_relu add_out add_relu_out mul mul_relu mul_out mul_relu_out add_scalar "
    "add_scalar_relu mul_scalar mul_scalar_relu cat cat_relu relu6 leaky_relu hardswish elu celu "
    "sigmoid softmax prelu threshold clamp dropout matmul max_pool1d max_pool2d max_pool3d"
).split()


def _scaled(out, scale, zero_point, dtype):
    return leveled(out, PerTensor(float(scale), int(zero_point)), dtype)


def _sum(a, b, scale, zero_point, relu):
    if a.dtype is not b.dtype:
        raise RuntimeError("Add operands should have same data type.")
    if a.dtype is not torch.qint32:
        return summed(a, b, PerTensor(float(scale), int(zero_point)), relu)
    total = dequantized_by_vectors(a) + dequantized_by_vectors(b)
    return _scaled(total.relu_() if relu else total, scale, zero_point, a.dtype)


def add(qa, qb, scale=None, zero_point=None):
    """A sum of two quantized tensors, or of one and a number."""
    if not isinstance(qb, torch.Tensor):
        return add_scalar(qa, qb)
    return _sum(qa, qb, scale, zero_point, False)


def add_relu(qa, qb, scale=None, zero_point=None):
    """The same, and nothing below zero."""
    if not isinstance(qb, torch.Tensor):
        return add_scalar_relu(qa, qb)
    return _sum(qa, qb, scale, zero_point, True)


def _into(out, result):
    return out.copy_(result)


def add_out(qa, qb, out):
    return _into(out, add(qa, qb, *quantizer_of(out)))


def add_relu_out(qa, qb, out):
    return _into(out, add_relu(qa, qb, *quantizer_of(out)))


def _product(a, b, scale, zero_point, relu):
    """Levels times levels, rescaled once."""
    if a.dtype is not b.dtype:
        raise RuntimeError("Mul operands should have same data type.")
    one, two = quantizer_of(a), quantizer_of(b)
    levels = (integers_of(a).float() - one.zero_point) * (integers_of(b).float() - two.zero_point)
    multiplier = as_float32(as_float32(one.scale) * as_float32(two.scale)) * reciprocal(scale)
    low, high = {torch.quint8: (0, 255), torch.qint8: (-128, 127)}.get(
        a.dtype, (-(2**31), 2**31 - 1)
    )
    low = max(low, zero_point) if relu else low
    found = (levels * torch.tensor(multiplier, dtype=torch.float32)).round() + zero_point
    found = found.clamp(low, high).to(integers_of(a).dtype)
    return quantized_over(found, a.dtype, PerTensor(float(scale), int(zero_point)))


def mul(qa, qb, scale=None, zero_point=None):
    """A product of two quantized tensors, or of one and a number."""
    if not isinstance(qb, torch.Tensor):
        return mul_scalar(qa, qb)
    return _product(qa, qb, scale, zero_point, False)


def mul_relu(qa, qb, scale=None, zero_point=None):
    if not isinstance(qb, torch.Tensor):
        return mul_scalar_relu(qa, qb)
    return _product(qa, qb, scale, zero_point, True)


def mul_out(qa, qb, out):
    return _into(out, mul(qa, qb, *quantizer_of(out)))


def mul_relu_out(qa, qb, out):
    return _into(out, mul_relu(qa, qb, *quantizer_of(out)))


_BOUNDS = {torch.quint8: (0, 255), torch.qint8: (-128, 127), torch.qint32: (-(2**31), 2**31 - 1)}


def add_scalar(qa, b):
    """A sum with a number: the zero point moves, and the scale grows where it cannot."""
    return _added(qa, b, False)


def add_scalar_relu(qa, b):
    return _added(qa, b, True)


def _added(q, number, relu):
    scale, zero_point = quantizer_of(q)
    low, high = _BOUNDS[q.dtype]
    steps = round(float(number) / scale)
    integers = integers_of(q).clone()
    if low <= zero_point - steps <= high:
        found = quantized_over(integers, q.dtype, PerTensor(scale, zero_point - steps))
        return found.relu() if relu else found
    if low > zero_point - steps:
        wider, shift = (high - (zero_point - steps)) / (high - low) * scale, low
    else:
        wider, shift = ((zero_point - steps) - low) / (high - low) * scale, high
    floats = leveled_floats(q, zero_point - steps)
    out = torch.quantize_per_tensor(floats.relu() if relu else floats, wider, shift, q.dtype)
    return out


def leveled_floats(q, zero_point):
    """The numbers that integers stand for with another zero point."""
    return (integers_of(q).float() - zero_point) * torch.tensor(quantizer_of(q).scale).float()


def mul_scalar(qa, other):
    """A product with a number: the scale changes, the integers only with the sign."""
    return _multiplied(qa, other, False)


def mul_scalar_relu(qa, other):
    return _multiplied(qa, other, True)


def _multiplied(q, number, relu):
    scale, zero_point = quantizer_of(q)
    integers, number = integers_of(q), float(number)
    low, high = _BOUNDS[q.dtype]
    if number > 0:
        quantizer = PerTensor(scale * number, zero_point)
        integers = integers.clone()
    elif number == 0:
        quantizer = PerTensor(1.0, 0)
        integers = torch.zeros_like(integers)
    else:
        quantizer = PerTensor(scale * abs(number), high - (zero_point - low))
        integers = (high + low - integers.to(torch.int64)).to(integers.dtype)
    out = quantized_over(integers, q.dtype, quantizer)
    return out.relu() if relu else out


def _joined(tensors, dim, scale, zero_point, relu):
    first = tensors[0]
    if scale is None:
        scale, zero_point = quantizer_of(first)
    quantizer = PerTensor(float(scale), int(zero_point))
    pieces = [integers_of(requantized(t, quantizer, first.dtype)) for t in tensors]
    out = quantized_over(torch.cat(pieces, dim), first.dtype, quantizer)
    return out.relu() if relu else out


def cat(qx, dim, scale=None, zero_point=None):
    """Tensors joined, with the levels of the output."""
    return _joined(qx, dim, scale, zero_point, False)


def cat_relu(qx, dim, scale=None, zero_point=None):
    return _joined(qx, dim, scale, zero_point, True)


def _activation(function):
    """A function of numbers whose result is quantized with given levels."""

    def run(q, scale, zero_point, *args):
        return _scaled(function(dequantized_by_vectors(q), *args), scale, zero_point, q.dtype)

    return run


_F = torch.nn.functional


def relu6(qx, inplace=False):
    return _F.relu6(qx)


def leaky_relu(qx, negative_slope, inplace, output_scale, output_zero_point):
    return _activation(_F.leaky_relu)(qx, output_scale, output_zero_point, negative_slope)


def hardswish(input, output_scale, output_zero_point):
    return _activation(_F.hardswish)(input, output_scale, output_zero_point)


def elu(self, output_scale, output_zero_point, alpha=1, scale=1, input_scale=1):
    def function(x):
        return torch.where(x >= 0, x * scale, (x * input_scale).expm1() * (alpha * scale))

    return _activation(function)(self, output_scale, output_zero_point)


def celu(self, output_scale, output_zero_point, alpha=1):
    return elu(self, output_scale, output_zero_point, alpha, 1, 1.0 / alpha)


def sigmoid(qx, output_scale, output_zero_point):
    return _activation(torch.sigmoid)(qx, output_scale, output_zero_point)


def softmax(qx, dim, output_scale, output_zero_point):
    numbers = torch.softmax(qx.dequantize(), dim)
    return torch.quantize_per_tensor(numbers, output_scale, output_zero_point, qx.dtype)


def prelu(qx, weight, output_scale, output_zero_point):
    weight = weight.dequantize() if weight.is_quantized else weight
    numbers = _F.prelu(dequantized_by_vectors(qx), weight)
    return _scaled(numbers, output_scale, output_zero_point, qx.dtype)


def threshold(qx, threshold, value):
    return _F.threshold(qx, threshold, value)


def clamp(qx, min=None, max=None):
    return torch.clamp(qx, min, max)


def dropout(self, output_scale, output_zero_point, p=0.5, training=False):
    """Outside of training nothing is dropped; levels are for training."""
    if not training:
        return self
    numbers = _F.dropout(self.dequantize(), p, training)
    return torch.quantize_per_tensor(numbers, output_scale, output_zero_point, self.dtype)


def matmul(qa, qb, scale, zero_point):
    """A product of matrices; sums are exact."""
    one, two = quantizer_of(qa), quantizer_of(qb)
    a = integers_of(qa).double() - one.zero_point
    b = integers_of(qb).double() - two.zero_point
    total = (a @ b) * (one.scale * two.scale)
    return torch.quantize_per_tensor(total.float(), scale, zero_point, qa.dtype)


def max_pool1d(qx, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    return _F.max_pool1d(qx, kernel_size, stride or None, padding, dilation, ceil_mode)


def max_pool2d(qx, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    return _F.max_pool2d(qx, kernel_size, stride or None, padding, dilation, ceil_mode)


def max_pool3d(qx, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    return _F.max_pool3d(qx, kernel_size, stride or None, padding, dilation, ceil_mode)
