"""The unpickler of weights: a small machine that can build data and nothing else.

It knows the names of `rebuilding.ALLOWED` and those that were added with `add_safe_globals`, calls
nothing that did not come from there, and sets attributes only of dictionaries with a state and of
classes that were added. There is no way out: what it does not know is an error.
"""

import struct
import types
from collections import Counter, OrderedDict
from pickle import UnpicklingError

from flambeau._device import device
from flambeau._layout import Size
from flambeau._tensor import Tensor
from flambeau.serialization.rebuilding import (
    ALLOWED,
    DimRange,
    StorageKind,
    rebuild_jagged,
    rebuild_nested,
    set_state,
)
from flambeau.serialization.safe_names import (
    BLOCKED,
    OLD_NAMES,
    allowed,
    get_safe_globals,
    name_of,
    refusal,
)

MARK = object()


def broken(what):
    return UnpicklingError(f"Weights only load failed. WeightsUnpickler error: {what}")


# Note [Keys that take long]
# A tuple does not remember its hash: a tuple of twice the same tuple of twice the same tuple ...
# takes exponential time as a key, and one that is nested deeply overflows the stack of the
# processor. Integers of any size can be chosen such that all have the same hash. So keys are looked
# at before they become keys.
MOST_KEY_ITEMS, MOST_KEY_DEPTH, MOST_LARGE_KEYS = 10_000, 100, 1000


def check_key(key):
    """Complain of a key whose hash would take long; is it a large number?"""
    if not isinstance(key, tuple):
        return isinstance(key, (int, float)) and not -(1 << 64) < key < 1 << 64
    waiting, count, large = [(key, 0)], 0, False
    while waiting:
        item, depth = waiting.pop()
        if isinstance(item, tuple):
            count += len(item) + 1
            if count > MOST_KEY_ITEMS or depth > MOST_KEY_DEPTH:
                raise broken("a key that is too large")
            waiting.extend((part, depth + 1) for part in item)
        else:
            large = large or check_key(item)
    return large


STEPS: dict = {}


class Machine:
    """Reads one pickle from a file."""

    steps = STEPS

    def __init__(self, file, persistent_load, encoding="utf-8"):
        self.file, self.persistent_load, self.encoding = file, persistent_load, encoding
        self.stack: list = []
        self.memo: dict = {}
        self.large_keys = 0
        self.safe = {name_of(i): i[0] if isinstance(i, tuple) else i for i in get_safe_globals()}

    def load(self):
        read = self.file.read
        try:
            while True:
                op = read(1)
                if not op:
                    raise EOFError("Ran out of input")
                if op == b".":
                    return self.stack.pop()
                step = self.steps.get(op)
                if step is None:
                    raise broken(f"Unsupported operand {op[0]}")
                step(self)
        except (UnpicklingError, EOFError, MemoryError):
            raise
        except (IndexError, KeyError, TypeError, ValueError, AttributeError) as error:
            # values of a wrong kind, an empty stack, an unknown memo: whatever a bad file can do
            raise broken(f"{type(error).__name__}: {error}") from error
        except (struct.error, RecursionError, OverflowError) as error:
            raise broken(f"{type(error).__name__}: {error}") from error

    def read(self, count):
        data = self.file.read(count) if count < 1 << 20 else self._read_large(count)
        if len(data) != count:
            raise EOFError("pickle data was truncated")
        return data

    def _read_large(self, count):
        # piece by piece: a lying length must not ask for memory
        pieces, left = [], count
        while left and (piece := self.file.read(min(left, 1 << 24))):
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)

    def number(self, form, size):
        return struct.unpack(form, self.read(size))[0]

    def line(self):
        line = self.file.readline(1000)
        if not line.endswith(b"\n"):
            raise broken("a name without an end")
        return line[:-1].decode()

    def since_mark(self):
        stack, place = self.stack, len(self.stack) - 1
        while stack[place] is not MARK:
            place -= 1
            if place < 0:
                raise broken("no mark on the stack")
        items = stack[place + 1 :]
        del stack[place:]
        return items

    def keys(self, keys):
        """The same keys; see Note [Keys that take long]."""
        for key in keys:
            kind = type(key)
            if kind is not str and kind is not bytes and check_key(key):
                self.large_keys += 1
                if self.large_keys > MOST_LARGE_KEYS:
                    raise broken("too many large numbers as keys")
        return keys

    def pairs(self, items):
        keys, values = items[::2], items[1::2]
        return dict(zip(self.keys(keys), values, strict=True))

    def find(self, module, name):
        if not isinstance(module, str) or not isinstance(name, str):
            raise broken("a global without a name")
        full = f"{OLD_NAMES.get(module, module)}.{name}"
        if full.partition(".")[0] in BLOCKED:
            raise refusal(full)  # whoever allowed it
        found = self.safe.get(full)
        if found is None:
            found = allowed(full)
        if found is None:
            raise refusal(full)
        return found

    def call(self, function, arguments):
        if not isinstance(arguments, tuple):
            raise broken("arguments that are not a tuple")
        if any(function is f for f in _CALLABLE) or self.is_safe(function):
            self.check_items(function, arguments)
            # numbers of the file say where pieces lie
            if function is rebuild_nested or _makes_jagged(function, arguments):
                getattr(self.persistent_load, "fill", tuple)()
            return function(*arguments)
        if isinstance(function, type) and function is allowed("torch.nn.parameter.Parameter"):
            return function(*arguments)
        raise broken(f"Trying to call reduce for unrecognized function {_called(function)}")

    def check_items(self, function, arguments):
        """What is given to a type must be data; what a container is made of becomes keys."""
        if any(function is cls for cls in (set, Counter, OrderedDict)):
            for items in arguments:
                if not isinstance(items, _HOLDERS):
                    raise broken(f"items in {type(items)}")
                in_pairs = function is OrderedDict and not isinstance(items, dict)
                self.keys([pair[0] for pair in items] if in_pairs else items)
        elif function is Size and not (len(arguments) == 1 and _are(int, arguments[0])):
            raise broken("sizes that are not numbers")
        elif function is device and not _are((str, int), arguments):
            raise broken("a device without a name")
        elif function is complex and not _are((int, float), arguments):
            raise broken("a complex number without parts")

    def is_safe(self, obj):
        return any(obj is other for other in self.safe.values())

    def build(self, obj, state):
        """Give an object its state."""
        if type(obj) is OrderedDict:
            if not isinstance(state, dict):
                raise broken("the state of an OrderedDict is not a dictionary")
            obj.__dict__.update(state)
        elif isinstance(obj, Tensor):
            set_state(obj, state)
        elif type(obj) is DimRange:
            obj.__setstate__(state)
        elif self.is_safe(type(obj)):
            if hasattr(obj, "__setstate__"):
                obj.__setstate__(state)
            else:
                _set_attributes(obj, state)
        else:
            raise broken(
                "Can only build Tensor, Parameter, OrderedDict or types allowlisted via "
                f"`add_safe_globals`, but got {type(obj)}"
            )


def _makes_jagged(function, arguments):
    return any(part is rebuild_jagged for part in (function, *arguments[:1]))


_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
_HOLDERS = (list, tuple, dict, set, frozenset)


def _are(kinds, values):
    return isinstance(values, (list, tuple)) and all(isinstance(value, kinds) for value in values)


def _called(function):
    if isinstance(function, (type, *_FUNCTIONS)):
        return f"{function.__module__}.{function.__qualname__}"
    return f"an object of {type(function)}"


def _set_attributes(obj, state):
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    if attributes:
        obj.__dict__.update(attributes)
    for name, value in (slots or {}).items():
        setattr(obj, name, value)


_CALLABLE = [
    value
    for name, value in ALLOWED.items()
    if callable(value) and value is not Tensor and not isinstance(value, StorageKind)
]


def _op(code):
    def register(function):
        STEPS[code] = function
        return function

    return register


def _pushing(code, value_of):
    """An operation that pushes what value_of gives for the machine."""
    STEPS[code] = lambda self: self.stack.append(value_of(self))


for _code, _value in {b"N": None, b"\x88": True, b"\x89": False, b"(": MARK}.items():
    _pushing(_code, lambda self, value=_value: value)
for _code, _make in {b"]": list, b"}": dict, b")": tuple, b"\x8f": set}.items():
    _pushing(_code, lambda self, make=_make: make())
for _code, _form, _size in ((b"K", "<B", 1), (b"M", "<H", 2), (b"J", "<i", 4)):
    _pushing(_code, lambda self, form=_form, size=_size: self.number(form, size))
_pushing(b"G", lambda self: self.number(">d", 8))
_pushing(b"\x8a", lambda self: _integer(self.read(self.number("B", 1))))
_pushing(b"\x8b", lambda self: _integer(self.read(self.number("<i", 4))))
for _code, _form in {b"X": "<I", b"\x8c": "B", b"\x8d": "<Q"}.items():
    _pushing(_code, lambda self, f=_form: _text(self.read(_length(self, f))))
for _code, _form in {b"B": "<I", b"C": "B", b"\x8e": "<Q"}.items():
    _pushing(_code, lambda self, f=_form: self.read(_length(self, f)))
for _code, _form in {b"T": "<i", b"U": "B"}.items():
    _pushing(_code, lambda self, f=_form: _old_text(self, self.read(_length(self, f))))
_pushing(b"\x96", lambda self: bytearray(self.read(_length(self, "<Q"))))
_pushing(b"c", lambda self: self.find(self.line(), self.line()))
_pushing(b"h", lambda self: self.memo[self.read(1)[0]])
_pushing(b"j", lambda self: self.memo[self.number("<I", 4)])
_pushing(b"t", lambda self: tuple(self.since_mark()))
_pushing(b"\x91", lambda self: frozenset(self.keys(self.since_mark())))
_pushing(b"l", lambda self: self.since_mark())
_pushing(b"d", lambda self: self.pairs(self.since_mark()))
_pushing(b"Q", lambda self: self.persistent_load(self.stack.pop()))


def _length(self, form):
    count = self.number(form, struct.calcsize(form))
    if count < 0:
        raise broken("a negative length")
    return count


def _integer(data):
    return int.from_bytes(data, "little", signed=True)


def _text(data):
    return data.decode("utf-8", "surrogatepass")


def _old_text(self, data):
    return data if self.encoding == "bytes" else data.decode(self.encoding)


@_op(b"\x80")
def _protocol(self):
    version = self.read(1)[0]
    if version > 5:
        raise broken(f"unsupported pickle protocol: {version}")


@_op(b"\x95")
def _frame(self):
    self.read(8)


@_op(b"0")
def _pop(self):
    self.stack.pop()


@_op(b"q")
def _put(self):
    self.memo[self.read(1)[0]] = self.stack[-1]


@_op(b"r")
def _long_put(self):
    self.memo[self.number("<I", 4)] = self.stack[-1]


@_op(b"\x94")
def _memoize(self):
    self.memo[len(self.memo)] = self.stack[-1]


def _tuple_of(count):
    def step(self):
        if len(self.stack) < count:
            raise broken("an empty stack")
        self.stack[-count:] = [tuple(self.stack[-count:])]

    return step


STEPS[b"\x85"], STEPS[b"\x86"], STEPS[b"\x87"] = _tuple_of(1), _tuple_of(2), _tuple_of(3)


_FOR = "for dict, collections.OrderedDict, collections.Counter"


def _container(self, words, *kinds):
    target = self.stack[-1]
    if not isinstance(target, kinds):
        raise broken(f"Can only {words}, but got {type(target)}")
    return target


@_op(b"a")
def _append(self):
    item = self.stack.pop()
    _container(self, "append to lists", list).append(item)


@_op(b"e")
def _appends(self):
    items = self.since_mark()
    _container(self, "extend lists", list).extend(items)


@_op(b"\x90")
def _add_items(self):
    items = self.since_mark()
    _container(self, "add to sets", set).update(self.keys(items))


@_op(b"s")
def _set_item(self):
    value, key = self.stack.pop(), self.stack.pop()
    self.keys((key,))
    _container(self, f"SETITEM {_FOR}", dict)[key] = value


@_op(b"u")
def _set_items(self):
    items = self.since_mark()
    _container(self, f"SETITEMS {_FOR}", dict).update(self.pairs(items))


@_op(b"\x93")
def _stack_global(self):
    name, module = self.stack.pop(), self.stack.pop()
    self.stack.append(self.find(module, name))


@_op(b"R")
def _reduce(self):
    arguments = self.stack.pop()
    self.stack[-1] = self.call(self.stack[-1], arguments)


@_op(b"\x81")
def _new_object(self):
    arguments, cls = self.stack.pop(), self.stack.pop()
    if not isinstance(arguments, tuple):
        raise broken("arguments that are not a tuple")
    if any(cls is c for c in (Size, OrderedDict, Counter, set, DimRange)):
        self.check_items(cls, arguments)
        made = cls(*arguments)
    elif isinstance(cls, type) and self.is_safe(cls):
        made = cls.__new__(cls, *arguments)
    else:
        raise broken(f"Trying to call __new__ of {_called(cls)}")
    self.stack.append(made)


@_op(b"b")
def _build(self):
    state = self.stack.pop()
    self.build(self.stack[-1], state)
