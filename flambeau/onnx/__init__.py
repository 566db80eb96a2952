"""`torch.onnx`, and the way back: `load` makes a module of an ONNX file."""

import enum
import importlib
from typing import Any

from flambeau.onnx import state
from flambeau.onnx.errors import OnnxExporterError, OnnxLoadError, UnsupportedOperatorError
from flambeau.version import __version__

__all__ = [
    "ONNXProgram",
    "OnnxExporterError",
    "OnnxLoadError",
    "OperatorExportTypes",
    "TrainingMode",
    "UnsupportedOperatorError",
    "export",
    "is_in_onnx_export",
    "load",
]

# The package onnx is an extra, so what needs it is fetched when it is first asked for.
_HOMES = {"ONNXProgram": "program", "export": "exporting", "load": "importing"}
producer_name, producer_version = "flambeau", __version__
_MODULES = {"backend", "conformance", "errors", "operators", "translations"}


class TrainingMode(enum.Enum):
    """Which mode a model is exported in."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.Enum):
    """Programs name these; ops without a translation are an error in any case."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        found = getattr(importlib.import_module(f"flambeau.onnx.{_HOMES[name]}"), name)
        globals()[name] = found
        return found
    if name in _MODULES:
        return importlib.import_module(f"flambeau.onnx.{name}")
    raise AttributeError(f"module 'torch.onnx' has no attribute {name!r}")


def is_in_onnx_export() -> bool:
    """Is a model being exported just now?"""
    return state.exporting > 0
