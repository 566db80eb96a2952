"""Matrix products: rows for the plain products, and what is put together from them (matmul, einsum, ...)."""

import math

from flambeau.codegen import scalar as m
from flambeau.ops.table import Scalar, composite, template

_PLAIN = "function method out"


def _adjoint(t):
    return m.conj(t.transpose(-2, -1))


@template(
    "mm",
    variants=_PLAIN,
    grad=dict(
        input=lambda g, mat2: g.mm(_adjoint(mat2)), mat2=lambda g, input: _adjoint(input).mm(g)
    ),
)
def mm(input, mat2):
    """Product of two matrices."""


@template(
    "bmm",
    variants=_PLAIN,
    grad=dict(
        input=lambda g, mat2: g.bmm(_adjoint(mat2)), mat2=lambda g, input: _adjoint(input).bmm(g)
    ),
)
def bmm(input, mat2):
    """Products of two batches of matrices."""


@template(
    "mv",
    variants=_PLAIN,
    grad=dict(
        input=lambda g, vec: g.outer(m.conj(vec)), vec=lambda g, input: _adjoint(input).mv(g)
    ),
)
def mv(input, vec):
    """Product of a matrix and a vector."""


@template(
    "dot",
    variants=_PLAIN,
    grad=dict(
        input=lambda g, tensor: g * m.conj(tensor), tensor=lambda g, input: g * m.conj(input)
    ),
)
def dot(input, tensor):
    """Product of two vectors."""


@composite(variants=_PLAIN)
def vdot(input, other):
    """Product of two vectors, the first conjugated."""
    return m.conj(input).dot(other)


@composite(variants=_PLAIN, aliases="ger")
def outer(input, vec2):
    """All products of the elements of two vectors."""
    for name, t in (("self", input), ("vec2", vec2)):
        if t.ndim != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {t.ndim}-D")
    return input.unsqueeze(1) * vec2


def _combine(input, product, beta, alpha):
    """beta * input + alpha * product, with the names PyTorch's addmm family uses."""
    if product.dtype.category < 2 and (isinstance(alpha, float) or isinstance(beta, float)):
        which = "beta" if isinstance(beta, float) else "alpha"
        raise RuntimeError(
            f"For integral input tensors, argument {which} must not be a floating point number."
        )
    if beta == 0:  # nan and inf in input do not count then
        return product if alpha == 1 else product * alpha
    scaled = input if beta == 1 else input * beta
    return scaled + product if alpha == 1 else scaled.add(product, alpha=alpha)


def _addmm_grads(left, right):
    """Derivatives of beta * input + alpha * left @ right."""
    return {
        "input": lambda g, beta: g * beta,
        left: eval(
            f"lambda g, {right}, alpha: product(g, adjoint({right})) * alpha",
            {"product": _mm, "adjoint": _adjoint},
        ),
        right: eval(
            f"lambda g, {left}, alpha: product(adjoint({left}), g) * alpha",
            {"product": _mm, "adjoint": _adjoint},
        ),
    }


def _mm(a, b):
    return a.matmul(b)


def _expandable(input, product, name):
    missing = product.ndim - input.ndim
    fits = missing >= 0 and all(
        s in (1, n) for s, n in zip(input.shape, product.shape[max(missing, 0) :])
    )
    if not fits:
        if missing < 0:
            raise RuntimeError(
                f"expand({_type_name(input)}{{{list(input.shape)}}}, size={list(product.shape)}): the number of sizes provided "
                f"({product.ndim}) must be greater or equal to the number of dimensions in the tensor ({input.ndim})"
            )
        bad = max(
            k
            for k, (s, n) in enumerate(zip(input.shape, product.shape[missing:]))
            if s not in (1, n)
        )
        raise RuntimeError(
            f"The expanded size of the tensor ({product.shape[missing + bad]}) must match the existing size ({input.shape[bad]}) at "
            f"non-singleton dimension {missing + bad}.  Target sizes: {list(product.shape)}.  Tensor sizes: {list(input.shape)}"
        )


def _type_name(t):
    return f"torch.{t.dtype.scalar_name}Tensor"


@composite(variants="function method inplace out", grad=_addmm_grads("mat1", "mat2"))
def addmm(input, mat1, mat2, *, beta: Scalar = 1, alpha: Scalar = 1):
    """beta * input + alpha * (mat1 @ mat2)."""
    product = mat1.mm(mat2)
    _expandable(input, product, "addmm")
    return _combine(input, product, beta, alpha)


@composite(variants="function method inplace out", grad=_addmm_grads("batch1", "batch2"))
def baddbmm(input, batch1, batch2, *, beta: Scalar = 1, alpha: Scalar = 1):
    """beta * input + alpha * (batch1 @ batch2), batch by batch."""
    product = batch1.bmm(batch2)
    _expandable(input, product, "baddbmm")
    return _combine(input, product, beta, alpha)


@composite(variants="function method inplace out")
def addbmm(input, batch1, batch2, *, beta: Scalar = 1, alpha: Scalar = 1):
    """beta * input + alpha * the sum over the batch of batch1 @ batch2."""
    return _combine(input, batch1.bmm(batch2).sum(0), beta, alpha)


@composite(variants="function method inplace out")
def addmv(input, mat, vec, *, beta: Scalar = 1, alpha: Scalar = 1):
    """beta * input + alpha * (mat @ vec)."""
    return _combine(input, mat.mv(vec), beta, alpha)


@composite(variants="function method inplace out")
def addr(input, vec1, vec2, *, beta: Scalar = 1, alpha: Scalar = 1):
    """beta * input + alpha * the outer product."""
    return _combine(input, vec1.outer(vec2), beta, alpha)


@composite(variants=_PLAIN, namespace="linalg")
def matmul(input, other):
    """Matrix product; batch dimensions broadcast, vectors are rows or columns as needed."""
    a, b = input.ndim, other.ndim
    if a == 0 or b == 0:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {a}D and {b}D"
        )
    if a == 1 and b == 1:
        return input.dot(other)
    if a == 2 and b == 1:
        return input.mv(other)
    if a == 2 and b == 2:
        return input.mm(other)
    if a == 1:
        return input.unsqueeze(0).matmul(other).squeeze(-2)
    if b == 1:
        return input.matmul(other.unsqueeze(-1)).squeeze(-1)
    return _batched(input, other)


def _batched(input, other):
    if other.ndim == 2 or (
        other.ndim > 2 and math.prod(other.shape[:-2]) == 1 and input.ndim >= other.ndim
    ):
        # one matrix for the whole batch: fold the batch into its rows
        last = other.reshape(other.shape[-2:])
        folded = input.reshape(-1, input.shape[-1]).mm(last)
        return folded.view(*input.shape[:-1], other.shape[-1])
    batch = _broadcast(input.shape[:-2], other.shape[:-2])
    if input.shape[-1] != other.shape[-2]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{math.prod(batch)}, {input.shape[-1]}] but got: "
            f"[{math.prod(batch)}, {other.shape[-2]}]."
        )
    flat = [t.expand(*batch, *t.shape[-2:]).reshape(-1, *t.shape[-2:]) for t in (input, other)]
    return flat[0].bmm(flat[1]).view(*batch, input.shape[-2], other.shape[-1])


def _broadcast(a, b):
    from flambeau._layout import broadcast_shape

    return broadcast_shape(a, b)


@composite(variants=_PLAIN)
def inner(input, other):
    """Products over the last dimensions."""
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            f"inner() the last dimension must match on both input tensors but got shapes {list(input.shape)} and {list(other.shape)}"
        )
    return tensordot.body(input, other, ([-1], [-1]))


@composite(variants="function")
def tensordot(a, b, dims: object = 2):
    """Sum of products over several dimensions of two tensors."""
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        left, right = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        left, right = ([x] if isinstance(x, int) else list(x) for x in dims)
    left, right = [x % a.ndim for x in left], [x % b.ndim for x in right]
    if len(left) != len(right):
        raise RuntimeError("both dimension lists should have same length")
    for x, y in zip(left, right):
        if a.shape[x] != b.shape[y]:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {a.shape[x]} in dim {x} and second has size {b.shape[y]} in dim {y}"
            )
    free_a = [k for k in range(a.ndim) if k not in left]
    free_b = [k for k in range(b.ndim) if k not in right]
    count = math.prod(a.shape[k] for k in left)
    x = a.permute(*free_a, *left).reshape(-1, count) if a.ndim else a.reshape(1, 1)
    y = b.permute(*right, *free_b).reshape(count, -1) if b.ndim else b.reshape(1, 1)
    return x.mm(y).reshape([a.shape[k] for k in free_a] + [b.shape[k] for k in free_b])


@composite(variants="function")
def chain_matmul(*matrices):
    """Product of several matrices, in the cheapest order."""
    return _chain(
        list(
            matrices[0] if len(matrices) == 1 and not hasattr(matrices[0], "_layout") else matrices
        )
    )


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
    return (left * right).reshape([x * y for x, y in zip(a.shape, b.shape)])


@composite(variants="function")
def einsum(equation: object, *operands):
    """Sums of products by the index notation of Einstein."""
    from flambeau.ops.einsum import evaluate

    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = operands[0]
    return evaluate(equation, list(operands))
