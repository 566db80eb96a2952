"""What a pickle would build, told without building it.

`Describer` reads any pickle as `restricted.Machine` does, but finds no globals and calls nothing: a
global becomes a `Name`, a call becomes a `Made`, a storage becomes a `Stored`. `tensors_in` finds
the tensors in what comes out, with the names that their containers give them.
"""

import ast
import math
import struct
from collections import OrderedDict
from pickle import UnpicklingError
from typing import Any, NamedTuple

from flambeau.serialization.rebuilding import ALLOWED, StorageKind
from flambeau.serialization.restricted import (
    MOST_LARGE_KEYS,
    STEPS,
    Machine,
    broken,
    check_key,
)
from flambeau.serialization.safe_names import OLD_NAMES

MOST_THINGS = 1_000_000  # containers and leaves that are looked at
MOST_NAME = 1000  # characters of names made of names


class Name:
    """A global of a pickle."""

    __slots__ = ("full",)

    def __init__(self, full):
        self.full = full

    def __repr__(self):
        return self.full


class Made:
    """What a call would have made: function, arguments, and what was put into it."""

    __slots__ = ("function", "arguments", "items", "state")

    def __init__(self, function, arguments):
        self.function, self.arguments = function, arguments
        self.items, self.state = [], None

    def __repr__(self):
        named = isinstance(self.function, (Name, str))
        return f"{self.function}(...)" if named else "a call of something that was made"


class Stored(NamedTuple):
    """A storage as a pickle names it."""

    dtype: Any  # None for bytes
    key: str
    location: str
    numel: int

    @property
    def nbytes(self):
        return self.numel * (1 if self.dtype is None else self.dtype.itemsize)


class TensorFacts(NamedTuple):
    """What a file says of one tensor."""

    name: str
    dtype: str
    shape: tuple
    stride: tuple
    offset: int
    storage: str | None  # the key of its storage
    nbytes: int
    kind: str  # "", "parameter", "buffer" or the name of a class

    @property
    def numel(self):
        return math.prod(self.shape)


class Describer(Machine):
    """Reads a pickle; `names` are its globals in order."""

    def __init__(self, file, encoding="latin1"):
        super().__init__(file, self.stored, encoding)
        self.names = {}
        self.storages = {}

    def stored(self, identity):
        kind = identity[1] if isinstance(identity, tuple) and len(identity) > 4 else None
        if not isinstance(kind, Name) or identity[0] != "storage":
            return Made("persistent id", (identity,))
        known = ALLOWED.get(kind.full)
        dtype = known.dtype if isinstance(known, StorageKind) else None
        key, location, numel = str(identity[2])[:100], str(identity[3])[:100], identity[4]
        if type(numel) is not int or not 0 <= numel < 1 << 62:
            raise broken("a storage without a size")
        found = Stored(dtype, key, location, numel)
        self.storages.setdefault(key, found)
        return found

    def find(self, module, name):
        if not isinstance(module, str) or not isinstance(name, str):
            raise broken("a global without a name")
        full = f"{OLD_NAMES.get(module, module)}.{name}"
        self.names[full] = None
        return Name(full)

    def call(self, function, arguments):
        if isinstance(function, Name) and function.full in _CONTAINERS and not arguments:
            return OrderedDict()
        return Made(function, arguments)

    def build(self, obj, state):
        if isinstance(obj, Made):
            obj.state = state
        elif type(obj) is OrderedDict and isinstance(state, dict):
            obj.__dict__.update((k, v) for k, v in state.items() if isinstance(k, str))


_CONTAINERS = {"collections.OrderedDict", "collections.Counter", "builtins.dict"}
Describer.steps = _steps = dict(STEPS)


def _step(code):
    def register(function):
        _steps[code] = function
        return function

    return register


def _line(self):
    line = self.file.readline(1 << 20)
    if not line.endswith(b"\n"):
        raise broken("a line without an end")
    return line[:-1]


def _number_line(self):
    text = _line(self)
    if text in (b"00", b"01"):
        return text == b"01"
    if len(text) > 4000:
        raise broken("a number of thousands of digits")
    return int(text.rstrip(b"L"))


def _quoted(self):
    text = _line(self).decode("ascii")
    if len(text) < 2 or text[0] not in "'\"" or text[-1] != text[0]:
        raise broken("a string without quotes")
    return ast.literal_eval(text)


_PUSHED = {
    b"I": _number_line,
    b"L": _number_line,
    b"F": lambda self: float(_line(self)),
    b"S": _quoted,
    b"V": lambda self: _line(self).decode("raw-unicode-escape"),
    b"g": lambda self: self.memo[int(_line(self))],
    b"2": lambda self: self.stack[-1],
    b"P": lambda self: self.stored(_line(self).decode("ascii", "replace")),
    b"\x97": lambda self: Made("buffer", ()),
    b"\x82": lambda self: _extension(self, "<B", 1),
    b"\x83": lambda self: _extension(self, "<H", 2),
    b"\x84": lambda self: _extension(self, "<i", 4),
}
for _code, _value in _PUSHED.items():
    _steps[_code] = lambda self, value=_value: self.stack.append(value(self))


def _extension(self, form, size):
    return self.find("copyreg", f"extension {struct.unpack(form, self.read(size))[0]}")


@_step(b"p")
def _put_line(self):
    self.memo[int(_line(self))] = self.stack[-1]


@_step(b"1")
def _pop_mark(self):
    self.since_mark()


@_step(b"\x98")
def _read_only(self):
    pass


@_step(b"i")
def _instance(self):
    cls = self.find(self.line(), self.line())
    self.stack.append(Made(cls, tuple(self.since_mark())))


@_step(b"o")
def _object(self):
    items = self.since_mark()
    self.stack.append(Made(items[0], tuple(items[1:])))


@_step(b"\x81")
def _new_object(self):
    arguments, cls = self.stack.pop(), self.stack.pop()
    self.stack.append(self.call(cls, arguments))


@_step(b"\x92")
def _new_object_with_names(self):
    named, arguments, cls = self.stack.pop(), self.stack.pop(), self.stack.pop()
    self.stack.append(Made(cls, (arguments, named)))


# items for containers, and for what a call would have made


def _key(self, key):
    try:
        large = check_key(key)
        hash(key)
    except (TypeError, UnpicklingError):
        return Name("unhashable")
    self.large_keys += large
    return key if self.large_keys < MOST_LARGE_KEYS else Name("a large number")


def _put_items(self, items, in_pairs):
    target = self.stack[-1]
    if in_pairs:
        items = [(_key(self, key), value) for key, value in zip(items[::2], items[1::2])]
    if isinstance(target, Made):
        target.items.extend(items if in_pairs else enumerate(items, len(target.items)))
    elif isinstance(target, dict) and in_pairs:
        target.update(items)
    elif isinstance(target, list) and not in_pairs:
        target.extend(items)
    elif isinstance(target, set) and not in_pairs:
        target.update(_key(self, item) for item in items)
    else:
        raise broken(f"cannot put items into {type(target)}")


_steps[b"e"] = _steps[b"\x90"] = lambda self: _put_items(self, self.since_mark(), False)
_steps[b"u"] = lambda self: _put_items(self, self.since_mark(), True)
_steps[b"a"] = lambda self: _put_items(self, [self.stack.pop()], False)
_steps[b"s"] = lambda self: _put_items(self, [self.stack.pop(), self.stack.pop()][::-1], True)
_steps[b"d"] = lambda self: self.stack.append(_dictionary(self, self.since_mark()))
_steps[b"\x91"] = lambda self: self.stack.append(
    frozenset(_key(self, item) for item in self.since_mark())
)


def _dictionary(self, items):
    return {_key(self, key): value for key, value in zip(items[::2], items[1::2])}


# tensors


def _whole(values):
    ok = isinstance(values, (tuple, list)) and all(type(v) is int for v in values)
    return tuple(values) if ok else None


def _dtype_name(dtype):
    full = dtype.full if isinstance(dtype, Name) else str(dtype)
    return full.removeprefix("torch.")


def tensor_facts(name, made, kind=""):
    """The facts of a tensor, or None if a call makes something else."""
    if not isinstance(made, Made) or not isinstance(made.function, Name):
        return None
    function, arguments = made.function.full.rpartition(".")[2], made.arguments
    if not isinstance(arguments, tuple):
        return None
    if function in ("_rebuild_parameter", "_rebuild_parameter_with_state") and arguments:
        return tensor_facts(name, arguments[0], "parameter")
    if function == "_rebuild_from_type_v2" and len(arguments) > 2:
        kind = arguments[1].full if isinstance(arguments[1], Name) else ""
        state = arguments[3] if len(arguments) > 3 else None
        if isinstance(state, dict) and state.get("_is_buffer"):
            kind = "buffer"
        inner = Made(arguments[0], arguments[2])
        return tensor_facts(name, inner, "" if kind == "torch.Tensor" else kind)
    if function == "_rebuild_meta_tensor_no_storage" and len(arguments) > 2:
        size, stride = _whole(arguments[1]), _whole(arguments[2])
        if size is None or stride is None:
            return None
        return TensorFacts(name, _dtype_name(arguments[0]), size, stride, 0, None, 0, "meta")
    if function in _REBUILDING and len(arguments) > 3 and isinstance(arguments[0], Stored):
        return _strided_facts(name, function, arguments, kind)
    return None


_REBUILDING = ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_qtensor")


def _strided_facts(name, function, arguments, kind):
    storage, offset, size, stride = arguments[:4]
    size, stride = _whole(size), _whole(stride)
    if size is None or stride is None or type(offset) is not int:
        return None
    dtype = storage.dtype
    width = 1 if dtype is None else dtype.itemsize
    said = "bytes" if dtype is None else _dtype_name(dtype)
    if function == "_rebuild_tensor_v3" and len(arguments) > 6:
        said = _dtype_name(arguments[6])
        known = ALLOWED.get(f"torch.{said}")
        width = getattr(known, "itemsize", width)
    nbytes = math.prod(size) * width
    return TensorFacts(name, said, size, stride, offset, storage.key, nbytes, kind)


_INSIDE_MODULES = ("_parameters", "_buffers", "_modules")


def tensors_in(found):
    """(facts of all tensors, {name: other value}) of what a pickle would build."""
    tensors, values, seen = [], {}, set()
    waiting, count = [("", found)], 0
    while waiting:
        name, thing = waiting.pop()
        count += 1
        if count > MOST_THINGS:
            raise broken(f"more than {MOST_THINGS} values")
        facts = tensor_facts(name, thing)
        if facts is not None:
            tensors.append(facts)
            continue
        inside = _inside(thing)
        if inside is None:
            values[name] = thing
        elif id(thing) not in seen:  # what is there twice, or contains itself, is told once
            seen.add(id(thing))
            waiting.extend((_joined(name, key), value) for key, value in reversed(inside))
    return tensors, values


def _inside(thing):
    """[(key, value)] of a container; None for leaves."""
    if isinstance(thing, dict):
        return list(thing.items())
    if isinstance(thing, (list, tuple)) and not isinstance(thing, Stored):
        return list(enumerate(thing)) if any(map(_is_container, thing)) else None
    if isinstance(thing, Made):
        inside = list(thing.items)
        state = thing.state
        parts = state if isinstance(state, tuple) else (state,)
        for part in parts:
            inside += list(part.items()) if isinstance(part, dict) else []
        if not inside and isinstance(thing.arguments, tuple):
            # what a call is given may hold tensors; if it holds none, the call is the value
            holds = [a for a in thing.arguments if isinstance(a, (dict, list, Made))]
            return list(enumerate(holds)) or None
        return inside
    return None


def _is_container(thing):
    return isinstance(thing, (dict, list, tuple, Made))


def _joined(name, key):
    if (isinstance(key, str) and key in _INSIDE_MODULES) or len(name) > MOST_NAME:
        return name
    text = key if isinstance(key, str) else repr(key)
    return f"{name}.{text[:200]}" if name else text[:200]
