"""`torch.mps.profiler`: signposts of Apple's tools, which need an Apple GPU."""

from typing import NoReturn

from flambeau.errors import RefusedBlock

__all__ = [
    "is_capturing_metal",
    "is_metal_capture_enabled",
    "metal_capture",
    "profile",
    "start",
    "stop",
]
_START = "Cannot execute profilerStartTrace() without MPS backend."


def start(mode: str = "interval", wait_until_completed: bool = False) -> NoReturn:
    """Refused."""
    raise RuntimeError(_START)


def stop() -> NoReturn:
    """Refused."""
    raise RuntimeError("Cannot execute profilerStopTrace() without MPS backend.")


def profile(mode: str = "interval", wait_until_completed: bool = False) -> RefusedBlock:
    """A block that is traced: refused."""
    return RefusedBlock(RuntimeError(_START))


def is_metal_capture_enabled() -> bool:
    """Can commands be captured? Not without such a GPU."""
    return False


def is_capturing_metal() -> bool:
    """Are commands being captured?"""
    return False


def metal_capture(fname: str) -> RefusedBlock:
    """Refused."""
    return RefusedBlock(RuntimeError("Cannot execute startCapture() without MPS backend."))
