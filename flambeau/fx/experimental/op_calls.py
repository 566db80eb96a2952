"""Calls as aten has them: arguments by position, sizes as lists, indices as steps."""

import sys
from typing import Any

from flambeau.eager import interposing
from flambeau.eager.overriding import as_written
from flambeau.ops.table import TABLE

# ops whose sizes, or dimensions, are one list
_SIZES = frozenset("view reshape expand permute repeat flip new_zeros new_ones new_empty".split())
_FROM_SIZES = frozenset("zeros ones empty rand randn".split())
_DIMS = frozenset("sum mean amax amin logsumexp var std".split())
_SPREADS = frozenset("var std var_mean std_mean".split())


def as_aten(
    name: interposing.Name, short: str, args: tuple, kwargs: dict
) -> tuple[tuple, dict[str, Any]]:
    """The arguments of an op in the form that PyTorch records."""
    row = TABLE.get(name.place.row)
    if row is not None:
        args, kwargs = as_written(row, args, kwargs)
    if short == "_to_copy":
        return _conversion(args, kwargs)
    if short in _SPREADS and len(args) == 4:
        return _spread(*args), kwargs
    if short in _SIZES and len(args) > 1:
        args = (args[0], *_sizes(args[1:]))
    elif short in _FROM_SIZES:
        args = _sizes(args)
    elif short in _DIMS and len(args) > 1 and isinstance(args[1], int):
        args = (args[0], [args[1]], *args[2:])
    return tuple(_listed(arg) for arg in args), kwargs


def _listed(arg):
    """Tuples of numbers are lists there."""
    numbers = isinstance(arg, tuple) and all(isinstance(item, int) for item in arg)
    return list(arg) if numbers else arg


def _sizes(sizes):
    if sizes and all(type(size) is int for size in sizes):
        return (list(sizes),)
    return sizes


def _conversion(args, kwargs):
    """Only what changes."""
    tensor, *rest = args
    given = dict(zip(("dtype", "device", "memory_format"), rest)) | kwargs
    changes = lambda key, value: value is not None and getattr(tensor, key, None) != value
    return (tensor,), {key: value for key, value in given.items() if changes(key, value)}


def _spread(tensor, dim, correction, keepdim):
    """Variances: all arguments by position, as they are called here."""
    return tensor, [dim] if isinstance(dim, int) else _listed(dim), correction, keepdim


def index_steps(dims: int, index: Any) -> list[tuple[str, tuple]] | None:
    """Indexing as selections, slices and new dimensions; None if it is more than that."""
    items = list(index) if isinstance(index, tuple) else [index]
    if not all(item is None or item is ... or type(item) in (int, slice) for item in items):
        return None
    if sum(item is ... for item in items) > 1:
        return None
    used = sum(type(item) in (int, slice) for item in items)
    steps: list[tuple[str, tuple]] = []
    dim = 0
    for item in items:
        if item is ...:
            dim += dims - used
        elif item is None:
            steps.append(("unsqueeze.default", (dim,)))
            dim += 1
        elif isinstance(item, int):
            steps.append(("select.int", (dim, item)))
        else:
            if item != slice(None):
                steps.append(("slice.Tensor", (dim, *_bounds(item))))
            dim += 1
    return steps


def _bounds(item):
    stop = sys.maxsize if item.stop is None else item.stop
    step = () if item.step in (None, 1) else (item.step,)
    return (item.start or 0, stop, *step)
