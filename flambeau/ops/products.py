"""Matrix products: rows for the plain products, and what is put together from them.

Launchers (eager/products.py) check operands and compute; here are signatures, derivatives and the
composites: matmul, tensordot, einsum (which has a file of its own), kron and chains of products.
"""

import itertools
import math
from functools import reduce

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import wrap_dim
from flambeau.codegen import scalar as m
from flambeau.errors import warn_once
from flambeau.ops import einsum as einsum_notation
from flambeau.ops.support import group_of, refuse_complex32
from flambeau.ops.table import OptionalTensor, Scalar, composite, public, template

_PLAIN = "function method out"
_ALL = "function method inplace out"


def _factors_first(first, second):
    """addmm(beta, input, alpha, mat1, mat2), from before factors had names; methods: self first."""
    return tuple(
        order
        for start in (("beta", "input", "alpha"), ("beta", "input"))
        for order in ((*start, first, second), ("input", *start[:1], *start[2:], first, second))
    )


def _adjoint(t):
    return m.conj(t.transpose(-2, -1))


def _scaled(g, factor):
    """g times the conjugate of a number."""
    if isinstance(factor, complex):
        return g * factor.conjugate()
    return g if factor == 1 else g * factor


def _is_turned(layout):
    """Do the rows of a matrix lie side by side?"""
    return layout.strides[0] == 1 and layout.strides[1] == layout.shape[0] > 1


def _to_left(g, right, layout):
    """The gradient of the first factor, in the memory order that the factor has."""
    if _is_turned(layout):
        return m.conj(right).mm(g.t()).t()
    return g.mm(_adjoint(right))


def _to_right(g, left, layout):
    if _is_turned(layout):
        return g.t().mm(m.conj(left)).t()
    return _adjoint(left).mm(g)


@template(
    "mm",
    linear="input, mat2",
    variants=_PLAIN,
    exact_out=True,
    grad=dict(
        input=lambda g, mat2, input_layout: _to_left(g, mat2, input_layout),
        mat2=lambda g, input, mat2_layout: _to_right(g, input, mat2_layout),
    ),
)
def mm(input, mat2):
    """Product of two matrices."""


@template(
    "bmm",
    linear="input, mat2",
    variants=_PLAIN,
    exact_out=True,
    grad=dict(
        input=lambda g, mat2: g.bmm(_adjoint(mat2)), mat2=lambda g, input: _adjoint(input).bmm(g)
    ),
)
def bmm(input, mat2):
    """Products of two batches of matrices."""


_DOT_OUT = "result dtype {got.scalar_name} does not match input dtype {wanted.scalar_name}"


@template(
    "mv",
    linear="input, vec",
    variants=_PLAIN,
    exact_out="addmv input tensors must have the same dtype, but got {got.scalar_name}, "
    "{wanted.scalar_name}, and {wanted.scalar_name}",
    grad=dict(
        input=lambda g, vec: g.outer(m.conj(vec)), vec=lambda g, input: _adjoint(input).mv(g)
    ),
)
def mv(input, vec):
    """Product of a matrix and a vector."""


@template(
    "dot",
    linear="input, tensor",
    variants=_PLAIN,
    exact_out=_DOT_OUT,
    grad=dict(
        input=lambda g, tensor: g * m.conj(tensor), tensor=lambda g, input: g * m.conj(input)
    ),
)
def dot(input, tensor):
    """Product of two vectors."""


@composite(
    variants=_PLAIN,
    exact_out=_DOT_OUT,
    grad=dict(input=lambda g, other: m.conj(g) * other, other=lambda g, input: g * input),
)
def vdot(input, other):
    """Product of two vectors, the first conjugated."""
    if input.ndim == other.ndim == 1:
        refuse_complex32("vdot", input)
    return m.conj(input).dot(other)


@composite(variants=_PLAIN, aliases="ger")
def outer(input, vec2):
    """All products of the elements of two vectors."""
    for name, t in (("self", input), ("vec2", vec2)):
        if t.ndim != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {t.ndim}-D")
    return input.unsqueeze(1) * vec2


# -- products added to something: beta * input + alpha * product ----------------------------------


@template(
    "addmm",
    linear="input mat1, input mat2",
    variants=_ALL,
    exact_out=True,
    old_orders=_factors_first("mat1", "mat2"),
    grad=dict(
        input=lambda g, beta: _scaled(g, beta),
        mat1=lambda g, mat2, mat1_layout, alpha: _scaled(_to_left(g, mat2, mat1_layout), alpha),
        mat2=lambda g, mat1, mat2_layout, alpha: _scaled(_to_right(g, mat1, mat2_layout), alpha),
    ),
)
def addmm(input, mat1, mat2, *, beta: Scalar = 1, alpha: Scalar = 1):
    """beta * input + alpha * (mat1 @ mat2)."""


@template(
    "baddbmm",
    linear="input batch1, input batch2",
    variants=_ALL,
    exact_out=True,
    old_orders=_factors_first("batch1", "batch2"),
    grad=dict(
        input=lambda g, beta: _scaled(g, beta),
        batch1=lambda g, batch2, alpha: _scaled(g.bmm(_adjoint(batch2)), alpha),
        batch2=lambda g, batch1, alpha: _scaled(_adjoint(batch1).bmm(g), alpha),
    ),
)
def baddbmm(input, batch1, batch2, *, beta: Scalar = 1, alpha: Scalar = 1):
    """beta * input + alpha * (batch1 @ batch2), batch by batch."""


def _repeated(g, batch):
    return g.unsqueeze(0).expand(batch.shape[0], -1, -1)


@template(
    "addbmm",
    linear="input batch1, input batch2",
    variants=_ALL,
    exact_out="self and mat2 must have the same dtype, but got {got.scalar_name} and "
    "{wanted.scalar_name}",
    old_orders=_factors_first("batch1", "batch2"),
    grad=dict(
        input=lambda g, beta: _scaled(g, beta),
        batch1=lambda g, batch2, alpha: _scaled(_repeated(g, batch2).bmm(_adjoint(batch2)), alpha),
        batch2=lambda g, batch1, alpha: _scaled(_adjoint(batch1).bmm(_repeated(g, batch1)), alpha),
    ),
)
def addbmm(input, batch1, batch2, *, beta: Scalar = 1, alpha: Scalar = 1):
    """beta * input + alpha * the sum over the batch of batch1 @ batch2."""


@template(
    "addmv",
    linear="input mat, input vec",
    variants=_ALL,
    exact_out=True,
    old_orders=_factors_first("mat", "vec"),
    grad=dict(
        input=lambda g, beta: _scaled(g, beta),
        mat=lambda g, vec, alpha: _scaled(g.outer(m.conj(vec)), alpha),
        vec=lambda g, mat, alpha: _scaled(_adjoint(mat).mv(g), alpha),
    ),
)
def addmv(input, mat, vec, *, beta: Scalar = 1, alpha: Scalar = 1):
    """beta * input + alpha * (mat @ vec)."""


def _check_factor(value, name, *tensors):
    """addr is arithmetic on elements, and as picky about its factors as add."""
    whole = all(t.dtype.category < 2 for t in tensors)
    if whole and isinstance(value, (float, complex)):
        raise RuntimeError(
            f"For integral input tensors, argument {name} must not be a floating point number."
        )
    if not whole:
        common = reduce(d.promote_types, [t.dtype for t in tensors])
        d.check_fits(value, common)


@composite(
    variants=_ALL,
    old_orders=_factors_first("vec1", "vec2"),
    grad=dict(
        input=lambda g, beta: _scaled(g, beta),
        vec1=lambda g, vec2, alpha: _scaled(g.mv(m.conj(vec2).to(g.dtype)), alpha),
        vec2=lambda g, vec1, alpha: _scaled(g.t().mv(m.conj(vec1).to(g.dtype)), alpha),
    ),
)
def addr(input, vec1, vec2, *, beta: Scalar = 1, alpha: Scalar = 1):
    """beta * input + alpha * the outer product."""
    for name, t in (("vec1", vec1), ("vec2", vec2)):
        if t.ndim != 1:
            raise RuntimeError(f"addr: Expected 1-D argument {name}, but got {t.ndim}-D")
    input = input.expand(vec1.shape[0], vec2.shape[0])
    for value, name in ((beta, "beta"), (alpha, "alpha")):
        _check_factor(value, name, input, vec1, vec2)
        if isinstance(value, bool) and any(t.dtype.category for t in (input, vec1, vec2)):
            raise RuntimeError(f"Boolean {name} only supported for Boolean results.")
    kinds = {"wide", "chalf"} & {group_of(t) for t in (input, vec1, vec2)}
    if kinds:
        raise errors.not_implemented("addr_cpu", vec1.dtype)
    common = d.promote_types(d.promote_types(input.dtype, vec1.dtype), vec2.dtype)
    input, product = input.to(common), vec1.to(common).outer(vec2.to(common))
    if common.category == 0:
        product = product & bool(alpha)
        return product | input if beta else product
    product = product if alpha == 1 else product * alpha
    if beta == 0:  # nan and inf in input do not count then
        return (
            product.to((product * 0 + input).dtype) if product.dtype is not input.dtype else product
        )
    return product + (input if beta == 1 else input * beta)


# -- matmul ---------------------------------------------------------------------------------------


@composite(variants=_PLAIN, namespace="linalg", exact_out=True, unrecorded_out=True)
def matmul(input, other):
    """Matrix product; batch dimensions broadcast, vectors are rows or columns as needed."""
    a, b = input.ndim, other.ndim
    if a == 2 and b == 2:
        return input.mm(other)
    if a == 0 or b == 0:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {a}D and {b}D"
        )
    if a == 1 and b == 1:
        return input.dot(other)
    if a == 2 and b == 1:
        return input.mv(other)
    if a == 1 and b == 2:
        return input.unsqueeze(0).mm(other).squeeze(0)
    if a >= 3 and b <= 2 and _folds(input, other):
        return _folded(input, other)
    if b >= 3 and a <= 2 and (input._requires_grad or a == 1) and _folds(other.mT, input):
        found = _folded(other.mT, input.t() if a == 2 else input)
        return found.mT.contiguous() if a == 2 else found
    return _batched(input, other)


def _folds(large, small):
    """Does a batch of matrices become one tall matrix without a copy (or is one worth it)?

    Folding keeps the gradient of the small operand small: it is summed inside one product.
    """
    if small._requires_grad or large.numel() == 0:
        return True
    shape, strides = large.shape, large.stride()
    return all(strides[k] == strides[k + 1] * shape[k + 1] for k in range(large.ndim - 2))


def _folded(large, small):
    """Rows of all matrices of the batch times one matrix or vector."""
    shape = large.shape
    rows = large.reshape(math.prod(shape[:-1]), shape[-1])
    found = rows.mm(small) if small.ndim == 2 else rows.mv(small)
    return public("_unsafe_view")(found, (*shape[:-1], *small.shape[1:]))


def _batched(input, other):
    left = input if input.ndim > 1 else input.unsqueeze(0)
    right = other if other.ndim > 1 else other.unsqueeze(1)
    found = public("_batched_product")(left, right)
    if left is input and right is other:
        return found
    rows = found.shape[-2:-1] if input.ndim > 1 else ()
    columns = found.shape[-1:] if other.ndim > 1 else ()
    return public("_unsafe_view")(found, (*found.shape[:-2], *rows, *columns))


def _summed_batch(product, shape):
    """The gradient of an operand whose batch was spread over a larger one."""
    return product if product.shape == shape else product.sum_to_size(shape)


@template(
    "batched_product",
    linear="input, other",
    variants="",
    node="UnsafeViewBackward0",
    grad=dict(
        input=lambda g, other, input_shape: _summed_batch(
            public("_batched_product")(g, _adjoint(other)), input_shape
        ),
        other=lambda g, input, other_shape: _summed_batch(
            public("_batched_product")(_adjoint(input), g), other_shape
        ),
    ),
)
def _batched_product(input, other):
    """Products of two batches of matrices of any number of dimensions, which broadcast."""


# -- products over other dimensions ---------------------------------------------------------------


_TENSORDOT_OUT = (
    "tensordot: Expected the output tensor to have dtype {wanted.scalar_name}, but got an output "
    "tensor with dtype {got.scalar_name}"
)


@composite(variants=_PLAIN, exact_out=_TENSORDOT_OUT)
def inner(input, other):
    """Products over the last dimensions."""
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(input.shape)} and {list(other.shape)}"
        )
    if input.ndim == other.ndim == 1:
        refuse_complex32("dot", input)
    return contract(input, other, [-1], [-1])


@composite(variants="function out", bind=True, python=True)
def tensordot(a, b, dims: object = 2, out: OptionalTensor = None):
    """Sum of products over several dimensions of two tensors."""
    if hasattr(dims, "_layout"):
        dims = dims.tolist() if dims.numel() > 1 else int(dims.item())
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        dims = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    elif not isinstance(dims, (tuple, list)):
        raise RuntimeError(
            "tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]] "
            f"containing two lists, but got dims={dims}"
        )
    else:
        left, right = dims
        for name, given in (("dims_self", left), ("dims_other", right)):
            if not isinstance(given, (tuple, list)):
                raise TypeError(
                    f"tensordot(): argument '{name}' (position {3 + (given is right)}) must be "
                    f"tuple of ints, not {errors.kind_name(given)}"
                )
    left, right = map(list, dims)
    if len(left) != len(right):
        raise RuntimeError("both dimension lists should have same length")
    if out is not None and not hasattr(out, "_layout"):
        raise TypeError(f"tensordot(): argument 'out' must be Tensor, not {errors.kind_name(out)}")
    if a.ndim == b.ndim == len(left) == 1:
        refuse_complex32("dot", a)
    found = contract(a, b, left, right)
    if out is None:
        return found
    if out.dtype is not found.dtype:
        raise errors.not_exact_out(found.dtype, out.dtype, _TENSORDOT_OUT)
    if out.requires_grad and out.shape != found.shape:
        raise RuntimeError(
            "tensordot(): the 'out' tensor was specified and requires gradients, and its shape "
            "does not match the expected result. Either remove the 'out' argument, ensure it "
            "does not require gradients, or make sure its shape matches the expected output."
        )
    return _write(found, out)


def _write(found, out):
    if out.shape != found.shape:
        out._resize_output(found.shape)
    return out.copy_(found)


def contract(a, b, left, right):
    """Sum over pairs of dimensions; a size of one is summed on the other side first."""
    if a.dtype is not b.dtype:
        raise RuntimeError("both inputs should have same dtype")
    left, right = [wrap_dim(x, a.ndim) for x in left], [wrap_dim(x, b.ndim) for x in right]
    count = 1
    for x, y in zip(left, right):
        first, second = a.shape[x], b.shape[y]
        if first == 1 != second:
            b = b.sum(y, keepdim=True, dtype=b.dtype)
        elif second == 1 != first:
            a = a.sum(x, keepdim=True, dtype=a.dtype)
        elif first != second:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {first} in dim {x} and "
                f"second has size {second} in dim {y}"
            )
        else:
            count *= first
    for dims in (left, right):
        for x in dims:
            if dims.count(x) > 1:
                raise RuntimeError(f"dim {x} appears multiple times in the list of dims")
    free_a = [k for k in range(a.ndim) if k not in left]
    free_b = [k for k in range(b.ndim) if k not in right]
    rows, columns = [a.shape[k] for k in free_a], [b.shape[k] for k in free_b]
    x = a.permute(free_a + left).reshape(math.prod(rows), count)
    y = b.permute(right + free_b).reshape(count, math.prod(columns))
    if a.dtype is d.bool_ and math.prod(rows) == math.prod(columns) == 1:
        if a.is_contiguous() and b.is_contiguous():  # PyTorch multiplies and sums others
            raise errors.not_implemented("dot", a.dtype)
        return (x & y.t()).any().reshape(rows + columns)
    return x.mm(y).reshape(rows + columns)


@composite(variants="function out", bind=True)
def _int_mm(input, mat2, *, out: OptionalTensor = None):
    """Product of two matrices of bytes, in int32."""
    if out is None:  # the result's size is asked for first
        if not (input.ndim and mat2.ndim):
            dim = 1 if input.ndim else 0
            raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        if mat2.ndim == 1:
            wrap_dim(1, 1)
    for name, t in (("self", input), ("mat2", mat2)):
        if t.ndim != 2:
            raise RuntimeError(
                f"int_mm_out_cpu: Expected {name} to be of dimension 2 but got {t.ndim}"
            )
    if input.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            "int_mm_out_cpu: self.size(1) needs to match mat2.size(0) but got "
            f"{input.shape[1]} and {mat2.shape[0]}"
        )
    if input.dtype not in (d.int8, d.uint8):
        raise RuntimeError(
            "int_mm_out_cpu: Expected self dtype to be int8 or uint8 but got "
            f"{input.dtype.cpp_name}"
        )
    if mat2.dtype is not d.int8:
        raise RuntimeError(
            f"int_mm_out_cpu: Expected mat2 dtype to be of type int8 but got {mat2.dtype.cpp_name}"
        )
    found = input.to(d.int32).mm(mat2.to(d.int32))
    if out is None:
        return found
    if out.dtype is not d.int32:
        raise RuntimeError(
            f"int_mm_out_cpu: Expected result dtype to be of type kInt but got {out.dtype.cpp_name}"
        )
    for k, (size, given) in enumerate(zip(found.shape, out.shape)):
        if size != given:
            raise RuntimeError(
                f"int_mm_out_cpu: Expected result.size({k}) to be {size} but got {given}"
            )
    return out.copy_(found)


@composite(variants="function out")
def chain_matmul(*matrices, out=None):
    """Product of several matrices, in the cheapest order."""
    warn_once(
        "torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use "
        "torch.linalg.multi_dot instead, which accepts a list of two or more tensors rather than "
        "multiple parameters."
    )
    if len(matrices) == 1 and not hasattr(matrices[0], "_layout"):
        matrices = matrices[0]
    if out is not None and not hasattr(out, "_layout"):
        raise TypeError(
            f"chain_matmul(): argument 'out' must be Tensor, not {errors.kind_name(out)}"
        )
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    for t in matrices:
        if t.ndim != 2:
            raise RuntimeError(f"Tensor dimension is {t.ndim}, expected 2 instead.")
    for k, (a, b) in enumerate(itertools.pairwise(matrices)):
        if a.shape[1] != b.shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {k} and {k + 1} with shapes {list(a.shape)} and "
                f"{list(b.shape)} cannot be multiplied"
            )
    found = _chain(list(matrices))
    if out is not None and found.requires_grad and len(matrices) > 1:
        raise errors.out_requires_grad("mm")
    return found if out is None else _write(found, out)


def _chain(ms):
    """Dynamic programming over where to split last."""
    n = len(ms)
    sizes = [t.shape[0] for t in ms] + [ms[-1].shape[1]]
    best = {(i, i): (0, None) for i in range(n)}
    for span in range(1, n):
        for i in range(n - span):
            j = i + span
            options = [
                (best[i, k][0] + best[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            ]
            best[i, j] = min(options)

    def multiply(i, j):
        if i == j:
            return ms[i]
        k = best[i, j][1]
        return multiply(i, k).mm(multiply(k + 1, j))

    return multiply(0, n - 1)


@composite(variants=_PLAIN)
def kron(input, other):
    """Kronecker product."""
    ndim = max(input.ndim, other.ndim)
    a = input.reshape((1,) * (ndim - input.ndim) + tuple(input.shape))
    b = other.reshape((1,) * (ndim - other.ndim) + tuple(other.shape))
    left = a.reshape([s for n in a.shape for s in (n, 1)])
    right = b.reshape([s for n in b.shape for s in (1, n)])
    return public("_unsafe_view")(left * right, [x * y for x, y in zip(a.shape, b.shape)])


@composite(variants="function")
def einsum(*arguments):
    """Sums of products by the index notation of Einstein."""
    return einsum_notation.evaluate(arguments)
