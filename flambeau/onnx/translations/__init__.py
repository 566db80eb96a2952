"""How ops of aten are written in ONNX, one file per family."""

from flambeau.onnx.translations import (
    elementwise,
    layers,
    normalization,
    products,
    recurrent,
    reductions,
    resizing,
    shapes,
)
from flambeau.onnx.translations.table import find, known

__all__ = ["elementwise", "find", "known", "layers", "normalization", "products", "recurrent"]
__all__ += ["reductions", "resizing", "shapes"]
