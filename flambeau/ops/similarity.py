"""Vectors beside vectors: normalize, cosine_similarity, pairwise_distance, local_response_norm.

All are put together from other ops, as in PyTorch, and differentiate by themselves.
"""

from flambeau import _dtype as d
from flambeau import errors
from flambeau.ops.table import Scalar, composite, public

NN = "nn.functional"


@composite(variants="", namespace=NN)
def local_response_norm(
    input, size: object, alpha: Scalar = 1e-4, beta: Scalar = 0.75, k: Scalar | None = 1.0
):
    """input divided by (k + alpha * mean square over `size` neighbouring channels) ** beta."""
    ndim = input.ndim
    if ndim < 3:
        raise ValueError(
            "Expected 3D or higher dimensionality                         "
            f" input (got {ndim} dimensions)"
        )
    if not input.numel():
        return input
    if type(size) is not int:
        raise TypeError(
            "avg_pool2d(): argument 'kernel_size' must be tuple of ints, not "
            f"{errors.kind_name(size)}"
        )
    if size <= 0:
        raise RuntimeError(f"kernel size should be greater than zero, but got kH: {size} kW: 1")
    if input.dtype.is_complex:
        kernel = "avg_pool2d" if ndim == 3 else "avg_pool3d_out_frame"
        raise errors.not_implemented(kernel, input.dtype)
    squares = (input * input).unsqueeze(1)
    channels = input.shape[1]
    padding = [0] * (2 * (ndim - 2)) + [size // 2, (size - 1) // 2]
    squares = public("pad")(squares, padding)
    # windows further away see nothing but the zeros around
    first, last = max(0, size // 2 - channels), min(size, size // 2 + channels)
    total = squares.narrow(2, first, channels)
    for shift in range(first + 1, last):
        total = total + squares.narrow(2, shift, channels)
    mean = (total / size).squeeze(1)
    return input / (mean * alpha + k).pow(beta)


@composite(variants="out", namespace=NN)
def normalize(input, p: object = 2.0, dim: object = 1, eps: float = 1e-12):
    """input divided by its p-norm along dim, which counts as eps at least."""
    return input / input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)


@composite(variants="function", namespace=NN)
def cosine_similarity(x1, x2, dim: int = 1, eps: float = 1e-8):
    """The cosine of the angle between vectors along dim; norms count as eps at least."""
    common = d.promote_types(x1.dtype, x2.dtype)
    if not common.is_floating_point:
        raise RuntimeError(
            f"expected common dtype to be floating point, yet common dtype is {common.scalar_name}"
        )
    if not eps >= 0:
        raise RuntimeError(f"eps must be non-negative, got: {eps:g}")
    x1, x2 = public("broadcast_tensors")(x1.to(common), x2.to(common))
    lengths = [public("linalg_vector_norm")(x, 2, dim, True).clamp_min(eps) for x in (x1, x2)]
    return ((x1 / lengths[0]) * (x2 / lengths[1])).sum(dim)


@composite(variants="function", namespace=NN)
def pairwise_distance(x1, x2, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False):
    """The p-norm of x1 - x2 + eps along the last dimension."""
    last = max(x1.ndim, x2.ndim) - 1
    return (x1 - x2 + eps).norm(p, last, keepdim)
