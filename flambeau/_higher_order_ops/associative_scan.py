"""associative_scan: what a function makes of all slices up to each, kept at every step."""

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.utils import _pytree

__all__ = ["associative_scan"]


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    """The running result of combine_fn(so far, next slice) along a dimension of a tree of tensors.

    cumsum is the scan of addition. Slices are combined one after another, from the end when
    reverse is set.
    """
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(
            f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}"
        )
    leaves, spec = _pytree.tree_flatten(xs)
    if not leaves:
        raise ValueError("Expected at least 1 xs leaf")
    dim = dim % leaves[0].ndim
    if any(leaf.shape[dim] != leaves[0].shape[dim] for leaf in leaves):
        raise ValueError("All xs leaves must have the same size in the scanned dimension")
    steps = list(zip(*(leaf.unbind(dim) for leaf in leaves)))
    if reverse:
        steps.reverse()
    found = [steps[0]]
    for step in steps[1:]:
        now = combine_fn(spec.unflatten(found[-1]), spec.unflatten(step))
        found.append(tuple(_pytree.tree_leaves(now)))
    if reverse:
        found.reverse()
    return spec.unflatten([flambeau.stack(column, dim) for column in zip(*found)])
