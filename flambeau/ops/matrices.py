"""Small matrix ops put together from others: trace, cross, vander."""

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import wrap_dim
from flambeau.codegen import scalar as m
from flambeau.errors import warn_once
from flambeau.ops.support import group_of
from flambeau.ops.table import composite, public


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
    if group_of(input) in ("bool", "wide", "chalf"):
        raise errors.not_implemented("trace", input.dtype)
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    return input.diagonal().sum()


@composite(variants="out", node="LinalgCrossBackward0", bind=True, grad=dict(
    input=lambda g, other, dim: public("linalg_cross")(m.conj(other), g, dim=dim),
    other=lambda g, input, dim: public("linalg_cross")(g, m.conj(input), dim=dim),
), exact_out=True, apart="input other")  # fmt: skip
def linalg_cross(input, other, *, dim: int = -1):
    """Vector product along a dimension of size 3."""
    if input.ndim != other.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    wrap_dim(dim, input.ndim)
    if input.shape[dim] != 3 or other.shape[dim] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {input.shape[dim]} and "
            f"{other.shape[dim]}"
        )
    a, b = public("broadcast_tensors")(input, other)
    if group_of(input) in ("bool", "wide", "chalf"):
        raise errors.not_implemented("cross", input.dtype)
    if input.dtype is not other.dtype:
        raise RuntimeError(
            f"expected scalar type {input.dtype.scalar_name} but found {other.dtype.scalar_name}"
        )
    return a.roll(-1, dim) * b.roll(-2, dim) - a.roll(-2, dim) * b.roll(-1, dim)


@composite(variants="function method out", bind=True, exact_out=True, apart="input other")
def cross(input, other, dim: int | None = None):
    """Vector product along a dimension of size 3 (the first such one unless told)."""
    if dim is None:
        dim = next((k for k, s in enumerate(input.shape) if s == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
        warn_once(
            "Using torch.cross without specifying the dim arg is deprecated.\n"
            "Please either pass the dim explicitly or simply use torch.linalg.cross.\n"
            "The default value of dim will change to agree with that of linalg.cross in a future "
            "release."
        )
    return public("linalg_cross")(input, other, dim=dim)


@composite(variants="function")
def vander(x, N: int | None = None, increasing: bool = False):
    """Matrix of powers of a vector."""
    if x.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    n = x.shape[0] if N is None else N
    if n < 0:
        raise RuntimeError("N must be non-negative.")
    if x.dtype.category < d.FLOATING:
        x = x.to(d.promote_types(x.dtype, d.int64))
    if n == 0:
        return x.new_empty(x.shape[0], 0)
    # running products, as PyTorch computes them
    powers = (
        x.unsqueeze(1).expand(x.shape[0], n - 1).cumprod(1) if n > 1 else x.new_empty(x.shape[0], 0)
    )
    found = public("cat")([x.new_ones(x.shape[0], 1), powers], 1)
    return found if increasing else found.flip(1)
