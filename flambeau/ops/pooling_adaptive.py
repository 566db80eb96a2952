"""Adaptive and fractional pooling, where the output's size is given; unpooling.

Adaptive windows share the input out evenly: window o of n starts at floor(o * size / n) and ends at
ceil((o + 1) * size / n). The rows with kernels are in `pooling.py`.
"""

from flambeau import errors
from flambeau.ops import pooling_windows as w
from flambeau.ops.pooling import (
    _ADAPTIVE_MAX,
    _ADAPTIVE_MEAN,
    _FRACTIONAL,
    _FUNCTIONAL,
    _UNPOOL,
)
from flambeau.ops.pooling_windows import adaptive, adaptive_sizes, check_lines, check_not_empty
from flambeau.ops.support import refuse_gradient
from flambeau.ops.table import Ints, OptionalTensor, Sizes, composite

_EMPTY = "(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "


def _line_size(name, output_size):
    found = w.integers(name, "output_size", 2, output_size)
    if len(found) != 1:
        raise RuntimeError(
            f"{name}() argument 'output_size' should contain one int (got {len(found)})"
        )
    return found[0]


# -- means -----------------------------------------------------------------------------------------


@composite(variants="function", namespace="nn.functional")
def adaptive_avg_pool1d(input, output_size: Ints):
    """Means of output_size windows that share the last dimension out."""
    size = _line_size("adaptive_avg_pool1d", output_size)
    check_lines("adaptive_avg_pool1d", input.shape)
    return _adaptive_mean(input.unsqueeze(-2), (1, size), 2).squeeze(-2)


@composite("quick_adaptive", **_FUNCTIONAL)
def adaptive_avg_pool2d(input, output_size: Sizes):
    """Means of windows that share the last two dimensions out; None keeps a size."""
    return _adaptive_mean(input, adaptive_sizes(output_size, input.shape, 2), 2)


@composite("quick_adaptive", **_FUNCTIONAL)
def adaptive_avg_pool3d(input, output_size: Sizes):
    """Means of windows that share the last three dimensions out; None keeps a size."""
    return _adaptive_mean(input, adaptive_sizes(output_size, input.shape, 3), 3)


def _adaptive_mean(input, outs, dims):
    name = f"adaptive_avg_pool{dims}d"
    if len(outs) != dims:
        raise RuntimeError(f"{name}: output_size must be {dims}")
    if min(outs) < 0:
        given = f"{outs[0]}, {outs[1]}" + (f",{outs[2]}" if dims == 3 else "")
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received "
            f"{{{given}}}"
        )
    if all(o == 1 for o in outs) and input.ndim >= dims:
        return whole_mean(input, dims, tuple(range(-dims, 0)))
    shape = input.shape
    if len(shape) not in (dims + 1, dims + 2):
        raise RuntimeError(
            f"{name}(): Expected {dims + 1}D or {dims + 2}D tensor, but got {list(shape)}"
        )
    check_not_empty(name + _EMPTY, shape, len(shape) - 2 if dims == 2 else 1)
    return _ADAPTIVE_MEAN[dims](input, adaptive(tuple(outs)))


def whole_mean(input, dims, axes):
    """The mean of whole planes (their axes), in the memory format of the input."""
    out = input.mean(axes, True)
    if input.ndim == dims + 2 and not input.is_contiguous() and _channels_last(input):
        c = input.shape[1]
        out = out.as_strided_(out.shape, (c, 1) + (c,) * dims)
    return out


def _channels_last(input):
    strides = input.stride()
    return strides[1] <= min(strides[2:]) and strides[2] >= strides[-1]


# -- the largest element ---------------------------------------------------------------------------


def _adaptive_largest(input, outs, dims, name=None):
    name = name or f"adaptive_max_pool{dims}d"
    shape = input.shape
    if len(outs) != dims:
        raise RuntimeError(f"{name}(): internal error: output_size.size() must be {dims}")
    if len(shape) not in (dims + 1, dims + 2):
        raise RuntimeError(
            f"{name}(): Expected {dims + 1}D or {dims + 2}D tensor, but got: {list(shape)}"
        )
    check_not_empty(name + _EMPTY, shape, 1)
    _check_result(shape, outs)
    return _ADAPTIVE_MAX[dims](input, adaptive(tuple(outs)))


def _check_result(shape, outs):
    if min(outs) < 0:
        wanted = [*shape[: -len(outs)], *outs]
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(outs)}: {wanted}")


@composite(variants="function")
def adaptive_max_pool1d(input, output_size: Ints):
    """(largest elements of output_size windows that share the last dimension out, indices)"""
    size = _line_size("adaptive_max_pool1d", output_size)
    check_lines("adaptive_max_pool1d", input.shape)
    check_not_empty("adaptive_max_pool1d" + _EMPTY, input.shape, 1)
    out, index = _adaptive_largest(input.unsqueeze(-2), (1, size), 2)
    return out.squeeze(-2), index.squeeze(-2)


@composite(**_FUNCTIONAL)
def functional_adaptive_max_pool1d(input, output_size: Ints, return_indices: object = False):
    """The largest elements of windows that share the last dimension out."""
    found = adaptive_max_pool1d(input, output_size)
    return found if return_indices else found[0]


@composite("quick_adaptive", **_FUNCTIONAL)
def adaptive_max_pool2d(input, output_size: Sizes, return_indices: object = False):
    """The largest elements of windows that share the last two dimensions out."""
    found = _adaptive_largest(input, adaptive_sizes(output_size, input.shape, 2), 2)
    return found if return_indices else found[0]


@composite("quick_adaptive", **_FUNCTIONAL)
def adaptive_max_pool3d(input, output_size: Sizes, return_indices: object = False):
    """The largest elements of windows that share the last three dimensions out."""
    found = _adaptive_largest(input, adaptive_sizes(output_size, input.shape, 3), 3)
    return found if return_indices else found[0]


def _adaptive_with_indices(dims):
    def body(input, output_size: object, return_indices: object = False):
        whole = {1: functional_adaptive_max_pool1d, 2: adaptive_max_pool2d, 3: adaptive_max_pool3d}
        return whole[dims](input, output_size, True)

    body.__name__ = f"adaptive_max_pool{dims}d_with_indices"
    body.__doc__ = f"adaptive_max_pool{dims}d and the places of what it found."
    return composite(**_FUNCTIONAL)(body)


_WITH_INDICES = [_adaptive_with_indices(dims) for dims in (1, 2, 3)]


# -- fractional pooling ----------------------------------------------------------------------------


def _fractional(dims, input, kernel_size, output_size, output_ratio, samples):
    name = f"fractional_max_pool{dims}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if output_size is None:
        output_size = _scaled_sizes(name, dims, input.shape, output_ratio)
    if samples is None:
        ndim = input.ndim
        if ndim < dims + 1:
            raise w.dimension_out_of_range(-dims - 1 if ndim else 0, ndim)
        batch = 1 if ndim == dims + 1 else input.shape[0]
        shape = batch, input.shape[-dims - 1], dims
        samples = input.detach().new_empty(shape).uniform_()
    if not hasattr(samples, "_layout"):
        raise TypeError(
            f"{name}(): argument 'random_samples' (position 4) must be Tensor, not "
            f"{errors.kind_name(samples)}"
        )
    taps = _fractional_sizes(name, "kernel_size", 2, kernel_size, dims)
    outs = _fractional_sizes(name, "output_size", 3, output_size, dims)
    _check_fractional(name, input, taps, outs, samples, dims)
    if input.dtype.is_complex:
        raise errors.not_implemented(f"{name}_out_frame", input.dtype)
    refuse_gradient(name, random_samples=samples)
    return _FRACTIONAL[dims](input, samples.detach(), taps, outs)


def _scaled_sizes(name, dims, shape, ratio):
    # a single number is welcome in three dimensions only
    if dims == 2 and len(ratio) > dims:
        raise ValueError(
            f"{name} requires output_ratio to either be a single Int or tuple of Ints."
        )
    if len(shape) < dims:
        raise w.dimension_out_of_range(-dims, len(shape))
    ratios = (ratio,) * dims if isinstance(ratio, (int, float)) else ratio
    return tuple(int(n * r) for n, r in zip(shape[-dims:], ratios))


def _fractional_sizes(name, argument, position, value, dims):
    found = w.integers(name, argument, position, value)
    alone = len(found) == 1 and not isinstance(value, (tuple, list))
    if not alone and len(found) != dims:
        count = "three " if dims == 3 else ""
        raise RuntimeError(
            f"{name}: {argument} must either be a single Int or tuple of {count}Ints"
        )
    return found * dims if alone else found


_DIRECTIONS = {2: ("height", "width"), 3: ("time", "height", "width")}


def _check_fractional(name, input, taps, outs, samples, dims):
    shape, caller = input.shape, name if dims == 2 else name + "_out"
    if len(shape) not in (dims + 1, dims + 2):
        raise RuntimeError(
            f"{caller}(): Expected {dims + 1}D or {dims + 2}D tensor, but got: {list(shape)}"
        )
    check_not_empty(
        f"{caller}(): Expected input to have non-zero size for non-batch dimensions, but got",
        shape,
        len(shape) - dims - 1,
        "with dimension {} being empty.",
    )
    for what, k, o, n in zip(_DIRECTIONS[dims], taps, outs, shape[-dims:]):
        if o + k - 1 > n - (dims == 3):
            raise RuntimeError(
                f"{caller}(): pool {what} {k} too large relative to input {what} {n}"
            )
    if samples.dtype is not input.dtype:
        raise RuntimeError("Expect _random_samples to have the same dtype as input")
    if samples.ndim != 3:
        raise RuntimeError(f"Expect _random_samples to have 3 dimensions, got {samples.ndim}")
    n, c, count = samples.shape
    if n < (shape[0] if len(shape) == dims + 2 else 1):
        raise RuntimeError("Expect _random_samples.size(0) no less then input batch size.")
    if c != shape[-dims - 1]:
        raise RuntimeError("Expect _random_samples.size(1) equals to input channel size.")
    if count != dims:
        raise RuntimeError(f"Expect _random_samples.size(2) equals to {dims}; got {count}.")
    _check_result(shape, outs)


def _fractional_rows(dims):
    def body(
        input,
        kernel_size: object,
        output_size: object = None,
        output_ratio: object = None,
        return_indices: object = False,
        _random_samples: OptionalTensor = None,
    ):
        given = kernel_size, output_size, output_ratio, _random_samples
        found = _fractional(dims, input, *given)
        return found if return_indices else found[0]

    def with_indices(
        input,
        kernel_size: object,
        output_size: object = None,
        output_ratio: object = None,
        return_indices: object = False,
        _random_samples: OptionalTensor = None,
    ):
        given = kernel_size, output_size, output_ratio, _random_samples
        return _fractional(dims, input, *given)

    body.__name__ = f"fractional_max_pool{dims}d"
    body.__doc__ = "The largest elements of windows whose places are drawn at random."
    with_indices.__name__ = f"fractional_max_pool{dims}d_with_indices"
    with_indices.__doc__ = f"fractional_max_pool{dims}d and the places of what it found."
    return [composite(**_FUNCTIONAL)(f) for f in (body, with_indices)]


_FRACTIONAL_ROWS = [_fractional_rows(dims) for dims in (2, 3)]


# -- unpooling -------------------------------------------------------------------------------------


def _unpooled_sizes(dims, input, kernel_size, stride, padding, output_size):
    kernel, padding = (
        tuple(v) if isinstance(v, (tuple, list)) else (v,) * dims for v in (kernel_size, padding)
    )
    if stride is None:
        stride = kernel
    stride = tuple(stride) if isinstance(stride, (tuple, list)) else (stride,) * dims
    # as many dimensions as the kernel has; PyTorch trips over more than the others know of
    usual = [
        (input.shape[k - len(kernel)] - 1) * stride[k] + kernel[k] - 2 * padding[k]
        for k in range(len(kernel))
    ]
    if output_size is None:
        return tuple(usual), stride
    dims = len(kernel)
    if len(output_size) == dims + 2:
        output_size = output_size[2:]
    if len(output_size) != dims:
        raise ValueError(
            f"output_size should be a sequence containing {dims} or {dims + 2} elements, but it "
            f"has a length of '{len(output_size)}'"
        )
    for k, (o, u, s) in enumerate(zip(output_size, usual, stride)):
        if not u - s < o < u + s:
            raise ValueError(
                f'invalid output_size "{output_size}" (dim {k} must be between {u - s} and {u + s})'
            )
    return tuple(output_size), stride


_OUTPUT = {2: "two elements (height, width)", 3: "three elements (depth, height, width)"}


def _check_count(dims, outs):
    if len(outs) != dims:
        raise RuntimeError(
            f"There should be exactly {_OUTPUT[dims]} in output_size, but got {len(outs)} elements."
        )


def _unpool(dims, input, indices, outs, stride):
    for k, o in enumerate(outs):
        if o < 0:
            raise ValueError(
                "max_unpooling: output_size must contain non-negative spatial dimensions, but got "
                f"output_size[{k}]={o}"
            )
    if not hasattr(indices, "_layout"):
        raise TypeError(
            f"max_unpool{dims}d(): argument 'indices' (position 2) must be Tensor, not "
            f"{errors.kind_name(indices)}"
        )
    if indices.dtype.name != "int64":
        got = f" but got: {indices.dtype.scalar_name}" if dims == 2 else ""
        raise RuntimeError(f"elements in indices should be type int64{got}")
    if dims == 2:  # counted first there
        _check_count(dims, outs)
    if input.ndim not in (dims + 1, dims + 2):
        raise RuntimeError(
            f"Input to max_unpooling{dims}d should be a {dims + 1}d or {dims + 2}d Tensor, but got "
            f"a tensor with {input.ndim} dimensions."
        )
    _check_count(dims, outs)
    if indices.shape != input.shape:
        raise RuntimeError(
            "Expected shape of indices to be same as that of the input tensor "
            f"({list(input.shape)}) but got indices tensor with shape: {list(indices.shape)}"
        )
    if dims == 3 and min(stride) <= 0:
        raise RuntimeError(f"strides should be greater than zero, but got stride: {list(stride)}")
    check_not_empty(
        f"max_unpooling{dims}d_forward_out_cpu(): Expected input to have non-zero size for "
        "non-batch dimensions, but got ",
        input.shape,
        1,
        "with dimension {} being empty.",
    )
    return _UNPOOL[dims](input, indices, outs)


@composite(**_FUNCTIONAL)
def max_unpool1d(
    input,
    indices,
    kernel_size: object,
    stride: object = None,
    padding: object = 0,
    output_size: object = None,
):
    """Zeros with the elements of input at the places max_pool1d found them."""
    outs, stride = _unpooled_sizes(1, input, kernel_size, stride, padding, output_size)
    found = _unpool(2, input.unsqueeze(-1), indices.unsqueeze(-1), (*outs, 1), stride)
    return found.squeeze(-1)


@composite(**_FUNCTIONAL)
def max_unpool2d(
    input,
    indices,
    kernel_size: object,
    stride: object = None,
    padding: object = 0,
    output_size: Ints = None,
):
    """Zeros with the elements of input at the places max_pool2d found them."""
    outs, stride = _unpooled_sizes(2, input, kernel_size, stride, padding, output_size)
    return _unpool(2, input, indices, outs, stride)


@composite(**_FUNCTIONAL)
def max_unpool3d(
    input,
    indices,
    kernel_size: object,
    stride: Ints = None,
    padding: Ints = 0,
    output_size: Ints = None,
):
    """Zeros with the elements of input at the places max_pool3d found them."""
    outs, stride = _unpooled_sizes(3, input, kernel_size, stride, padding, output_size)
    return _unpool(3, input, indices, outs, stride)
