"""Convolutions: one row that computes, its two ways back, and the functions users call.

`convolution` covers every number of dimensions, and the transposed form. Its gradients are
`convolution_to_input` and `convolution_to_weight`; each of the three is linear in both of its
tensors, and its derivatives are the other two, so they can be differentiated again and again.
Functions with a number in their name accept unbatched input, padding in words and complex numbers,
and call `convolution`. Kernels: codegen/templates/conv*.py; launchers: eager/convolution.py.
"""

import warnings

from flambeau._layout import suggests_channels_last
from flambeau.ops.table import Ints, OptionalTensor, Padding, composite, public, template


def _spread(value, dims):
    """A number per dimension."""
    if isinstance(value, int):
        return (value,) * dims
    value = tuple(value)
    return value * dims if len(value) == 1 else value


def _geometry(weight, stride, padding, dilation):
    dims = weight.ndim - 2
    return _spread(stride, dims), _spread(padding, dims), _spread(dilation, dims)


def _convolved(shape, input, weight, stride, padding, dilation, groups):
    """The convolution of input, cut to a shape.

    What a transposed convolution was made from may be smaller than what its result would give: its
    output_padding can hide a whole step.
    """
    found = public("convolution")(input, weight, None, stride, padding, dilation, False, 0, groups)
    for d in range(2, found.ndim):
        if found.shape[d] > shape[d]:
            found = found.narrow(d, 0, shape[d])
    return found


def _convolution_gradients(g, input, weight, stride, padding, dilation, transposed, groups, needs):
    shape = _geometry(weight, stride, padding, dilation)
    to_input = to_weight = to_bias = None
    if transposed:
        if needs[0]:
            to_input = _convolved(input.shape, g, weight, *shape, groups)
        if needs[1]:
            last = suggests_channels_last(weight._layout)
            to_weight = convolution_to_weight(g, input, weight.shape, *shape, groups, last)
    else:
        if needs[0]:
            last = suggests_channels_last(input._layout)
            to_input = convolution_to_input(g, weight, input.shape, *shape, groups, last)
        if needs[1]:
            last = suggests_channels_last(weight._layout)
            rest = (weight.shape, *shape, groups, last)
            if needs[2]:
                to_weight, to_bias = convolution_to_weight_and_bias(input, g, *rest)
            else:
                to_weight = convolution_to_weight(input, g, *rest)
    if needs[2] and not input.shape[1]:  # without channels that come in, none go out
        to_bias = g.new_zeros(weight.shape[0])
    elif needs[2] and to_bias is None:
        to_bias = g.sum((0, *range(2, g.ndim)))
    return to_input, to_weight, to_bias


@template(
    "convolution",
    linear="input bias, weight bias",
    variants="function",
    joint_grad=_convolution_gradients,
)
def convolution(
    input,
    weight,
    bias: OptionalTensor,
    stride: tuple,
    padding: tuple,
    dilation: tuple,
    transposed: bool,
    output_padding: tuple,
    groups: int,
):
    """Convolution of any number of dimensions, or the transposed one; input has a batch."""


@template(
    "convolution_to_input",
    linear="input, weight",
    variants="",
    node="ConvolutionBackwardBackward0",
    grad=dict(
        input=lambda g, input_shape, weight, stride, padding, dilation, groups: _convolved(
            input_shape, g, weight, stride, padding, dilation, groups
        ),
        weight=lambda g, input, weight_shape, stride, padding, dilation, groups: (
            convolution_to_weight(g, input, weight_shape, stride, padding, dilation, groups)
        ),
    ),
)
def convolution_to_input(
    input,
    weight,
    shape: tuple,
    stride: tuple,
    padding: tuple,
    dilation: tuple,
    groups: int,
    last: bool = False,
):
    """What the result of a convolution, taken for a gradient, contributes to its input.

    last: in channels_last order.
    """


@template(
    "convolution_to_weight",
    linear="input, other",
    variants="",
    node="ConvolutionBackwardBackward0",
    grad=dict(
        input=lambda g, input_shape, other, stride, padding, dilation, groups: convolution_to_input(
            other, g, input_shape, stride, padding, dilation, groups
        ),
        other=lambda g, input, other_shape, stride, padding, dilation, groups: _convolved(
            other_shape, input, g, stride, padding, dilation, groups
        ),
    ),
)
def convolution_to_weight(
    input,
    other,
    shape: tuple,
    stride: tuple,
    padding: tuple,
    dilation: tuple,
    groups: int,
    last: bool = False,
):
    """The gradient of weights that take input to a result with gradient `other`."""


def _weight_and_bias_gradients(gs, input, other, stride, padding, dilation, groups, needs):
    rest = stride, padding, dilation, groups
    to_input = to_other = None
    if needs[0]:
        to_input = convolution_to_input(other, gs[0], input.shape, *rest)
    if needs[1]:
        to_other = _convolved(other.shape, input, gs[0], *rest)
        to_other = to_other + gs[1].reshape(-1, *(1,) * (other.ndim - 2))
    return to_input, to_other


@template(
    "convolution_to_weight_and_bias",
    variants="",
    outputs=2,
    node="ConvolutionBackwardBackward0",
    joint_grad=_weight_and_bias_gradients,
)
def convolution_to_weight_and_bias(
    input,
    other,
    shape: tuple,
    stride: tuple,
    padding: tuple,
    dilation: tuple,
    groups: int,
    last: bool = False,
):
    """The gradients of weights and bias together: `other` is read once."""


# -- what users call ------------------------------------------------------------------------------


def _batched(name, dims, input):
    """The input with a batch dimension, and whether it had one."""
    if input.ndim == dims + 2:
        return input, True
    if input.ndim == dims + 1:
        return input.unsqueeze(0), False
    raise RuntimeError(
        f"Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input to {name}, but got input "
        f"of size: {list(input.shape)}"
    )


def _by_parts(input, weight, bias, *rest):
    """A convolution of complex numbers by three of real ones."""
    more = (None, None) if bias is None else (bias.real, bias.real + bias.imag)
    a = public("convolution")(input.real, weight.real, more[0], *rest)
    b = public("convolution")(input.imag, weight.imag, None, *rest)
    sums = input.real + input.imag, weight.real + weight.imag
    both = public("convolution")(*sums, more[1], *rest)
    return public("complex")(a - b, both - a - b)


def _run(name, dims, input, weight, bias, stride, padding, dilation, transposed, more, groups):
    input, batched = _batched(name, dims, input)
    if isinstance(padding, str):
        input, padding = _padding_in_words(padding, dims, input, weight, stride, dilation)
    stride, padding, dilation, more = [
        (v,) * dims if type(v) is int else v for v in (stride, padding, dilation, more)
    ]
    rest = (stride, padding, dilation, transposed, more, groups)
    if input.dtype.is_complex and weight.dtype.is_complex:
        if bias is not None and bias.dtype is not input.dtype:
            raise RuntimeError(
                f"Input type ({input.dtype.cpp_name}) and bias type ({bias.dtype.cpp_name}) should "
                "be the same"
            )
        result = _by_parts(input, weight, bias, *rest)
    else:
        result = public("convolution")(input, weight, bias, *rest)
    return result if batched else result.squeeze(0)


_warned = set()


def _padding_in_words(padding, dims, input, weight, stride, dilation):
    """`same` and `valid` as numbers; an odd number of zeros is partly added to the input."""
    if padding == "valid":
        return input, (0,) * dims
    if padding != "same":
        raise RuntimeError(f"Invalid padding string: '{padding}'")
    if weight.ndim != input.ndim:
        raise RuntimeError(
            f"Expected {weight.ndim}-dimensional input for {weight.ndim}-dimensional weight"
            f"{list(weight.shape)}, but got {input.ndim}-dimensional input of size "
            f"{list(input.shape)} instead"
        )
    stride, dilation = _spread(stride, dims), _spread(dilation, dims)
    for name, value in (("stride", stride), ("dilation", dilation)):
        if len(value) != dims:
            raise RuntimeError(f"{name} cannot broadcast to {dims} dimensions")
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    total = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:])]
    if any(t % 2 for t in total):
        if "same" not in _warned:
            _warned.add("same")
            warnings.warn(
                "Using padding='same' with even kernel lengths and odd dilation may require a "
                "zero-padded copy of the input be created",
                stacklevel=4,
            )
        extra = []
        for t in reversed(total):
            extra += [0, t % 2]
        input = public("pad")(input, tuple(extra))
    return input, tuple(t // 2 for t in total)


_OPTIONS = dict(variants="function", namespace="nn.functional")


@composite(**_OPTIONS)
def conv1d(
    input,
    weight,
    bias: OptionalTensor = None,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    groups: int = 1,
):
    """Convolution of a signal (N, C, L) or (C, L) with weights (M, C / groups, K)."""
    return _run("conv1d", 1, input, weight, bias, stride, padding, dilation, False, 0, groups)


@composite(**_OPTIONS)
def conv2d(
    input,
    weight,
    bias: OptionalTensor = None,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    groups: int = 1,
):
    """Convolution of images (N, C, H, W) or (C, H, W) with weights (M, C / groups, KH, KW)."""
    return _run("conv2d", 2, input, weight, bias, stride, padding, dilation, False, 0, groups)


@composite(**_OPTIONS)
def conv3d(
    input,
    weight,
    bias: OptionalTensor = None,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    groups: int = 1,
):
    """Convolution of volumes (N, C, D, H, W) or (C, D, H, W) with weights of five dimensions."""
    return _run("conv3d", 3, input, weight, bias, stride, padding, dilation, False, 0, groups)


def _transposed(name, dims, input, weight, bias, stride, padding, output_padding, groups, dilation):
    if isinstance(padding, str):
        raise TypeError(f"{name}(): argument 'padding' must be tuple of ints, not str")
    return _run(
        name, dims, input, weight, bias, stride, padding, dilation, True, output_padding, groups
    )


@composite(**_OPTIONS)
def conv_transpose1d(
    input,
    weight,
    bias: OptionalTensor = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
):
    """The gradient of conv1d, taken for an op of its own; weights are (C, M / groups, K)."""
    return _transposed(
        "conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups,
        dilation,
    )  # fmt: skip


@composite(**_OPTIONS)
def conv_transpose2d(
    input,
    weight,
    bias: OptionalTensor = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
):
    """The gradient of conv2d, taken for an op of its own; weights are (C, M / groups, KH, KW)."""
    return _transposed(
        "conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups,
        dilation,
    )  # fmt: skip


@composite(**_OPTIONS)
def conv_transpose3d(
    input,
    weight,
    bias: OptionalTensor = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
):
    """The gradient of conv3d, taken for an op of its own."""
    return _transposed(
        "conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups,
        dilation,
    )  # fmt: skip


@composite(variants="function", namespace="nn.functional")
def conv_tbc(input, weight, bias, pad: int = 0):
    """Convolution over time of (time, batch, channels) with weights (K, channels in, out)."""
    if input.ndim != 3:
        raise RuntimeError("Input must have 3 dims: time, batch, in_channel")
    if weight.ndim != 3:
        raise RuntimeError(
            "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels."
        )
    if bias.ndim != 1:
        raise RuntimeError("Bias must be 1-D")
    if input.shape[2] != weight.shape[1]:
        raise RuntimeError("Input dim 2 (input channels) is not == dim 1 in the weight tensor")
    if weight.shape[2] != bias.shape[0]:
        raise RuntimeError("Bias size must equal dim 2 in the weight tensor (output channels).")
    if input.shape[0] + 2 * pad < weight.shape[0]:
        return input.new_zeros((0, input.shape[1], weight.shape[2]))
    found = conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, 1, pad)
    return found.permute(2, 0, 1).contiguous()
