"""Files of MATLAB, which scipy reads."""

from __future__ import annotations

import importlib
import os
from typing import Any


def read_mat(path: str | os.PathLike[str], **options: Any) -> dict[str, Any]:
    """The variables of a file of MATLAB."""
    try:
        loadmat = importlib.import_module("scipy.io").loadmat
    except ModuleNotFoundError as error:
        raise ImportError(
            "such files are read with the package scipy: pip install scipy"
        ) from error
    try:
        return loadmat(path, **options)
    except FileNotFoundError:
        raise
    except Exception as error:  # scipy raises whatever a broken header leads it to
        raise RuntimeError(f"{path} is no such file of MATLAB ({error})") from error
