"""Small matrix ops put together from others: trace, cross, vander, softmax over a dimension."""

from flambeau.codegen import scalar as m
from flambeau.ops.table import composite


def _trace_grad(g, input_layout):
    rows, columns = input_layout.shape
    grad = g.new_zeros(rows * columns)
    count = min(rows, columns)
    if count:
        grad[: (count - 1) * (columns + 1) + 1 : columns + 1] = g
    return grad.view(rows, columns)


@composite(variants="function method", grad=lambda g, input_layout: _trace_grad(g, input_layout))
def trace(input):
    """Sum of the diagonal of a matrix."""
    if input.ndim != 2:
        raise RuntimeError("trace: expected a matrix, but got tensor with dim " + str(input.ndim))
    return input.diagonal().sum()


@composite(variants="function method out")
def cross(input, other, dim: object = None):
    """Vector product along a dimension of size 3."""
    if dim is None:
        sizes = [k for k, s in enumerate(input.shape) if s == 3]
        if not sizes:
            raise RuntimeError("no dimension of size 3 in input")
        dim = sizes[0]
    a, b = m._tensor_word("broadcast_tensors")(input, other)
    if a.shape[dim] != 3 or b.shape[dim] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {a.shape[dim]} and {b.shape[dim]}"
        )
    return a.roll(-1, dim) * b.roll(-2, dim) - a.roll(-2, dim) * b.roll(-1, dim)


@composite(variants="function")
def vander(x, N: object = None, increasing: bool = False):
    """Matrix of powers of a vector."""
    if x.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    n = x.shape[0] if N is None else N
    columns = [x.new_ones(x.shape) if k == 0 else x**k for k in range(n)]
    if not columns:
        return x.new_empty(x.shape[0], 0)
    return m._tensor_word("stack")(columns if increasing else columns[::-1], 1)


def _float(input, dtype):
    if dtype is not None:
        return input.to(dtype)
    return input


@composite(
    variants="function",
    node="SoftmaxBackward0",
    grad=lambda g, out, dim: out * (g - (g * out).sum(dim, keepdim=True)),
    bind=True,
)
def _softmax(input, dim: int):
    """Exponentials along dim, scaled to sum to one."""
    e = (input - input.amax(dim, keepdim=True)).exp() if input.numel() else input.exp()
    return e / e.sum(dim, keepdim=True)


@composite(
    variants="function",
    node="LogSoftmaxBackward0",
    grad=lambda g, out, dim: g - out.exp() * g.sum(dim, keepdim=True),
    bind=True,
)
def _log_softmax(input, dim: int):
    """Logarithm of softmax, without overflow."""
    return input - input.logsumexp(dim, keepdim=True)


_SOFT = "function method out"


@composite(variants=_SOFT, namespace="special")
def softmax(input, dim: object, dtype: object = None):
    """Exponentials along dim, scaled to sum to one."""
    return _soft("softmax", "_softmax", input, dim, dtype)


@composite(variants=_SOFT, namespace="special")
def log_softmax(input, dim: object, dtype: object = None):
    """Logarithm of softmax, without overflow."""
    return _soft("log_softmax", "_log_softmax", input, dim, dtype)


def _soft(name, row, input, dim, dtype):
    input = _float(input, dtype)
    if input.dtype.category < 2:
        raise NotImplementedError(
            f"\"{name}_lastdim_kernel_impl\" not implemented for '{input.dtype.scalar_name}'"
        )
    return m._tensor_word(row)(input, dim)
