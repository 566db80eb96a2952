"""softmax, log_softmax and softmin along a dimension.

`_softmax` and `_log_softmax` are kernels, and so are their backwards; the bodies of the backward
rows say the same in other ops, for second derivatives. The public functions cast first if told.
"""

import warnings

from flambeau import _dtype as d
from flambeau import errors
from flambeau.ops.table import DType, composite, template


@composite("softmax_backward", variants="function")
def _softmax_backward_data(grad_output, output, dim: int, input_dtype: DType):
    """Gradient of softmax from that of its result."""
    weighted = grad_output * output
    return weighted - output * weighted.sum(dim, keepdim=True)


@composite("log_softmax_backward", variants="function")
def _log_softmax_backward_data(grad_output, output, dim: int, input_dtype: DType):
    """Gradient of log_softmax from that of its result."""
    return grad_output - output.exp() * grad_output.sum(dim, keepdim=True)


@template(
    "_softmax",
    variants="function",
    node="SoftmaxBackward0",
    grad=lambda g, out, dim: _softmax_backward_data(g, out, dim, None),
    jvp=lambda t, out, dim: _softmax_backward_data(t, out, dim, None),  # a symmetric matrix
)
def _softmax(input, dim: int, half_to_float: bool):
    """Exponentials along dim, scaled to sum to one."""


@template(
    "_log_softmax",
    variants="function",
    node="LogSoftmaxBackward0",
    grad=lambda g, out, dim: _log_softmax_backward_data(g, out, dim, None),
    jvp=lambda t, out, dim: t - (out.exp() * t).sum(dim, keepdim=True),
)
def _log_softmax(input, dim: int, half_to_float: bool):
    """Logarithm of softmax, without overflow."""


def _cast(input, dtype, name="softmax"):
    if dtype is None or dtype is input.dtype:
        return input
    if d.meant(dtype) is None:
        raise TypeError(
            f"{name}(): argument 'dtype' must be torch.dtype, not {errors.kind_name(dtype)}"
        )
    return input.to(dtype)


_PLAIN = "function method out"


@composite(variants=_PLAIN, namespace="special", exact_out=True)
def softmax(input, dim: int, dtype: DType = None):
    """Exponentials along dim, scaled to sum to one."""
    return _softmax(input if dtype is None else _cast(input, dtype), dim, False)


@composite(variants=_PLAIN, namespace="special", exact_out=True)
def log_softmax(input, dim: int, dtype: DType = None):
    """Logarithm of softmax, without overflow."""
    return _log_softmax(input if dtype is None else _cast(input, dtype), dim, False)


# -- nn.functional, where dim may be left out ------------------------------------------------------


def _implicit_dim(name, ndim, stacklevel):
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        stacklevel=stacklevel + 3,
    )
    return 0 if ndim in (0, 1, 3) else 1


@composite(variants="", namespace="nn.functional")
def functional_softmax(input, dim: int = None, _stacklevel: int = 3, dtype: DType = None):
    """Exponentials along dim, scaled to sum to one."""
    if dim is None:
        dim = _implicit_dim("softmax", input.ndim, _stacklevel)
    return _softmax(input if dtype is None else _cast(input, dtype), dim, False)


@composite(variants="", namespace="nn.functional")
def functional_log_softmax(input, dim: int = None, _stacklevel: int = 3, dtype: DType = None):
    """Logarithm of softmax, without overflow."""
    if dim is None:
        dim = _implicit_dim("log_softmax", input.ndim, _stacklevel)
    return _log_softmax(input if dtype is None else _cast(input, dtype, "log_softmax"), dim, False)


@composite(variants="", namespace="nn.functional", python=False)
def softmin(input, dim: int = None, _stacklevel: object = 3, dtype: DType = None):
    """softmax of -input."""
    if dim is None:
        dim = _implicit_dim("softmin", input.ndim, _stacklevel)
    return _softmax(_cast(-input, dtype), dim, False)
