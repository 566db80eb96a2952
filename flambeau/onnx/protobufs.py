"""The package onnx, which holds the classes of the file format; it is an extra."""

from typing import Any

try:
    import onnx as package
except ImportError as error:
    raise ImportError(
        "flambeau.onnx needs the package onnx; install it with `pip install flambeau[onnx]`"
    ) from error

import ml_dtypes  # comes with onnx

# Classes of protobufs are made when the package is imported; type checkers see half of them.
onnx: Any = package

__all__ = ["ml_dtypes", "onnx"]
