"""Sorting and selecting along a dimension: sort, topk, kthvalue, median, mode, quantile.

nan counts as the largest value, -0.0 equals 0.0, equal values keep their order. Kernels are in
`codegen/templates/sorting.py` and `selection.py`; gradients go back to where the values came from.
"""

from flambeau import _dtype as d
from flambeau._layout import wrap_dim
from flambeau.ops.table import MISSING, composite, template

_NO_INPLACE = "function method out"


def placed_back(g, shape, dim, indices, keepdim=True):
    """Gradients of chosen values, at the places they were chosen from."""
    if not shape:
        return g
    if not keepdim:
        g, indices = g.unsqueeze(dim), indices.unsqueeze(dim)
    return g.new_zeros(shape).scatter(dim, indices, g)


def taken(t, dim, out1, keepdim):
    """What chosen elements of a tensor are, by their places along a dimension."""
    if not t.ndim:
        return t
    return t.gather(dim, out1) if keepdim else t.gather(dim, out1.unsqueeze(dim)).squeeze(dim)


def _reordered(g, input_shape, dim, out1):
    return placed_back(g, input_shape, dim, out1)


@template("sort", outputs=2, variants=_NO_INPLACE, exact_out=True, grad=_reordered,
          jvp=lambda t, dim, out1: taken(t, dim, out1, True), alone_with="stable")  # fmt: skip
def sort(input, dim: int = -1, descending: bool = False, *, stable: bool | None = False):
    """The elements along dim in order, and where each was. Always stable."""


@composite(variants="function method out", bind=True, alone_with="stable")
def argsort(input, dim: int = -1, descending: bool = False, *, stable: bool = False):
    """The positions that put the elements along dim in order."""
    return sort(input.detach(), dim, descending, stable=stable)[1]


@composite(variants=_NO_INPLACE, exact_out=True)
def msort(input):
    """The elements along the first dimension in order."""
    return sort(input, 0)[0]


@template("topk", outputs=2, variants=_NO_INPLACE, exact_out=True, grad=_reordered,
          jvp=lambda t, dim, out1: taken(t, dim, out1, True))  # fmt: skip
def topk(input, k: int, dim: int = -1, largest: bool = True, sorted: bool = True):
    """The k largest (or smallest) elements along dim, in order, and where they are."""


def _chosen(g, input_shape, dim, keepdim, out1):
    return placed_back(g, input_shape, dim, out1, keepdim)


@template(
    "kthvalue",
    outputs=2,
    variants=_NO_INPLACE,
    grad=_chosen,
    jvp=taken,
    exact_out=(
        "output values must be of same type as input",
        "output indices must be of scalar type Long",
    ),
    apart="input",
)
def kthvalue(input, k: int, dim: int = -1, keepdim: bool = False):
    """The k-th smallest element along dim (counting from 1), and where it is."""


_MODE_OUT = "expected scalar type '{wanted.scalar_name}' but got '{got.scalar_name}' for "


@template(
    "mode",
    outputs=2,
    variants=_NO_INPLACE,
    grad=_chosen,
    jvp=taken,
    exact_out=(_MODE_OUT + "values output", _MODE_OUT + "indices output"),
)
def mode(input, dim: int = -1, keepdim: bool = False):
    """The most frequent element along dim (the smallest of several), and where it is last."""


def _spread_evenly(g, input, out):
    """All elements equal to the result share its gradient."""
    same = (input == out) | ((input != input) & (out != out))
    return (same / same.sum()).to(g.dtype) * g


@template("median_all", variants="", grad=_spread_evenly, node="MedianBackward0")
def _median_all(input):
    """The median of all elements."""


@template("median_dim", variants="", outputs=2, grad=_chosen, jvp=taken, node="MedianBackward1")
def _median_dim(input, dim: int, keepdim: bool):
    """The median along dim."""


@template("nanmedian_all", variants="", grad=_spread_evenly, node="NanmedianBackward0")
def _nanmedian_all(input):
    """The median of all elements that are numbers."""


@template(
    "nanmedian_dim", variants="", outputs=2, grad=_chosen, jvp=taken, node="NanmedianBackward1"
)
def _nanmedian_dim(input, dim: int, keepdim: bool):
    """The median along dim of what is a number."""


def _check_dim(name, dim, keepdim):
    if dim is None and keepdim is not MISSING:
        raise TypeError(f'{name}() missing 1 required positional arguments: "dim"')


@composite(variants=_NO_INPLACE, bind=True, outputs=2)
def median(input, dim: int = None, keepdim: bool = MISSING):
    """The median (the lower of two), nan if there is one; along dim, also where it is."""
    _check_dim("median", dim, keepdim)
    return _median_all(input) if dim is None else _median_dim(input, dim, keepdim is True)


@composite(variants=_NO_INPLACE, bind=True, outputs=2)
def nanmedian(input, dim: int = None, keepdim: bool = MISSING):
    """The median (the lower of two) of the numbers; along dim, also where it is."""
    _check_dim("nanmedian", dim, keepdim)
    return _nanmedian_all(input) if dim is None else _nanmedian_dim(input, dim, keepdim is True)


# -- quantiles -------------------------------------------------------------------------------------

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _check_quantile(input, q, interpolation):
    if input.numel() == 0:
        raise RuntimeError("quantile() input tensor must be non-empty")
    if q.ndim > 1:
        raise RuntimeError("quantile() q must be a scalar or 1D tensor")
    if input.dtype not in (d.float32, d.float64):
        raise RuntimeError("quantile() input tensor must be either float or double dtype")
    if q.dtype is not input.dtype:
        raise RuntimeError("quantile() q tensor must be same dtype as the input tensor")
    if q.device is not input.device:
        raise RuntimeError("quantile() q tensor must be on the same device as the input tensor")
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(
            "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, "
            f"but got {interpolation}"
        )


def _quantile(input, q, dim, keepdim, interpolation, ignore_nan):
    if not hasattr(q, "_layout"):
        if not 0 <= q <= 1:
            raise RuntimeError(f"quantile() q must be in the range [0, 1] but got {q:g}")
        q = input.new_full((), q)
        _check_quantile(input, q, interpolation)
    else:
        _check_quantile(input, q, interpolation)
        if q.device.runtime.computes and not bool(((q >= 0) & (q <= 1)).all()):
            raise RuntimeError("quantile() q values must be in the range [0, 1]")
    ndim = input.ndim
    if dim is None:
        lines = input.flatten()
        kept = [1] * ndim
    else:
        dim = wrap_dim(dim, ndim)
        lines = input.movedim(dim, -1) if ndim else input.reshape(1)
        kept = list(input.shape)
        if ndim:
            kept[dim] = 1
    found = _interpolated(sort(lines)[0], q.reshape(-1), interpolation, ignore_nan)
    found = found.movedim(-1, 0)
    if keepdim:
        found = found.reshape([q.numel(), *kept])
    return found if q.ndim else found.squeeze(0)


def _interpolated(values, q, interpolation, ignore_nan):
    """Quantiles q of sorted lines, along the last dimension."""
    n = values.shape[-1]
    missing = values != values
    if ignore_nan:
        last = (n - 1 - missing.sum(-1, True)).to(values.dtype)
        ranks = (q * last).clamp(min=0)
    else:
        # nan sorts last: a line that has one gives it for every q
        ranks = (q * (n - 1)).expand(*values.shape[:-1], q.numel())
        ranks = ranks.masked_fill(missing.any(-1, True), n - 1)
    if interpolation == "lower":
        ranks = ranks.floor()
    elif interpolation == "higher":
        ranks = ranks.ceil()
    elif interpolation == "nearest":
        ranks = ranks.round()
    below = ranks.to(d.int64)
    low = values.gather(-1, below)
    if interpolation not in ("linear", "midpoint"):
        return low
    weight = ranks - below if interpolation == "linear" else ranks.new_full(ranks.shape, 0.5)
    return low.lerp(values.gather(-1, ranks.ceil().to(d.int64)), weight)


_QUANTILE_OUT = "quantile() out tensor must be same dtype as the input tensor"


@composite(variants=_NO_INPLACE, bind=True, exact_out=_QUANTILE_OUT)
def quantile(
    input, q: object, dim: int = None, keepdim: bool = False, *, interpolation: str = "linear"
):
    """Values below which a share q of the elements lies; nan if there is one."""
    return _quantile(input, q, dim, keepdim, interpolation, False)


@composite(variants=_NO_INPLACE, bind=True, exact_out=_QUANTILE_OUT)
def nanquantile(
    input, q: object, dim: int = None, keepdim: bool = False, *, interpolation: str = "linear"
):
    """Values below which a share q of the elements that are numbers lies."""
    return _quantile(input, q, dim, keepdim, interpolation, True)
