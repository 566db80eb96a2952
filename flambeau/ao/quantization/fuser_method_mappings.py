"""How modules that follow each other become one."""

from collections.abc import Callable
from typing import Any

import flambeau.ao.nn.intrinsic as nni
from flambeau import nn
from flambeau.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

__all__ = [
    "fuse_conv_bn", "fuse_conv_bn_relu", "fuse_linear_bn", "fuse_convtranspose_bn",
    "get_fuser_method", "get_fuser_method_new",
]  # fmt: skip

_BN = {nn.Conv1d: nni.ConvBn1d, nn.Conv2d: nni.ConvBn2d, nn.Conv3d: nni.ConvBn3d}
_BN_RELU = {
    nn.Conv1d: nni.ConvBnReLU1d, nn.Conv2d: nni.ConvBnReLU2d, nn.Conv3d: nni.ConvBnReLU3d,
}  # fmt: skip
_RELU = {nn.Conv1d: nni.ConvReLU1d, nn.Conv2d: nni.ConvReLU2d, nn.Conv3d: nni.ConvReLU3d}


def _check_modes(*modules: nn.Module) -> None:
    if len({m.training for m in modules}) > 1:
        raise AssertionError("Conv and BN both must be in the same mode (train or eval).")


def fuse_conv_bn(is_qat: bool, conv: Any, bn: Any) -> nn.Module:
    """A convolution and its batch norm."""
    _check_modes(conv, bn)
    if is_qat:
        if bn.num_features != conv.out_channels:
            raise AssertionError("Output channel of Conv2d must match num_features of BatchNorm2d")
        return _BN[type(conv)](conv, bn)
    return fuse_conv_bn_eval(conv, bn)


def fuse_conv_bn_relu(is_qat: bool, conv: Any, bn: Any, relu: Any) -> nn.Module:
    """A convolution, its batch norm and a relu."""
    _check_modes(conv, bn, relu)
    if is_qat:
        return _BN_RELU[type(conv)](conv, bn, relu)
    return _RELU[type(conv)](fuse_conv_bn_eval(conv, bn), relu)


def fuse_linear_bn(is_qat: bool, linear: Any, bn: Any) -> nn.Module:
    """A linear layer and its batch norm."""
    _check_modes(linear, bn)
    return nni.LinearBn1d(linear, bn) if is_qat else fuse_linear_bn_eval(linear, bn)


def fuse_convtranspose_bn(is_qat: bool, convt: Any, bn: Any) -> nn.Module:
    """A transposed convolution and its batch norm."""
    _check_modes(convt, bn)
    if is_qat:
        raise Exception("Fusing ConvTranspose+BatchNorm not yet supported in QAT.")
    return fuse_conv_bn_eval(convt, bn, transpose=True)


def fuse_linear_bn_leaky_relu(is_qat: bool, linear: Any, bn: Any, leaky_relu: Any) -> nn.Module:
    """A linear layer, its batch norm and a leaky relu."""
    _check_modes(linear, bn, leaky_relu)
    if is_qat:
        raise NotImplementedError(
            f"Cannot fuse train modules: {(type(linear), type(bn), type(leaky_relu))}"
        )
    return nni.LinearLeakyReLU(fuse_linear_bn_eval(linear, bn), leaky_relu)


def sequential_method(kind: Any) -> Callable:
    """How modules become one of a class that is made of them."""
    return lambda is_qat, *modules: kind(*modules)


_METHODS: dict[tuple, Callable] = {
    (nn.Linear, nn.ReLU): sequential_method(nni.LinearReLU),
    (nn.Linear, nn.BatchNorm1d): fuse_linear_bn,
    (nn.Linear, nn.LeakyReLU): sequential_method(nni.LinearLeakyReLU),
    (nn.Linear, nn.Tanh): sequential_method(nni.LinearTanh),
    (nn.BatchNorm2d, nn.ReLU): sequential_method(nni.BNReLU2d),
    (nn.BatchNorm3d, nn.ReLU): sequential_method(nni.BNReLU3d),
}
for _conv, _norm, _transposed in (
    (nn.Conv1d, nn.BatchNorm1d, nn.ConvTranspose1d),
    (nn.Conv2d, nn.BatchNorm2d, nn.ConvTranspose2d),
    (nn.Conv3d, nn.BatchNorm3d, nn.ConvTranspose3d),
):
    _METHODS[_conv, _norm] = fuse_conv_bn
    _METHODS[_conv, _norm, nn.ReLU] = fuse_conv_bn_relu
    _METHODS[_conv, nn.ReLU] = sequential_method(_RELU[_conv])
    _METHODS[_transposed, _norm] = fuse_convtranspose_bn


def get_fuser_method(op_list: tuple, additional_fuser_method_mapping: dict | None = None) -> Any:
    """How modules of these classes become one."""
    found = {**_METHODS, **(additional_fuser_method_mapping or {})}.get(tuple(op_list))
    if found is None:
        raise AssertionError(f"did not find fuser method for: {tuple(op_list)} ")
    return found


def get_fuser_method_new(op_pattern: Any, fuser_method_mapping: dict) -> Any:
    """The same for a mapping of one's own."""
    found = fuser_method_mapping.get(op_pattern)
    if found is None:
        raise AssertionError(f"did not find fuser method for: {op_pattern} ")
    return found
