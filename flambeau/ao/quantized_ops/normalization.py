"""Normalisation of quantized tensors, by way of the numbers."""

import flambeau as torch
from flambeau.eager.quantized import PerTensor, dequantized_by_vectors, leveled

PUBLIC = (
    "batch_norm batch_norm1d batch_norm2d batch_norm3d batch_norm_relu batch_norm1d_relu "
    "batch_norm2d_relu batch_norm3d_relu layer_norm group_norm instance_norm"
).split()

_F = torch.nn.functional


def _norm(qx, weight, bias, mean, var, eps, scale, zero_point, relu):
    """The statistics are fixed, so each channel is multiplied and shifted."""
    factor = (1.0 / torch.sqrt(var + eps)) * (1.0 if weight is None else weight)
    shift = (0.0 if bias is None else bias) - mean * factor
    shape = (-1, *[1] * (qx.dim() - 2))
    numbers = dequantized_by_vectors(qx) * factor.reshape(shape) + shift.reshape(shape)
    numbers = numbers.relu_() if relu else numbers
    return leveled(numbers, PerTensor(float(scale), int(zero_point)), qx.dtype)


def batch_norm(qx, weight, bias, mean, var, eps, output_scale, output_zero_point):
    return _norm(qx, weight, bias, mean, var, eps, output_scale, output_zero_point, False)


def batch_norm_relu(qx, weight, bias, mean, var, eps, output_scale, output_zero_point):
    return _norm(qx, weight, bias, mean, var, eps, output_scale, output_zero_point, True)


def _copy_of(function):
    def same(qx, weight, bias, mean, var, eps, output_scale, output_zero_point):
        return function(qx, weight, bias, mean, var, eps, output_scale, output_zero_point)

    return same


for _n in (1, 2, 3):
    globals()[f"batch_norm{_n}d"] = _copy_of(batch_norm)
    globals()[f"batch_norm{_n}d_relu"] = _copy_of(batch_norm_relu)


def _again(numbers, qx, scale, zero_point):
    return torch.quantize_per_tensor(numbers, scale, zero_point, qx.dtype)


def layer_norm(input, normalized_shape, weight, bias, eps, output_scale, output_zero_point):
    numbers = _F.layer_norm(input.dequantize(), normalized_shape, weight, bias, eps)
    return _again(numbers, input, output_scale, output_zero_point)


def group_norm(input, num_groups, weight, bias, eps, output_scale, output_zero_point):
    numbers = _F.group_norm(input.dequantize(), num_groups, weight, bias, eps)
    return _again(numbers, input, output_scale, output_zero_point)


def instance_norm(input, weight, bias, eps, output_scale, output_zero_point):
    numbers = _F.instance_norm(input.dequantize(), weight=weight, bias=bias, eps=eps)
    return _again(numbers, input, output_scale, output_zero_point)
