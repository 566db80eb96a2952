"""Gradients of convolutions as functions: towards the input, and towards the weights.

The same rows that backward of a convolution ends in (ops/convolution.py), for use without a graph.
"""

from collections.abc import Sequence
from typing import Any

from flambeau._tensor import Tensor
from flambeau.ops.convolution import convolution_to_input, convolution_to_weight


def _each(value, count):
    return tuple(value) if hasattr(value, "__iter__") else (value,) * count


def _geometry(dims, input_size, weight_size, grad_output, stride, padding, dilation, groups):
    """Stride, padding and dilation for each dimension, of shapes that fit each other."""
    options = _each(stride, dims), _each(padding, dims), _each(dilation, dims)
    rank = dims + 2
    for size in (input_size, weight_size, grad_output.shape):
        if len(size) != rank:
            raise RuntimeError(f"Expected {rank} dimensions, but got {len(size)}: {list(size)}")
    batch, channels, *inner = input_size
    rows, columns, *window = weight_size
    if channels != columns * groups or rows % groups:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(weight_size)}, expected "
            f"input{list(input_size)} to have {columns * groups} channels, but got {channels} "
            "channels instead"
        )
    wanted = [batch, rows]
    for n, k, s, p, d in zip(inner, window, *options):
        wanted.append((n + 2 * p - d * (k - 1) - 1) // s + 1)
    for k, (size, got) in enumerate(zip(wanted, grad_output.shape)):
        if size != got:
            raise RuntimeError(
                f"Expected a tensor of dimension {rank} and tensor.size[{k}] == {size} but got: "
                f"dimension {rank} and tensor.size[{k}] = {got}"
            )
    return (*options, groups)


def _input(dims, input_size, weight, grad_output, *options):
    geometry = _geometry(dims, input_size, weight.shape, grad_output, *options)
    return convolution_to_input(grad_output, weight, tuple(input_size), *geometry)


def _weight(dims, input, weight_size, grad_output, *options):
    geometry = _geometry(dims, input.shape, weight_size, grad_output, *options)
    return convolution_to_weight(input, grad_output, tuple(weight_size), *geometry)


def conv1d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of conv1d with respect to its input."""
    return _input(1, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv1d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of conv1d with respect to its weights."""
    return _weight(1, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv2d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of conv2d with respect to its input."""
    return _input(2, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv2d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of conv2d with respect to its weights."""
    return _weight(2, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv3d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of conv3d with respect to its input."""
    return _input(3, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv3d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of conv3d with respect to its weights."""
    return _weight(3, input, weight_size, grad_output, stride, padding, dilation, groups)
