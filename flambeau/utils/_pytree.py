"""`torch.utils._pytree`: lists, tuples, dictionaries and others within each other, seen as a tree.

A tree is taken apart into its leaves and a spec, and put together again from both; everything else
is said with these two. Which containers count is in `tree_nodes.py`, specs are in `tree_specs.py`;
None and whatever is no registered container are leaves.
"""

import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from flambeau.utils import tree_nodes
from flambeau.utils.tree_nodes import BUILTIN_TYPES as BUILTIN_TYPES
from flambeau.utils.tree_nodes import CONSTANT_NODES as CONSTANT_NODES
from flambeau.utils.tree_nodes import STANDARD_DICT_TYPES as STANDARD_DICT_TYPES
from flambeau.utils.tree_nodes import SUPPORTED_NODES as SUPPORTED_NODES
from flambeau.utils.tree_nodes import ConstantNode as ConstantNode
from flambeau.utils.tree_nodes import FlattenFunc as FlattenFunc
from flambeau.utils.tree_nodes import GetAttrKey as GetAttrKey
from flambeau.utils.tree_nodes import MappingKey as MappingKey
from flambeau.utils.tree_nodes import NodeDef as NodeDef
from flambeau.utils.tree_nodes import SequenceKey as SequenceKey
from flambeau.utils.tree_nodes import UnflattenFunc as UnflattenFunc
from flambeau.utils.tree_nodes import _defaultdict_flatten as _defaultdict_flatten
from flambeau.utils.tree_nodes import (
    _defaultdict_flatten_with_keys as _defaultdict_flatten_with_keys,
)
from flambeau.utils.tree_nodes import _defaultdict_unflatten as _defaultdict_unflatten
from flambeau.utils.tree_nodes import _deque_flatten as _deque_flatten
from flambeau.utils.tree_nodes import _deque_flatten_with_keys as _deque_flatten_with_keys
from flambeau.utils.tree_nodes import _deque_unflatten as _deque_unflatten
from flambeau.utils.tree_nodes import _deregister_pytree_node as _deregister_pytree_node
from flambeau.utils.tree_nodes import _dict_flatten as _dict_flatten
from flambeau.utils.tree_nodes import _dict_flatten_with_keys as _dict_flatten_with_keys
from flambeau.utils.tree_nodes import _dict_unflatten as _dict_unflatten
from flambeau.utils.tree_nodes import _get_node_type as _get_node_type
from flambeau.utils.tree_nodes import _list_flatten as _list_flatten
from flambeau.utils.tree_nodes import _list_flatten_with_keys as _list_flatten_with_keys
from flambeau.utils.tree_nodes import _list_unflatten as _list_unflatten
from flambeau.utils.tree_nodes import _namedtuple_flatten as _namedtuple_flatten
from flambeau.utils.tree_nodes import _namedtuple_flatten_with_keys as _namedtuple_flatten_with_keys
from flambeau.utils.tree_nodes import _namedtuple_unflatten as _namedtuple_unflatten
from flambeau.utils.tree_nodes import _odict_flatten as _odict_flatten
from flambeau.utils.tree_nodes import _odict_unflatten as _odict_unflatten
from flambeau.utils.tree_nodes import _ordereddict_flatten as _ordereddict_flatten
from flambeau.utils.tree_nodes import (
    _ordereddict_flatten_with_keys as _ordereddict_flatten_with_keys,
)
from flambeau.utils.tree_nodes import _ordereddict_unflatten as _ordereddict_unflatten
from flambeau.utils.tree_nodes import _register_namedtuple as _register_namedtuple
from flambeau.utils.tree_nodes import _register_pytree_node as _register_pytree_node
from flambeau.utils.tree_nodes import _tuple_flatten as _tuple_flatten
from flambeau.utils.tree_nodes import _tuple_flatten_with_keys as _tuple_flatten_with_keys
from flambeau.utils.tree_nodes import _tuple_unflatten as _tuple_unflatten
from flambeau.utils.tree_nodes import is_constant_class as is_constant_class
from flambeau.utils.tree_nodes import is_namedtuple as is_namedtuple
from flambeau.utils.tree_nodes import is_namedtuple_class as is_namedtuple_class
from flambeau.utils.tree_nodes import is_namedtuple_instance as is_namedtuple_instance
from flambeau.utils.tree_nodes import is_structseq as is_structseq
from flambeau.utils.tree_nodes import is_structseq_class as is_structseq_class
from flambeau.utils.tree_nodes import is_structseq_instance as is_structseq_instance
from flambeau.utils.tree_nodes import register_constant as register_constant
from flambeau.utils.tree_nodes import register_dataclass as register_dataclass
from flambeau.utils.tree_nodes import register_pytree_node as register_pytree_node
from flambeau.utils.tree_specs import LEAF as _LEAF_SPEC
from flambeau.utils.tree_specs import LeafSpec as LeafSpec
from flambeau.utils.tree_specs import TreeSpec as TreeSpec
from flambeau.utils.tree_texts import (
    DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL as DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL,
)
from flambeau.utils.tree_texts import EnumEncoder as EnumEncoder
from flambeau.utils.tree_texts import enum_object_hook as enum_object_hook
from flambeau.utils.tree_texts import treespec_dumps as treespec_dumps
from flambeau.utils.tree_texts import treespec_loads as treespec_loads
from flambeau.utils.tree_texts import treespec_pprint as treespec_pprint

__all__ = [
    "PyTree",
    "Context",
    "FlattenFn",
    "UnflattenFn",
    "DumpableContext",
    "ToDumpableContextFn",
    "FromDumpableContextFn",
    "PyTreeSpec",
    "TreeSpec",
    "LeafSpec",
    "keystr",
    "key_get",
    "register_pytree_node",
    "tree_is_leaf",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_unflatten",
    "tree_iter",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_structure",
    "tree_map",
    "tree_map_with_path",
    "tree_map_",
    "tree_map_only",
    "tree_map_only_",
    "tree_all",
    "tree_any",
    "tree_all_only",
    "tree_any_only",
    "treespec_dumps",
    "treespec_loads",
    "treespec_pprint",
    "is_namedtuple",
    "is_namedtuple_class",
    "is_namedtuple_instance",
    "is_structseq",
    "is_structseq_class",
    "is_structseq_instance",
]

PyTree = Any
Context = Any
FlattenFn = FlattenFunc
UnflattenFn = UnflattenFunc
DumpableContext = Any
ToDumpableContextFn = Callable[[Context], DumpableContext]
FromDumpableContextFn = Callable[[DumpableContext], Context]
KeyEntry = tree_nodes.SequenceKey | tree_nodes.MappingKey | tree_nodes.GetAttrKey
KeyPath = tuple[KeyEntry, ...]
PyTreeSpec = TreeSpec
IsLeaf = Callable[[Any], bool] | None


def tree_is_leaf(tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Is the value a leaf, and not a container with children?"""
    if is_leaf is not None and is_leaf(tree):
        return True
    return _get_node_type(tree) not in SUPPORTED_NODES


_is_leaf = tree_is_leaf


def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list, TreeSpec]:
    """The leaves from left to right, and the structure they came from."""
    leaves: list = []
    return leaves, _spec_of(tree, is_leaf, leaves)


def _spec_of(node, is_leaf, leaves):
    """The structure of a tree, whose leaves are appended; no closure, which would keep them."""
    if tree_is_leaf(node, is_leaf):
        leaves.append(node)
        return _LEAF_SPEC
    kind = _get_node_type(node)
    children, context = SUPPORTED_NODES[kind].flatten_fn(node)
    return TreeSpec(kind, context, [_spec_of(child, is_leaf, leaves) for child in children])


def tree_unflatten(leaves: Iterable, treespec: TreeSpec) -> PyTree:
    """A tree of a structure with these leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "Expected `treespec` to be an instance of PyTreeSpec but got item of type "
            f"{type(treespec)}."
        )
    return treespec.unflatten(leaves)


def tree_iter(tree: PyTree, is_leaf: IsLeaf = None) -> Iterator:
    """The leaves, one after another."""
    if tree_is_leaf(tree, is_leaf):
        yield tree
    else:
        for child in SUPPORTED_NODES[_get_node_type(tree)].flatten_fn(tree)[0]:
            yield from tree_iter(child, is_leaf)


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list:
    """The leaves from left to right."""
    return list(tree_iter(tree, is_leaf))


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeSpec:
    """The structure alone."""
    return tree_flatten(tree, is_leaf)[1]


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list:
    """The leaves of a call's arguments."""
    return tree_leaves([*args, *kwargs.values()])


def tree_map(func: Callable, tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """The same structure with func of each leaf; more trees give func its further arguments."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten([func(*values) for values in zip(leaves, *others)])


def tree_map_(func: Callable, tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Call func with each leaf, for what it does to it; the tree itself comes back."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    for values in zip(leaves, *others):
        func(*values)
    return tree


def map_only(type_or_types_or_pred: Any, /) -> Callable[[Callable], Callable]:
    """A decorator: the function is called for such values only, others stay as they are."""
    kinds = type_or_types_or_pred
    if isinstance(kinds, (type, tuple, types.UnionType)):

        def wanted(value):
            return isinstance(value, kinds)
    elif callable(kinds):
        wanted = kinds
    else:
        raise TypeError("Argument must be a type, a tuple of types, or a callable.")
    return lambda func: lambda value: func(value) if wanted(value) else value


def tree_map_only(
    type_or_types_or_pred: Any, /, func: Callable, tree: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """tree_map for the leaves of some types, or those for which a function says yes."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any, /, func: Callable, tree: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """tree_map_ for some leaves."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Does it hold for any leaf?"""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Does it hold for all leaves?"""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any_only(
    type_or_types: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Does it hold for any leaf of these types?"""
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def tree_all_only(
    type_or_types: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Does it hold for all leaves of these types?"""
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def tree_flatten_with_path(
    tree: PyTree, is_leaf: IsLeaf = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """The leaves, each with the keys that lead to it, and the structure."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """The leaves, each with the keys that lead to it."""
    found: list[tuple[KeyPath, Any]] = []

    def walk(path, node):
        if tree_is_leaf(node, is_leaf):
            found.append((path, node))
            return
        flatten = SUPPORTED_NODES[_get_node_type(node)].flatten_with_keys_fn
        if flatten is None:
            raise ValueError(
                f"Did not find a flatten_with_keys_fn for type: {type(node)}. "
                "Please pass a flatten_with_keys_fn argument to register_pytree_node."
            )
        for key, child in flatten(node)[0]:
            walk((*path, key), child)

    walk((), tree)
    return found


def tree_map_with_path(
    func: Callable, tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """tree_map whose func is given the path of each leaf first."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten([func(*leaf, *values) for leaf, *values in zip(found, *others)])


def keystr(kp: KeyPath) -> str:
    """A path as Python would write it: `['a'][0].b`."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """What lies at the end of a path."""
    for key in kp:
        obj = key.get(obj)
    return obj


def _broadcast_to_and_flatten(
    tree: PyTree, treespec: TreeSpec, is_leaf: IsLeaf = None
) -> list | None:
    """The leaves of a tree, each as often as the structure has leaves in its place.

    None when the tree is no beginning of the structure.
    """
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    if treespec.is_leaf() or _get_node_type(tree) is not treespec.type:
        return None
    children, context = SUPPORTED_NODES[treespec.type].flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    found: list = []
    for child, spec in zip(children, treespec.children()):
        part = _broadcast_to_and_flatten(child, spec, is_leaf)
        if part is None:
            return None
        found += part
    return found


def treespec_leaf() -> LeafSpec:
    """The spec of a single leaf."""
    return _LEAF_SPEC


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """The spec of a tuple of such trees."""
    return TreeSpec(tuple, None, list(iterable))


def treespec_dict(
    mapping: Mapping[Any, TreeSpec] | Iterable[tuple[Any, TreeSpec]] = (), /, **kwargs: TreeSpec
) -> TreeSpec:
    """The spec of a dictionary of such trees."""
    members = dict(mapping, **kwargs)
    return TreeSpec(dict, list(members), list(members.values()))
