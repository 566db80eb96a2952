"""`torch.fft`: Fourier transforms by PyTorch's names.

A thin namespace over the op table: `rfft` is the row `fft_rfft`. Names are looked up when first
touched. The frequencies that belong to the results are made here.
"""

import math
from typing import Any

from flambeau._tensor import Tensor
from flambeau.eager import ranges as _ranges
from flambeau.eager.methods import function as _function
from flambeau.ops.table import TABLE as _TABLE


def fftfreq(n: int, d: float = 1.0, *, out: Tensor | None = None, **options: Any) -> Tensor:
    """The frequencies of fft's results: positive ones first, then negative ones."""
    found = _ranges.arange(n, **_typed(options))
    high = (n + 1) // 2
    found[high:] -= n
    return _scaled(found, n * d, out, options)


def rfftfreq(n: int, d: float = 1.0, *, out: Tensor | None = None, **options: Any) -> Tensor:
    """The frequencies of rfft's results."""
    found = _ranges.arange(max(int(n / 2) + 1, 0), **_typed(options))
    return _scaled(found, n * d, out, options)


def _typed(options):
    from flambeau._dtype import default_dtype

    given = {k: v for k, v in options.items() if k != "requires_grad"}
    given["dtype"] = options.get("dtype") or default_dtype()
    return given


def _scaled(numbers, span, out, options):
    numbers *= 1 / span if span else math.copysign(math.inf, span)
    if out is not None:
        if out.shape != numbers.shape:
            out._resize_output(numbers.shape)
        return out.copy_(numbers)
    return numbers.requires_grad_() if options.get("requires_grad") else numbers


def __getattr__(name):
    if "fft_" + name not in _TABLE:
        raise AttributeError(f"module 'flambeau.fft' has no attribute '{name}'")
    value = globals()[name] = _function("fft_" + name)
    return value


def __dir__():
    rows = [n.removeprefix("fft_") for n in _TABLE if n.startswith("fft_")]
    return sorted([*rows, "fftfreq", "rfftfreq"])
