"""Reductions over some or all dimensions: sums, means, products, truth.

A row says how states start, take in an element (the body), combine and finish; `result` names the
dtype a reduction computes with and those of its results, `signatures` its overloads, `out` what
out= does (see eager/reducing.py), `refuses` the dtypes PyTorch has no kernel for. Derivatives work
on tensors. Extremes, variances and norms have files of their own.
"""

import math

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import wrap_dim
from flambeau.codegen import scalar
from flambeau.codegen import scalar as m
from flambeau.ops.table import Dims, DType, composite, holds_anywhere, public, reduction

# -- dimensions -----------------------------------------------------------------------------------


def reduced_dims(dim, ndim):
    """Which dimensions an argument means; an empty list means all of them."""
    if dim is None or dim == ():
        return range(ndim)
    return sorted(k % ndim for k in (dim if isinstance(dim, (tuple, list)) else (dim,)))


def unsqueezed(t, shape, dim, keepdim):
    """A result of a reduction with the reduced dimensions put back, of size one."""
    if not keepdim and shape:
        for k in reduced_dims(dim, len(shape)):
            t = t.unsqueeze(k)
    return t


def restore_dims(g, shape, dim, keepdim):
    """A gradient of a reduction, spread over what was reduced."""
    return (unsqueezed(g, shape, dim, keepdim) if g.ndim else g).expand(shape)


def reduced_count(shape, dim):
    """How many elements each result of a reduction stands for."""
    return math.prod(shape[k] for k in reduced_dims(dim, len(shape))) if shape else 1


# -- dtype rules: (input dtype, arguments) -> (compute dtype, result dtypes) ----------------------


def summed(dtype, given):
    wanted = given.get("dtype")
    if wanted is None:
        wanted = d.int64 if dtype.category < d.FLOATING else dtype
    return wanted, (wanted,)


def averaged(dtype, given):
    wanted = given.get("dtype") or dtype
    if wanted.category < d.FLOATING:
        which = "Input" if given.get("dtype") is None else "Optional"
        raise RuntimeError(
            f"mean(): could not infer output dtype. {which} dtype must be either a floating point "
            f"or complex dtype. Got: {wanted.scalar_name}"
        )
    return wanted, (wanted,)


def unchanged(dtype, given):
    return dtype, (dtype,)


def same_state(type, code):
    return (type, type) if code[0] == "c" else (type,)


def _start(value):
    def init(type, code):
        number = m.const(value, type) if type != "bool" else m.const(bool(value), type)
        return scalar.Complex(number, m.const(0, type)) if code[0] == "c" else number

    return init


def _add(a, b):
    return a | b if not isinstance(a, scalar.Complex) and a.type == "bool" else a + b


_WITH_DTYPE = (
    "Tensor input, *, dtype dtype=None",
    "Tensor input, ints? dim, bool keepdim=False, *, dtype dtype=None, Tensor out=None",
)
_PLAIN = "function method out"


@reduction(
    linear=True,
    result=summed,
    state=same_state,
    init=_start(0),
    combine=_add,
    wide=True,
    variants=_PLAIN,
    overloads=True,
    signatures=_WITH_DTYPE,
    out="cast",
    refuses=("sum_cpu", "wide"),
    grad=lambda g, input_shape, dim, keepdim: restore_dims(g, input_shape, dim, keepdim),
)
def sum(input, dim: Dims = None, keepdim: bool = False, *, dtype: DType = None):
    """Sum over the given dimensions."""
    return input


def _divide(s, count):
    if isinstance(s, scalar.Complex):
        n = m.cast(count, s.re.type)
        return scalar.Complex(s.re / n, s.im / n)
    return s / m.cast(count, s.type)


@reduction(
    linear=True,
    result=averaged,
    state=same_state,
    init=_start(0),
    combine=_add,
    wide=True,
    finish=_divide,
    refuses=("sum_cpu", ""),
    variants=_PLAIN,
    overloads=True,
    signatures=("Tensor input, *, dtype dtype=None, Tensor out=None", _WITH_DTYPE[1]),
    out="average",
    grad=lambda g, input_shape, dim, keepdim: (
        restore_dims(g, input_shape, dim, keepdim) / reduced_count(input_shape, dim)
    ),
)
def mean(input, dim: Dims = None, keepdim: bool = False, *, dtype: DType = None):
    """Mean over the given dimensions."""
    return input


# -- products -------------------------------------------------------------------------------------


def prod_grad(g, input, out, dim, keepdim):
    """The product of the others: out / x, or by running products where zeros forbid that."""
    if not input.shape:
        return g
    if dim is None:
        flat = input.reshape(-1)
        return prod_grad(g, flat, out, 0, False).reshape(input.shape)
    if not keepdim:
        g, out = g.unsqueeze(dim), out.unsqueeze(dim)
    if input.device.runtime.computes and not holds_anywhere(input == 0):
        return g * m.conj(out / input)
    ones = public("ones_like")(input.narrow(dim, 0, 1))
    n = input.shape[dim]
    cat = public("cat")
    before = cat([ones, input.narrow(dim, 0, n - 1)], dim).cumprod(dim)
    after = cat([ones, input.narrow(dim, 1, n - 1).flip(dim)], dim).cumprod(dim).flip(dim)
    return g * m.conj(before * after)


@reduction(
    result=summed,
    state=same_state,
    init=_start(1),
    combine=lambda a, b: a * b,
    variants=_PLAIN,
    overloads=True,
    signatures=(_WITH_DTYPE[0], _WITH_DTYPE[1].replace("ints?", "int")),
    out="cast",
    refuses=("prod_out_cpu", "wide"),
    grad=lambda g, input, out, dim, keepdim: prod_grad(g, input, out, dim, keepdim),
)
def prod(input, dim: int = None, keepdim: bool = False, *, dtype: DType = None):
    """Product over a dimension, or of all elements."""
    return input


# -- truth ----------------------------------------------------------------------------------------


def _truth(dtype, given):
    return d.bool_, (d.uint8 if dtype is d.uint8 else d.bool_,)


_TRUTH = dict(
    result=_truth,
    state=lambda type, code: ("bool",),
    variants=_PLAIN,
    out="truth",
    all_if_empty=False,
    signatures=(
        "Tensor input, *, Tensor out=None",
        "Tensor input, ints dim=None, bool keepdim=False, *, Tensor out=None",
        "Tensor input, int dim, bool keepdim=False, *, Tensor out=None",
    ),
)


@reduction(init=_start(1), combine=lambda a, b: a & b, **_TRUTH)
def all(input, dim: Dims = None, keepdim: bool = False):
    """Are all elements true?"""
    return input


@reduction(init=_start(0), combine=lambda a, b: a | b, **_TRUTH)
def any(input, dim: Dims = None, keepdim: bool = False):
    """Is any element true?"""
    return input


@composite(variants="function")
def _is_all_true(input):
    """Are all elements true? Inside of vmap: those of all samples, so that `if` may ask for it."""
    return input.all()


@composite(variants="function")
def _is_any_true(input):
    """Is any element true? Inside of vmap: of any sample."""
    return input.any()


# -- nan-aware ------------------------------------------------------------------------------------


def _real_sum(op, layout, dims, given):
    if layout.dtype.is_complex:
        raise RuntimeError("nansum on CPU does not support complex inputs")


def _without_nan(x):
    if isinstance(x, scalar.Complex) or not scalar.is_float(x.type):
        return x
    return scalar.select(m.isnan(x), m.const(0, x.type), x)


@reduction(
    result=summed,
    state=same_state,
    init=_start(0),
    combine=_add,
    wide=True,
    variants=_PLAIN,
    filter=True,
    check=_real_sum,
    signatures=(_WITH_DTYPE[1].replace("dim,", "dim=None,"),),
    out="nansum",
    refuses=("sum_cpu", "wide"),
    grad=lambda g, input, dim, keepdim: restore_dims(g, input.shape, dim, keepdim) * ~input.isnan(),
)
def nansum(input, dim: Dims = None, keepdim: bool = False, *, dtype: DType = None):
    """Sum over the given dimensions, nan counted as zero."""
    return _without_nan(input)


# -- hashes ----------------------------------------------------------------------------------------


def _hash_dims(input, dim):
    """All dimensions that are joined, in order; PyTorch's words where nothing is left to join."""
    if not dim and dim != 0:
        if not input.numel():
            raise RuntimeError(
                "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. "
                "Specify the reduction dim with the 'dim' argument."
            )
        return tuple(range(input.ndim))
    given = (dim,) if type(dim) is int else dim
    dims = tuple(wrap_dim(k, input.ndim) for k in given)
    for k, n in zip(given, dims):
        if input.ndim and not input.shape[n]:
            raise IndexError(f"hash_tensor: Expected reduction dim {k} to have non-zero size.")
    return dims if input.ndim else ()


@composite(variants="function method out")
def hash_tensor(input, dim: Dims = (), *, keepdim: bool = False, mode: int = 0):
    """Bits of the elements, as 64-bit numbers of their kind, joined by exclusive or."""
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    dims = _hash_dims(input, dim)
    if input.dtype.is_complex:
        raise errors.not_implemented("xor_sum_cpu", input.dtype)
    wide = d.float64 if input.dtype.is_floating_point else d.int64
    bits = input.detach().to(wide).view(d.int64) if input.ndim else _bits_of_one(input, wide)
    kept = [1 if k in dims else n for k, n in enumerate(input.shape)]
    left = [n for k, n in enumerate(input.shape) if k not in dims]
    order = [k for k in range(input.ndim) if k not in dims] + list(dims)
    rows = bits.permute(order).reshape(*left, math.prod(input.shape[k] for k in dims))
    if not rows.shape[-1]:
        rows = rows.new_zeros(*left, 1)
    while rows.shape[-1] > 1:
        half = (rows.shape[-1] + 1) // 2
        joined = rows[..., half:] ^ rows[..., : rows.shape[-1] - half]
        rows = public("cat")([joined, rows[..., rows.shape[-1] - half : half]], -1)
    return rows.select(-1, 0).reshape(kept if keepdim else left).view(d.uint64)


def _bits_of_one(input, wide):
    return input.detach().to(wide).reshape(1).view(d.int64).reshape(())
