"""Types of TorchScript from Python's annotations and values."""

import collections
import enum
import types as python_types
import typing
from typing import Any

from flambeau import _dtype
from flambeau._device import device
from flambeau._layout import Size
from flambeau._memory_format import layout, memory_format
from flambeau._tensor import Tensor
from flambeau.jit import types as T
from flambeau.random import Generator

_PLAIN = {
    int: T.INT,
    float: T.FLOAT,
    bool: T.BOOL,
    str: T.STR,
    complex: T.COMPLEX,
    None: T.NONE,
    type(None): T.NONE,
    Any: T.ANY,
    Tensor: T.TENSOR,
    device: T.DEVICE,
    _dtype.dtype: T.INT,
    layout: T.INT,
    memory_format: T.INT,
    Size: T.ListOf(T.INT),
    Generator: T.GENERATOR,
    list: T.ListOf(T.TENSOR),
    dict: T.DictOf(T.STR, T.TENSOR),
}


class NoType(Exception):
    """What has no type in TorchScript."""


def from_annotation(found: Any, class_of: Any) -> T.Type:
    """The type that an annotation means; class_of(cls) gives types of the program's classes."""
    try:
        if found in _PLAIN:
            return _PLAIN[found]
    except TypeError:
        pass
    origin, args = typing.get_origin(found), typing.get_args(found)
    inner = lambda: [from_annotation(a, class_of) for a in args]
    if origin is typing.Annotated:
        return from_annotation(args[0], class_of)
    if origin in (typing.Union, python_types.UnionType):
        return _union(inner())
    if origin is list:
        return T.ListOf(*inner())
    if origin in (dict, collections.OrderedDict):
        return T.DictOf(*inner())
    if origin is tuple:
        return T.TupleOf(*([] if args == ((),) else inner()))
    if origin is typing.Final or origin is typing.ClassVar:
        return inner()[0]
    if getattr(origin, "__name__", "") == "Future":
        return T.FutureOf(*inner())
    if isinstance(found, type):
        return _from_class(found, class_of)
    raise NoType(f"Unknown type annotation: '{_spoken(found)}'")


def _union(parts):
    numbers = {T.INT, T.FLOAT, T.COMPLEX}
    if set(parts) >= numbers:  # that is what a number is
        parts = [T.NUMBER, *[p for p in parts if p not in numbers]]
        return parts[0] if len(parts) == 1 else T.union(parts)
    return T.union(parts)


def _from_class(found, class_of):
    if issubclass(found, Tensor):
        return T.TENSOR
    if issubclass(found, tuple) and hasattr(found, "_fields"):
        return named_tuple(found, class_of)
    if issubclass(found, enum.Enum):
        return enum_type(found)
    known = class_of(found)
    if known is None:
        raise NoType(f"Unknown type name '{_spoken(found)}'")
    return known


def _spoken(found):
    return getattr(found, "__name__", None) or str(found).replace("flambeau.", "torch.")


_named_tuples: dict[type, T.TupleOf] = {}
NAMED_CLASSES: dict[str, type] = {}  # the Python classes of named tuples, by the names of types


def named_tuple(cls: Any, class_of: Any) -> T.TupleOf:
    """The type of a named tuple."""
    if cls not in _named_tuples:
        hints = typing.get_type_hints(cls)
        parts = [from_annotation(hints.get(f, Tensor), class_of) for f in cls._fields]
        made = T.TupleOf(*parts, name=qualified(cls), fields=tuple(cls._fields))
        made.defaults = tuple(cls._field_defaults.values())
        _named_tuples[cls] = made
        NAMED_CLASSES[made.name] = cls
    return _named_tuples[cls]


_enums: dict[type, T.EnumType] = {}


def enum_type(cls: Any) -> T.EnumType:
    """The type of an enumeration; its values have one type."""
    if cls not in _enums:
        kinds = {infer(member.value) for member in cls}
        if len(kinds) != 1 or not kinds <= {T.INT, T.FLOAT, T.STR}:
            raise NoType(f"Enum-based types must have values of one type, str, int or float: {cls}")
        _enums[cls] = T.EnumType(qualified(cls), kinds.pop() or T.INT, cls)
    return _enums[cls]


def qualified(found: Any, module: str | None = None) -> str:
    """The name of a Python function or class in programs: __torch__.module.name."""
    module = module or getattr(found, "__module__", "") or ""
    name = found.__qualname__.replace("<locals>.", "").replace("<lambda>", "_lambda")
    name = name.rpartition(".")[2]
    if module.startswith("flambeau.jit.functional_"):
        module = "torch.nn.functional"
    if module == "flambeau.jit.tensor_forms":
        module = "torch.functional"
    if module == "flambeau" or module.startswith("flambeau."):
        module = "torch" + module.removeprefix("flambeau")
    parts = [] if module in ("__main__", "") else module.split(".")
    parts = [p if p.isidentifier() else "_" + "".join(c if c.isalnum() else "_" for c in p)
             for p in parts]  # fmt: skip
    return ".".join(["__torch__", *parts, name])


def infer(value: Any, class_of: Any = lambda cls: None) -> T.Type | None:
    """The type of a Python value; None if it has none."""
    if value is None:
        return T.NONE
    if type(value) in _PLAIN and not isinstance(value, (list, dict)):
        return _PLAIN[type(value)]
    if isinstance(value, Tensor):
        return T.TENSOR
    if isinstance(value, enum.Enum):
        return enum_type(type(value))
    if isinstance(value, tuple):
        parts = [infer(v, class_of) for v in value]
        if any(p is None for p in parts):
            return None
        if hasattr(value, "_fields"):
            return named_tuple(type(value), class_of)
        return T.TupleOf(*[p for p in parts if p is not None])
    if isinstance(value, list):
        return _infer_list(value, class_of)
    if isinstance(value, dict):
        keys, values = (_infer_list(list(v), class_of) for v in (value.keys(), value.values()))
        if not value or not isinstance(keys, T.ListOf) or not isinstance(values, T.ListOf):
            return None
        return T.DictOf(keys.part, values.part)
    if isinstance(value, (_dtype.dtype, layout, memory_format)):
        return T.INT
    return class_of(type(value))


def _infer_list(values, class_of):
    if not values:
        return None
    kind = infer(values[0], class_of)
    for value in values[1:]:
        other = infer(value, class_of)
        kind = T.unify(kind, other) if kind is not None and other is not None else None
    return None if kind is None else T.ListOf(kind)
