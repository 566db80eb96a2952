"""Views: the same memory under another shape.

The body of a view row takes the input's layout and gives (shape, strides, offset in elements), so these
are plain functions on tuples. Derivatives are written on tensors and are usually the opposite view.
A body that gives None leaves the call to its `otherwise`, which may copy. Rows that cut a tensor into
several views are in splitting.py; what moves elements around is in rearranging.py.
"""

import operator

from flambeau import _dtype as d
from flambeau._layout import Size, infer_size, view_strides, wrap_dim
from flambeau._memory_format import channels_last, channels_last_3d, contiguous_format, preserve_format
from flambeau.ops.table import Dims, composite, view


def ints(op, name, values):
    """A shape or list of dimensions as a tuple of ints."""
    if type(values) is int:
        return (values,)
    found = []
    for k, v in enumerate(values):
        if type(v) is not int:
            try:
                v = operator.index(v)
            except TypeError:
                raise TypeError(
                    f"{op}(): argument '{name}' (position 1) must be tuple of ints, but found element of type "
                    f"{type(v).__name__} at pos {k}"
                ) from None
        found.append(v)
    return tuple(found)


def _several(op, name, values):
    if isinstance(values, (tuple, list)):
        return values[0] if len(values) == 1 and isinstance(values[0], (tuple, list)) else values
    try:
        return (operator.index(values),)
    except TypeError:
        kind = type(values).__name__
        raise TypeError(f"{op}(): argument '{name}' (position 1) must be tuple of ints, not {kind}") from None


def placed(g, shape, part):
    """Zeros of a shape with g where part(zeros) is."""
    whole = g.new_zeros(shape)
    part(whole).copy_(g)
    return whole


# -- shapes -----------------------------------------------------------------------------------------


def _shaped(layout, shape, op="view"):
    """The layout's memory in another shape, or None."""
    shape = infer_size(ints(op, "size" if op == "view" else "shape", _several(op, "shape", shape)), layout.numel)
    strides = view_strides(layout.shape, layout.strides, shape)
    return None if strides is None else (shape, strides, 0)


def _view_otherwise(input, size):
    if len(size) == 1 and isinstance(size[0], d.dtype):
        return _view_dtype(input, size[0])
    raise RuntimeError(
        "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
        "contiguous subspaces). Use .reshape(...) instead."
    )


@view(grad=lambda g, input_shape: g.reshape(input_shape), varargs="size", variants="method", otherwise=_view_otherwise)
def view(input, size: Dims):  # noqa: F811 (the decorator is kept below)
    """The same memory in another shape, or read as another dtype."""
    if isinstance(size, d.dtype) or (type(size) is tuple and len(size) == 1 and isinstance(size[0], d.dtype)):
        return None
    if type(size) is tuple and not all(hasattr(s, "__index__") for s in size) and not isinstance(size[0], (tuple, list)):
        kinds = ", ".join(type(s).__name__ for s in size)
        raise TypeError(
            f"view() received an invalid combination of arguments - got ({kinds}), but expected one of:\n"
            " * (torch.dtype dtype)\n * (tuple of ints size)\n"
        )
    return _shaped(input, size)
