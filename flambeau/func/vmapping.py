"""vmap: a function of one sample as a function of many."""

import functools
from collections.abc import Callable
from typing import Any

from flambeau._tensor import Tensor
from flambeau.ops.table import public
from flambeau.transforms import rules as rules
from flambeau.transforms.batching import BatchLevel
from flambeau.transforms.levels import is_at
from flambeau.utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten


def vmap(
    func: Callable,
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable:
    """func, which takes samples, as a function that takes batches of them.

    Args:
        func: takes and returns tensors, or trees of them.
        in_dims: along which dimension each argument holds samples; None for arguments that are the
            same for all. One int, or a tree like that of the arguments.
        out_dims: where samples are in results.
        randomness: may func draw random numbers? "error": no; "different" ones for each sample, or
            the "same" for all.
        chunk_size: how many samples at a time; all if None.

    Example:
        >>> import flambeau as torch
        >>> torch.func.vmap(torch.dot)(torch.ones(3, 4), torch.ones(3, 4))
        tensor([4., 4., 4.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got "
            f"{randomness}"
        )
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        size, dims, leaves, spec = _inputs(func, in_dims, args)
        if chunk_size is None or chunk_size >= size:
            return _mapped(func, size, dims, leaves, spec, out_dims, randomness, kwargs)
        return _in_chunks(func, size, chunk_size, dims, leaves, spec, out_dims, randomness, kwargs)

    return wrapped


def _name(func):
    return getattr(func, "__name__", repr(func))


def _inputs(func, in_dims, args):
    """(number of samples, dimension per leaf, leaves, tree)."""
    title = f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, (int, tuple, list)):
        raise ValueError(
            f"{title}: expected `in_dims` to be int or a (potentially nested) tuple matching the "
            f"structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({_name(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you "
            "are trying to vmap over a function with no inputs. The latter is unsupported."
        )
    leaves, spec = tree_flatten(args)
    given = in_dims if isinstance(in_dims, int) else tuple(in_dims)
    dims = _broadcast_to_and_flatten(given, spec)
    if dims is None:
        raise ValueError(
            f"{title}: in_dims is not compatible with the structure of `inputs`. in_dims has "
            f"structure {tree_flatten(in_dims)[1]} but inputs has structure {spec}."
        )
    found = [_checked(title, x, d) for x, d in zip(leaves, dims)]
    sizes = [x.shape[d] for x, d in zip(leaves, found) if d is not None]
    if not sizes:
        raise ValueError(f"{title}: at least one input must have a batch dimension")
    if any(s != sizes[0] for s in sizes):
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return sizes[0], found, leaves, spec


def _checked(title, x, dim):
    if dim is None:
        return None
    if not isinstance(dim, int):
        raise ValueError(
            f"{title}: Got in_dim={dim} for an input but in_dim must be either an integer "
            "dimension or None."
        )
    if not isinstance(x, Tensor):
        raise ValueError(
            f"{title}: Got in_dim={dim} for an input but the input is of type {type(x)}. We cannot "
            "vmap over non-Tensor arguments, please use None as the respective in_dim"
        )
    if not -x.ndim <= dim < x.ndim:
        raise ValueError(
            f"{title}: Got in_dim={dim} for some input, but that input is a Tensor of "
            f"dimensionality {x.ndim} so expected in_dim to satisfy -{x.ndim} <= in_dim < {x.ndim}."
        )
    return dim % x.ndim


def _run(func, size, dims, leaves, spec, randomness, kwargs):
    """(leaves, tree) of what func returns, and the level they are of."""
    with BatchLevel(size, randomness) as level:
        inside = [
            x if d is None else level.batched(x.movedim(d, 0) if d else x)
            for x, d in zip(leaves, dims)
        ]
        result = func(*tree_unflatten(inside, spec), **kwargs)
    return (*tree_flatten(result), level)


def _mapped(func, size, dims, leaves, spec, out_dims, randomness, kwargs):
    outs, tree, level = _run(func, size, dims, leaves, spec, randomness, kwargs)
    places = _out_dims(func, out_dims, outs, tree)
    found = [_leaving(func, level, x, d) for x, d in zip(outs, places)]
    return tree_unflatten(found, tree)


def _out_dims(func, out_dims, outs, tree):
    title = f"vmap({_name(func)}, ..., out_dims={out_dims})"
    for dim in tree_flatten(out_dims)[0]:
        if not isinstance(dim, int) and dim is not None:
            raise ValueError(
                f"{title}: `out_dims` must be an int, None or a python collection of ints "
                "representing where in the outputs the vmapped dimension should appear."
            )
    if isinstance(out_dims, int) or out_dims is None:
        return [out_dims] * len(outs)
    if tree.is_leaf() and isinstance(out_dims, tuple) and len(out_dims) == 1:
        return [out_dims[0]]
    places = _broadcast_to_and_flatten(out_dims, tree)
    if places is None:
        raise ValueError(
            f"{title}(<inputs>): out_dims is not compatible with the structure of `outputs`. "
            f"out_dims has structure {tree_flatten(out_dims)[1]} but outputs has structure {tree}."
        )
    return places


def _leaving(func, level, x, dim):
    """A result as it looks outside."""
    if not isinstance(x, Tensor):
        if dim is None:
            return x
        raise ValueError(
            f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, got type "
            f"{type(x)}. Did you mean to set out_dims= to None for output?"
        )
    if dim is None:
        if level.is_batched(x):
            raise ValueError(
                f"vmap({_name(func)}, ...): `{_name(func)}` can not return a BatchedTensor when "
                "out_dim is None"
            )
        return level.plain(x)
    if not (is_at(x, level) and x._batched):
        value = level.plain(x)
        value = value.expand(level.size, *value.shape)
    else:
        value = x._value
    return value.movedim(0, dim) if dim else value


def _in_chunks(func, size, step, dims, leaves, spec, out_dims, randomness, kwargs):
    pieces = []
    for start in range(0, size, step):
        count = min(step, size - start)
        part = [x if d is None else x.narrow(d, start, count) for x, d in zip(leaves, dims)]
        pieces.append(_run(func, count, dims, part, spec, randomness, kwargs))
    outs, tree, _ = pieces[0]
    places = _out_dims(func, out_dims, outs, tree)
    found = []
    for k, dim in enumerate(places):
        column = [_leaving(func, level, outs[k], dim) for outs, _, level in pieces]
        found.append(column[0] if dim is None else public("cat")(column, dim))
    return tree_unflatten(found, tree)
