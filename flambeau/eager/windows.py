"""Window functions: Hann, Hamming, Blackman, Bartlett and Kaiser."""

import math

from flambeau import _dtype
from flambeau.eager import creation
from flambeau.eager.methods import function


def _window(name, window_length, periodic, dtype, device, requires_grad, shape):
    dtype = dtype or _dtype.default_dtype()
    if not dtype.is_floating_point:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {dtype}")
    if window_length < 0:
        raise RuntimeError(
            f"{name} requires non-negative window_length, got window_length={window_length}"
        )
    if window_length < 2:
        return creation.ones(window_length, dtype=dtype, device=device, requires_grad=requires_grad)
    length = window_length + 1 if periodic else window_length
    compute = dtype if dtype.itemsize >= 4 else _dtype.float32
    t = shape(creation.arange(length, dtype=compute, device=device), length)
    t = t[:window_length].to(dtype)
    return t.contiguous().requires_grad_(requires_grad)


def _cosines(*weights):
    def shape(t, length):
        x = t * (2 * math.pi / (length - 1))
        total = (x * 0) + weights[0]
        for k, w in enumerate(weights[1:], 1):
            total = total + (x * k).cos() * w
        return total

    return shape


def hann_window(
    window_length, periodic=True, *, dtype=None, layout=None, device=None, requires_grad=False
):
    """Raised cosine, zero at the ends."""
    return _window(
        "hann_window", window_length, periodic, dtype, device, requires_grad, _cosines(0.5, -0.5)
    )


def hamming_window(
    window_length,
    periodic=True,
    alpha=0.54,
    beta=0.46,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
):
    """Raised cosine on a pedestal."""
    return _window(
        "hamming_window",
        window_length,
        periodic,
        dtype,
        device,
        requires_grad,
        _cosines(alpha, -beta),
    )


def blackman_window(
    window_length, periodic=True, *, dtype=None, layout=None, device=None, requires_grad=False
):
    """Three-term cosine sum."""
    shape = _cosines(0.42, -0.5, 0.08)
    return _window("blackman_window", window_length, periodic, dtype, device, requires_grad, shape)


def bartlett_window(
    window_length, periodic=True, *, dtype=None, layout=None, device=None, requires_grad=False
):
    """Triangle."""

    def shape(t, length):
        x = t * (2 / (length - 1))
        return function("where")(x <= 1, x, 2 - x)

    return _window("bartlett_window", window_length, periodic, dtype, device, requires_grad, shape)


def kaiser_window(
    window_length,
    periodic=True,
    beta=12.0,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
):
    """Bessel window with shape parameter beta."""

    def shape(t, length):
        x = t * (2 / (length - 1)) - 1
        inside = function("maximum")(1 - x * x, x * 0)
        i0 = function("i0")
        return i0(inside.sqrt() * beta) / i0(creation.tensor(float(beta), dtype=t.dtype))

    return _window("kaiser_window", window_length, periodic, dtype, device, requires_grad, shape)


PUBLIC = "hann_window hamming_window blackman_window bartlett_window kaiser_window".split()
