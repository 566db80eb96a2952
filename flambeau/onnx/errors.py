"""What goes wrong with ONNX files, and on the way to one."""

__all__ = [
    "OnnxExporterError",
    "OnnxExporterWarning",
    "OnnxLoadError",
    "SymbolicValueError",
    "UnsupportedOperatorError",
]


class OnnxLoadError(ValueError):
    """A file that cannot be read as a model: damaged, hostile, or with an op that is not known."""


class OnnxExporterWarning(UserWarning):
    """Something about the exported model that its user should know."""


class OnnxExporterError(RuntimeError):
    """A model that has no counterpart in ONNX."""


class UnsupportedOperatorError(OnnxExporterError):
    """An op without a translation."""


class SymbolicValueError(OnnxExporterError):
    """An argument that must be known when the model is exported."""
