"""What each ONNX operator computes, on tensors. `table.py` finds them by name and version."""

from flambeau.onnx.operators import (
    attention,
    casting,
    control,
    elementwise,
    images,
    indexing,
    learning,
    normalization,
    pooling,
    products,
    quantized,
    recurrent,
    reductions,
    resizing,
    sampling,
    sequences,
    shapes,
    signal,
    sizes,
    strings,
)
from flambeau.onnx.operators.table import Handler, find, known, sizes_rule

__all__ = ["Handler", "find", "known", "sizes_rule"]
__all__ += ["attention", "casting", "control", "elementwise", "images", "indexing", "learning"]
__all__ += ["normalization", "pooling", "products", "quantized", "recurrent", "reductions"]
__all__ += ["resizing", "sampling", "sequences", "shapes", "signal", "sizes", "strings"]
