"""`torch._library`: ops of programs; the public names are in `torch.library`."""

from typing import Any, NoReturn

__all__ = ["load_library"]


def load_library(path: Any) -> NoReturn:
    """Load ops that are compiled: never possible, they call PyTorch's C++."""
    raise OSError(f"Could not load this library: {path}")
