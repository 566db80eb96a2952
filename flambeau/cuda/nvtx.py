"""`torch.cuda.nvtx`: marks for NVIDIA's profilers, if the package `nvtx` is installed."""

import contextlib
from collections.abc import Iterator
from typing import Any

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def _package() -> Any:
    try:
        import nvtx
    except ModuleNotFoundError:
        return None
    return nvtx


_depth = [0]


def range_push(msg: str) -> int:
    """Begin a range inside the one before; returns how deep it is."""
    package = _package()
    if package is not None:
        package.push_range(msg)
    _depth[0] += 1
    return _depth[0] - 1


def range_pop() -> int:
    """End the innermost range."""
    package = _package()
    if package is not None:
        package.pop_range()
    _depth[0] -= 1
    return _depth[0]


def range_start(msg: str) -> Any:
    """Begin a range that may overlap others."""
    package = _package()
    return 0 if package is None else package.start_range(msg)


def range_end(range_id: Any) -> None:
    """End it."""
    package = _package()
    if package is not None:
        package.end_range(range_id)


def mark(msg: str) -> None:
    """A point in time."""
    package = _package()
    if package is not None:
        package.mark(msg)


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """What happens inside, under a name."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
