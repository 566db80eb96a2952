"""What a convolution refuses, in PyTorch's words and order, before anything is computed."""

from typing import NamedTuple

from flambeau import errors
from flambeau._natively import natively


class Call(NamedTuple):
    """A checked convolution: numbers per dimension and the shape of the result."""

    stride: tuple
    padding: tuple
    dilation: tuple
    output_padding: tuple
    shape: tuple


def _expanded(value, name, dims):
    """A number per dimension, from one number or a list of them."""
    if type(value) is tuple and len(value) == dims:
        return value
    value = (value,) if isinstance(value, int) else tuple(value)
    if len(value) == 1:
        return value * dims
    if len(value) != dims:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {dims} values to match the "
            f"convolution dimensions, but got {name}={list(value)}"
        )
    return value


def resized(known, input, weight):
    """The Call for an input that differs from a checked one in the sizes of its images alone."""
    given = input.sizes
    spatial = _convolved_size(given[2:], weight.sizes[2:], *known[:3])
    return Call(*known[:4], (given[0], known.shape[1], *spatial))


def check(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """Checks layouts (bias may be None) and gives a Call."""
    dims = weight.ndim - 2
    if dims <= 0:
        raise RuntimeError("weight should have at least three dimensions")
    _check_bias_dtype(input, bias, transposed)
    stride = _expanded(stride, "stride", dims)
    padding = _expanded(padding, "padding", dims)
    dilation = _expanded(dilation, "dilation", dims)
    output_padding = _expanded(output_padding, "output_padding", dims)
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    if min(padding) < 0:
        raise RuntimeError("negative padding is not supported")
    if min(output_padding) < 0:
        raise RuntimeError("negative output_padding is not supported")
    if min(stride) <= 0:
        raise RuntimeError("non-positive stride is not supported")
    if min(dilation) < 0:
        raise RuntimeError("dilation should be greater than zero")
    given, shape = tuple(input.shape), tuple(weight.shape)
    _check_shapes(given, shape, bias, transposed, groups)
    sizes, kernel = given[2:], shape[2:]
    if transposed:
        spatial = _transposed_size(input, kernel, stride, padding, dilation, output_padding)
        channels = shape[1] * groups
    else:
        spatial = _convolved_size(sizes, kernel, stride, padding, dilation)
        channels = shape[0] if given[1] else 0
    if 0 in sizes:
        raise RuntimeError(
            "Only zero batch or zero channel inputs are supported, but got input shape: "
            f"{list(given)}"
        )
    if min(dilation) == 0:
        raise RuntimeError("non-positive dilation is not supported")
    if transposed:
        _check_output_padding(stride, dilation, output_padding)
    if transposed and input.numel and not shape[1]:
        what = "2D or 4D" if dims < 3 else "5D"
        raise RuntimeError(f"non-empty {what} weight tensor expected, but got: {list(shape)}")
    if 0 in kernel:
        names = _names("kernel", kernel)
        raise RuntimeError(f"kernel size should be greater than zero, but got {names}")
    if input.numel:
        _check_dtypes(input, weight, dilation, transposed)
    return Call(stride, padding, dilation, output_padding, (given[0], channels, *spatial))


def _check_shapes(given, shape, bias, transposed, groups):
    ndim = len(shape)
    if len(given) != ndim:
        raise RuntimeError(
            f"Expected {ndim}-dimensional input for {ndim}-dimensional weight "
            f"{list(shape)}, but got {len(given)}-dimensional input of size {list(given)} instead"
        )
    if shape[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but "
            f"got weight of size {list(shape)} instead"
        )
    if shape[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
            f"but got weight of size [{list(shape)}] instead"
        )
    wanted = shape[0] if transposed else shape[1] * groups
    if given[1] != wanted:
        what = "transposed=1" if transposed else f"groups={groups}"
        raise RuntimeError(
            f"Given {what}, weight of size {list(shape)}, expected input{list(given)} to have "
            f"{wanted} channels, but got {given[1]} channels instead"
        )
    made = shape[1] * groups if transposed else shape[0]
    if bias is not None and tuple(bias.shape) != (made,):
        start = "Given transposed=1, weight" if transposed else "Given weight"
        raise RuntimeError(
            f"{start} of size {list(shape)}, expected bias to be 1-dimensional with {made} "
            f"elements, but got bias of size {list(bias.shape)} instead"
        )


def _per_channel(sizes):
    return "(" + " x ".join(map(str, sizes)) + ")"


def _convolved_size(sizes, kernel, stride, padding, dilation):
    found = _places(sizes, kernel, stride, padding, dilation)
    if min(found) < 1:
        padded = [n + 2 * p for n, p in zip(sizes, padding)]
        taken = [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
        raise RuntimeError(
            f"Calculated padded input size per channel: {_per_channel(padded)}. Kernel size: "
            f"{_per_channel(taken)}. Kernel size can't be greater than actual input size"
        )
    return found


@natively
def _places(sizes: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple):
    """How many times the kernel fits along each dimension; 0 where it does not."""
    found = []
    for k in range(len(sizes)):
        room = sizes[k] + 2 * padding[k] - dilation[k] * (kernel[k] - 1) - 1
        found.append(room // stride[k] + 1 if room >= 0 else 0)
    return tuple(found)


def _transposed_size(input, kernel, stride, padding, dilation, output_padding):
    given = tuple(input.shape)[2:]
    sizes = [
        (n - 1) * s - 2 * p + d * (k - 1) + o + 1
        for n, k, s, p, d, o in zip(given, kernel, stride, padding, dilation, output_padding)
    ]
    least = 0 if input.dtype.name in ("float32", "bfloat16") else 1
    if input.numel and min(sizes) < least:
        line = (1,) if len(sizes) == 1 else ()
        raise RuntimeError(
            f"Given input size per channel: {_per_channel([*line, *given])}. Calculated "
            f"output size per channel: {_per_channel([*line, *sizes])}. Output size is too small"
        )
    return [max(0, n) for n in sizes]


def _names(name, values):
    axes = ("depth", "height", "width")[-len(values) :]
    return " ".join(f"{name}_{axis}: {value}" for axis, value in zip(axes, values))


def _check_output_padding(stride, dilation, output_padding):
    if all(o < s or o < d for o, s, d in zip(output_padding, stride, dilation)):
        return
    if len(stride) == 1:
        stride, dilation, output_padding = (1, *stride), (1, *dilation), (0, *output_padding)
    raise RuntimeError(
        "output padding must be smaller than either stride or dilation, but got "
        f"{_names('output_padding', output_padding)} {_names('stride', stride)} "
        f"{_names('dilation', dilation)}"
    )


# -- dtypes ---------------------------------------------------------------------------------------


def _tensor_type(dtype):
    """The name of PyTorch's tensor type, as its messages have it."""
    if dtype.is_complex or dtype.name == "bfloat16":
        return f"CPU{dtype.scalar_name}Type"
    return f"torch.{dtype.scalar_name}Tensor"


def _check_bias_dtype(input, bias, transposed):
    if bias is None or bias.dtype is input.dtype:
        return
    if not transposed:
        raise RuntimeError(
            f"Input type ({input.dtype.cpp_name}) and bias type ({bias.dtype.cpp_name}) should be "
            "the same"
        )
    if input.dtype.name in ("float32", "bfloat16"):
        raise RuntimeError(
            f"Input type ({_tensor_type(input.dtype)}) and bias type ({_tensor_type(bias.dtype)}) "
            "should be the same or input should be a MKLDNN tensor and bias is a dense tensor"
        )
    if bias.dtype.category > input.dtype.category:
        raise errors.cannot_cast(bias.dtype, input.dtype)


def _check_dtypes(input, weight, dilation, transposed):
    dtype = input.dtype
    if dtype is not weight.dtype:
        _complain(input, weight)
    if dtype.category >= 2 or (dtype.name == "int64"):
        return
    dims = len(dilation)
    if transposed:
        name = f"slow_conv_transpose{max(2, dims)}d_out_cpu"
    elif max(dilation) > 1:
        name = "slow_conv_dilated<>"
    elif dtype.category == 0 or dtype.name in ("uint16", "uint32", "uint64"):
        name = "compute_columns3d" if dims == 3 else "slow_conv2d_cpu"
    else:
        return
    raise errors.not_implemented(name, dtype)


def _complain(input, weight):
    names = [_tensor_type(t.dtype) for t in (input, weight)]
    if input.dtype.is_complex:
        raise RuntimeError(
            f"Input type ({names[0]}) and weight type ({names[1]}) should be the same"
        )
    large = input.shape[0] > 1 or input.numel > 20480 or max(weight.shape[2:]) > 3
    if input.dtype.name in ("float32", "bfloat16") and large:
        raise RuntimeError(
            f"Input type ({names[0]}) and weight type ({names[1]}) should be the same or input "
            "should be a MKLDNN tensor and weight is a dense tensor"
        )
    raise RuntimeError(
        f"expected scalar type {input.dtype.scalar_name} but found {weight.dtype.scalar_name}"
    )
