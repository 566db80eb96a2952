"""`torch.nn.functional`: activations and other functions of networks.

A thin namespace over the op table: the rows that name it, looked up when first touched. Those that
are written out here take an `inplace` argument, which chooses between two variants of a row.
"""

from typing import Any as _Any

from flambeau.eager import methods as _methods
from flambeau.ops.table import TABLE as _TABLE

_NAMESPACE = "nn.functional"
# PyTorch keeps these at the top level and here.
_SHARED = frozenset(
    "relu relu_ tanh sigmoid softmax log_softmax selu_ celu_ rrelu_ threshold_ dropout".split()
)


class _Rows(dict):
    """Functions of rows, built when first asked for."""

    def __missing__(self, name):
        build = _methods.inplace_function if name.endswith("_") else _methods.function
        found = self[name] = build(name.removesuffix("_"))
        return found


_rows = _Rows()


def relu(input: _Any, inplace: bool = False) -> _Any:
    """input where it is positive, else zero."""
    return _rows["relu_" if inplace else "relu"](input)


def relu6(input: _Any, inplace: bool = False) -> _Any:
    """input, kept between zero and six."""
    return _rows["hardtanh_"](input, 0.0, 6.0) if inplace else _rows["relu6"](input)


def elu(input: _Any, alpha: float = 1.0, inplace: bool = False) -> _Any:
    """input where it is positive, else alpha * (exp(input) - 1)."""
    return _rows["elu_" if inplace else "elu"](input, alpha)


def celu(input: _Any, alpha: float = 1.0, inplace: bool = False) -> _Any:
    """input where it is positive, else alpha * (exp(input / alpha) - 1)."""
    return _rows["celu_" if inplace else "celu"](input, alpha)


def selu(input: _Any, inplace: bool = False) -> _Any:
    """elu with the two factors that keep mean zero and variance one."""
    return _rows["selu_" if inplace else "selu"](input)


def leaky_relu(input: _Any, negative_slope: float = 0.01, inplace: bool = False) -> _Any:
    """input where it is positive, else a small multiple of it."""
    return _rows["leaky_relu_" if inplace else "leaky_relu"](input, negative_slope)


def hardtanh(
    input: _Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> _Any:
    """input, kept between two numbers."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return _rows["hardtanh_" if inplace else "hardtanh"](input, min_val, max_val)


def threshold(input: _Any, threshold: float, value: float, inplace: bool = False) -> _Any:
    """input where it is above a threshold, else value."""
    return _rows["threshold_" if inplace else "threshold"](input, threshold, value)


_threshold = threshold  # its name in graphs of torch.fx


def hardsigmoid(input: _Any, inplace: bool = False) -> _Any:
    """A sigmoid made of straight lines."""
    return _rows["hardsigmoid_" if inplace else "hardsigmoid"](input)


def hardswish(input: _Any, inplace: bool = False) -> _Any:
    """input times hardsigmoid of it."""
    return _rows["hardswish_" if inplace else "hardswish"](input)


def silu(input: _Any, inplace: bool = False) -> _Any:
    """input times sigmoid of it."""
    return _rows["silu_" if inplace else "silu"](input)


def mish(input: _Any, inplace: bool = False) -> _Any:
    """input times tanh of its softplus."""
    return _rows["mish_" if inplace else "mish"](input)


_SCALED = ("ScalingType", "SwizzleType", "scaled_mm")  # they load when first touched


def __getattr__(name):
    if name in _SCALED:
        from flambeau.nn import scaled_products

        value = globals()[name] = getattr(scaled_products, name)
        return value
    if name == "grad":  # gradients of convolutions, which end in functions of this module
        from flambeau.nn import grad

        return grad
    plain = name.removesuffix("_")
    if "functional_" + name in _TABLE:  # another signature than the function of torch has
        plain = "functional_" + name
    row = _TABLE.get(plain)
    if row is None or not (_NAMESPACE in row.namespaces or name in _SHARED):
        raise AttributeError(f"module 'flambeau.nn.functional' has no attribute '{name}'")
    build = _methods.inplace_function if name.endswith("_") else _methods.function
    value = globals()[name] = build(plain)
    if "function" not in row.variants or plain != name.removesuffix("_"):
        # where pickles find it
        value.__module__, value.__qualname__, value.__name__ = __name__, name, name
    return value


def __dir__():
    rows = (n for n, row in _TABLE.items() if _NAMESPACE in row.namespaces)
    return sorted({*globals(), *_SCALED, *(n.removeprefix("functional_") for n in rows)})
