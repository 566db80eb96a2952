"""Launching matrix products: what is checked, and how vectors and sums become one product.

For plain tensors that are known to fit, other launchers call `product(a, b)`, or `multiply_into` of
gemm.py, which writes into a given tensor and can scale, add and activate on the way. The launchers
here say which matrices operands are; what they refuse is in products_checks.py. Rows are in
ops/products.py, plans in eager/gemm.py, kernels in codegen/templates/gemm.py.
"""

from math import prod

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import (
    Size,
    broadcast_pair,
    broadcast_shape,
    dense_layout,
    expanded_strides,
    make_layout,
    merged,
)
from flambeau._natively import natively
from flambeau._tensor import alias, empty_like_layout
from flambeau.autograd.grad_mode import modes
from flambeau.eager import gemm
from flambeau.eager.arguments import number as in_range
from flambeau.eager.launching import call_row, launches, overwrite
from flambeau.eager.plan import NO_WORK
from flambeau.eager.plans import Plans
from flambeau.ops.products_checks import (
    check_addbmm,
    check_addmm,
    check_addmv,
    check_baddbmm,
    check_batch_sizes,
    check_batches,
    check_inner,
    check_same_dtype,
    check_scalar_types,
    check_vector_dtypes,
    check_vectors,
    is_refused,
    refuse,
    wrong_batch,
)
from flambeau.ops.table import public as function
from flambeau.runtime.base import nothing

SPLIT = 1 << 13  # length of the pieces of a long sum


def product(a, b, form=None):
    """a @ b on plain tensors of two or more dimensions; batches broadcast.

    form: a function of both layouts that checks them and says which matrices they are; where it
    cannot say, there is no product (None).
    """
    found = PRODUCTS[form or as_they_are, a._layout, b._layout]
    if found is None:
        return None
    layout, kernel, desc, run = found
    out = empty_like_layout(layout)
    if kernel is None:
        return run(out, a, b)
    x, y = a._storage.pointer + a._offset, b._storage.pointer + b._offset
    kernel(desc, out._storage.pointer, x, y, 0, 0)
    return out


def _plan_product(key):
    """(layout of the product, kernel, description, None or what to run in place of the kernel)."""
    form, a, b = key
    found = form(a, b)
    if found is None:
        return None
    shape, *matrices = found
    layout = dense_layout(shape, a.dtype, a.device)
    if layout.numel == 0 or not a.device.runtime.computes:
        return layout, nothing, NO_WORK, None
    m, n, k, left, right, sizes, steps = matrices
    if k >= 2 * SPLIT and not sizes and _is_long(m, n, k, a.dtype):
        return layout, None, None, lambda out, a, b: _split_product(out, a, b, matrices)
    plan = gemm.plan(a, m, n, k, (n, 1), left, right, False, "", (), sizes, steps)
    if plan.__class__ is not gemm.Plan:
        return layout, None, None, lambda out, a, b: _with_views(plan, out, a, b, matrices)
    if plan.slot or plan.swapped:
        return layout, None, None, plan.multiply
    return layout, plan.kernel, plan.desc, None


PRODUCTS = Plans(_plan_product, by_default=False)


# A form is (shape of the result, m, n, k, strides of a matrix of each operand, sizes of the batch,
# strides along the batch: of the result, then of both operands).


def as_they_are(a, b):
    """The form of two matrices, or of batches of them, which broadcast."""
    if a.ndim == b.ndim == 2:
        (m, k), (_, n) = a.sizes, b.sizes
        return (m, n), m, n, k, a.strides, b.strides, (), ()
    return _batched(a.sizes, a.strides, b.sizes, b.strides)


@natively
def _batched(a: tuple, by_a: tuple, b: tuple, by_b: tuple):
    m = a[-2]
    n = b[-1]
    batch = list(a[:-2])
    other = list(b[:-2])
    if len(batch) < len(other):
        batch = list(broadcast_pair(tuple(other), tuple(batch), True))
    else:
        batch = list(broadcast_pair(tuple(batch), tuple(other), False))
    sizes: list[int] = []
    c: list[int] = []
    x: list[int] = []
    y: list[int] = []
    step = m * n  # from matrix to matrix of the dense result
    for at in range(len(batch) - 1, -1, -1):
        if batch[at] == 1:
            continue
        i = at - len(batch) + len(a) - 2
        j = at - len(batch) + len(b) - 2
        along_a = by_a[i] if i >= 0 and a[i] != 1 else 0
        along_b = by_b[j] if j >= 0 and b[j] != 1 else 0
        if sizes and x[-1] * sizes[-1] == along_a and y[-1] * sizes[-1] == along_b:
            sizes[-1] *= batch[at]
        else:
            sizes.append(batch[at])
            c.append(step)
            x.append(along_a)
            y.append(along_b)
        step *= batch[at]
    steps = [*c[::-1], *x[::-1], *y[::-1]]
    shape = [*batch, m, n]
    left = by_a[-2:]
    right = by_b[-2:]
    return tuple(shape), m, n, a[-1], tuple(left), tuple(right), tuple(sizes[::-1]), tuple(steps)


@natively
def as_rows(sizes: tuple, strides: tuple):
    """(rows, their step) where all but the last dimension are rows evenly apart; else (0, 0)."""
    rows, steps = merged(tuple(sizes[:-1]), tuple(strides[:-1]), 1)
    if len(rows) != 1:
        return 0, 0
    return rows[0], steps[0]


def matmul_form(a, b):
    """The form of a @ b where it is one kernel; None where `matmul` must look closer."""
    if a.ndim < 2 or b.ndim < 2 or a.dtype is not b.dtype or is_refused(a.dtype):
        return None
    k, (*other, inner, n) = a.sizes[-1], b.sizes
    if k != inner:
        return None
    if a.ndim > 2 and not other:
        rows, step = as_rows(a.sizes, a.strides)
        if rows:  # one tall matrix
            return (*a.sizes[:-1], n), rows, n, k, (step, a.strides[-1]), b.strides, (), ()
    return as_they_are(a, b)


def _as_tensors(out, a, b, matrices):
    """The result and the operands as batches of matrices."""
    m, n, k, left, right, sizes, steps = matrices
    rank = len(sizes)
    c, x, y = steps[:rank], steps[rank : 2 * rank], steps[2 * rank :]
    return (
        _view(out, (*sizes, m, n), (*c, n, 1)),
        _view(a, (*sizes, m, k), (*x, *left)),
        _view(b, (*sizes, k, n), (*y, *right)),
    )


def _with_views(compute, out, a, b, matrices):
    """A product that takes more than one kernel."""
    compute(*_as_tensors(out, a, b, matrices), alpha=1, addends=(), activation="")
    return out


def _is_long(m, n, k, dtype):
    """A long sum for few results?"""
    return k >= 2 * SPLIT and m * n <= 256 and dtype.itemsize > 2


def _split_product(out, a, b, matrices):
    """A long sum for few results: products of pieces side by side, then their sum.

    Pieces run on several threads, and short sums lose fewer digits than long ones.
    """
    m, n, k, (am, ak), (bk, bn), _, _ = matrices
    pieces = k // SPLIT
    parts = product(
        _view(a, (pieces, m, SPLIT), (SPLIT * ak, am, ak)),
        _view(b, (pieces, SPLIT, n), (SPLIT * bk, bk, bn)),
    )
    total = function("sum")(parts, 0, dtype=a.dtype)
    done = pieces * SPLIT
    if done < k:
        size = a._layout.itemsize
        rest = product(
            _view(a, (m, k - done), (am, ak), done * ak * size),
            _view(b, (k - done, n), (bk, bn), done * bk * size),
        )
        total = function("add")(total, rest)
    return alias(total, out._layout, total._offset)


# -- plain products -------------------------------------------------------------------------------


@launches("mm")
def mm(input, mat2):
    return product(input, mat2, _mm_form)


def _mm_form(a, b):
    if a.ndim != 2:
        raise RuntimeError("self must be a matrix")
    if b.ndim != 2:
        raise RuntimeError("mat2 must be a matrix")
    check_inner(*a.shape, *b.shape)
    check_same_dtype(a.dtype, b.dtype)
    refuse("addmm_impl_cpu_", a, b)
    return as_they_are(a, b)


@launches("bmm")
def bmm(input, mat2):
    return product(input, mat2, _bmm_form)


def _bmm_form(a, b):
    check_batches(a, b)
    check_batch_sizes(a, b)
    refuse("bmm", a, a)
    check_scalar_types(a, b)
    return as_they_are(a, b)


@launches("batched_product")
def batched_product(input, other):
    return product(input, other, _batched_form)


def _batched_form(a, b):
    *batch, _, inner = a.shape
    *other, rows, _ = b.shape
    if inner != rows:
        count = prod(broadcast_shape(batch, other))
        raise wrong_batch((count, inner), (count, rows))
    refuse("bmm", a, a)
    check_scalar_types(a, b)
    return as_they_are(a, b)


@launches("mv")
def mv(input, vec):
    return product(input, vec, _mv_form)


def _mv_form(a, b):
    if not a.ndim:
        raise errors.no_dimensions(0)
    check_vectors(a.shape[:1], a, b)
    check_vector_dtypes(b, a, b)
    refuse("addmv_impl_cpu", a, b)
    (rows, n), (step,) = a.shape, b.strides
    return (rows,), rows, 1, n, a.strides, (step, 1), (), ()


@launches("dot")
def dot(input, tensor):
    return product(input, tensor, _dot_form)


def _dot_form(a, b):
    if a.ndim != 1 or b.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {a.ndim}D and {b.ndim}D tensors")
    if a.dtype is not b.dtype:
        raise RuntimeError(
            "dot : expected both vectors to have same dtype, but found "
            f"{a.dtype.scalar_name} and {b.dtype.scalar_name}"
        )
    (n,), (m,) = a.shape, b.shape
    if n != m:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{n}] and src [{m}] to have "
            f"the same number of elements, but got {n} and {m} elements respectively"
        )
    if is_refused(a.dtype):
        raise errors.not_implemented("dot", a.dtype)
    return (), 1, 1, n, (1, a.strides[0]), (b.strides[0], 1), (), ()


def _view(t, shape, strides, skip=0):
    layout = make_layout(Size(shape), tuple(strides), t.dtype, t.device)
    return alias(t, layout, t._offset + skip)


# -- products added to something ------------------------------------------------------------------

_SCALARS = {
    "uint8": "uint8_t", "int8": "int8_t", "int16": "int16_t", "int32": "int", "int64": "int64_t",
    "float16": "float", "bfloat16": "float", "float32": "float", "float64": "double",
}  # fmt: skip


def _factor(value, dtype):
    """alpha or beta as a number of the product's dtype: integers lose their fraction."""
    if type(value) is int and -128 <= value < 128:
        return value
    try:
        half = dtype.category == d.FLOATING and dtype.itemsize == 2
        d.check_fits(in_range(value), d.float32 if half else dtype)
    except RuntimeError:
        kind = dtype.cpp_name if dtype.is_complex else _SCALARS[dtype.name]
        raise RuntimeError(f"value cannot be converted to type {kind} without overflow") from None
    if dtype.is_complex:
        return value
    value = value.real
    return int(value) if dtype.category == 1 else value


def _added(form, input, a, b, beta, alpha):
    """beta * input + alpha * (a @ b), in one kernel; with beta 0 even nan does not count."""
    dtype = a._layout.dtype
    beta = _factor(beta, dtype)
    alpha = _factor(alpha, dtype) if a._layout.shape[-1:] != (0,) else 1  # sums of nothing are 0
    # 0: the product does not count, not even as nan; so for single products only
    scale = 1 if alpha == 1 else 2 if alpha or a._layout.ndim > 2 else 0
    layout, plan = ADDED[form, input._layout, a._layout, b._layout, scale, beta != 0]
    if plan is _apart:
        return _apart(input, a, b, beta, alpha)
    out = empty_like_layout(layout)
    if plan is None:
        return out
    more = [*gemm.number(alpha, dtype)] if scale == 2 else []
    if beta != 0:
        more += (input._storage.pointer + input._offset, *gemm.number(beta, dtype))
    if plan.__class__ is gemm.Plan:
        x, y = a._storage.pointer + a._offset, b._storage.pointer + b._offset
        plan.run(out._storage.pointer, x, y, *more)
        return out
    addends = [(input, beta)] if beta != 0 else []
    return plan(out, a, b, alpha=alpha, addends=addends, activation="")


def _plan_added(key):
    """(layout of the result, a Plan or what else computes it or None)."""
    form, input, a, b, scale, added = key
    form(input, a, b)
    *batch, m, k = a.shape
    if b.ndim == 1:
        n, vector, right = 1, True, (b.strides[0], 1)
    else:
        n, vector, right = b.shape[-1], False, b.strides[-2:]
    layout = dense_layout((m,) if vector else (*batch, m, n), a.dtype, a.device)
    if layout.numel == 0 or not a.device.runtime.computes:
        return layout, None
    if scale == 0:  # as BLAS does: nan in the product does not count then
        k, scale = 0, 1
    elif not batch and _is_long(m, n, k, a.dtype):
        return layout, _apart
    extra, steps, sizes = (), (), ()
    if added:
        strides = expanded_strides(input, layout.shape)
        extra = [(strides[0], 0) if vector else strides[-2:]]
    if batch:
        sizes, steps = tuple(batch), (m * n, a.strides[0], b.strides[0])
        if added:
            steps += strides[:1]
    rest = (n, 1), a.strides[-2:], right, scale != 1, "", extra, sizes, steps
    return layout, gemm.plan(a, m, n, k, *rest)


ADDED = Plans(_plan_added, by_default=False)


def _apart(input, a, b, beta, alpha):
    """A long sum is computed in pieces; then what belongs to it is added."""
    found = product(a, b, as_they_are if b._layout.ndim > 1 else _mv_form)
    previous, modes.grad = modes.grad, False
    try:
        found = found if alpha == 1 else found.mul_(alpha)
        return found if beta == 0 else found.add_(input, alpha=beta)
    finally:
        modes.grad = previous


@launches("addmm")
def addmm(input, mat1, mat2, beta, alpha):
    return _added(check_addmm, input, mat1, mat2, beta, alpha)


@launches("addbmm")
def addbmm(input, batch1, batch2, beta, alpha):
    check_addbmm(input, batch1, batch2)
    # one long product: the batch becomes part of what is summed over
    count, rows, inner = batch1.shape
    left, right = function("transpose")(batch1.detach(), 0, 1), batch2.detach()
    left = function("reshape")(left, (rows, count * inner))
    right = function("reshape")(right, (count * inner, batch2.shape[2]))
    return _added(check_addmm, input, left, right, beta, alpha)


@launches("baddbmm")
def baddbmm(input, batch1, batch2, beta, alpha):
    return _added(check_baddbmm, input, batch1, batch2, beta, alpha)


@launches("addmv")
def addmv(input, mat, vec, beta, alpha):
    return _added(check_addmv, input, mat, vec, beta, alpha)


# -- in place, and out= ---------------------------------------------------------------------------


@launches("addmm_", "addmv_", "baddbmm_", "addbmm_")
def write_added(op, bound):
    """op_: the result must have the shape of what it is written to."""
    input = bound["input"]

    def compute():
        result = call_row(op, bound)
        if result.shape != input.shape:
            raise RuntimeError(
                f"Bad in-place call: input tensor size {list(input.shape)} and output tensor size "
                f"{list(result.shape)} should match"
            )
        return result

    return overwrite(input, compute)
