"""Trees of arguments, taken apart as a spec says."""

from typing import Any

from flambeau.fx.proxy import Proxy
from flambeau.utils import _pytree as pytree

__all__ = ["register_pytree_flatten_spec", "tree_flatten_spec"]

_flatten: dict[type, Any] = {}


def register_pytree_flatten_spec(
    cls: type, flatten_fn_spec: Any, flatten_fn_exact_match_spec: Any = None
) -> None:
    """Say how instances of a class are taken apart by a spec."""
    _flatten[cls] = flatten_fn_spec


def tree_flatten_spec(tree: Any, spec: pytree.TreeSpec) -> list[Any]:
    """The leaves of a tree that has the structure of a spec."""
    if spec.type in _flatten:
        children = _flatten[spec.type](tree, spec)
        inner = zip(children, spec.children())
        return [leaf for child, part in inner for leaf in tree_flatten_spec(child, part)]
    if isinstance(tree, list) and spec.type is tuple:  # arguments are written as a list
        tree = tuple(tree)
    if (
        spec.type in (tuple, list)
        and isinstance(tree, spec.type)
        and len(tree) == spec.num_children
    ):
        parts = zip(tree, spec.children())
        return [leaf for item, part in parts for leaf in tree_flatten_spec(item, part)]
    if isinstance(tree, Proxy) and spec.type in (dict, list, tuple):  # recorded again, by its items
        keys = spec.context if spec.type is dict else range(spec.num_children)
        items: Any = tree
        parts = zip(keys, spec.children())
        return [leaf for key, part in parts for leaf in tree_flatten_spec(items[key], part)]
    return spec.flatten_up_to(tree)
