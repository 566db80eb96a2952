"""`torch._dynamo.utils`: counters, and small questions."""

import collections
import functools
import warnings
from typing import Any

__all__ = ["counters", "same", "is_compile_supported", "warn_once"]

counters: Any = collections.defaultdict(collections.Counter)


def is_compile_supported(device_type: Any) -> bool:
    """Can tensors of a device be compiled?"""
    return str(device_type).partition(":")[0] in ("cpu", "cuda")


def same(a: Any, b: Any, tol: float = 1e-4, equal_nan: bool = False) -> bool:
    """Are two structures of tensors nearly equal?"""
    import flambeau

    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y, tol, equal_nan) for x, y in zip(a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k], tol, equal_nan) for k in a)
    if isinstance(a, flambeau.Tensor):
        return flambeau.allclose(a, b, atol=tol, rtol=tol, equal_nan=equal_nan)
    return a == b


@functools.cache
def warn_once(msg: str, stacklevel: int = 1) -> None:
    """A warning that a process gives a single time."""
    warnings.warn(msg, stacklevel=stacklevel + 1)
