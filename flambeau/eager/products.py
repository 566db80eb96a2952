"""Launching matrix products: what is checked, and how vectors and sums become one product.

For plain tensors that are known to fit, other launchers call `product(a, b)`, or `multiply_into` of
gemm.py, which writes into a given tensor and can scale, add and activate on the way. The launchers
here check operands in PyTorch's words and order. Rows are in ops/products.py, plans in
eager/gemm.py, kernels in codegen/templates/gemm.py.
"""

from math import prod

from flambeau import errors
from flambeau._layout import Size, broadcast_shape, make_layout
from flambeau._tensor import Tensor, alias, empty_like_layout, empty_tensor
from flambeau.autograd import views
from flambeau.autograd.grad_mode import modes
from flambeau.eager.launching import FRONTS, LAUNCHERS, call_row, launches
from flambeau.eager.pointwise import keep_original
from flambeau.eager.formula import wants_grad
from flambeau.eager.fronts import quick_function
from flambeau.eager.gemm import Plan, multiply_into, plan_for
from flambeau.eager.outs import not_exact
from flambeau.eager.plan import MAX_PLANS
from flambeau.eager.rows import is_computed
from flambeau.ops.table import public as function

SPLIT = 1 << 13  # length of the pieces of a long sum

# layouts of two checked operands -> (layout of the product, kernel, description, plan); without a
# kernel, the plan has more to do than call it
READY: dict = {}


def ready_product(a, b, found):
    """A product that was planned before: `found` is its entry in READY."""
    layout, kernel, desc, plan = found
    out = empty_like_layout(layout)
    c = out._storage.pointer
    a, b = a._storage.pointer + a._offset, b._storage.pointer + b._offset
    if kernel is not None:
        kernel(desc, c, a, b, 0, 0)
    else:
        plan.run(c, a, b)
    return out


def product(a, b):
    """a @ b on plain tensors of two or more dimensions; batches broadcast."""
    found = READY.get((a._layout, b._layout))
    if found is not None:
        return ready_product(a, b, found)
    batch = broadcast_shape(a.shape[:-2], b.shape[:-2]) if a.ndim > 2 or b.ndim > 2 else Size()
    out = empty_tensor(Size((*batch, a.shape[-2], b.shape[-1])), a.dtype, a.device)
    if out._layout.numel == 0 or a.device.type != "cpu":
        return out
    if _is_long(a, b):
        return _split_product(a, b)
    plan = plan_for(out._layout, a._layout, b._layout)
    if plan.__class__ is not Plan:
        return multiply_into(out, a, b)
    if len(READY) > MAX_PLANS:
        READY.clear()
    simple = not (plan.slot or plan.swapped)
    found = (out._layout, plan.kernel if simple else None, plan.desc, plan)
    READY[a._layout, b._layout] = found
    return ready_product(a, b, found)


def _is_long(a, b):
    """A long sum for few results?"""
    (m, k), n = a.shape[-2:], b.shape[-1]
    return k >= 2 * SPLIT and m * n <= 256 and a.ndim == b.ndim == 2 and a.dtype.itemsize > 2


def _split_product(a, b):
    """A long sum for few results: products of pieces side by side, then their sum.

    Pieces run on several threads, and short sums lose fewer digits than long ones.
    """
    (m, k), n = a.shape, b.shape[1]
    pieces = k // SPLIT
    (am, ak), (bk, bn) = a._layout.strides, b._layout.strides
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
    return total


# -- checks, in PyTorch's words and order ---------------------------------------------------------


def refuse(dtype, name):
    if dtype.category == 0 or dtype.name in ("uint16", "uint32", "uint64"):
        raise errors.not_implemented(name, dtype)


def check_inner(m, k, wanted, n):
    """m x k times wanted x n."""
    if k != wanted:
        hint = f"; mat2.T, of shape ({n}, {wanted}), would fit" if k == n else ""
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({m}x{k} and {wanted}x{n}){hint}"
        )


def check_same_dtype(a, b):
    if a is not b:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {a.cpp_name} != {b.cpp_name}"
        )


def _check_batches(a, b):
    for t, name in ((a, "batch1"), (b, "batch2")):
        if t.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")


def _check_batch_sizes(a, b):
    if b.shape[0] != a.shape[0] or b.shape[1] != a.shape[2]:
        raise _wrong_batch((a.shape[0], a.shape[2]), b.shape[:2])


def _wrong_batch(wanted, got):
    return RuntimeError(
        "Expected size for first two dimensions of batch2 tensor to be: "
        f"{list(wanted)} but got: {list(got)}."
    )


def _expected(a, b):
    """The complaint of kernels that look at their operands one by one."""
    if a.dtype is not b.dtype:
        return RuntimeError(
            f"expected scalar type {a.dtype.scalar_name} but found {b.dtype.scalar_name}"
        )
    return None


def check_expands(input, shape):
    """Can input be expanded to the shape of the product?"""
    given, missing = list(input.shape), len(shape) - len(input.shape)
    if missing < 0:
        raise RuntimeError(
            f"expand(torch.{input.dtype.scalar_name}Tensor{{{given}}}, size={list(shape)}): the "
            f"number of sizes provided ({len(shape)}) must be greater or equal to the number of "
            f"dimensions in the tensor ({len(given)})"
        )
    for k in range(len(given) - 1, -1, -1):
        wanted = shape[missing + k]
        if given[k] not in (1, wanted):
            raise RuntimeError(
                f"The expanded size of the tensor ({wanted}) must match the existing size "
                f"({given[k]}) at non-singleton dimension {missing + k}.  Target sizes: "
                f"{list(shape)}.  Tensor sizes: {given}"
            )


def _check_vectors(input_shape, mat, vec):
    """mat @ vec, with the shape of what is added to it."""
    ndim = max(1, len(input_shape))
    if mat.ndim != 2 or vec.ndim != 1 or len(input_shape) > 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {ndim}, {mat.ndim}, {vec.ndim}")
    added = input_shape[0] if input_shape else 1
    if mat.shape[1] != vec.shape[0] or added not in (1, mat.shape[0]):
        raise RuntimeError(
            f"size mismatch, got input ({added}), mat ({mat.shape[0]}x{mat.shape[1]}), vec "
            f"({vec.shape[0]})"
        )


def _check_vector_dtypes(input, mat, vec):
    if not input.dtype is mat.dtype is vec.dtype:
        names = [t.dtype.scalar_name for t in (input, mat, vec)]
        raise RuntimeError(
            f"addmv input tensors must have the same dtype, but got {names[0]}, {names[1]}, and "
            f"{names[2]}"
        )


# -- plain products -------------------------------------------------------------------------------


@launches("mm")
def mm(input, mat2):
    if input._layout.ndim == mat2._layout.ndim == 2:
        found = READY.get((input._layout, mat2._layout))
        if found is not None:
            return ready_product(input, mat2, found)
    if input.ndim != 2:
        raise RuntimeError("self must be a matrix")
    if mat2.ndim != 2:
        raise RuntimeError("mat2 must be a matrix")
    check_inner(*input.shape, *mat2.shape)
    check_same_dtype(input.dtype, mat2.dtype)
    refuse(input.dtype, "addmm_impl_cpu_")
    return product(input, mat2)


@launches("bmm")
def bmm(input, mat2):
    _check_batches(input, mat2)
    _check_batch_sizes(input, mat2)
    if input.dtype is not mat2.dtype:
        raise _expected(input, mat2)
    refuse(input.dtype, "bmm")
    return product(input, mat2)


@launches("batched_product")
def batched_product(input, other):
    found = READY.get((input._layout, other._layout))
    if found is not None:
        return ready_product(input, other, found)
    count = prod(broadcast_shape(input.shape[:-2], other.shape[:-2]))
    (_, inner), (rows, _) = input.shape[-2:], other.shape[-2:]
    if inner != rows:
        raise _wrong_batch((count, inner), (count, rows))
    if input.dtype is not other.dtype:
        raise _expected(input, other)
    refuse(input.dtype, "bmm")
    return product(input, other)


@launches("mv")
def mv(input, vec):
    if not input.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    _check_vectors(input.shape[:1], input, vec)
    _check_vector_dtypes(vec, input, vec)
    return _times_vector(input, vec)


def _times_vector(mat, vec):
    refuse(mat.dtype, "addmv_impl_cpu")
    return _view(product(mat, _column(vec)), (mat.shape[0],), (1,))


def _column(vec):
    """A vector as a matrix of one column."""
    return _view(vec, (vec.shape[0], 1), (vec._layout.strides[0], 1))


def _view(t, shape, strides, skip=0):
    layout = make_layout(Size(shape), tuple(strides), t.dtype, t.device)
    return alias(t, layout, t._offset + skip)


@launches("dot")
def dot(input, tensor):
    if input.ndim != 1 or tensor.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {input.ndim}D and {tensor.ndim}D tensors")
    if input.dtype is not tensor.dtype:
        raise RuntimeError(
            "dot : expected both vectors to have same dtype, but found "
            f"{input.dtype.scalar_name} and {tensor.dtype.scalar_name}"
        )
    n = input.shape[0]
    if input.shape != tensor.shape:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{n}] and src [{tensor.shape[0]}] to have "
            f"the same number of elements, but got {n} and {tensor.shape[0]} elements respectively"
        )
    refuse(input.dtype, "dot")
    row = _view(input, (1, n), (1, input._layout.strides[0]))
    column = _view(tensor, (n, 1), (tensor._layout.strides[0], 1))
    return _view(product(row, column), (), ())


# -- products added to something ------------------------------------------------------------------

_SCALARS = {
    "uint8": "uint8_t", "int8": "int8_t", "int16": "int16_t", "int32": "int", "int64": "int64_t",
    "float16": "float", "bfloat16": "float", "float32": "float", "float64": "double",
}  # fmt: skip


def _factor(value, dtype):
    """alpha or beta as a number of the product's dtype: integers lose their fraction."""
    if dtype.is_complex:
        return value
    if isinstance(value, complex):
        raise RuntimeError(
            f"value cannot be converted to type {_SCALARS[dtype.name]} without overflow"
        )
    return int(value) if dtype.category == 1 else value


def _added(a, b, input, beta, alpha):
    """beta * input + alpha * (a @ b), in one kernel; with beta 0 even nan does not count."""
    beta, alpha = _factor(beta, a.dtype), _factor(alpha, a.dtype)
    out = empty_tensor(Size((*a.shape[:-1], b.shape[-1])), a.dtype, a.device)
    if not is_computed(out):
        return out
    if alpha == 0 and out._layout.ndim < 3:
        # as BLAS does: nan in the product does not count then
        alpha, a, b = 1, _no_columns(a), _no_rows(b)
    elif _is_long(a, b):
        found = product(a, b)
        previous, modes.grad = modes.grad, False
        try:
            found = found if alpha == 1 else found.mul_(alpha)
            return found if beta == 0 else found.add_(input, alpha=beta)
        finally:
            modes.grad = previous
    addends = [(input, beta)] if beta != 0 else []
    return multiply_into(out, a, b, alpha=alpha, addends=addends)


def _no_columns(t):
    return _view(t, (t.shape[0], 0), (1, 1))


def _no_rows(t):
    return _view(t, (0, t.shape[1]), (1, 1))


@launches("addmm")
def addmm(input, mat1, mat2, beta, alpha):
    for t, name in ((mat1, "mat1"), (mat2, "mat2")):
        if t.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix, got {t.ndim}-D tensor")
    check_inner(*mat1.shape, *mat2.shape)
    check_expands(input, (mat1.shape[0], mat2.shape[1]))
    check_added(input, mat1, mat2)
    return _added(mat1, mat2, input, beta, alpha)


def check_added(input, mat1, mat2):
    for t, name in ((input, "self"), (mat1, "mat1")):
        if t.dtype is not mat2.dtype:
            raise RuntimeError(
                f"{name} and mat2 must have the same dtype, but got "
                f"{t.dtype.scalar_name} and {mat2.dtype.scalar_name}"
            )
    refuse(mat2.dtype, "addmm_impl_cpu_")


@launches("addbmm")
def addbmm(input, batch1, batch2, beta, alpha):
    _check_batches(batch1, batch2)
    if batch1.shape[0] != batch2.shape[0]:
        raise RuntimeError(
            f"batch1 and batch2 must have same number of batches, got {batch1.shape[0]} and "
            f"{batch2.shape[0]}"
        )
    shape = (batch1.shape[1], batch2.shape[2])
    check_expands(input, shape)
    if batch1.shape[2] != batch2.shape[1]:
        raise RuntimeError(
            f"Incompatible matrix sizes for bmm ({batch1.shape[1]}x{batch1.shape[2]} and "
            f"{batch2.shape[1]}x{batch2.shape[2]})"
        )
    check_added(input, batch1, batch2)
    # one long product: the batch becomes part of what is summed over
    count, rows, inner = batch1.shape
    left, right = function("transpose")(batch1.detach(), 0, 1), batch2.detach()
    left = function("reshape")(left, (rows, count * inner))
    right = function("reshape")(right, (count * inner, batch2.shape[2]))
    return _added(left, right, input, beta, alpha)


@launches("baddbmm")
def baddbmm(input, batch1, batch2, beta, alpha):
    _check_batches(batch1, batch2)
    check_expands(input, (batch1.shape[0], batch1.shape[1], batch2.shape[2]))
    _check_batch_sizes(batch1, batch2)
    if input.dtype is not batch1.dtype:
        names = [t.dtype.cpp_name for t in (input, batch1, batch2)]
        raise RuntimeError(
            f"Input dtypes must be the same, got: input {names[0]}, batch1: {names[1]}, batch2: "
            f"{names[2]}"
        )
    if batch1.dtype is not batch2.dtype:
        raise _expected(batch1, batch2)
    refuse(input.dtype, "baddbmm")
    return _added(batch1, batch2, input, beta, alpha)


@launches("addmv")
def addmv(input, mat, vec, beta, alpha):
    _check_vectors(input.shape, mat, vec)
    _check_vector_dtypes(input, mat, vec)
    refuse(mat.dtype, "addmv_impl_cpu")
    rows = mat.shape[0]
    step = input._layout.strides[0] if input.shape == (rows,) else 0
    found = _added(mat, _column(vec), _view(input, (rows, 1), (step, 1)), beta, alpha)
    return _view(found, (rows,), (1,))


# -- in place, and out= ---------------------------------------------------------------------------


@launches("addmm_", "addmv_", "baddbmm_", "addbmm_")
def write_added(op, bound):
    """op_: the result must have the shape of what it is written to."""
    input = bound["input"]
    recording = wants_grad(op, bound)
    if recording:
        views.check_inplace(input)
    result = call_row(op, bound)
    if result.shape != input.shape:
        raise RuntimeError(
            f"Bad in-place call: input tensor size {list(input.shape)} and output tensor size "
            f"{list(result.shape)} should match"
        )
    node = result._grad_fn
    if node is None:
        return input.copy_(result)
    keep_original(node, input)
    input.detach().copy_(result.detach())
    views.rebase(input, node)
    return input


def _exact_out(op, general):
    """A front whose slow path wants out= to have exactly the dtype of the product."""

    def checked(*args, out=None, **kwargs):
        if out is None:
            return general(*args, **kwargs)
        given = next((a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)), None)
        if isinstance(out, Tensor) and given is not None and out.dtype is not given.dtype:
            raise _OUT[op.template](given.dtype, out.dtype)
        return general(*args, out=out, **kwargs)

    return quick_function(op, LAUNCHERS[op.template], checked, lambda bound: call_row(op, bound))


def _dot_out(wanted, got):
    return RuntimeError(
        f"result dtype {got.scalar_name} does not match input dtype {wanted.scalar_name}"
    )


def _addbmm_out(wanted, got):
    return RuntimeError(
        f"self and mat2 must have the same dtype, but got {got.scalar_name} and "
        f"{wanted.scalar_name}"
    )


_OUT: dict = dict.fromkeys(("mm", "bmm", "mv", "addmm", "addmv", "baddbmm"), not_exact)
_OUT |= {"dot": _dot_out, "addbmm": _addbmm_out}
for _name in _OUT:
    FRONTS[_name] = _exact_out
