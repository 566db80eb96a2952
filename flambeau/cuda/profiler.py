"""`torch.cuda.profiler`: tell NVIDIA's profilers when to look. Ours is `torch.profiler`."""

import contextlib
from collections.abc import Iterator

from flambeau.cuda._devices import part

__all__ = ["profile", "start", "stop"]


def start() -> None:
    """A profiler from outside looks from now on."""
    part().driver.watched(True)


def stop() -> None:
    """It looks no more."""
    part().driver.watched(False)


@contextlib.contextmanager
def profile() -> Iterator[None]:
    """It looks at what runs inside."""
    start()
    try:
        yield
    finally:
        stop()
