"""Window functions: Hann, Hamming, Blackman, Bartlett and Kaiser. Each is a grid (ranges.py)."""

import math

from flambeau import _dtype, errors
from flambeau._layout import Size
from flambeau.eager import creation
from flambeau.eager.arguments import argument
from flambeau.eager.options import dtype_of, finish, new_layout
from flambeau.eager.ranges import grid


def _window(name, length, periodic, dtype, device, requires_grad, kind, numbers):
    """numbers(the last place): what the grid is told."""
    dtype = dtype_of(dtype, name)
    if dtype.category < _dtype.FLOATING:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {dtype}")
    length = argument(name, "window_length", 1, "int", length)
    argument(name, "periodic", 2, "bool", periodic)
    if length < 0:
        raise RuntimeError(
            f"{name} requires non-negative window_length, got window_length={length}"
        )
    if length < 2:
        return creation.ones(length, dtype=dtype, device=device, requires_grad=requires_grad)
    if dtype.is_complex:
        raise errors.not_implemented("arange_cpu", dtype)
    wide = "f64" if dtype is _dtype.float64 else "f32"
    layout = new_layout(Size((length,)), dtype, device, name)
    numbers = numbers(length if periodic else length - 1)
    return finish(grid(f"{kind}_window_{wide}", numbers, layout), requires_grad)


def _cosine_window(name, length, periodic, weights, *options):
    return _window(
        name, length, periodic, *options, "cosine", lambda last: (2 * math.pi / last, *weights)
    )


def hann_window(
    window_length, periodic=True, *, dtype=None, layout=None, device=None, requires_grad=False
):
    """Raised cosine, zero at the ends."""
    options = dtype, device, requires_grad
    return _cosine_window("hann_window", window_length, periodic, (0.5, -0.5, 0.0), *options)


def hamming_window(
    window_length, periodic=True, alpha=0.54, beta=0.46, *, dtype=None, layout=None, device=None,
    requires_grad=False,
):  # fmt: skip
    """Raised cosine on a pedestal."""
    weights, options = (float(alpha), -float(beta), 0.0), (dtype, device, requires_grad)
    return _cosine_window("hamming_window", window_length, periodic, weights, *options)


def blackman_window(
    window_length, periodic=True, *, dtype=None, layout=None, device=None, requires_grad=False
):
    """Three-term cosine sum."""
    options = dtype, device, requires_grad
    return _cosine_window("blackman_window", window_length, periodic, (0.42, -0.5, 0.08), *options)


def bartlett_window(
    window_length, periodic=True, *, dtype=None, layout=None, device=None, requires_grad=False
):
    """Triangle."""
    options = dtype, device, requires_grad, "bartlett", lambda last: (2 / last,)
    return _window("bartlett_window", window_length, periodic, *options)


def kaiser_window(
    window_length, periodic=True, beta=12.0, *, dtype=None, layout=None, device=None,
    requires_grad=False,
):  # fmt: skip
    """Bessel window with shape parameter beta."""
    options = dtype, device, requires_grad, "kaiser", lambda last: (2 / last, float(beta))
    return _window("kaiser_window", window_length, periodic, *options)


PUBLIC = "hann_window hamming_window blackman_window bartlett_window kaiser_window".split()
