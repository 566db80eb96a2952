"""Single random numbers from the seeded generator, for transforms that draw one at a time.

Each function gives what the tensor expression in its docstring gives, and leaves the generator
where that would leave it, without making a tensor. Unusual settings (another default dtype or
device, bounds that are refused) take the way through tensors.
"""

import math
from array import array

import flambeau
from flambeau import _device
from flambeau._dtype import default_dtype, float32, int64
from flambeau.eager.sampling import kernel
from flambeau.random import default_generator

_NARROW = 2**28  # beyond it a number takes two words of the generator
_LIMIT = float(2**100)  # far within what float32 holds


def _is_plain() -> bool:
    return default_dtype() is float32 and _device.default_device() is _device.cpu


def rounded(value: float) -> float:
    """The nearest float32."""
    return array("f", (value,))[0]


def uniform(low: float, high: float) -> float:
    """torch.empty(1).uniform_(low, high).item()"""
    low, high = float(low), float(high)
    if not (-_LIMIT < low <= high < _LIMIT and _is_plain()):
        return flambeau.empty(1).uniform_(low, high).item()
    cell = array("f", (0.0,))
    kernel("uniform", float32.code)(default_generator.pointer, cell.buffer_info()[0], 1, low, high)
    return cell[0]


def chance() -> float:
    """torch.rand(1).item()"""
    return uniform(0.0, 1.0)


def happens(p: float) -> bool:
    """torch.rand(1) < p"""
    if not isinstance(p, (int, float)) or not _is_plain():
        return bool(flambeau.rand(1) < p)
    return uniform(0.0, 1.0) < rounded(p)


def exceeds(p: float) -> bool:
    """p < torch.rand(1)"""
    if not isinstance(p, (int, float)) or not _is_plain():
        return bool(p < flambeau.rand(1))
    return rounded(p) < uniform(0.0, 1.0)


def exponential_between(low: float, high: float) -> float:
    """torch.exp(torch.empty(1).uniform_(low, high)).item()"""
    if not _is_plain():
        return flambeau.empty(1).uniform_(low, high).exp().item()
    return rounded(math.exp(uniform(low, high)))


def logarithms(ratio) -> list[float]:
    """torch.log(torch.tensor(ratio)).tolist()"""
    return flambeau.log(flambeau.tensor(ratio)).tolist()


def integer(low: int, high: int) -> int:
    """torch.randint(low, high, size=(1,)).item()"""
    kinds = type(low), type(high)
    if kinds != (int, int) or not 0 < high - low < _NARROW or not _is_plain() or abs(low) >> 62:
        return flambeau.randint(low, high, size=(1,)).item()
    cell = array("q", (0,))
    run = kernel("random", int64.code, False)
    run(default_generator.pointer, cell.buffer_info()[0], 1, high - low, low)
    return cell[0]
