"""`torch.profiler.itt`: annotations for Intel's tools, which programs ask for before they use them.

There is nothing to annotate for here, so nothing is available and ranges refuse to be opened.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]


def is_available() -> bool:
    """Can ranges be shown to Intel's tools? They cannot."""
    return False


def _refuse() -> Any:
    raise RuntimeError(
        "ITT functions not installed. Are you sure you have a ITT build? flambeau has none: use "
        "flambeau.profiler.record_function instead."
    )


def range_push(msg: str) -> int:
    """Begin a range; refuses."""
    return int(_refuse())


def range_pop() -> int:
    """End a range; refuses."""
    return int(_refuse())


def mark(msg: str) -> None:
    """Mark a moment; refuses."""
    _refuse()


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A range around a block; refuses."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
