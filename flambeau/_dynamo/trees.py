"""Trees of lists, tuples and dictionaries (torch.utils._pytree) in a program that is read."""

from typing import Any

from flambeau._dynamo.exc import Break
from flambeau._dynamo.known import known, type_of
from flambeau._dynamo.values import MadeObject, Outside, Symbolic
from flambeau.utils import _pytree as pytree


class TreeShape(Symbolic):
    """What tree_flatten says of a tree besides its leaves."""

    __slots__ = ("spec",)

    def __init__(self, spec: Any) -> None:
        self.spec = spec


def opened_tree(reader: Any, value: Any) -> Any:
    """A value with its lists and dictionaries from outside as the program sees them."""
    if isinstance(value, Outside):
        value = reader.mapping(value) if isinstance(value.obj, dict) else reader.opened(value)
    if type(value) in (tuple, list):
        return type(value)([opened_tree(reader, item) for item in value])
    if type(value) is dict:
        return {key: opened_tree(reader, item) for key, item in value.items()}
    return value


def _flattened(reader, tree, is_leaf=None):
    if is_leaf is not None:
        raise Break("a tree whose leaves the program tells")
    leaves, spec = pytree.tree_flatten(opened_tree(reader, tree))
    for leaf in leaves:
        if isinstance(leaf, (MadeObject, Outside)) and type_of(leaf) in pytree.SUPPORTED_NODES:
            raise Break("a tree of objects of the program")
    return leaves, spec


@known(pytree.tree_flatten)
def _tree_flatten(reader, tree, is_leaf=None):
    leaves, spec = _flattened(reader, tree, is_leaf)
    return leaves, TreeShape(spec)


@known(pytree.tree_unflatten)
def _tree_unflatten(reader, leaves, treespec):
    if not isinstance(treespec, TreeShape):
        raise Break("a tree of a shape from outside")
    leaves = list(reader.iterate(leaves))
    if len(leaves) != treespec.spec.num_leaves:
        raise Break("another number of leaves")
    return pytree.tree_unflatten(leaves, treespec.spec)


@known(pytree.tree_leaves)
def _tree_leaves(reader, tree, is_leaf=None):
    return _flattened(reader, tree, is_leaf)[0]


@known(pytree.tree_map)
def _tree_map(reader, func, tree, *rests, is_leaf=None):
    leaves, spec = _flattened(reader, tree, is_leaf)
    others = [_flattened(reader, rest) for rest in rests]
    if any(other != spec for _, other in others):
        raise Break("trees of other shapes")
    columns = zip(leaves, *(found for found, _ in others))
    return pytree.tree_unflatten([reader.call(func, row, {}) for row in columns], spec)
