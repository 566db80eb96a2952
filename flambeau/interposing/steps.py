"""Functions that PyTorch tells classes with `__torch_dispatch__` of as others: views, mostly.

Such a class knows `aten.view`, not `aten.flatten`. What is said here in terms of other functions
is told as those. NotImplemented leaves a call to the function itself, which may refuse it.
"""

import math
from collections.abc import Callable

from flambeau._layout import infer_size, view_strides
from flambeau._memory_format import contiguous_format
from flambeau.ops.table import public


def _taken(t, key):
    """t[key], view by view, if it only takes views."""
    keys = key if type(key) is tuple else (key,)
    if not all(k is None or k is Ellipsis or type(k) in (int, slice) for k in keys):
        return NotImplemented
    rest, dim, whole = t.ndim - sum(k is not None and k is not Ellipsis for k in keys), 0, t
    for k in keys:
        if k is Ellipsis:
            dim += rest
        elif k is None:
            t, dim = t.unsqueeze(dim), dim + 1
        elif type(k) is int:
            t = t.select(dim, k)
        else:
            if k != slice(None):
                t = public("slice")(t, dim, k.start, k.stop, 1 if k.step is None else k.step)
            dim += 1
    return public("slice")(t, 0, None, None, 1) if t is whole else t


def _shaped(input, sizes):
    """A view, or a copy of this shape."""
    sizes = list(infer_size(sizes, input.numel()))
    if view_strides(input.shape, input.stride(), sizes) is not None:
        return input.view(sizes)
    return public("_unsafe_view")(input.clone(memory_format=contiguous_format), sizes)


def _reshaped(input, *sizes, shape=None):
    sizes = sizes if shape is None else shape
    sizes = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    return _shaped(input, sizes) if all(type(size) is int for size in sizes) else NotImplemented


def _dim(input, dim):
    """A dimension from the front; None where there is no such one."""
    return dim % input.ndim if type(dim) is int and -input.ndim <= dim < input.ndim else None


def _flattened(input, start_dim=0, end_dim=-1):
    first, last = _dim(input, start_dim), _dim(input, end_dim)
    if first is None or last is None or first > last:
        return NotImplemented
    shape = input.shape
    joined = shape[first : last + 1].numel()
    return input if first == last else _shaped(input, [*shape[:first], joined, *shape[last + 1 :]])


def _unflattened(input, dim, sizes):
    dim, shape = _dim(input, dim), input.shape
    if dim is None or not all(type(size) is int for size in sizes):
        return NotImplemented
    if -1 not in sizes and math.prod(sizes) != shape[dim]:
        return NotImplemented
    return input.view([*shape[:dim], *infer_size(sizes, shape[dim]), *shape[dim + 1 :]])


def _narrowed(input, dim, start, length):
    at = _dim(input, dim)
    if at is None or type(start) is not int or not 0 <= start <= input.shape[at] - length:
        return NotImplemented
    return public("slice")(input, dim, start, start + length, 1)


def _chunked(input, chunks, dim=0):
    at = _dim(input, dim)
    if at is None or type(chunks) is not int or chunks < 1 or not input.shape[at]:
        return NotImplemented
    return public("split")(input, -(-input.shape[at] // chunks), dim)


def _moved(input, source, destination):
    source, destination = _dim(input, source), _dim(input, destination)
    if source is None or destination is None:
        return NotImplemented
    order = [dim for dim in range(input.ndim) if dim != source]
    return input.permute([*order[:destination], source, *order[destination:]])


STEPS: dict[str, Callable] = {
    "__getitem__": _taken,
    "__matmul__": lambda a, b: public("matmul")(a, b),
    "__rmatmul__": lambda a, b: public("matmul")(b, a),
    "reshape": _reshaped,
    "reshape_as": lambda input, other: _shaped(input, other.shape),
    "view_as": lambda input, other: input.view(other.shape),
    "expand_as": lambda input, other: input.expand(other.shape),
    "flatten": _flattened,
    "ravel": lambda input: input.contiguous().view(-1),
    "unflatten": _unflattened,
    "narrow": _narrowed,
    "chunk": _chunked,
    "movedim": _moved,
    "moveaxis": _moved,
    "T": lambda input: input.permute(list(range(input.ndim))[::-1]),
    "mT": lambda input: input.transpose(-2, -1) if input.ndim > 1 else NotImplemented,
}
