"""Distances between rows: cdist, pdist.

For the Euclidean distance of many rows there is a form by a matrix product, fast but with the
rounding errors of a difference of large numbers; everything else goes through kernels that walk
pairs of rows (codegen/templates/distances.py). `term`, `total` and `slope` say what a distance is;
kernels and tensors use the same lines.
"""

import math

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import broadcast_shape
from flambeau.codegen import scalar as m
from flambeau.ops.support import group_of
from flambeau.ops.table import composite, public, template

_MODES = (
    "use_mm_for_euclid_dist_if_necessary",
    "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
)
_LARGEST = d.finfo(d.float32).max
FEW = 25  # rows up to which pairs are walked even if a product is allowed


def _order(p, like):
    """The exponent of a norm, in the precision of its kernel."""
    p = float(p)
    return math.inf if p > _LARGEST and like.dtype is d.float32 else p


def kind_of(p):
    """Norms with a kernel of their own; all others are powers."""
    names = {0.0: "count", 1.0: "sum", 2.0: "squares", math.inf: "most"}
    return names.get(p, "power")


def term(difference, p, kind):
    """What one pair of coordinates contributes."""
    size = m.abs(difference)
    if kind == "count":
        return m.where(size > 0, 1, size)  # nan stays
    if kind == "squares":
        return size * size
    return m.pow(size, p) if kind == "power" else size


def total(sum, p, kind):
    """The distance, from the sum (or largest) of all contributions."""
    if kind == "squares":
        return m.sqrt(sum)
    return m.pow(sum, 1 / p) if kind == "power" else sum


def slope(g, difference, distance, p, kind):
    """The derivative by one coordinate; zero where the distance has a kink."""
    nothing = difference * 0
    if kind == "count":
        return nothing
    if kind == "squares":
        here = distance == 0
        return m.where(here, nothing, g * difference / m.where(here, distance * 0 + 1, distance))
    signed = m.where(difference < 0, -g, m.where(difference > 0, g, g * 0))
    if kind == "sum":
        return signed
    size = m.abs(difference)
    if kind == "most":
        return m.where(size == distance, signed, nothing)
    here = (distance == 0) | (difference == 0)
    share = m.where(here, nothing + 1, size) / m.where(here, distance * 0 + 1, distance)
    return m.where(here, nothing, signed * m.pow(share, p - 1))


# -- cdist ----------------------------------------------------------------------------------------


@composite("cdist_gradient", variants="")
def cdist_gradient(g, x1, x2, distance, p: float):
    """The gradient of pair_distances for x1; for x2, exchange both and transpose the rest."""
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    g, distance = g.unsqueeze(-1), distance.unsqueeze(-1)
    return slope(g, difference, distance, p, kind_of(p)).sum(-2)


def _to_first(g, x1, x2, out, p):
    return cdist_gradient(g, x1, x2, out, p)


def _to_second(g, x1, x2, out, p):
    return cdist_gradient(g.mT, x2, x1, out.mT, p)


@template(
    "pair_distances",
    variants="",
    node="CdistBackward0",
    grad=dict(x1=_to_first, x2=_to_second),
    flat=True,
)
def pair_distances(x1, x2, p: float):
    """Distances of all pairs of rows; the batches of both have the same sizes."""


@composite(
    variants="",
    node="EuclideanDistBackward0",
    grad=dict(
        x1=lambda g, x1, x2, out: _euclid(g, x1, x2, out),
        x2=lambda g, x1, x2, out: _euclid(g.mT, x2, x1, out.mT),
    ),
)
def euclidean_distances(x1, x2):
    """|a|^2 + |b|^2 - 2 a b, the sums inside one product."""
    a = x1.pow(2).sum(-1, keepdim=True)
    b = x2.pow(2).sum(-1, keepdim=True)
    cat, ones = public("cat"), x1.new_ones
    left = cat((x1 * -2, a, ones(a.shape)), -1)
    right = cat((x2, ones(b.shape), b), -1)
    return left.matmul(right.mT).clamp_min(0).sqrt()


def _euclid(g, x1, x2, distance):
    share = m.where(distance == 0, distance * 0, g / distance)
    return x1 * share.sum(-1, keepdim=True) - share.matmul(x2)


@composite(variants="function", python=True)
def cdist(
    x1,
    x2,
    p: float = 2.0,
    compute_mode: object = "use_mm_for_euclid_dist_if_necessary",
):
    """Distances by the p-norm between the rows of two (batches of) matrices.

    Args:
        p: the exponent of the norm, 0 to infinity; 0 counts coordinates that differ.
        compute_mode: whether Euclidean distances may come from a matrix product.
    """
    if compute_mode not in _MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    for k, (t, name) in enumerate(((x1, "x1"), (x2, "x2")), 1):
        if not hasattr(t, "_layout"):
            kind = errors.kind_name(t)
            raise TypeError(f"cdist(): argument '{name}' (position {k}) must be Tensor, not {kind}")
    p = _order(p, x1)
    for t, name in ((x1, "X1"), (x2, "X2")):
        if t.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {t.ndim}D")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}"
        )
    for t, name in ((x1, "X1"), (x2, "X2")):
        if not t.dtype.is_floating_point:
            raise RuntimeError(
                f"cdist only supports floating-point dtypes, {name} got: {t.dtype.scalar_name}"
            )
    if not p >= 0:
        raise RuntimeError("cdist only supports non-negative p values")
    if x1.device is not x2.device:
        raise errors.different_devices(x1.device, x2.device)
    if x1.dtype is not x2.dtype:
        if group_of(x1) == "half":
            raise errors.not_implemented("cdist", x1.dtype)
        raise RuntimeError(
            f"expected scalar type {x1.dtype.scalar_name} but found {x2.dtype.scalar_name}"
        )
    rows = x1.shape[-2], x2.shape[-2]
    batch = broadcast_shape(x1.shape[:-2], x2.shape[:-2])
    if tuple(x1.shape[:-2]) != tuple(batch):
        x1 = x1.expand(*batch, *x1.shape[-2:])
    if tuple(x2.shape[:-2]) != tuple(batch):
        x2 = x2.expand(*batch, *x2.shape[-2:])
    by_product = compute_mode == _MODES[1] or (compute_mode == _MODES[0] and max(rows) > FEW)
    if p == 2 and by_product and x1.shape[-1]:
        return euclidean_distances(x1, x2)
    if group_of(x1) == "half" and x1.numel() and x2.numel():
        raise errors.not_implemented("cdist", x1.dtype)
    return pair_distances(x1, x2, p)


# -- pdist ----------------------------------------------------------------------------------------


@composite("pdist_gradient", variants="")
def pdist_gradient(g, input, distance, p: float):
    """The gradient of self_distances."""
    n = input.shape[0]
    rows = [k for k in range(n) for _ in range(k + 1, n)]
    others = [k for j in range(n) for k in range(j + 1, n)]
    rows, others = (input.new_tensor(x, dtype=d.int64) for x in (rows, others))
    difference = input[rows] - input[others]
    found = slope(g.unsqueeze(-1), difference, distance.unsqueeze(-1), p, kind_of(p))
    return input.new_zeros(input.shape).index_add(0, rows, found).index_add(0, others, -found)


@template(
    "self_distances",
    variants="",
    node="PdistBackward0",
    grad={"input": lambda g, input, out, p: pdist_gradient(g, input, out, p)},
)
def self_distances(input, p: float):
    """Distances of all pairs of rows i < j of one matrix, row after row."""


@composite(variants="function", namespace="nn.functional")
def pdist(input, p: float = 2.0):
    """Distances by the p-norm between all pairs of rows of a matrix.

    Shape: input (n, m); result (n * (n - 1) / 2), the rows of the upper triangle of cdist.
    """
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if not input.dtype.is_floating_point:
        raise RuntimeError("pdist only supports floating-point dtypes")
    p = _order(p, input)
    if not p >= 0:
        raise RuntimeError("pdist only supports non-negative p values")
    if group_of(input) == "half" and input.numel() and input.shape[0] > 1:
        raise errors.not_implemented("pdist", input.dtype)
    return self_distances(input, p)
