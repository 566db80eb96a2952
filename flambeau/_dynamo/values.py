"""What a program handles while it is read.

Numbers, texts, lists, dictionaries that the program makes itself are themselves. Everything else
stands for something: a tensor that a graph will compute, an object from outside that is looked at
under guards, a function or an object that the program makes. Whatever looks into one of these
without asking the reader (a comparison inside of `list.index`, a `str`) raises Break, so ordinary
Python functions may be called on lists and dictionaries of them.
"""

from collections.abc import Callable
from typing import Any

from flambeau._dynamo.exc import Break

_SEALED = (
    "__bool__ __len__ __iter__ __next__ __contains__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ "
    "__hash__ __add__ __radd__ __iadd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ "
    "__rtruediv__ __floordiv__ __rfloordiv__ __mod__ __rmod__ __pow__ __rpow__ __matmul__ "
    "__rmatmul__ __and__ __rand__ __or__ __ror__ __xor__ __rxor__ __lshift__ __rlshift__ "
    "__rshift__ __rrshift__ __neg__ __pos__ __invert__ __abs__ __round__ __int__ __float__ "
    "__complex__ __index__ __str__ __repr__ __format__ __bytes__ __getitem__ __setitem__ "
    "__delitem__ __enter__ __exit__ __reversed__ __divmod__ __rdivmod__ __trunc__ __floor__ "
    "__ceil__ __iter__ __copy__ __deepcopy__ __reduce_ex__ __fspath__ __call__"
).split()


class Symbolic:
    """Stands for something; nobody but the reader may look inside."""

    __slots__ = ()

    def describe(self) -> str:
        """What it is, in words."""
        return type(self).__name__


def _seal(name: str) -> Callable:
    def sealed(self: Symbolic, *args: Any) -> Any:
        raise Break(f"{name} of {self.describe()}")

    sealed.__name__ = name
    return sealed


for _name in _SEALED:
    setattr(Symbolic, _name, _seal(_name))


class TensorValue(Symbolic):
    """A tensor: a node of the graph, and a tensor without memory that has its shape and dtype."""

    __slots__ = ("cls", "fake", "moving", "node", "number", "real", "sizes", "source", "varies")

    def __init__(self, node: Any, fake: Any, varies: bool = False) -> None:
        self.node, self.fake = node, fake
        self.varies = varies  # are sizes others in other calls, perhaps?
        self.moving: Any = None  # of an input: which of them
        self.sizes: dict = {}  # those that were asked for, by dimension
        self.source: Any = None  # where it comes from, if from outside
        self.number = -1  # which input of the graph
        self.real: Any = None  # the tensor itself, if it comes from outside
        self.cls: type = type(fake)

    def fake_kind(self) -> tuple[bool, bool]:
        """Of an input: does it want a gradient, was it computed from others?"""
        return self.real._requires_grad, self.real._grad_fn is not None

    def describe(self) -> str:
        return "a tensor"


class Outside(Symbolic):
    """An object from outside that can change; reading from it makes guards, writing is a break."""

    __slots__ = ("obj", "source")

    def __init__(self, obj: Any, source: tuple) -> None:
        self.obj, self.source = obj, source

    def describe(self) -> str:
        return f"an object of {type(self.obj).__module__}.{type(self.obj).__qualname__}"


class MadeFunction(Symbolic):
    """A function or lambda that the program makes; `scope` is where it was made."""

    __slots__ = ("defaults", "kwdefaults", "name", "node", "reader", "scope")

    def __init__(self, reader: Any, node: Any, scope: Any, defaults: list, kwdefaults: dict):
        self.reader, self.node, self.scope = reader, node, scope
        self.defaults, self.kwdefaults = defaults, kwdefaults
        self.name = getattr(node, "name", "<lambda>")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.reader.call(self, args, kwargs)

    def describe(self) -> str:
        return f"the function {self.name}"


class MadeGenerator(Symbolic):
    """A call of a function with `yield` that has not begun. is_manager: of a context manager."""

    __slots__ = ("body", "has_run", "is_manager", "name", "reader", "scope")

    def __init__(self, reader: Any, scope: Any, name: str, body: list) -> None:
        self.reader, self.scope, self.name, self.body = reader, scope, name, body
        self.has_run = self.is_manager = False

    def run(self, met: Callable[[Any], None]) -> Any:
        """Read it from beginning to end; met(value) where it yields."""
        if self.has_run:
            raise Break("a generator that is used twice")
        self.has_run, self.scope.met = True, met
        with self.reader.deeper(self.scope, self.name):
            return self.reader.run_body(self.body, self.scope)

    def describe(self) -> str:
        return f"the generator {self.name}"


class Callback(Symbolic):
    """A function from outside, for builtins that call their arguments: its calls are read."""

    __slots__ = ("function", "reader")

    def __init__(self, reader: Any, function: Any) -> None:
        self.reader, self.function = reader, function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.reader.call(self.function, args, kwargs)


class BoundMethod(Symbolic):
    """A method of something symbolic: a function, or the name of a method of Tensor."""

    __slots__ = ("function", "owner")

    def __init__(self, owner: Any, function: Any) -> None:
        self.owner, self.function = owner, function

    def describe(self) -> str:
        return f"the method {getattr(self.function, '__name__', self.function)}"


class Partial(Symbolic):
    """functools.partial of something."""

    __slots__ = ("args", "function", "kwargs")

    def __init__(self, function: Any, args: tuple, kwargs: dict) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs


class MadeObject(Symbolic):
    """An instance of a class, made by the program; `fields` is its __dict__."""

    __slots__ = ("cls", "fields")
    is_plain = True  # can it be made again from its class and its fields?

    def __init__(self, cls: type, fields: dict | None = None) -> None:
        self.cls, self.fields = cls, {} if fields is None else fields

    def describe(self) -> str:
        return f"an object of {self.cls.__qualname__}"


class Super(Symbolic):
    """super() of an object."""

    __slots__ = ("cls", "owner")

    def __init__(self, cls: type, owner: Any) -> None:
        self.cls, self.owner = cls, owner


class GradSwitch(Symbolic):
    """no_grad() and its kin: what recording is set to, and what it was when this was made."""

    __slots__ = ("mode", "previous")

    def __init__(self, mode: bool, previous: bool | None = None) -> None:
        self.mode, self.previous = mode, previous


class NullContext(Symbolic):
    """contextlib.nullcontext(), which does nothing."""

    __slots__ = ("result",)

    def __init__(self, result: Any = None) -> None:
        self.result = result


class AutocastValue(Symbolic):
    """An autocast: (device, dtype, is it on, are casts of parameters kept)."""

    __slots__ = ("settings",)

    def __init__(self, settings: tuple) -> None:
        self.settings = settings


def is_named_tuple(kind: type) -> bool:
    """A class of tuples whose items have names: collections.namedtuple, torch.return_types."""
    named = hasattr(kind, "_fields") or kind.__module__ == "flambeau.return_types"
    return issubclass(kind, tuple) and named


def holds_symbols(value: Any, depth: int = 0) -> bool:
    """Is there something symbolic in it?"""
    if isinstance(value, Symbolic):
        return True
    if depth > 20:
        raise Break("a structure that is nested too deeply")
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(holds_symbols(v, depth + 1) for v in value)
    if isinstance(value, dict):
        return any(holds_symbols(v, depth + 1) for v in value.values())
    if isinstance(value, slice):
        return any(holds_symbols(v) for v in (value.start, value.stop, value.step))
    return False
