"""Structures of trees as text: PyTorch's JSON for `treespec_dumps` and `treespec_loads`."""

import json
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from flambeau.utils.tree_nodes import NAMES
from flambeau.utils.tree_specs import LeafSpec, TreeSpec

_PROTOCOL = 1
# class -> (name, context as JSON, and back)
_same: Callable[[Any], Any] = lambda context: context
_KINDS: dict[type, tuple[str, Callable, Callable]] = {
    tuple: ("builtins.tuple", _same, _same),
    list: ("builtins.list", _same, _same),
    dict: ("builtins.dict", _same, _same),
    OrderedDict: ("collections.OrderedDict", _same, _same),
}


def _entry(cls):
    if cls in _KINDS:
        return _KINDS[cls]
    if cls not in NAMES:
        return None
    name, to_text, from_text = NAMES[cls]
    return name, to_text or _same, from_text or _same


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """The structure of a tree as text."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"treespec_dumps(treespec, protocol): Expected `treespec` to be instance of TreeSpec "
            f"but got item of type {type(treespec)}."
        )
    if protocol not in (None, _PROTOCOL):
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{_PROTOCOL}]")
    return json.dumps([_PROTOCOL, _written(treespec)])


def _written(spec):
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    entry = _entry(spec.type)
    if entry is None:
        raise NotImplementedError(
            f"Serializing {spec.type} in pytree is not registered. Give it a name with "
            "register_pytree_node(..., serialized_type_name=...)."
        )
    name, to_text, _ = entry
    context = json.dumps(to_text(spec.context), default=str)
    return {"type": name, "context": context, "children_spec": [*map(_written, spec.children())]}


def treespec_loads(serialized: str) -> TreeSpec:
    """The structure that a text describes."""
    protocol, found = json.loads(serialized)
    if protocol != _PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{_PROTOCOL}]")
    return _read(found)


def _read(found):
    name = found["type"]
    if name is None:
        return LeafSpec()
    kind = next((cls for cls in (*_KINDS, *NAMES) if _entry(cls)[0] == name), None)
    if kind is None:
        raise NotImplementedError(f"Deserializing {name} in pytree is not registered.")
    context = _entry(kind)[2](json.loads(found["context"]))
    return TreeSpec(kind, context, [_read(child) for child in found["children_spec"]])
