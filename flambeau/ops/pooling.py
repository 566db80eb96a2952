"""Pooling: the largest or the mean element of windows, plain, adaptive and fractional; unpooling.

Hidden rows (`_max_pool2d`, ...) hold kernels and derivatives and take a `Window`; public functions
check what they are given (`pooling_windows.py`) and call them. One dimension is pooled as two, of
which the first has size one. For backward the largest element is remembered as its number in the
window, one byte, unless the caller asked for indices.
"""

import math

from flambeau import _dtype as d
from flambeau import errors
from flambeau.ops import pooling_windows as w
from flambeau.ops.pooling_windows import adaptive, as_two
from flambeau.ops.table import Ints, composite, public, template

_FUNCTIONAL = {"variants": "", "namespace": "nn.functional"}
_SHARED = {"variants": "function", "namespace": "nn.functional"}


# -- rows with kernels -----------------------------------------------------------------------------


def _flat_index(chosen, layout, window):
    """What was chosen, as indices in planes: taps of windows become places."""
    if chosen.dtype is not d.uint8:
        return chosen.to(d.int64)
    dims, taps = window.dims, chosen.to(d.int64)
    index, scale = 0, 1
    for k in range(dims - 1, -1, -1):
        tap = taps % window.kernel[k]
        taps = taps // window.kernel[k]
        starts = public("arange")(window.outs[k]) * window.stride[k] - window.padding[k]
        place = starts.reshape([-1] + [1] * (dims - 1 - k)) + tap
        index = place * scale + index
        scale = scale * layout.shape[k - dims]
    return index


def _picked(g, index, dims):
    """Elements of g at indices in its planes."""
    found = g.flatten(-dims).gather(-1, index.flatten(-dims))
    return found.reshape(index.shape)


def _max_rows(dims, name, node):
    """The row behind a max pooling, and the row behind its derivative."""

    def backward(grad, chosen, layout: object, window: object, formats: object):
        pass

    backward.__name__ = f"_{name}{dims}d_backward"
    backward.__doc__ = "Gradients, each where the largest element of its window was."
    return template(
        "max_pool_backward",
        linear=True,
        variants="",
        node=f"{node}BackwardBackward0",
        grad={
            "grad": lambda g, chosen, layout, window: _picked(
                g, _flat_index(chosen, layout, w.uniform(window, layout.shape[-dims:])), dims
            )
        },
    )(backward)


def _max_row(dims):
    back = _max_rows(dims, "max_pool", f"MaxPool{dims}DWithIndices")

    def body(input, window: object, kind: str):
        pass

    body.__name__, body.__doc__ = f"_max_pool{dims}d", "(largest elements of windows, which ones)"
    return template(
        "max_pool",
        variants="",
        outputs=2,
        node=f"MaxPool{dims}DWithIndicesBackward0",
        grad=lambda g, out1, input_layout, window: back(g, out1, input_layout, window, (2, 3)),
        flat=True,
    )(body)


def _adaptive_max_row(dims):
    back = _max_rows(dims, "adaptive_max_pool", f"AdaptiveMaxPool{dims}D")

    def body(input, window: object):
        pass

    body.__name__ = f"_adaptive_max_pool{dims}d"
    body.__doc__ = "(largest elements of windows that share the input out, indices)"
    return template(
        "adaptive_max_pool",
        variants="",
        outputs=2,
        node=f"AdaptiveMaxPool{dims}DBackward0",
        grad=lambda g, out1, input_layout, window: back(g, out1, input_layout, window, (2,)),
        flat=True,
    )(body)


def _mean_row(dims, prefix, node):
    def backward(grad, layout: object, window: object):
        pass

    backward.__name__ = f"_{prefix}_pool{dims}d_backward"
    backward.__doc__ = "Gradients, spread evenly over their windows."
    back = template(
        "avg_pool_backward",
        linear=True,
        variants="",
        node=f"{node}{dims}DBackwardBackward0",
        grad=lambda g, window: row(g, window),
    )(backward)

    def body(input, window: object):
        pass

    body.__name__, body.__doc__ = f"_{prefix}_pool{dims}d", "Means of windows."
    row = template(
        "avg_pool",
        linear=True,
        variants="",
        node=f"{node}{dims}DBackward0",
        grad=lambda g, input_layout, window: back(g, input_layout, window),
        flat=True,
    )(body)
    return row


_MAX = {dims: _max_row(dims) for dims in (2, 3)}
_ADAPTIVE_MAX = {dims: _adaptive_max_row(dims) for dims in (2, 3)}
_MEAN = {dims: _mean_row(dims, "avg", "AvgPool") for dims in (2, 3)}
_ADAPTIVE_MEAN = {dims: _mean_row(dims, "adaptive_avg", "AdaptiveAvgPool") for dims in (2, 3)}


def _fractional_row(dims):
    back = _max_rows(dims, "fractional_max_pool", f"FractionalMaxPool{dims}D")

    def body(input, samples, taps: object, sizes: object):
        pass

    body.__name__ = f"_fractional_max_pool{dims}d"
    body.__doc__ = "(largest elements of windows at drawn places, indices)"
    return template(
        "fractional_max_pool",
        variants="",
        outputs=2,
        node=f"FractionalMaxPool{dims}DBackward0",
        # which windows there were does not count: indices say it all
        grad=lambda g, out1, input_layout, sizes: back(g, out1, input_layout, adaptive(sizes), ()),
        flat=True,
    )(body)


_FRACTIONAL = {dims: _fractional_row(dims) for dims in (2, 3)}


def _unpool_row(dims):
    def body(input, indices, sizes: object):
        pass

    body.__name__ = f"_max_unpool{dims}d"
    body.__doc__ = "Zeros with elements where indices say."
    return template(
        "max_unpool",
        linear=True,
        variants="",
        node=f"MaxUnpool{dims}DBackward0",
        grad={"input": lambda g, indices: _picked(g, indices, dims)},
    )(body)


_UNPOOL = {dims: _unpool_row(dims) for dims in (2, 3)}


# -- max_pool --------------------------------------------------------------------------------------


def _max_pool(dims, input, given, return_indices):
    window = w.plain(f"max_pool{dims}d", dims, input, *given)
    if dims == 1:
        if not return_indices and not input.dtype.is_floating_point:
            raise errors.not_implemented("max_pool1d_impl", input.dtype)
        window, input = as_two(window), input.unsqueeze(-2)
    out, chosen = _MAX[max(2, dims)](input, window, "i64" if return_indices else "saved")
    if dims == 1:
        out, chosen = out.squeeze(-2), chosen.squeeze(-2) if return_indices else None
    return (out, chosen) if return_indices else out


@composite("quick_max_pool", functional_only=("return_indices",), **_SHARED)
def max_pool1d(
    input,
    kernel_size: Ints,
    stride: Ints = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: object = False,
):
    """The largest element of each window along the last dimension.

    Args:
        stride: distance between windows; by default they lie side by side.
        padding: elements below every number, added on both sides.
        dilation: distance between the elements of a window.
        ceil_mode: keep a last window that reaches beyond the end.
        return_indices: also give the places of the elements.
    """
    return _max_pool(1, input, (kernel_size, stride, padding, dilation, ceil_mode), return_indices)


@composite("quick_max_pool", functional_only=("return_indices",), **_SHARED)
def max_pool2d(
    input,
    kernel_size: Ints,
    stride: Ints = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: object = False,
):
    """The largest element of each window over the last two dimensions; see max_pool1d."""
    return _max_pool(2, input, (kernel_size, stride, padding, dilation, ceil_mode), return_indices)


@composite("quick_max_pool", functional_only=("return_indices",), **_SHARED)
def max_pool3d(
    input,
    kernel_size: Ints,
    stride: Ints = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: object = False,
):
    """The largest element of each window over the last three dimensions; see max_pool1d."""
    return _max_pool(3, input, (kernel_size, stride, padding, dilation, ceil_mode), return_indices)


def _with_indices(dims):
    def body(
        input,
        kernel_size: Ints,
        stride: Ints = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
        return_indices: object = False,  # for those who go through max_pool
    ):
        return _max_pool(dims, input, (kernel_size, stride, padding, dilation, ceil_mode), True)

    body.__name__ = f"max_pool{dims}d_with_indices"
    body.__doc__ = f"max_pool{dims}d and the places of what it found."
    if dims == 1:
        return composite(functional_only=("return_indices",), python=False, **_SHARED)(body)
    return composite(python=False, **_FUNCTIONAL)(body)


_WITH_INDICES = [_with_indices(dims) for dims in (1, 2, 3)]


# -- avg_pool --------------------------------------------------------------------------------------


def _avg_pool(dims, input, kernel_size, stride, padding, ceil_mode, include_pad, divisor=None):
    window = w.plain(
        f"avg_pool{dims}d", dims, input, kernel_size, stride, padding, 1, ceil_mode,
        include_pad=bool(include_pad), divisor=divisor,
    )  # fmt: skip
    if dims > 1:
        return _MEAN[dims](input, window)
    return _MEAN[2](input.unsqueeze(-2), as_two(window)).squeeze(-2)


@composite("quick_avg_pool", **_SHARED)
def avg_pool1d(
    input,
    kernel_size: Ints,
    stride: Ints = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
):
    """The mean of each window along the last dimension.

    Args:
        stride: distance between windows; by default they lie side by side.
        padding: zeros added on both sides.
        ceil_mode: keep a last window that reaches beyond the end.
        count_include_pad: do these zeros count as elements?
    """
    given = kernel_size, stride, padding, ceil_mode, count_include_pad
    return _avg_pool(1, input, *given)


@composite("quick_avg_pool", variants="out", namespace="nn.functional")
def avg_pool2d(
    input,
    kernel_size: Ints,
    stride: Ints = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
):
    """The mean of each window over the last two dimensions; see avg_pool1d.

    divisor_override: what to divide sums by, whatever the windows hold.
    """
    given = kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    return _avg_pool(2, input, *given)


@composite("quick_avg_pool", variants="out", namespace="nn.functional")
def avg_pool3d(
    input,
    kernel_size: Ints,
    stride: Ints = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
):
    """The mean of each window over the last three dimensions; see avg_pool2d."""
    given = kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    return _avg_pool(3, input, *given)


# -- lp_pool ---------------------------------------------------------------------------------------


def _lp_pool(dims, input, norm_type, kernel_size, stride, ceil_mode):
    sizes = kernel_size if isinstance(kernel_size, (tuple, list)) else (kernel_size,) * dims
    if dims > 1 and len(sizes) != dims:
        few = f"not enough values to unpack (expected {dims}, got {len(sizes)})"
        many = f"too many values to unpack (expected {dims})"
        raise ValueError(few if len(sizes) < dims else many)
    count = 1
    for k in sizes:
        count *= k
    if norm_type == math.inf:
        largest = (max_pool1d, max_pool2d, max_pool3d)[dims - 1]
        return largest(input.abs(), kernel_size, stride, 0, 1, ceil_mode)
    mean = (avg_pool1d, avg_pool2d, avg_pool3d)[dims - 1]
    out = mean(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    return (out.sign() * out.abs().relu()).mul(count).pow(1.0 / norm_type)


@composite(**_FUNCTIONAL)
def lp_pool1d(
    input, norm_type: object, kernel_size: object, stride: object = None, ceil_mode: bool = False
):
    """The p-norm of each window along the last dimension; p is norm_type."""
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


@composite(**_FUNCTIONAL)
def lp_pool2d(
    input, norm_type: object, kernel_size: object, stride: object = None, ceil_mode: bool = False
):
    """The p-norm of each window over the last two dimensions; p is norm_type."""
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


@composite(**_FUNCTIONAL)
def lp_pool3d(
    input, norm_type: object, kernel_size: object, stride: object = None, ceil_mode: bool = False
):
    """The p-norm of each window over the last three dimensions; p is norm_type."""
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)
