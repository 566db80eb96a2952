"""`torch.signal.windows`: windows of M samples, symmetric or (sym=False) periodic.

Each is a formula of places that are spread evenly; what the places are is all that differs between
the two kinds.
"""

import math
from collections.abc import Iterable
from typing import Any

import flambeau
from flambeau import Tensor

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


def _checked(name: str, M: int, dtype: Any, layout: Any) -> Any:
    """The dtype of a window; complaints about what it cannot be."""
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not None and layout is not flambeau.strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    dtype = flambeau.get_default_dtype() if dtype is None else dtype
    if dtype not in (flambeau.float32, flambeau.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    return dtype


def _finished(window: Tensor, requires_grad: bool) -> Tensor:
    return window.requires_grad_(True) if requires_grad else window


def _made(name, M, dtype, layout, device, requires_grad, places, formula):
    """formula(places from `places(last)`): last is the distance from the first to the last."""
    dtype = _checked(name, M, dtype, layout)
    if M < 2:
        window = flambeau.ones(M, dtype=dtype, device=device)
    else:
        first, step = places
        grid = flambeau.linspace(first, first + (M - 1) * step, M, dtype=dtype, device=device)
        window = formula(grid)
    return _finished(window, requires_grad)


def _steps(M: int, sym: bool) -> int:
    """How many steps a whole period has."""
    return max(M - 1 if sym else M, 1)


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(-|k - center| / tau)."""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    middle = _steps(M, sym) / 2.0 if center is None else center
    if M == 1 and center is not None:
        dtype = _checked("exponential", M, dtype, layout)
        one = flambeau.full((1,), math.exp(-abs(center) / tau), dtype=dtype, device=device)
        return _finished(one, requires_grad)
    return _made(
        "exponential", M, dtype, layout, device, requires_grad, (-middle / tau, 1 / tau),
        lambda k: k.abs().neg().exp(),
    )  # fmt: skip


def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Half a wave of the sine."""
    step = math.pi / (_steps(M, sym) + 1)
    return _made(
        "cosine", M, dtype, layout, device, requires_grad, (0.5 * step, step), lambda k: k.sin()
    )


def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(-(k / std)^2 / 2) around the middle."""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    step = 1 / (std * math.sqrt(2))
    places = (-_steps(M, sym) / 2.0 * step, step)
    return _made(
        "gaussian", M, dtype, layout, device, requires_grad, places, lambda k: (-(k**2)).exp()
    )


def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """I0(beta sqrt(1 - x^2)) / I0(beta) for x from -1 to 1."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")

    def formula(k):
        inside = (beta * beta - k**2).clamp(min=0)
        whole = flambeau.tensor(beta, dtype=k.dtype, device=k.device)
        return flambeau.i0(inside.sqrt()) / flambeau.i0(whole)

    places = (-beta, 2.0 * beta / _steps(M, sym))
    return _made("kaiser", M, dtype, layout, device, requires_grad, places, formula)


def general_cosine(
    M: int,
    *,
    a: Iterable,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Sums of cosines of multiples of the place, with alternating signs, weighted by a."""
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    weights = list(a)
    if not weights:
        raise ValueError("Coefficients cannot be empty")

    def formula(k):
        signed = [w if i % 2 == 0 else -w for i, w in enumerate(weights)]
        factors = flambeau.tensor(signed, dtype=k.dtype, device=k.device)
        multiples = flambeau.arange(len(weights), dtype=k.dtype, device=k.device)
        return (factors.unsqueeze(-1) * (multiples.unsqueeze(-1) * k).cos()).sum(0)

    places = (0.0, 2 * math.pi / _steps(M, sym))
    return _made("general_cosine", M, dtype, layout, device, requires_grad, places, formula)


def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """alpha - (1 - alpha) cos."""
    return general_cosine(
        M, a=[alpha, 1.0 - alpha], sym=sym, dtype=dtype, layout=layout, device=device,
        requires_grad=requires_grad,
    )  # fmt: skip


def _fixed(name, weights, doc):
    """A window of cosines with fixed weights."""

    def window(
        M: int,
        *,
        sym: bool = True,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
    ) -> Tensor:
        return general_cosine(
            M, a=weights, sym=sym, dtype=dtype, layout=layout, device=device,
            requires_grad=requires_grad,
        )  # fmt: skip

    window.__name__ = window.__qualname__ = name
    window.__doc__ = doc
    return window


hann = _fixed("hann", [0.5, 0.5], "Raised cosine, zero at the ends.")
hamming = _fixed("hamming", [0.54, 1.0 - 0.54], "Raised cosine on a pedestal.")
blackman = _fixed("blackman", [0.42, 0.5, 0.08], "Three cosines.")
nuttall = _fixed(
    "nuttall", [0.3635819, 0.4891775, 0.1365995, 0.0106411], "Four cosines, after Nuttall."
)


def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A triangle, zero at the ends."""
    places = (-1.0, 2.0 / _steps(M, sym))
    return _made("bartlett", M, dtype, layout, device, requires_grad, places, lambda k: 1 - k.abs())
