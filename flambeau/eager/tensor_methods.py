"""Methods of Tensor that are no rows; importing them registers them (see attachment.method)."""

from flambeau.eager import (
    legacy,
    overriding,
    subscripts,
    tensor_access,
    tensor_autograd,
    tensor_conversion,
    tensor_operators,
    tensor_pickling,
)

MODULES = (
    legacy,
    overriding,
    subscripts,
    tensor_access,
    tensor_autograd,
    tensor_conversion,
    tensor_operators,
    tensor_pickling,
)
