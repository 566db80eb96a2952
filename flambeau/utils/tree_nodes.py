"""Which containers a tree may have inside, and how each is taken apart and put together again.

A kind of container gives its children with a context, what else is needed to build it anew, and
may name the way to each child. `_pytree.py` walks trees with them; libraries register their own.
"""

import dataclasses
import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import flambeau
from flambeau import return_types

FlattenFunc = Callable[[Any], tuple[list, Any]]
UnflattenFunc = Callable[[Iterable, Any], Any]
_MAY_BE_BASE = 1 << 10  # a flag of types, from CPython


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """The way to an item of a list, a tuple or a deque."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        return sequence[self.idx]


@dataclasses.dataclass(frozen=True)
class MappingKey:
    """The way to a value of a mapping."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        return mapping[self.key]


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """The way to an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        return getattr(obj, self.name)


class NodeDef(NamedTuple):
    """A kind of container; `keys` names the ways to its children, None when nobody said."""

    type: Any
    flatten_fn: FlattenFunc
    unflatten_fn: UnflattenFunc
    flatten_with_keys_fn: Callable[[Any], tuple[list, Any]] | None


@dataclasses.dataclass(frozen=True)
class ConstantNode:
    """The context of a container that is all constant."""

    value: Any


SUPPORTED_NODES: dict[Any, NodeDef] = {}
CONSTANT_NODES: set[type] = set()
# class -> (name in texts, context to JSON, and back)
NAMES: dict[type, tuple[str, Callable | None, Callable | None]] = {}


def register_pytree_node(
    cls: type,
    flatten_fn: FlattenFunc,
    unflatten_fn: UnflattenFunc,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable | None = None,
    from_dumpable_context: Callable | None = None,
    flatten_with_keys_fn: Callable | None = None,
) -> None:
    """Let instances of a class be walked: `flatten_fn(x)` gives a list of children and a context.

    `unflatten_fn(children, context)` builds an equal one. With a serialized_type_name structures
    with such containers can be written as text.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    if (to_dumpable_context is None) is not (from_dumpable_context is None):
        raise ValueError(
            f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or "
            "registered."
        )
    if serialized_type_name is not None:
        NAMES[cls] = (serialized_type_name, to_dumpable_context, from_dumpable_context)
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


def _register_pytree_node(
    cls: type,
    flatten_fn: FlattenFunc,
    unflatten_fn: UnflattenFunc,
    to_str_fn: Callable | None = None,
    maybe_from_str_fn: Callable | None = None,
    **named: Any,
) -> None:
    """The older name, which warns and lets a class be registered again."""
    warnings.warn(
        "`torch.utils._pytree._register_pytree_node` is deprecated. "
        "Please use `torch.utils._pytree.register_pytree_node` instead.",
        FutureWarning,
        stacklevel=2,
    )
    _forget(cls)
    register_pytree_node(cls, flatten_fn, unflatten_fn, **named)


def _forget(cls):
    """What is registered already gives way, with a warning."""
    if cls in SUPPORTED_NODES or cls in NAMES:
        warnings.warn(
            f"{cls} is already registered as pytree node. Overwriting the previous registration.",
            UserWarning,
            stacklevel=3,
        )
        _deregister_pytree_node(cls)


def _deregister_pytree_node(cls: type) -> None:
    SUPPORTED_NODES.pop(cls, None)
    NAMES.pop(cls, None)
    CONSTANT_NODES.discard(cls)


def _register_namedtuple(cls: type, *, serialized_type_name: str) -> None:
    """Name a class made by namedtuple, for texts of structures; walked are all of them anyway."""
    _forget(cls)
    NAMES[cls] = (serialized_type_name, None, None)


def register_constant(cls: type) -> None:
    """Let instances of a class be part of the structure, with no leaves; they are compared."""
    for method, default in (("__eq__", object.__eq__), ("__hash__", None)):
        if getattr(cls, method) is default:
            raise TypeError(
                f"register_constant(cls) expects `cls` to have a non-default `{method}` "
                "implementation."
            )
    _forget(cls)
    register_pytree_node(
        cls,
        lambda value: ([], ConstantNode(value)),
        lambda _, context: context.value,
        flatten_with_keys_fn=lambda value: ([], ConstantNode(value)),
    )
    CONSTANT_NODES.add(cls)


def is_constant_class(cls: type) -> bool:
    """Was it given to register_constant?"""
    return isinstance(cls, type) and cls in CONSTANT_NODES


def register_dataclass(
    cls: type,
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Let a dataclass be walked by its fields; those that are None stay out of the tree.

    Other classes may be walked by attributes that they are made of, which must all be named.
    """
    names = _dataclass_names(cls, field_names, drop_field_names or [])

    def with_keys(obj):
        there = [name for name in names if getattr(obj, name) is not None]
        absent = [name for name in names if name not in there]
        return [(GetAttrKey(name), getattr(obj, name)) for name in there], [there, absent]

    def flatten(obj):
        children, context = with_keys(obj)
        return [child for _, child in children], context

    def unflatten(children, context):
        there, absent = context
        return cls(**dict(zip(there, children)), **dict.fromkeys(absent))

    _forget(cls)
    register_pytree_node(
        cls,
        flatten,
        unflatten,
        serialized_type_name=serialized_type_name,
        flatten_with_keys_fn=with_keys,
    )


def _dataclass_names(cls, chosen, dropped):
    """The fields that are walked: every one that the class is made of is chosen or dropped."""
    if not dataclasses.is_dataclass(cls):
        if chosen is None:
            raise ValueError(
                "field_names must be specified with a list of all fields used to initialize "
                f"{cls}, as it is not a dataclass."
            )
        return list(chosen)
    names = [field.name for field in dataclasses.fields(cls) if field.init]
    names = [name for name in names if name not in dropped]
    if chosen is None or set(chosen) == set(names):
        return names if chosen is None else list(chosen)
    message = "field_names does not include all dataclass fields.\n"
    if missing := set(names) - set(chosen):
        message += (
            f"Missing fields in `field_names`: {missing}. If you want to include these fields in "
            "the pytree, please add them to `field_names`, otherwise please add them to "
            "`drop_field_names`.\n"
        )
    if unexpected := set(chosen) - set(names):
        message += (
            f"Unexpected fields in `field_names`: {unexpected}. Please remove these fields, or "
            "add them to `drop_field_names`.\n"
        )
    raise ValueError(message)


def is_namedtuple(obj: Any) -> bool:
    """Is it a class made by namedtuple, or an instance of one?"""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_namedtuple_class(cls: type) -> bool:
    if not (isinstance(cls, type) and issubclass(cls, tuple)):
        return False
    fields, *methods = (getattr(cls, name, None) for name in ("_fields", "_make", "_asdict"))
    named = isinstance(fields, tuple) and all(isinstance(name, str) for name in fields)
    return named and all(map(callable, methods))


def is_namedtuple_instance(obj: Any) -> bool:
    return is_namedtuple_class(type(obj))


def is_structseq_class(cls: type) -> bool:
    """Is it a tuple with names that C made: `time.struct_time`, `torch.return_types.max`, ...?"""
    if not (isinstance(cls, type) and issubclass(cls, tuple)):
        return False
    sizes = (getattr(cls, f"n_{which}fields", None) for which in ("", "sequence_", "unnamed_"))
    as_in_c = all(isinstance(size, int) for size in sizes) and not cls.__flags__ & _MAY_BE_BASE
    return as_in_c or cls in return_types.all_return_types


def is_structseq_instance(obj: Any) -> bool:
    return is_structseq_class(type(obj))


def is_structseq(obj: Any) -> bool:
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def _get_node_type(tree: Any) -> Any:
    """The key of a value in the registry; a class of its own need not be there."""
    kind = type(tree)
    if kind not in SUPPORTED_NODES and is_namedtuple_class(kind):
        return namedtuple
    return kind


def _numbered(children):
    return [(SequenceKey(k), child) for k, child in enumerate(children)]


def _tuple_flatten(d: tuple) -> tuple[list, Any]:
    return list(d), None


def _tuple_flatten_with_keys(d: tuple) -> tuple[list, Any]:
    return _numbered(d), None


def _tuple_unflatten(values: Iterable, context: Any) -> tuple:
    return tuple(values)


def _list_flatten(d: list) -> tuple[list, Any]:
    return list(d), None


def _list_flatten_with_keys(d: list) -> tuple[list, Any]:
    return _numbered(d), None


def _list_unflatten(values: Iterable, context: Any) -> list:
    return list(values)


def _dict_flatten(d: dict) -> tuple[list, Any]:
    return list(d.values()), list(d)


def _dict_flatten_with_keys(d: dict) -> tuple[list, Any]:
    return [(MappingKey(key), child) for key, child in d.items()], list(d)


def _dict_unflatten(values: Iterable, context: Any) -> dict:
    return dict(zip(context, values))


def _namedtuple_flatten(d: Any) -> tuple[list, Any]:
    return list(d), type(d)


def _namedtuple_flatten_with_keys(d: Any) -> tuple[list, Any]:
    return [(GetAttrKey(name), child) for name, child in zip(d._fields, d)], type(d)


def _namedtuple_unflatten(values: Iterable, context: Any) -> Any:
    return context(*values)


def _ordereddict_flatten(d: OrderedDict) -> tuple[list, Any]:
    return _dict_flatten(d)


def _ordereddict_flatten_with_keys(d: OrderedDict) -> tuple[list, Any]:
    return _dict_flatten_with_keys(d)


def _ordereddict_unflatten(values: Iterable, context: Any) -> OrderedDict:
    return OrderedDict(zip(context, values))


def _defaultdict_flatten(d: defaultdict) -> tuple[list, Any]:
    return list(d.values()), [d.default_factory, list(d)]


def _defaultdict_flatten_with_keys(d: defaultdict) -> tuple[list, Any]:
    return _dict_flatten_with_keys(d)[0], [d.default_factory, list(d)]


def _defaultdict_unflatten(values: Iterable, context: Any) -> defaultdict:
    return defaultdict(context[0], zip(context[1], values))


def _deque_flatten(d: deque) -> tuple[list, Any]:
    return list(d), d.maxlen


def _deque_flatten_with_keys(d: deque) -> tuple[list, Any]:
    return _numbered(d), d.maxlen


def _deque_unflatten(values: Iterable, context: Any) -> deque:
    return deque(values, maxlen=context)


_odict_flatten = _ordereddict_flatten
_odict_unflatten = _ordereddict_unflatten

_BUILTIN = [
    NodeDef(tuple, _tuple_flatten, _tuple_unflatten, _tuple_flatten_with_keys),
    NodeDef(list, _list_flatten, _list_unflatten, _list_flatten_with_keys),
    NodeDef(dict, _dict_flatten, _dict_unflatten, _dict_flatten_with_keys),
    NodeDef(namedtuple, _namedtuple_flatten, _namedtuple_unflatten, _namedtuple_flatten_with_keys),
    NodeDef(
        OrderedDict,
        _ordereddict_flatten,
        _ordereddict_unflatten,
        _ordereddict_flatten_with_keys,
    ),
    NodeDef(
        defaultdict,
        _defaultdict_flatten,
        _defaultdict_unflatten,
        _defaultdict_flatten_with_keys,
    ),
    NodeDef(deque, _deque_flatten, _deque_unflatten, _deque_flatten_with_keys),
]
BUILTIN_TYPES = frozenset(node.type for node in _BUILTIN)
STANDARD_DICT_TYPES = frozenset((dict, OrderedDict, defaultdict))


def _made_from_items(kind):
    return NodeDef(
        kind, _tuple_flatten, lambda items, _: kind(tuple(items)), _tuple_flatten_with_keys
    )


SUPPORTED_NODES.update({node.type: node for node in _BUILTIN})
SUPPORTED_NODES.update({kind: _made_from_items(kind) for kind in return_types.all_return_types})
# the sizes may have become something else than numbers
SUPPORTED_NODES[flambeau.Size] = NodeDef(flambeau.Size, *_BUILTIN[0][1:])
