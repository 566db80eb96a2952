"""Ops out of compiled files, of which there can be none here."""

import os
from typing import Any, NoReturn

loaded_libraries: set[str] = set()


def load_library(path: Any) -> NoReturn:
    """Never possible: such ops call PyTorch's C++."""
    raise OSError(f"Could not load this library: {os.path.abspath(path)}")
