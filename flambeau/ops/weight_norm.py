"""Weight normalisation: length times direction, with one formula for both derivatives.

Written out in norms, quotients and products its backward would pass over the weight seven times;
the formula here does it three times. The modules are in nn/utils.
"""

from flambeau import errors
from flambeau._layout import wrap_dim
from flambeau.ops.table import composite, public


def _sum_of_products(a, b, dim):
    """(a * b) summed over all dimensions but one (-1: over all), in the shape of the norms."""
    if dim == -1:
        return public("linalg_vecdot")(a.reshape(-1), b.reshape(-1))
    dim = wrap_dim(dim, a.ndim)
    if a.ndim == 1:
        return a * b
    if dim == 0:
        found = public("linalg_vecdot")(a.flatten(1), b.flatten(1), dim=1)
        return found.reshape(-1, *(1,) * (a.ndim - 1))
    return (a * b).sum([k for k in range(a.ndim) if k != dim], True)


def _gradients(g, v, length, dim):
    inverse = public("norm_except_dim")(v, 2, dim).reciprocal()
    to_length = _sum_of_products(g, v, dim) * inverse
    scale = length * inverse
    # a change of v along itself changes nothing: that part of g is taken out
    to_v = public("addcmul")(g * scale, v, scale * inverse * to_length, value=-1)
    return to_v, to_length


def _check(v, length, dim):
    if not v.ndim and dim == -1 and v.dtype.is_floating_point:
        raise errors.no_dimensions(dim)
    if dim != 0 and dim != v.ndim - 1:  # PyTorch has a kernel for the first and the last dimension
        return
    if not v.dtype.is_floating_point:
        raise errors.not_implemented("weight_norm_kernel", v.dtype)
    if not v.ndim:
        raise errors.no_dimensions(dim)
    if length.dtype is not v.dtype:
        raise RuntimeError(
            f"expected scalar type {v.dtype.scalar_name} but found {length.dtype.scalar_name}"
        )


@composite(variants="function", joint_grad=_gradients, node="WeightNormInterfaceBackward0")
def _weight_norm(v, length, dim: int = 0):
    """v with each slice along dim (-1: all of it) scaled to the given length."""
    _check(v, length, dim)
    norms = public("norm_except_dim")(v, 2, dim)
    if length.shape != norms.shape and length.numel() == norms.numel():
        length = length.reshape(norms.shape)  # one number for each slice, however it lies
    return v * (length / norms)
