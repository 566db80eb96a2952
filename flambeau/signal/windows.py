"""`torch.signal.windows`: weights that fade towards both ends.

A window has M elements; `sym=False` gives the first M of a symmetric one with M + 1, whose period
is M. All but two are sums of cosines, exponentials or squares of the distance from the middle.
"""

import math
from collections.abc import Iterable
from typing import Any

import flambeau
from flambeau._dtype import dtype as DType
from flambeau._tensor import Tensor

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


def _options(name, M, dtype, layout, device):
    """Checked options of a window; what tensors are made with."""
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not flambeau.strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    dtype = flambeau.get_default_dtype() if dtype is None else dtype
    if dtype not in (flambeau.float32, flambeau.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    return {"dtype": dtype, "device": device}


def _last(M, sym):
    """The place of the last element of the symmetric window."""
    return M - 1 if sym or M < 2 else M


def _places(M, start, step, options):
    """start, start + step, ...: M numbers."""
    return flambeau.linspace(start, start + (M - 1) * step, M, **options)


def _given(window, requires_grad):
    return window.requires_grad_() if requires_grad else window


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True,
    dtype: DType | None = None, layout: Any = flambeau.strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """exp(-|k - center| / tau)."""
    options = _options("exponential", M, dtype, layout, device)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    if M == 0:
        return flambeau.empty((0,), requires_grad=requires_grad, **options)
    center = _last(M, sym) / 2 if center is None else center
    k = _places(M, -center / tau, 1 / tau, options)
    return _given((-k.abs()).exp(), requires_grad)


def cosine(
    M: int, *, sym: bool = True, dtype: DType | None = None, layout: Any = flambeau.strided,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Half a wave: sin(pi (k + 1/2) / M)."""
    options = _options("cosine", M, dtype, layout, device)
    if M == 0:
        return flambeau.empty((0,), requires_grad=requires_grad, **options)
    step = math.pi / (M if sym else M + 1) if M > 1 or sym else math.pi
    return _given(_places(M, step / 2, step, options).sin(), requires_grad)


def gaussian(
    M: int, *, std: float = 1.0, sym: bool = True, dtype: DType | None = None,
    layout: Any = flambeau.strided, device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """exp(-d^2 / (2 std^2)) of the distance d from the middle."""
    options = _options("gaussian", M, dtype, layout, device)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    if M == 0:
        return flambeau.empty((0,), requires_grad=requires_grad, **options)
    scale = 1 / (std * math.sqrt(2))
    k = _places(M, -_last(M, sym) / 2 * scale, scale, options)
    return _given((-(k**2)).exp(), requires_grad)


def kaiser(
    M: int, *, beta: float = 12.0, sym: bool = True, dtype: DType | None = None,
    layout: Any = flambeau.strided, device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Bessel's I0 of beta times a half circle, over I0(beta)."""
    options = _options("kaiser", M, dtype, layout, device)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    if M < 2:
        return flambeau.ones((M,), requires_grad=requires_grad, **options)
    top = flambeau.tensor(float(beta), **options)
    k = _places(M, -float(beta), 2 * beta / _last(M, sym), options)
    inside = (top * top - k * k).clamp(min=0)  # rounding may go below zero at the ends
    return _given(flambeau.special.i0(inside.sqrt()) / flambeau.special.i0(top), requires_grad)


def bartlett(
    M: int, *, sym: bool = True, dtype: DType | None = None, layout: Any = flambeau.strided,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A triangle, zero at both ends."""
    options = _options("bartlett", M, dtype, layout, device)
    if M < 2:
        return flambeau.ones((M,), requires_grad=requires_grad, **options)
    k = _places(M, -1.0, 2 / _last(M, sym), options)
    return _given(1 - k.abs(), requires_grad)


def general_cosine(
    M: int, *, a: Iterable, sym: bool = True, dtype: DType | None = None,
    layout: Any = flambeau.strided, device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The sum of (-1)^i a[i] cos(2 pi i k / (M - 1))."""
    options = _options("general_cosine", M, dtype, layout, device)
    if M == 0:
        return flambeau.empty((0,), requires_grad=requires_grad, **options)
    if M == 1:
        return flambeau.ones((1,), requires_grad=requires_grad, **options)
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    a = list(a)
    if not a:
        raise ValueError("Coefficients cannot be empty")
    k = _places(M, 0.0, 2 * math.pi / _last(M, sym), options)
    weights = flambeau.tensor([(-1) ** i * w for i, w in enumerate(a)], **options)
    orders = flambeau.arange(len(a), **options)
    waves = (orders.unsqueeze(-1) * k).cos()
    return _given((weights.unsqueeze(-1) * waves).sum(0), requires_grad)


def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, dtype: DType | None = None,
    layout: Any = flambeau.strided, device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """alpha - (1 - alpha) cos(2 pi k / (M - 1))."""
    return general_cosine(
        M, a=[alpha, 1.0 - alpha], sym=sym, dtype=dtype, layout=layout, device=device,
        requires_grad=requires_grad,
    )  # fmt: skip


def hamming(
    M: int, *, sym: bool = True, dtype: DType | None = None, layout: Any = flambeau.strided,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A raised cosine on a pedestal."""
    return general_hamming(
        M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def hann(
    M: int, *, sym: bool = True, dtype: DType | None = None, layout: Any = flambeau.strided,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A raised cosine, zero at both ends."""
    return general_hamming(
        M, alpha=0.5, sym=sym, dtype=dtype, layout=layout, device=device,
        requires_grad=requires_grad,
    )  # fmt: skip


def blackman(
    M: int, *, sym: bool = True, dtype: DType | None = None, layout: Any = flambeau.strided,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A sum of three cosines."""
    _options("blackman", M, dtype, layout, device)
    return general_cosine(
        M, a=[0.42, 0.5, 0.08], sym=sym, dtype=dtype, layout=layout, device=device,
        requires_grad=requires_grad,
    )  # fmt: skip


def nuttall(
    M: int, *, sym: bool = True, dtype: DType | None = None, layout: Any = flambeau.strided,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A sum of four cosines, with low sidelobes."""
    return general_cosine(
        M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, dtype=dtype, layout=layout,
        device=device, requires_grad=requires_grad,
    )  # fmt: skip
