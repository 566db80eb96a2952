"""Windows of pooling: arguments in PyTorch's words, output sizes, and where windows lie.

`plain` and `adaptive` turn what a caller wrote into a `Window`, a value that kernels' plans are
keyed by; all complaints are made here, before anything is computed. Rows: `pooling.py`.
"""

import operator
from typing import NamedTuple

from flambeau import _dtype
from flambeau._natively import natively
from flambeau.errors import LARGEST, dimension_out_of_range
from flambeau.ops.table import remembered

COUNT = {1: "one", 2: "two", 3: "three"}
LETTERS = {2: "HW", 3: "THW"}


class Window(NamedTuple):
    """What is pooled: per dimension, from the outermost. kernel is None for adaptive windows."""

    outs: tuple
    kernel: tuple | None
    stride: tuple | None
    padding: tuple | None
    dilation: tuple | None
    include_pad: bool = True
    divisor: int | None = None

    @property
    def dims(self):
        return len(self.outs)


def integers(name, argument, position, value):
    """An int or a sequence of ints as a tuple."""
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    found = []
    for k, v in enumerate(given):
        try:
            found.append(operator.index(v))
        except TypeError:
            kind = type(v).__name__
            what = f"not {kind}"
            if isinstance(value, (tuple, list)):
                what = f"but found element of type {kind} at pos {k}"
            raise TypeError(
                f"{name}(): argument '{argument}' (position {position}) must be tuple of ints, "
                f"{what}"
            ) from None
    return tuple(found)


def _spread(name, argument, position, value, dims, may_be_empty=False):
    if type(value) is int:
        return (value,) * dims
    found = integers(name, argument, position, value)
    if may_be_empty and not found:
        return None
    if len(found) not in (1, dims):
        if dims == 1:
            if name.startswith("max"):
                raise RuntimeError(
                    f"{name}() {argument} must be an int, list of ints or tuple of ints of size 1 "
                    f"but got size {len(found)}"
                )
            raise RuntimeError(
                f"{name}() argument '{argument}' should contain one int (got {len(found)})"
            )
        omitted = "omitted, " if argument == "stride" else ""
        either = (
            "" if name == "avg_pool3d" else "either be " if argument != "dilation" else "be either "
        )
        verb = f"must {either or 'be '}{omitted}a single int, or a tuple of {COUNT[dims]} ints"
        raise RuntimeError(f"{name}: {argument} {verb}")
    return found * dims if len(found) == 1 else found


@natively
def pooled_size(size, k, s, p, d, ceil_mode):
    """How many windows fit along a dimension."""
    out = (size + 2 * p - d * (k - 1) - 1 + (s - 1 if ceil_mode else 0)) // s + 1
    # the last window must start inside the input or its left padding
    return out - 1 if ceil_mode and (out - 1) * s >= size + p else out


def plain(name, dims, input, *given, **more):
    """The windows of max_pool and avg_pool; input: a tensor or its layout."""
    shape, ceil_mode = tuple(input.shape), given[-1]
    known = _settled(name, dims, len(shape), *given, more.get("divisor"))
    if known is not None and 0 not in shape:
        outs = _pooled(shape[-dims:], *known, bool(ceil_mode))
        if min(outs) > 0 and not (name == "avg_pool3d" and _is_smaller(shape[-3:], known[0])):
            return Window(outs, *known, **more)
    return _checked(name, dims, shape, *given, **more)


@remembered
def _settled(name, dims, ndim, *given):
    """Kernel, stride, padding and dilation, if they are right for large inputs; else None."""
    *given, divisor = given
    try:
        found = _checked(name, dims, (1 << 20,) * ndim, *given, divisor=divisor)
    except (TypeError, ValueError, RuntimeError, IndexError):
        return None
    return found[1:5]


@natively
def _pooled(sizes: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, ceil_mode):
    """How many windows fit along each dimension."""
    outs = []
    for k in range(len(sizes)):
        outs.append(pooled_size(sizes[k], kernel[k], stride[k], padding[k], dilation[k], ceil_mode))
    return tuple(outs)


def _checked(name, dims, shape, kernel_size, stride, padding, dilation, ceil_mode, **more):
    if dims == 1:
        _check_line(name, shape)
    elif name.startswith("max") and len(shape) not in (dims + 1, dims + 2):
        raise RuntimeError(
            f"non-empty {dims + 1}D or {dims + 2}D (batch mode) tensor expected for input"
        )
    kernel = _spread(name, "kernel_size", 2, kernel_size, dims)
    stride = kernel if stride is None else _spread(name, "stride", 3, stride, dims, True) or kernel
    padding = _spread(name, "padding", 4, padding, dims)
    dilation = _spread(name, "dilation", 5, dilation, dims)
    divisor = more.get("divisor")
    if divisor is not None and abs(divisor) > LARGEST:
        raise ValueError("Overflow when unpacking long long")
    if name != "max_pool1d":  # others count in 32 bits
        for n in (*kernel, *stride, *padding, *dilation):
            _dtype.check_fits(n, _dtype.int32)
    if dims == 1 and name == "max_pool1d":
        _check_max_line(kernel[0], stride[0], padding[0], dilation[0])
    if name == "avg_pool3d" and len(shape) not in (4, 5):
        raise RuntimeError("non-empty 4D or 5D (batch mode) tensor expected for input")
    if divisor == 0:
        raise RuntimeError("divisor must be not zero")
    if len(shape) < dims + 1:
        raise dimension_out_of_range(-dims - 1, len(shape))
    sizes = shape[-dims:]
    for k, s, p, d in zip(kernel, stride, padding, dilation):
        _check_fit(k, s, p, d)
    outs = _pooled(sizes, kernel, stride, padding, dilation, bool(ceil_mode))
    if dims == 1 and name == "max_pool1d":
        if outs[0] <= 0:
            raise RuntimeError(f"max_pool1d() Invalid computed output size: {outs[0]}")
    else:
        # one dimension is pooled as two, and PyTorch's complaints speak of two
        one = dims == 1
        _check_shape(
            name,
            (*shape[:-1], 1, shape[-1]) if one else shape,
            *[(1, *t) if one else t for t in (kernel, stride, dilation, outs)],
            (0, *padding) if one else padding,
        )
    return Window(outs, kernel, stride, padding, dilation, **more)


def _check_line(name, shape):
    if name == "max_pool1d":
        if len(shape) not in (2, 3) or 0 in shape[-2:]:
            raise RuntimeError(
                "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size "
                f"for input, but got:{list(shape)}"
            )
    else:
        check_lines(name, shape)


def check_lines(name, shape):
    """Two or three dimensions."""
    if len(shape) not in (2, 3):
        raise RuntimeError(
            f"Expected 2 to 3 dimensions, but got {len(shape)}-dimensional tensor for argument #1 "
            f"'self' (while checking arguments for {name})"
        )


def _check_max_line(k, s, p, d):
    for what, value in (("kernel_size", k), ("stride", s)):
        if value <= 0:
            raise RuntimeError(f"max_pool1d() {what} must be greater than zero, but got {value}")
    if p < 0:
        raise RuntimeError(f"max_pool1d() padding must be non-negative, but got {p}")
    if p > k // 2:
        raise RuntimeError(
            "max_pool1d() padding should be at most half of kernel size, but got "
            f"padding={p} and kernel_size={k}"
        )
    if d <= 0:
        raise RuntimeError(f"max_pool1d() dilation must be greater than zero, but got {d}")


def _check_fit(k, s, p, d):
    if s == 0:
        raise RuntimeError("stride should not be zero")
    if p < 0:
        raise RuntimeError(f"pad must be non-negative, but got pad: {p}")
    # what is wrong with a kernel or a dilation of nothing is said later
    if p > ((k - 1) * d + 1) // 2 and d > 0 and k > 0:
        raise RuntimeError(
            f"pad should be at most half of effective kernel size, but got pad={p}, "
            f"kernel_size={k} and dilation={d}"
        )


def _is_smaller(sizes, kernel):
    """Does padding alone make room for a window?"""
    return any(n < k for n, k in zip(sizes, kernel))


def _check_padding(kernel, padding):
    """Half of the kernel is the limit here, dilation or not."""
    if all(p <= k // 2 for k, p in zip(kernel, padding)):
        return
    if len(kernel) == 2:
        pairs = [f"pad{c} = {p}" for c, p in zip("WH", padding[::-1])]
        pairs += [f"k{c} = {k}" for c, k in zip("WH", kernel[::-1])]
        text = ", ".join(pairs)
    else:
        turned = [0, 2, 1]
        values = [[t[k] for k in turned] for t in (kernel, padding)]
        text = f"{_named('k', 'TWH', values[0])} {_named('pad', 'TWH', values[1])}"
    raise RuntimeError(
        f"pad should be smaller than or equal to half of kernel size, but got {text}"
    )


def _named(prefix, letters, values):
    return " ".join(f"{prefix}{c}: {v}" for c, v in zip(letters, values))


def _check_shape(name, shape, kernel, stride, dilation, outs, padding):
    dims = len(kernel)
    letters = LETTERS[dims]
    for what, prefix, values in (
        ("kernel size", "k", kernel),
        ("stride", "d", stride),
        ("dilation", "dilation", dilation),
    ):
        if min(values) <= 0:
            raise RuntimeError(
                f"{what} should be greater than zero, but got {_named(prefix, letters, values)}"
            )
    rest = shape[-dims - 1 :]
    if dims == 2:
        if len(shape) not in (3, 4) or 0 in rest:
            raise RuntimeError(
                "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, "
                f"but got:{list(shape)}"
            )
    else:
        caller = "avg_pool3d()"
        if name == "max_pool3d":
            caller = "max_pool3d_with_indices_out_cpu_template()"
        if 0 in rest:
            raise RuntimeError(
                f"{caller}: Expected input's non-batch dimensions to have positive length, but "
                f"input has a shape of {list(shape)} and non-batch dimension 0 has length zero!"
            )
        if name == "avg_pool3d" and _is_smaller(shape[-3:], kernel):
            raise RuntimeError(
                f"input image ({_named('', letters, shape[-3:])}) smaller than kernel size "
                f"({_named('k', letters, kernel)})"
            )
    _check_padding(kernel, padding)
    if min(outs) < 1:
        given, got = ("x".join(map(str, (rest[0], *t))) for t in (rest[1:], outs))
        raise RuntimeError(
            f"Given input size: ({given}). Calculated output size: ({got}). Output size is too "
            "small"
        )


def as_two(window):
    """Windows along one dimension as windows of two."""
    outs, kernel, stride, padding, dilation, *rest = window
    ones, none = (1,), (0,)
    return Window(ones + outs, ones + kernel, ones + stride, none + padding, ones + dilation, *rest)


# -- adaptive --------------------------------------------------------------------------------------


def adaptive(outs):
    return Window(tuple(outs), None, None, None, None)


def adaptive_sizes(output_size, shape, dims):
    """output_size with the sizes of the input where it says None."""
    if output_size is None:
        raise TypeError("object of type 'NoneType' has no len()")
    if not isinstance(output_size, (tuple, list)):
        if output_size is True or output_size is False:
            raise TypeError("argument 'output_size' (position 2) must be tuple of ints, not bool")
        return (operator.index(output_size),) * dims
    if len(shape) <= len(output_size):
        raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
    sizes = shape[len(shape) - len(output_size) :]
    return tuple([n if o is None else o for o, n in zip(output_size, sizes)])


def check_not_empty(text, shape, first, end="with dimension {} being empty"):
    """Dimensions from the first on must have elements."""
    for k in range(first, len(shape)):
        if shape[k] == 0:
            raise RuntimeError(f"{text}{list(shape)} {end.format(k)}")


def uniform(window, sizes):
    """The same windows with a kernel and a stride, where adaptive ones are all alike."""
    if window.kernel is not None:
        return window
    for n, o in zip(sizes, window.outs):
        if o == 0 or n % o:
            return window
    kernel = tuple(n // o for n, o in zip(sizes, window.outs))
    nothing = (0,) * window.dims
    return Window(window.outs, kernel, kernel, nothing, (1,) * window.dims)
