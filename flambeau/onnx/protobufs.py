"""The package onnx, which holds the classes of the file format; it is an extra."""

try:
    import onnx
except ImportError as error:
    raise ImportError(
        "flambeau.onnx needs the package onnx; install it with `pip install flambeau[onnx]`"
    ) from error

import ml_dtypes  # comes with onnx

__all__ = ["ml_dtypes", "onnx"]
