"""`torch._functorch.vmap`: a function of one sample as a function of many.

A call has three steps, which libraries with batches of their own replace here, by name:
`_process_batched_inputs` finds the samples, `_create_batched_inputs` makes what the function sees,
and `_unwrap_batched` what its results are outside.
"""

import functools
from collections.abc import Callable
from typing import Any

from flambeau._C._functorch import _add_batch_dim, _remove_batch_dim
from flambeau._tensor import Tensor
from flambeau.ops.table import public
from flambeau.random import get_rng_state, set_rng_state
from flambeau.transforms import rules as rules
from flambeau.transforms.batching import BatchLevel
from flambeau.transforms.levels import depth, running
from flambeau.utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten

__all__ = [
    "Tensor",
    "_add_batch_dim",
    "_broadcast_to_and_flatten",
    "_create_batched_inputs",
    "_get_name",
    "_maybe_remove_batch_dim",
    "_process_batched_inputs",
    "_remove_batch_dim",
    "_unwrap_batched",
    "_validate_and_get_batch_size",
    "tree_flatten",
    "tree_unflatten",
    "vmap",
]


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
        size, dims, leaves, spec = _process_batched_inputs(in_dims, args, func)

        def mapped(count, part):
            with BatchLevel(count, randomness) as level:
                number = depth(level)
                inside = _create_batched_inputs(dims, part, number, spec)
                return _unwrap_batched(func(*inside, **kwargs), out_dims, number, count, func)

        if chunk_size is None or chunk_size >= size:
            return mapped(size, leaves)
        if randomness == "same":
            mapped = _same_draws(mapped)
        return _in_chunks(mapped, func, size, chunk_size, dims, leaves, out_dims)

    return wrapped


def _same_draws(mapped):
    """Chunks that all draw the same numbers."""
    state = get_rng_state()

    def again(count, part):
        set_rng_state(state)
        return mapped(count, part)

    return again


def _in_chunks(mapped, func, size, step, dims, leaves, out_dims):
    parts = [
        [x] * -(-size // step) if d is None else x.split(step, d) for x, d in zip(leaves, dims)
    ]
    counts = range(size, 0, -step)
    results = [mapped(min(step, n), list(part)) for n, *part in zip(counts, *parts)]
    flat, (tree, *_) = zip(*[tree_flatten(r) for r in results])
    joined = [
        column[0] if d is None else public("cat")(column, d)
        for d, column in zip(_out_dims(func, out_dims, tree), zip(*flat))
    ]
    return tree_unflatten(joined, tree)


def _get_name(func: Any) -> str:
    """What messages call a function."""
    return getattr(func, "__name__", repr(func))


# -- what goes in ----------------------------------------------------------------------------------


def _process_batched_inputs(in_dims: Any, args: tuple, func: Any) -> tuple[int, list, list, Any]:
    """(number of samples, dimension per leaf, leaves, tree)."""
    title = f"vmap({_get_name(func)}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"{title}: expected `in_dims` to be int or a (potentially nested) tuple matching the "
            f"structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({_get_name(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or "
            "you are trying to vmap over a function with no inputs. The latter is unsupported."
        )
    leaves, spec = tree_flatten(args)
    dims = _broadcast_to_and_flatten(in_dims, spec)
    if dims is None:
        raise ValueError(
            f"{title}: in_dims is not compatible with the structure of `inputs`. in_dims has "
            f"structure {tree_flatten(in_dims)[1]} but inputs has structure {spec}."
        )
    found = [_checked(title, x, d) for x, d in zip(leaves, dims)]
    return _validate_and_get_batch_size(found, leaves), found, leaves, spec


def _validate_and_get_batch_size(dims: list, leaves: list) -> int:
    """How many samples there are, which all agree about."""
    sizes = [x.shape[d] for x, d in zip(leaves, dims) if d is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if any(s != sizes[0] for s in sizes):
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return sizes[0]


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


def _create_batched_inputs(dims: list, leaves: list, vmap_level: int, spec: Any) -> Any:
    """Arguments as one sample sees them."""
    inside = [x if d is None else _add_batch_dim(x, d, vmap_level) for x, d in zip(leaves, dims)]
    return tree_unflatten(inside, spec)


# -- what comes out --------------------------------------------------------------------------------


def _unwrap_batched(
    results: Any, out_dims: Any, vmap_level: int, batch_size: int, func: Any
) -> Any:
    """What a function returned, as it looks outside."""
    outs, tree = tree_flatten(results)
    name = _get_name(func)
    found = [
        _maybe_remove_batch_dim(name, x, vmap_level, batch_size, d)
        for x, d in zip(outs, _out_dims(func, out_dims, tree))
    ]
    return tree_unflatten(found, tree)


def _out_dims(func, out_dims, tree):
    """Where each leaf of results has its samples."""
    title = f"vmap({_get_name(func)}, ..., out_dims={out_dims})"
    for dim in tree_flatten(out_dims)[0]:
        if not isinstance(dim, int) and dim is not None:
            raise ValueError(
                f"{title}: `out_dims` must be an int, None or a python collection of ints "
                "representing where in the outputs the vmapped dimension should appear."
            )
    if isinstance(out_dims, int) or out_dims is None:
        return [out_dims] * tree.num_leaves
    if tree.is_leaf() and isinstance(out_dims, tuple) and len(out_dims) == 1:
        return [out_dims[0]]
    places = _broadcast_to_and_flatten(out_dims, tree)
    if places is None:
        raise ValueError(
            f"{title}(<inputs>): out_dims is not compatible with the structure of `outputs`. "
            f"out_dims has structure {tree_flatten(out_dims)[1]} but outputs has structure {tree}."
        )
    return places


def _maybe_remove_batch_dim(
    name: str, batched_output: Any, vmap_level: int, batch_size: int, out_dim: int | None
) -> Any:
    """A result as its batch; things that are no tensors only for all samples."""
    if out_dim is None:
        level: Any = running.levels[vmap_level - 1]
        if level.is_batched(batched_output):
            raise ValueError(
                f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None"
            )
        return level.plain(batched_output)
    if not isinstance(batched_output, Tensor):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type "
            f"{type(batched_output)}. Did you mean to set out_dims= to None for output?"
        )
    return _remove_batch_dim(batched_output, vmap_level, batch_size, out_dim)
