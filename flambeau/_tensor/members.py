"""Methods of Tensor that are no rows; importing them registers them (see attachment.method)."""

# ruff: noqa: F401
from flambeau._tensor import (
    access,
    conversion,
    gradients,
    legacy,
    old_names,
    operators,
    pickling,
    sparse,
)
from flambeau.eager import subscripts
from flambeau.interposing import overriding
