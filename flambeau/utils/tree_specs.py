"""TreeSpec: the structure of a tree without its leaves.

A spec knows how many leaves it takes, builds a tree from that many, and takes another tree apart
down to the places where its own leaves are.
"""

import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from flambeau.utils.tree_nodes import STANDARD_DICT_TYPES, SUPPORTED_NODES, _get_node_type


class TreeSpec:
    """The kind of a container, its context, and the specs of its children; a leaf has no kind."""

    __slots__ = ("_children", "context", "num_leaves", "num_nodes", "type")

    def __init__(self, type: Any, context: Any, children_specs: list["TreeSpec"]) -> None:
        self.type, self.context, self._children = type, context, list(children_specs)
        leaf = type is None
        self.num_leaves: int = 1 if leaf else sum(child.num_leaves for child in self._children)
        self.num_nodes: int = 1 + sum(child.num_nodes for child in self._children)

    @property
    def num_children(self) -> int:
        """How many specs lie right under this one."""
        return len(self._children)

    @property
    def children_specs(self) -> list["TreeSpec"]:
        """An older name of children()."""
        warnings.warn(
            "`treespec.children_specs` is deprecated. Use `treespec.child(index)` to access a "
            "single child, or `treespec.children()` to get all children.",
            FutureWarning,
            stacklevel=2,
        )
        return self._children

    def is_leaf(self) -> bool:
        """Does it stand for a single leaf?"""
        return self.type is None

    def children(self) -> list["TreeSpec"]:
        """The specs right under this one."""
        return self._children.copy()

    def child(self, index: int) -> "TreeSpec":
        """One of them."""
        return self._children[index]

    def unflatten(self, leaves: Iterable) -> Any:
        """A tree of this structure with these leaves."""
        values = leaves if isinstance(leaves, (list, tuple)) else list(leaves)
        if len(values) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(values)} but the spec "
                f"refers to a pytree that holds {self.num_leaves} items ({self})."
            )
        return self._build(iter(values))

    def _build(self, values: Iterator) -> Any:
        if self.type is None:
            return next(values)
        children = [child._build(values) for child in self._children]
        return SUPPORTED_NODES[self.type].unflatten_fn(children, self.context)

    def flatten_up_to(self, tree: Any) -> list:
        """What lies in a tree where this structure has its leaves."""
        if self.type is None:
            return [tree]
        found: list = []
        for child, value in zip(self._children, self._children_of(tree)):
            found += child.flatten_up_to(value)
        return found

    def _children_of(self, tree):
        """The children of a tree whose root must be as this one; dictionaries go by key."""
        kind = _get_node_type(tree)
        both_dicts = kind in STANDARD_DICT_TYPES and self.type in STANDARD_DICT_TYPES
        if kind is not self.type and not both_dicts:
            raise ValueError(f"Node type mismatch; expected {self.type!r}, but got {kind!r}.")
        children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
        if len(children) != len(self._children):
            raise ValueError(
                f"Node arity mismatch; expected {len(self._children)}, but got {len(children)}."
            )
        if both_dicts:
            keys = self._keys()
            missing, extra = set(keys) - tree.keys(), tree.keys() - set(keys)
            if missing or extra:
                parts = [f"missing key(s): {missing}"] * bool(missing)
                parts += [f"extra key(s): {extra}"] * bool(extra)
                raise ValueError(f"Node keys mismatch; {'; '.join(parts)}.")
            return [tree[key] for key in keys]
        if context != self.context and kind is not deque:  # how long one may get does not matter
            raise ValueError(
                f"Node context mismatch for custom node type {self.type!r}; "
                f"expected {self.context!r}, but got {context!r}."
            )
        return children

    def _keys(self):
        plain = self.type is not None and self.type.__name__ != "defaultdict"
        return self.context if plain else self.context[1]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (
            self.type is other.type
            and self.context == other.context
            and self._children == other._children
        )

    def __hash__(self) -> int:
        context = repr(self.context) if self.type is not None else None
        return hash((self.type, context, tuple(self._children)))

    def __repr__(self) -> str:
        return self._text(0)

    def _text(self, indent: int) -> str:
        if self.type is None:
            return "*"
        between = ",\n" + " " * (indent + 2)
        inside = between.join(child._text(indent + 2) for child in self._children)
        return f"TreeSpec({self.type.__name__}, {self.context}, [{inside}])"

    def __reduce__(self):
        return (type(self), (self.type, self.context, self._children))


class LeafSpec(TreeSpec):
    """The spec of a single leaf."""

    __slots__ = ()

    def __init__(self, type: None = None, context: None = None, children_specs: Any = ()) -> None:
        super().__init__(None, None, [])


LEAF = LeafSpec()
