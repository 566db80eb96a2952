"""`torch.fft`: Fourier transforms by PyTorch's names.

A thin namespace over the op table: `rfft` is the row `fft_rfft`. Names are looked up when first
touched. The frequencies that belong to the results are made here.
"""

import math
from typing import Any

from flambeau import _dtype
from flambeau._tensor import Tensor
from flambeau.eager import ranges as _ranges
from flambeau.eager.arguments import argument as _argument
from flambeau.eager.methods import function as _function
from flambeau.eager.options import dtype_of as _dtype_of
from flambeau.eager.options import into as _into
from flambeau.eager.ranges import warn_of_resizing as _warn_of_resizing
from flambeau.ops.table import TABLE as _TABLE


def fftfreq(n: int, d: float = 1.0, *, out: Tensor | None = None, **options: Any) -> Tensor:
    """The frequencies of fft's results: positive ones first, then negative ones."""
    n, d = _asked("fftfreq", n, d)
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    found = _ranges.arange(n, **_typed("fftfreq", out, options))
    high = (n + 1) // 2
    found[high:] -= n
    return _scaled(found, n * d, out, options)


def rfftfreq(n: int, d: float = 1.0, *, out: Tensor | None = None, **options: Any) -> Tensor:
    """The frequencies of rfft's results."""
    n, d = _asked("rfftfreq", n, d)
    found = _ranges.arange(max(int(n / 2) + 1, 0), **_typed("rfftfreq", out, options))
    return _scaled(found, n * d, out, options)


def _asked(name, n, d):
    name = "fft_" + name
    return _argument(name, "n", 1, "int", n), _argument(name, "d", 2, "float", d)


def _typed(name, out, options):
    """Options of the numbers to begin with: those of out=, where they are not given."""
    given = {k: v for k, v in options.items() if k != "requires_grad"}
    if given.get("dtype") is None:
        given["dtype"] = _dtype.default_dtype() if out is None else out.dtype
    dtype = _dtype_of(given["dtype"], "fft_" + name)
    if dtype.category < _dtype.FLOATING:
        raise RuntimeError(f"{name} requires a floating point or complex dtype")
    return given


def _scaled(numbers, span, out, options):
    numbers *= 1 / span if span else math.copysign(math.inf, span)
    if out is not None:
        if out.shape != numbers.shape:
            _warn_of_resizing(out, len(numbers))
        return _into(out, numbers.shape, numbers.dtype).copy_(numbers)
    return numbers.requires_grad_() if options.get("requires_grad") else numbers


def __getattr__(name):
    if name == "__all__":  # what `import *` takes
        return __dir__()
    if "fft_" + name not in _TABLE:
        raise AttributeError(f"module 'flambeau.fft' has no attribute '{name}'")
    value = globals()[name] = _function("fft_" + name)
    return value


def __dir__():
    rows = [n.removeprefix("fft_") for n in _TABLE if n.startswith("fft_")]
    return sorted([*rows, "fftfreq", "rfftfreq"])
