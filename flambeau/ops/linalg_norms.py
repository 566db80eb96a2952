"""Norms of matrices and condition numbers.

The Frobenius norm and the orders 1 and infinity are vector norms and sums; 2, -2 and the nuclear
norm come from singular values. Norms of vectors are in norms.py.
"""

import math

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import wrap_dim
from flambeau.ops import linalg_checks as check
from flambeau.ops.table import MISSING, Dims, DType, IntList, composite, public

_NAME = "linalg.matrix_norm"
_BY_SUMS = (1, -1, math.inf, -math.inf)


def _check_dtype(input, dtype):
    if dtype is None:
        return
    if dtype.category < d.FLOATING:
        raise RuntimeError(
            f"{_NAME}: dtype should be floating point or complex, but got {dtype.scalar_name}"
        )
    if dtype.is_complex != input.dtype.is_complex:
        kind = "complex" if input.dtype.is_complex else "real"
        raise RuntimeError(
            f"{_NAME}: dtype should be {kind} for {kind} inputs, but got {dtype.scalar_name}"
        )
    if d.promote_types(input.dtype, dtype) is not dtype:
        raise RuntimeError(
            f"{_NAME}: the dtype of the input ({input.dtype.scalar_name}) should be convertible "
            f"without narrowing to the specified dtype ({dtype.scalar_name})"
        )


def _matrix_dims(input, dim):
    dim = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dim) != 2:
        shown = ", ".join(map(str, dim))
        raise RuntimeError(f"{_NAME}: dim must be a 2-tuple. Got {shown}")
    first, second = (wrap_dim(k, input.ndim) for k in dim)
    if first == second:
        raise RuntimeError(f"{_NAME}: dims must be different. Got ({dim[0]}, {dim[1]})")
    return first, second


def _shown(order):
    if isinstance(order, str):
        return order
    return repr(float(order)).removesuffix(".0")


def _matrix_norm(input, ord, dim, keepdim, dtype):
    if isinstance(ord, str) and ord not in ("fro", "nuc"):
        raise RuntimeError(f"{_NAME}: Order {ord} not supported.")
    if isinstance(ord, complex):
        raise errors.complex_order(_NAME)
    check.matrix(input, _NAME)
    check.floating(input, _NAME)
    if not isinstance(ord, str) and abs(ord) not in (1, 2, math.inf):
        raise RuntimeError(f"{_NAME}: Order {_shown(ord)} not supported.")
    first, second = _matrix_dims(input, dim)
    _check_dtype(input, dtype)
    if ord == "fro":
        return public("linalg_vector_norm")(input, 2, (first, second), keepdim, dtype=dtype)
    if ord not in _BY_SUMS:
        check.floating(input, _NAME, low_precision=False)
    if dtype is not None:
        input = input.to(dtype)
    if ord in _BY_SUMS:
        summed, left = (second, first) if abs(ord) == math.inf else (first, second)
        sums = public("linalg_vector_norm")(input, 1, summed, True)
        found = _extreme(sums, left, ord > 0)
    else:
        values = public("linalg_svdvals")(input.movedim((first, second), (-2, -1)))
        found = values.sum(-1) if ord == "nuc" else _extreme(values, -1, ord > 0, False)
        if keepdim:
            for k in sorted((first, second)):
                found = found.unsqueeze(k)
        return found
    if keepdim:
        return found
    return found.squeeze((first, second))


def _extreme(values, dim, largest, keepdim=True):
    if largest and values.shape[dim] == 0:  # nothing is as large as zero
        return values.sum(dim, keepdim=keepdim)
    return values.amax(dim, keepdim) if largest else values.amin(dim, keepdim)


@composite(
    variants="out",
    bind=True,
    exact_out="linalg.matrix_norm expected out tensor dtype {wanted.scalar_name} but got: "
    "{got.scalar_name}",
)
def linalg_matrix_norm(
    input,
    ord: object = "fro",
    dim: IntList = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: DType = None,
):
    """A norm of matrices: fro, nuc, 1, -1, 2, -2, inf or -inf."""
    if ord is None or isinstance(dim, int):
        raise TypeError(
            "linalg_matrix_norm() received an invalid combination of arguments - got (Tensor, "
            f"{'NoneType' if ord is None else 'dim=int'}), but expected one of:\n"
            " * (Tensor input, Number ord, tuple of ints dim, bool keepdim = False, *, torch.dtype "
            "dtype = None, Tensor out = None)\n"
            " * (Tensor input, str ord = fro, tuple of ints dim, bool keepdim = False, *, "
            "torch.dtype dtype = None, Tensor out = None)\n"
        )
    return _matrix_norm(input, ord, dim, keepdim, dtype)


@composite(
    variants="out",
    bind=True,
    exact_out="linalg.norm expected out tensor dtype {wanted.scalar_name} but got: "
    "{got.scalar_name}",
)
def linalg_norm(
    input, ord: object = None, dim: Dims = None, keepdim: bool = False, *, dtype: DType = None
):
    """A norm of vectors or matrices, as the dimensions say."""
    if isinstance(ord, str) and (dim is not None or input.ndim < 3):
        return _matrix_norm(input, ord, (-2, -1) if dim is None else dim, keepdim, dtype)
    dims = (dim,) if isinstance(dim, int) else dim
    if dims is not None and len(dims) not in ((1, 2) if ord is not None else range(1, 65)):
        raise RuntimeError(
            f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dims)}"
        )
    if dims is None and ord is not None and input.ndim not in (1, 2):
        raise RuntimeError(
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
            f"{input.ndim}D."
        )
    matrices = ord is not None and (
        (dims is None and input.ndim == 2) or (dims is not None and len(dims) == 2)
    )
    if matrices:
        return _matrix_norm(input, ord, dims or (-2, -1), keepdim, dtype)
    order = 2 if ord is None else ord
    return public("linalg_vector_norm")(input, order, dims, keepdim, dtype=dtype)


@composite(variants="function out", bind=True)
def nuclear_norm(input, dim: object = MISSING, keepdim: bool = False):
    """The sum of singular values."""
    if isinstance(dim, bool):  # nuclear_norm(input, keepdim)
        dim, keepdim = MISSING, dim
    if dim is not MISSING and not isinstance(dim, (int, tuple, list)):
        raise TypeError(
            "nuclear_norm() received an invalid combination of arguments - got (Tensor, "
            f"{errors.kind_name(dim)})"
        )
    dim = (-2, -1) if dim is MISSING else (dim, dim) if isinstance(dim, int) else dim
    return _matrix_norm(input, "nuc", dim, keepdim, None)


@composite(variants="function out", bind=True)
def frobenius_norm(input, dim: Dims, keepdim: bool = False):
    """The square root of the sum of squares over one or two dimensions."""
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) > 2:
        raise RuntimeError(
            f"Expected at most 2 dimensions, but got {len(dims)} dimensions instead."
        )
    return public("linalg_vector_norm")(input, 2, dims or None, keepdim)


@composite(variants="function", bind=True)
def norm_except_dim(v, pow: int = 2, dim: int = 0):
    """Norms over all dimensions but one; over all if dim is -1."""
    if dim == -1:
        return public("linalg_vector_norm")(v, pow)
    if not v.ndim:
        raise errors.no_dimensions(dim)
    if not v.numel() and dim in (0, v.ndim - 1) and not v.shape[dim]:
        rest = "0, -1" if dim == 0 else "-1, 0"
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape [{rest}] because the unspecified "
            "dimension size -1 can be any value and is ambiguous"
        )
    others = tuple(k for k in range(v.ndim) if k != wrap_dim(dim, v.ndim))
    if not others:  # which would mean all
        return public("linalg_vector_norm")(v.unsqueeze(1), pow, 1)
    return public("linalg_vector_norm")(v, pow, others, True)


@composite(variants="out", bind=True, castable_out="linalg.cond: result")
def linalg_cond(input, p: object = None):
    """Condition numbers: |A| |A⁻¹| in a norm (2 unless told)."""
    if input.ndim < 2:
        raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    order = 2 if p is None else p
    if isinstance(order, complex):
        d.check_fits(order, d.float64)
    known = ("fro", "nuc") if isinstance(order, str) else (1, -1, 2, -2, math.inf, -math.inf)
    if isinstance(order, str):
        check.same_sides(input, f"linalg.cond(ord={order})")
    if order not in known:
        raise RuntimeError(f"linalg.cond got an invalid norm type: {_shown(order)}")
    if input.numel() == 0:
        return input.new_zeros(input.shape[:-2], dtype=input.dtype.to_real())
    if order in (2, -2):
        values = public("linalg_svdvals")(input)
        largest, smallest = values.narrow(-1, 0, 1), values.narrow(-1, -1, 1)
        return (largest / smallest if order == 2 else smallest / largest).squeeze(-1)
    check.same_sides(input, f"linalg.cond(ord={_shown(order)})")
    inverse, info = public("_linalg_inv_ex")(input, False)
    if order == "nuc":  # singular values of what has no inverse are not to be had
        return _nuclear_cond(input, inverse, info)
    found = _matrix_norm(input, order, (-2, -1), False, None) * _matrix_norm(
        inverse, order, (-2, -1), False, None
    )
    return public("where")(info == 0, found, math.inf)


def _nuclear_cond(input, inverse, info):
    singular = info != 0
    inverse = inverse.masked_fill(singular[..., None, None], 0.0)
    found = public("nuclear_norm")(input) * public("nuclear_norm")(inverse)
    return found.masked_fill(singular, math.inf)
