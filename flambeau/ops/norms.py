"""Norms of vectors, and what is built on them: dist and renorm.

Order 2 sums squares, 0 counts, infinities are extremes; the rest are sums of powers. Each order is
a kernel of its own, because `ord` is a static argument.
"""

import math

from flambeau import _dtype as d
from flambeau import errors
from flambeau.codegen import scalar
from flambeau.codegen import scalar as m
from flambeau.ops.reductions import reduced_count, reduced_dims, unsqueezed
from flambeau.ops.table import Dims, DType, OptionalTensor, Scalar, composite, public, reduction

_PLAIN = "function method out"
_ENDS = (math.inf, -math.inf)


_LARGEST = d.finfo(d.float32).max


def _norm_result(dtype, given):
    wanted = given.get("dtype") or dtype
    return wanted, (wanted.to_real(),)


def _norm_body(input, ord=2):
    if isinstance(input, scalar.Complex) and ord == 2:
        return input.re * input.re + input.im * input.im
    size = m.abs(input)
    if ord == 2:
        return size * size
    if ord == 0:
        return m.cast(size != 0, size.type)
    if ord == 1 or ord in _ENDS:
        return size
    return m.pow(size, m.const(ord, size.type))


def _norm_finish(s, ord=2):
    if ord == 2:
        return m.sqrt(s)
    return s if ord in (0, 1) or ord in _ENDS else m.pow(s, m.const(1 / ord, s.type))


def norm_grad(g, input, out, ord, dim, keepdim):
    """Derivatives by order; zero vectors get the subgradient zero."""
    shape = input.shape
    g, out = (unsqueezed(t, shape, dim, keepdim) for t in (g, out))
    if ord == 0:
        return input * 0
    if ord == 1:
        return input.sgn() * g
    if ord == 2:
        return g * (input / out).masked_fill(out == 0, 0)
    if ord in _ENDS:
        size = input.abs()
        hits = (size == out) | (size.isnan() & out.isnan())
        count = hits.sum(tuple(reduced_dims(dim, len(shape))), keepdim=True) if shape else 1
        return input.sgn() * ((g / count) * hits)
    if ord < 1:
        powers = (input.abs() ** (ord - 1)).masked_fill(input == 0, 0)
        return input.sgn() * powers * (g * out ** (1 - ord))
    scale = g / (out ** (ord - 1)).masked_fill(out == 0, math.inf)  # no 0 / 0 on the way forward
    if ord < 2:
        return input.sgn() * input.abs() ** (ord - 1) * scale
    return input * input.abs() ** (ord - 2) * scale


_NORM = dict(
    result=_norm_result,
    state=lambda type, code: (type,),
    complex_state=False,
    statics=("ord",),
    variants="",
    out="exact",
    public="linalg_vector_norm",
    finish=_norm_finish,
    node="LinalgVectorNormBackward0",
    grad=lambda g, input, out, ord, dim, keepdim: norm_grad(g, input, out, ord, dim, keepdim),
)


@reduction(init=lambda type, code: m.const(0, type), combine=lambda a, b: a + b, wide=True, **_NORM)
def _norm_sum(
    input, ord: object = 2, dim: Dims = None, keepdim: bool = False, *, dtype: object = None
):
    """A vector norm that adds something up."""
    return _norm_body(input, ord)


@reduction(init=lambda type, code: m.const(0, type), combine=lambda a, b: m.maximum(a, b), **_NORM)
def _norm_max(
    input, ord: object = math.inf, dim: Dims = None, keepdim: bool = False, *, dtype: object = None
):
    """The largest magnitude."""
    return _norm_body(input, ord)


@reduction(
    init=lambda type, code: m.const(math.inf, type), combine=lambda a, b: m.minimum(a, b), **_NORM
)
def _norm_min(
    input, ord: object = -math.inf, dim: Dims = None, keepdim: bool = False, *, dtype: object = None
):
    """The smallest magnitude."""
    return _norm_body(input, ord)


# -- public functions -----------------------------------------------------------------------------


def _check_norm(input, ord, dim, dtype):
    kind = dtype or input.dtype
    if input.dtype.category < d.FLOATING:
        raise RuntimeError(
            "linalg.vector_norm: Expected a floating point or complex tensor as input. Got "
            f"{input.dtype.scalar_name}"
        )
    if dtype is not None and kind.category < d.FLOATING:
        raise RuntimeError(
            "linalg.vector_norm: dtype should be floating point or complex, but got "
            f"{kind.scalar_name}"
        )
    if dtype is not None and input.dtype.is_complex != kind.is_complex:
        mine, wanted = ("complex", "complex") if input.dtype.is_complex else ("real", "real")
        raise RuntimeError(
            f"linalg.vector_norm: dtype should be {wanted} for {mine} inputs, but got "
            f"{kind.scalar_name}"
        )
    if dtype is not None and d.promote_types(input.dtype, kind) is not kind:
        raise RuntimeError(
            f"linalg.vector_norm: the dtype of the input ({input.dtype.scalar_name}) should be "
            f"convertible without narrowing to the specified dtype ({kind.scalar_name})"
        )
    if input.numel() == 0 and (ord < 0 or ord == math.inf):
        _check_identity(input, ord, dim)


def _check_identity(input, ord, dim):
    shown = str(float(ord)).removesuffix(".0")
    if dim is None or dim == ():
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {shown} norm on an empty tensor because the "
            "operation does not have an identity"
        )
    for k in dim if isinstance(dim, tuple) else (dim,):
        if input.shape and input.shape[k] == 0:
            raise RuntimeError(
                f"linalg.vector_norm cannot compute the {shown} norm on the dimension {k}because "
                "this dimension is empty and the operation does not have an identity"
            )


def _vector_norm(input, ord, dim, keepdim, dtype, out=None):
    if isinstance(ord, complex):
        raise errors.complex_order("linalg.vector_norm")
    ord = float(ord)
    _check_norm(input, ord, dim, dtype)
    if ord != ord and not input.numel():
        ord = 1.0  # of nothing it is 0, whatever the order
    if ord and reduced_count(input.shape, dim) == 1:
        ord = 1.0  # one number: its size, whatever the order
    row = public(
        "_norm_max" if ord == math.inf else "_norm_min" if ord == -math.inf else "_norm_sum"
    )
    ord = int(ord) if ord in (0, 1, 2) else ord
    if dtype is input.dtype:
        dtype = None
    if dtype is not None:  # the gradient is taken in the wider dtype
        input, dtype = input.to(dtype), None
    given = {} if out is None else {"out": out}
    if _LARGEST < abs(ord) < math.inf and input.dtype.to_real() is not d.float64:
        # infinite in single precision: whatever it is, to the power of 1 / inf
        found = public("_norm_sum")(input, 1, dim, keepdim, **given)
        return found**0 if out is None else out.fill_(1)
    return row(input, ord, dim, keepdim, dtype=dtype, **given)


def _linalg(overload, out, arguments):
    input, ord, dim, keepdim, dtype = arguments
    return _vector_norm(input, ord, dim, keepdim, dtype, out)


@composite(
    "overloads",
    variants="out",
    choose=_linalg,
    signatures=(
        "Tensor input, Scalar ord=2, ints? dim=None, bool keepdim=False, *, dtype dtype=None, "
        "Tensor out=None",
    ),
)
def linalg_vector_norm(
    input, ord: Scalar = 2, dim: Dims = None, keepdim: bool = False, *, dtype: DType = None
):
    """The ord-norm of vectors."""


@composite("norm", variants="function method out", bind=True)
def norm(
    input,
    p: object = "fro",
    dim: Dims = None,
    keepdim: bool = False,
    out: OptionalTensor = None,
    dtype: DType = None,
):
    """A vector norm over the given dimensions (Frobenius by default)."""
    if p == "nuc":
        found = public("linalg_matrix_norm")(
            input, "nuc", (-2, -1) if dim is None else dim, keepdim, dtype=dtype
        )
        return found if out is None else out.copy_(found)
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"linalg.matrix_norm: Order {p} not supported.")
    if p == "fro" and isinstance(dim, tuple) and len(dim) > 2:
        shown = " ".join(map(str, dim))
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {shown}")
    return _vector_norm(input, 2 if p in ("fro", None) else p, dim, keepdim, dtype, out)


def dist_grad(g, input, other, out, p):
    return norm_grad(g, input - other, out, int(p) if p in (0, 1, 2) else p, None, False)


@composite(
    variants="function method",
    node="DistBackward0",
    grad=dict(
        input=lambda g, input, other, out, p: dist_grad(g, input, other, out, p),
        other=lambda g, input, other, out, p: -dist_grad(g, input, other, out, p),
    ),
)
def dist(input, other, p: Scalar = 2.0):
    """The p-norm of the difference."""
    difference = input - other
    if difference.dtype.category < d.FLOATING:
        raise RuntimeError(
            "norm(): input dtype should be either floating point or complex. Got "
            f"{difference.dtype.scalar_name} instead."
        )
    return _vector_norm(difference, p, None, False, None)


def _renorm_parts(input, p, dim, maxnorm):
    """Norms of the slices, which of them are too long, and what to scale by."""
    others = tuple(k for k in range(input.ndim) if k != dim % input.ndim)
    # half types measure in float32
    norms = _vector_norm(input, p, others, True, d.float32 if input.dtype.itemsize == 2 else None)
    long = norms > maxnorm
    return others, norms, long, m.where(long, maxnorm / (norms + 1e-7), norms.new_ones(()))


def renorm_grad(g, input, p, dim, maxnorm):
    others, norms, long, factor = _renorm_parts(input, p, dim, maxnorm)
    along = (g * m.conj(input)).sum(others, keepdim=True)
    along = along.real if along.is_complex() else along
    slope = m.where(long, -maxnorm / (norms + 1e-7) ** 2, norms.new_zeros(()))
    order = int(p) if p in (0, 1, 2) else float(p)
    return g * factor + norm_grad(along * slope, input, norms, order, others, True)


@composite(
    variants="function method inplace out",
    node="RenormBackward0",
    grad=lambda g, input, p, dim, maxnorm: renorm_grad(g, input, p, dim, maxnorm),
    exact_out=True,
)
def renorm(input, p: Scalar, dim: int, maxnorm: Scalar):
    """Scale every slice along dim whose p-norm is above maxnorm down to it."""
    if not p > 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if not maxnorm >= 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm:g}")
    if input.ndim < 2:
        raise RuntimeError(
            f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions"
        )
    if not -input.ndim <= dim < input.ndim:
        raise errors.dimension_out_of_range(dim, input.ndim)
    return input * _renorm_parts(input, p, dim, maxnorm)[3].to(input.dtype)
