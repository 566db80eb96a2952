"""`torch.nn.functional`: activations and other functions of networks.

A thin namespace over the op table: the rows that name it, looked up when first touched.
"""

from flambeau.eager import methods as _methods
from flambeau.ops.table import TABLE as _TABLE

_NAMESPACE = "nn.functional"
# PyTorch keeps these at the top level and here.
_SHARED = frozenset(
    "relu relu_ tanh sigmoid softmax log_softmax selu_ celu_ rrelu_ threshold_ dropout".split()
)


def __getattr__(name):
    plain = name.removesuffix("_")
    if "functional_" + name in _TABLE:  # another signature than the function of torch has
        plain = "functional_" + name
    row = _TABLE.get(plain)
    if row is None or not (_NAMESPACE in row.namespaces or name in _SHARED):
        raise AttributeError(f"module 'flambeau.nn.functional' has no attribute '{name}'")
    build = _methods.inplace_function if name.endswith("_") else _methods.function
    value = globals()[name] = build(plain)
    return value


def __dir__():
    rows = (n for n, row in _TABLE.items() if _NAMESPACE in row.namespaces)
    return sorted({*globals(), *(n.removeprefix("functional_") for n in rows)})
