"""Structures of trees as text: PyTorch's JSON for `treespec_dumps` and `treespec_loads`."""

import enum
import importlib
import json
import pprint
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.utils.tree_nodes import NAMES
from flambeau.utils.tree_specs import LeafSpec, TreeSpec

DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL = 1
_PROTOCOLS = [DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL]


class EnumEncoder(json.JSONEncoder):
    """Members of enums are written by the names of module, class and member."""

    def default(self, o: Any) -> Any:
        if not isinstance(o, enum.Enum):
            return super().default(o)
        place = f"{type(o).__module__}:{type(o).__qualname__}"
        return {"__enum__": True, "fqn": place, "name": o.name}


def enum_object_hook(obj: dict) -> Any:
    """What EnumEncoder wrote, as the member."""
    if "__enum__" not in obj:
        return obj
    module, _, name = obj["fqn"].partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found[obj["name"]]


def _context_text(context):
    """A context that no function of its own writes is text within the text."""
    try:
        return json.dumps(context, cls=EnumEncoder)
    except TypeError as error:
        raise TypeError(
            "Unable to serialize context. Please make the context json dump-able, or register a "
            "custom serializer using _register_pytree_node."
        ) from error


def _context_of_text(text):
    return json.loads(text, object_hook=enum_object_hook)


def _defaultdict_words(context):
    factory, keys = context
    return {
        "default_factory_module": factory.__module__,
        "default_factory_name": factory.__qualname__,
        "dict_context": keys,
    }


def _defaultdict_context(words):
    module = importlib.import_module(words["default_factory_module"])
    return [getattr(module, words["default_factory_name"]), words["dict_context"]]


def _namedtuple_word(cls):
    if cls not in NAMES:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {cls} because we didn't register a "
            "serializated_type_name. Please register using `_register_namedtuple`."
        )
    return NAMES[cls][0]


def _namedtuple_context(word):
    found = next((cls for cls, (name, *_) in NAMES.items() if name == word), None)
    if found is None:
        raise NotImplementedError(
            f"Can't deserialize TreeSpec of namedtuple class {word} because we couldn't find a "
            "serializated name."
        )
    return found


# kind -> (name, context to JSON, and back)
_KINDS: dict[Any, tuple[str, Callable | None, Callable | None]] = {
    tuple: ("builtins.tuple", None, None),
    list: ("builtins.list", None, None),
    dict: ("builtins.dict", None, None),
    namedtuple: ("collections.namedtuple", _namedtuple_word, _namedtuple_context),
    OrderedDict: ("collections.OrderedDict", None, None),
    defaultdict: ("collections.defaultdict", _defaultdict_words, _defaultdict_context),
    deque: ("collections.deque", None, None),
    flambeau.Size: ("torch.Size", None, None),
}


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """The structure of a tree as text."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "Expected `treespec` to be an instance of PyTreeSpec but got item of type "
            f"{type(treespec)}."
        )
    protocol = DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL if protocol is None else protocol
    _check_protocol(protocol)
    return json.dumps([protocol, _written(treespec)], cls=EnumEncoder)


def _check_protocol(protocol):
    if protocol not in _PROTOCOLS:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: {_PROTOCOLS}")


def _written(spec):
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    entry = _KINDS.get(spec.type) or NAMES.get(spec.type)
    if entry is None:
        raise NotImplementedError(
            f"No registered serialization name for {spec.type} found. Please update your "
            "_register_pytree_node call with a `serialized_type_name` kwarg."
        )
    name, to_words, _ = entry
    context = (to_words or _context_text)(spec.context)
    return {"type": name, "context": context, "children_spec": [*map(_written, spec.children())]}


def treespec_loads(serialized: str) -> TreeSpec:
    """The structure that a text describes."""
    protocol, found = json.loads(serialized)
    _check_protocol(protocol)
    return _read(found)


def _read(found):
    name = found["type"]
    if name is None:
        return LeafSpec()
    entries = [*_KINDS.items(), *NAMES.items()]
    found_kind = next(((kind, back) for kind, (word, _, back) in entries if word == name), None)
    if found_kind is None:
        raise NotImplementedError(f"Deserializing {name} in pytree is not registered.")
    kind, from_words = found_kind
    context = (from_words or _context_of_text)(found["context"])
    return TreeSpec(kind, context, [_read(child) for child in found["children_spec"]])


class _Star:
    """Stands where leaves are."""

    def __repr__(self):
        return "*"


def treespec_pprint(treespec: TreeSpec) -> str:
    """The structure as its tree prints, with stars for leaves."""
    return pprint.pformat(treespec.unflatten([_Star()] * treespec.num_leaves))
