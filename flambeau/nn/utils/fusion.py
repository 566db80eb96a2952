"""Batch normalisation folded into the layer before it, for inference.

In eval mode batch norm is a scale and a shift per channel, so a convolution (or linear layer) with
other weights does the work of both.
"""

import copy

from flambeau._tensor import Tensor
from flambeau.nn.parameter import Parameter

__all__ = [
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
]


def _check(layer, bn):
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")


def _with_norm(layer, bn, fuse, *more):
    """The layer with weights that do the work of bn too."""
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    norm = (bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)
    layer.weight, layer.bias = fuse(layer.weight, layer.bias, *norm, *more)
    return layer


def _folded(weight, bias, mean, var, eps, gain, shift):
    """(factor per channel, new bias) of bn(layer(x)) = gain (layer(x) - mean) / std + shift."""
    scale = (var + eps).rsqrt()
    if gain is not None:
        scale = scale * gain
    moved = -mean * scale if bias is None else (bias - mean) * scale
    if shift is not None:
        moved = moved + shift
    dtype, learns = (weight.dtype, False) if bias is None else (bias.dtype, bias.requires_grad)
    return scale, Parameter(moved.to(dtype), learns)


def fuse_conv_bn_eval(conv, bn, transpose: bool = False):
    """A convolution that gives what bn(conv(x)) gives; transpose: for transposed ones."""
    _check(conv, bn)
    fused = copy.deepcopy(conv)
    return _with_norm(fused, bn, fuse_conv_bn_weights, transpose)


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """The weight and bias of the fused convolution, from running mean, variance and so on."""
    scale, bias = _folded(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)
    channels = 1 if transpose else 0
    spread = scale.reshape([-1 if d == channels else 1 for d in range(conv_w.dim())])
    return Parameter((conv_w * spread).to(conv_w.dtype), conv_w.requires_grad), bias


def fuse_linear_bn_eval(linear, bn):
    """A linear layer that gives what bn(linear(x)) gives."""
    _check(linear, bn)
    fused = copy.deepcopy(linear)
    if bn.num_features not in (1, linear.out_features):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    return _with_norm(fused, bn, fuse_linear_bn_weights)


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """The weight and bias of the fused linear layer."""
    scale, bias = _folded(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)
    weight = linear_w * scale.to(linear_w.dtype).unsqueeze(-1)
    return Parameter(weight, linear_w.requires_grad), bias
