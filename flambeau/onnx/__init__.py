"""`torch.onnx`, and the way back: `load` makes a module of an ONNX file."""

import importlib
from typing import Any

from flambeau.onnx.errors import OnnxExporterError, OnnxLoadError

__all__ = ["OnnxExporterError", "OnnxLoadError", "is_in_onnx_export", "load"]

# The package onnx is an extra, so what needs it is fetched when it is first asked for.
_HOMES = {
    "load": "importing",
}
_MODULES = {"backend", "conformance", "errors", "operators"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"flambeau.onnx.{_HOMES[name]}"), name)
    if name in _MODULES:
        return importlib.import_module(f"flambeau.onnx.{name}")
    raise AttributeError(f"module 'torch.onnx' has no attribute {name!r}")


def is_in_onnx_export() -> bool:
    """Is a model being exported just now?"""
    return False
