"""Small functions that the Python made of graphs calls."""

import math
import operator
import warnings
from collections import namedtuple
from typing import Any

import flambeau
from flambeau._tensor import Tensor
from flambeau.jit import types as T
from flambeau.jit.annotating import NAMED_CLASSES
from flambeau.jit.futures import fork
from flambeau.jit.numbering import BY_NUMBER, DTYPES, FORMATS_BY_NUMBER, LAYOUTS
from flambeau.nn import functional as F


class Error(Exception):
    """What a program raises, with the place where it did."""


_FAILED = (
    "The following operation failed in the TorchScript interpreter.\n"
    "Traceback of TorchScript (most recent call last):\n"
)


def _raise(message, name=None, place=""):
    raise Error(f"{_FAILED}{place}{name or 'RuntimeError'}: {message}\n")


def _missing(name):
    raise NotImplementedError(f"{name} is not implemented in flambeau yet")


def _listed_numbers(x, depth, kind):
    """x.tolist(), if x has the dimensions and numbers of the type that was written down."""
    if x.dim() != depth:
        raise RuntimeError(
            f"{_FAILED}RuntimeError: Output annotation list dimension and runtime tensor dimension "
            "must match for tolist()\n"
        )
    fits = (
        x.dtype == flambeau.int64, x.is_floating_point(), x.is_complex(), x.dtype == flambeau.bool
    )  # fmt: skip
    if not fits[kind]:
        name = x.type().removeprefix("torch.").removesuffix("Tensor")
        raise RuntimeError(
            f"{_FAILED}RuntimeError: Output annotation element type and runtime tensor element "
            "type must match for tolist(): "
            f"{('Long', 'Float', 'ComplexFloat', 'Bool')[kind]} vs {name}\n"
        )
    return x.tolist()


def _set_item(where, key, value):
    where[key] = value
    return where


def _delete(where, key):
    del where[key]


def _format(template, *values):
    """Each {} in turn, by what TorchScript prints."""
    parts = template.split("{}")
    if len(parts) - 1 > len(values):
        raise RuntimeError("Too few arguments for format string: " + template)
    made = parts[0]
    for value, part in zip(values, parts[1:]):
        made += _text(value) + part
    return made.replace("{{", "{").replace("}}", "}")


def _text(value):
    return str(value)


def _print(*values):
    print(*[_text(v) for v in values])


def _warn(text, level=2):
    warnings.warn(text, UserWarning, stacklevel=level + 1)


def _indices(items):
    """Indices of dimensions, where None stands for all of one."""
    return tuple(slice(None) if item is None else item for item in items)


def _slice(tensor, dim=0, start=None, end=None, step=1):
    dim = dim + tensor.dim() if dim < 0 else dim
    return tensor[(slice(None),) * dim + (slice(start, end, step),)]


def _contains(where, item):
    return any(bool(w == item) for w in where)


def _equal_lists(a, b):
    return len(a) == len(b) and all(flambeau.equal(x, y) for x, y in zip(a, b))


def _add_list(a, b):
    a.extend(b)
    return a


def _mul_list(a, b):
    a[:] = a * b
    return a


def _named_class(kind: T.TupleOf) -> Any:
    """The Python class of a named tuple; one that comes from an archive is made."""
    found = NAMED_CLASSES.get(kind.name)
    if found is None:
        name = kind.name.rpartition(".")[2]
        found = NAMED_CLASSES[kind.name] = namedtuple(name, kind.fields)
    return found


def _object_class(kind: T.ClassType) -> Any:
    from flambeau.jit.classes import object_class

    return object_class(kind)


def is_instance(value: Any, kinds: list[T.Type]) -> bool:
    """Is a value of one of these types?"""
    return any(_is(value, kind) for kind in kinds)


_PYTHON = {T.INT: int, T.FLOAT: float, T.BOOL: bool, T.STR: str, T.COMPLEX: complex,
           T.NONE: type(None), T.TENSOR: Tensor, T.DEVICE: flambeau.device}  # fmt: skip


def _is(value, kind):
    if kind == T.ANY:
        return True
    if kind in _PYTHON:
        return isinstance(value, _PYTHON[kind]) and not (kind == T.INT and value in (True, False)
                                                         and isinstance(value, bool))  # fmt: skip
    if kind == T.NUMBER:
        return isinstance(value, (int, float, complex)) and not isinstance(value, bool)
    if kind == T.ANY_LIST:
        return isinstance(value, list)
    if kind == T.ANY_TUPLE:
        return isinstance(value, tuple)
    if isinstance(kind, T.ListOf):
        return isinstance(value, (list, tuple)) and all(_is(v, kind.part) for v in value)
    if isinstance(kind, T.DictOf):
        key, inner = kind.parts
        return isinstance(value, dict) and all(_is(k, key) and _is(v, inner)
                                               for k, v in value.items())  # fmt: skip
    if isinstance(kind, T.TupleOf):
        return isinstance(value, tuple) and len(value) == len(kind.parts) and all(
            map(_is, value, kind.parts)
        )  # fmt: skip
    if isinstance(kind, (T.OptionalOf, T.UnionOf)):
        return any(_is(value, part) for part in T.choices(kind))
    if isinstance(kind, T.EnumType):
        return isinstance(value, kind.cls)
    if isinstance(kind, T.ClassType):
        return _is_of_class(value, kind)
    if isinstance(kind, T.FutureOf):
        return hasattr(value, "wait")
    return True


def _is_of_class(value, kind):
    own = getattr(value, "_type", None)
    if isinstance(own, T.ClassType):
        return T.is_subtype(own, kind)
    original = getattr(kind, "original", None)
    return original is not None and isinstance(value, original)


SUPPORT: dict[str, Any] = {
    "_torch": flambeau,
    "_F": F,
    "_math": math,
    "_numbers": DTYPES,
    "_layouts": LAYOUTS,
    "_as_dtype": lambda number: None if number is None else BY_NUMBER[number],
    "_as_format": lambda number: None if number is None else FORMATS_BY_NUMBER[number],
    "_fork": fork,
    "_isinstance": is_instance,
    "_raise": _raise,
    "_is": operator.is_,
    "_missing": _missing,
    "_set_item": _set_item,
    "_listed_numbers": _listed_numbers,
    "_delete": _delete,
    "_format": _format,
    "_text": _text,
    "_print": _print,
    "_warn": _warn,
    "_indices": _indices,
    "_slice": _slice,
    "_contains": _contains,
    "_equal_lists": _equal_lists,
    "_add_list": _add_list,
    "_mul_list": _mul_list,
    "_named_class": _named_class,
    "_object_class": _object_class,
}
