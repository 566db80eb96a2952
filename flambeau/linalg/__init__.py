"""`torch.linalg`: linear algebra by PyTorch's names.

A thin namespace over the op table: `vector_norm` is the row `linalg_vector_norm`, `matmul` is a
row that names this namespace. Names are looked up when first touched.
"""

import flambeau as _flambeau
from flambeau.eager.methods import function as _function
from flambeau.errors import LinAlgError as LinAlgError
from flambeau.ops.table import TABLE as _TABLE

# the array API standard has these here as well, PyTorch only in its front door
_STANDARD = ("matrix_transpose", "outer", "tensordot", "trace")


def _row(name):
    if "linalg_" + name in _TABLE:
        return "linalg_" + name
    return name if name in _TABLE and "linalg" in _TABLE[name].namespaces else None


def __getattr__(name):
    if name in _STANDARD:
        return getattr(_flambeau, name)
    row = _row(name)
    if row is None:
        raise AttributeError(f"module 'flambeau.linalg' has no attribute '{name}'")
    value = globals()[name] = _function(row)
    return value


def __dir__():
    own = {n.removeprefix("linalg_") for n in _TABLE if n.startswith("linalg_")}
    return sorted(own | {n for n, op in _TABLE.items() if "linalg" in op.namespaces})
