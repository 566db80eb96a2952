"""Batch normalisation folded into the layer before it, for inference.

In eval mode batch norm is a scale and a shift per channel, so a convolution (or linear layer) with
other weights does the work of both.
"""

import copy

import flambeau
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


def _check_statistics(bn):
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")


def fuse_conv_bn_eval(conv, bn, transpose: bool = False):
    """A convolution that gives what bn(conv(x)) gives; transpose: for transposed ones."""
    _check(conv, bn)
    fused = copy.deepcopy(conv)
    _check_statistics(bn)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
        transpose,
    )  # fmt: skip
    return fused


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
    bias_dtype = conv_w.dtype if conv_b is None else conv_b.dtype
    conv_b = flambeau.zeros_like(bn_rm) if conv_b is None else conv_b
    bn_w = flambeau.ones_like(bn_rm) if bn_w is None else bn_w
    bn_b = flambeau.zeros_like(bn_rm) if bn_b is None else bn_b
    inverse = flambeau.rsqrt(bn_rv + bn_eps)
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    weight = (conv_w * (bn_w * inverse).reshape(shape)).to(dtype=conv_w.dtype)
    bias = ((conv_b - bn_rm) * inverse * bn_w + bn_b).to(dtype=bias_dtype)
    return Parameter(weight, conv_w.requires_grad), Parameter(bias, conv_b.requires_grad)


def fuse_linear_bn_eval(linear, bn):
    """A linear layer that gives what bn(linear(x)) gives."""
    _check(linear, bn)
    fused = copy.deepcopy(linear)
    if bn.num_features not in (1, linear.out_features):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    _check_statistics(bn)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


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
    bias_dtype = linear_w.dtype if linear_b is None else linear_b.dtype
    linear_b = flambeau.zeros_like(bn_rm) if linear_b is None else linear_b
    scale = bn_w * flambeau.rsqrt(bn_rv + bn_eps)
    weight = linear_w * scale.unsqueeze(-1).to(dtype=linear_w.dtype)
    bias = ((linear_b - bn_rm) * scale + bn_b).to(dtype=bias_dtype)
    return Parameter(weight, linear_w.requires_grad), Parameter(bias, linear_b.requires_grad)
