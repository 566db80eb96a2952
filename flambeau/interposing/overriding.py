"""Arguments that answer for functions: `__torch_function__` of subclasses of Tensor and of others.

A handler (__init__.py) looks at the types of all arguments and lets those that want to answer.
It comes with the first instance of such a class, so programs with plain tensors never meet it.
Tensor has a `__torch_function__`, too: it computes as usual and gives the result the class of the
arguments, which is how subclasses survive ops. Classes that do not want that say
`__torch_function__ = disabled`. Modes, which see all calls, are in flambeau/overrides.py.
"""

import functools
import inspect
import warnings
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from flambeau import _device, interposing
from flambeau._dtype import default_dtype
from flambeau._layout import Size, dense_layout, make_layout
from flambeau._tensor import Tensor, make_tensor
from flambeau._tensor.admission import reach
from flambeau._tensor.attachment import METHODS, member_of, method
from flambeau.autograd.grad_mode import modes
from flambeau.interposing import Name, switched_off
from flambeau.ops.table import REQUIRED, public
from flambeau.storage import new_storage

KINDS = frozenset({"op", "python", "data", "method", "property", "asking"})
Called = TypeVar("Called", bound=Callable)
SILENT, SPEAKS, HOLDS = 0, 1, 2  # what an argument may be; lists and tuples hold others


@staticmethod  # type: ignore[misc]  # so that it can stand in a class
def disabled(func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
    """The `__torch_function__` of classes whose ops give plain tensors."""
    with disabled_for_subclasses():
        return func(*args, **(kwargs or {}))


class _Roles(dict):
    """What arguments of a type are."""

    def __missing__(self, kind: type) -> int:
        found = self[kind] = _role(kind)
        return found


def _role(kind):
    if kind is Tensor:
        return SILENT
    if issubclass(kind, (list, tuple)) and not hasattr(kind, "__torch_function__"):
        return HOLDS
    answer = getattr(kind, "__torch_function__", None)
    if answer is None or answer is disabled.__func__:
        return SILENT
    # as in PyTorch, a class that is told of ops is told of functions only if it says so
    inherited = getattr(answer, "__func__", None) is _torch_function
    return SILENT if inherited and has_dispatch(kind) else SPEAKS


roles = _Roles()


_told: dict[type, bool] = {}


def has_dispatch(kind: type) -> bool:
    """Does a subclass of Tensor have a `__torch_dispatch__` of its own?"""
    found = _told.get(kind)
    if found is None:
        own = ("__torch_dispatch__" in c.__dict__ for c in kind.__mro__ if c is not Tensor)
        found = _told[kind] = any(own)
    return found


# arguments that neither answer for functions nor are told of ops, and hold none that do
PASSING = interposing.Passing(
    lambda kind: roles[kind] == SILENT and not (issubclass(kind, Tensor) and has_dispatch(kind))
)


def speakers(values: Iterable[Any]) -> list:
    """One argument of each type that answers: subclasses first, then from left to right."""
    found: list = []
    for value in values:
        role = roles[type(value)]
        if role == SPEAKS:
            _admit(found, value)
        elif role == HOLDS:
            for item in value:
                if roles[type(item)] == SPEAKS:
                    _admit(found, item)
    return found


def _admit(found, value):
    kind = type(value)
    if not any(type(other) is kind for other in found):
        below = (k for k, other in enumerate(found) if issubclass(kind, type(other)))
        found.insert(next(below, len(found)), value)


def answer(func: Callable, found: list, args: tuple, kwargs: dict, in_python: bool = False) -> Any:
    """What the first of some arguments answers that knows how to; else NotImplemented.

    in_python: the function is one that PyTorch or a program has written in Python.
    """
    types = tuple(map(type, found))
    for speaker in found:
        tell = speaker.__torch_function__
        if getattr(tell, "__self__", None) is speaker:
            _warn_of_method(func, in_python)
        result = tell(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    return NotImplemented


def _warn_of_method(func, in_python):
    # PyTorch warns in another way where a function of its own is written in Python
    in_python = in_python or resolved(func).startswith("torch.nn.functional")
    warnings.warn(
        "Defining your `__torch_function__` as a plain method is deprecated and will be an error "
        "in future, please define it as a classmethod.",
        DeprecationWarning if in_python else UserWarning,
        stacklevel=4,
    )


def refused(name: str, found: list) -> TypeError:
    """The complaint if nobody answers."""
    lines = [
        f"  - {'tensor subclass' if isinstance(v, Tensor) else 'object of type'} {type(v)}"
        for v in found
    ]
    return TypeError(
        f"Multiple dispatch failed for '{name}'; all __torch_function__ handlers returned "
        "NotImplemented:\n\n" + "\n".join(lines) + "\n\nFor more information, try re-running "
        "with TORCH_LOGS=not_implemented"
    )


# -- which function is called ----------------------------------------------------------------------

# operators that PyTorch shows as the method they stand for
_AS_METHODS = {
    "__add__": "add",
    "__radd__": "add",
    "__sub__": "sub",
    "__mul__": "mul",
    "__rmul__": "mul",
    "__truediv__": "div",
    "__mod__": "remainder",
    "__pow__": "pow",
    "__matmul__": "matmul",
    "__ne__": "ne",
    "__lt__": "lt",
    "__le__": "le",
    "__gt__": "gt",
    "__ge__": "ge",
}


def public_function(name: Name) -> Callable:
    """What a `__torch_function__` is told is called."""
    key = name.place.key
    if key in _AS_METHODS:
        return getattr(Tensor, _AS_METHODS[key])
    attribute, _, access = key.partition(".")
    member = member_of(attribute)
    if isinstance(member, property) and (access or member.fget is name.function):
        return getattr(member, access or "__get__")
    return name.function


def told(name: Name, args: tuple, kwargs: dict) -> tuple[Callable, tuple, dict]:
    """What a `__torch_function__` is told: function, arguments, keywords."""
    func = public_function(name)
    telling = TELLING.get(func)
    return (func, args, kwargs) if telling is None else (func, *telling(args, kwargs))


def resolved(func: Callable) -> str:
    """Where a function is found, such as torch.Tensor.add."""
    name = getattr(func, "__name__", str(func))
    owner = getattr(func, "__self__", None)
    if isinstance(owner, property):
        found = (key for key in Tensor.__dict__ if member_of(key) is owner)
        return f"torch.Tensor.{next(found, '?')}.{name}"
    if member_of(name) is func:
        return "torch.Tensor." + name
    module = getattr(func, "__module__", None) or ""
    if module.startswith("flambeau.nn"):
        return "torch" + module.removeprefix("flambeau") + "." + name
    space, _, short = name.partition("_")
    return f"torch.{space}.{short}" if space in ("linalg", "fft", "special") else "torch." + name


# -- the handler -----------------------------------------------------------------------------------


# these take any object and make a plain tensor of it
_FROM_OUTSIDE = frozenset(
    "tensor as_tensor asarray from_dlpack to_dlpack from_numpy frombuffer".split()
)

# functions that are told with other arguments than were written: those of PyTorch's own calls
TELLING: dict[Callable, Callable] = {}


class _Arguments(interposing.Handler):
    """Lets arguments answer that want to."""

    kinds = KINDS
    level = interposing.ARGUMENTS
    sees = "all"
    all_threads = is_lasting = forks = True
    passing = PASSING

    def wants(self, place):
        return place.kind in KINDS and place.key not in _FROM_OUTSIDE

    def around(self, name, function, args, kwargs):
        found = speakers(args)
        if kwargs:
            found = speakers([*args, *kwargs.values()])
        if not found:
            return function(*args, **kwargs)
        func, args, kwargs = told(name, args, kwargs)
        result = answer(func, found, args, kwargs)
        if result is NotImplemented and not name.place.delegates:  # operators have a second try
            raise refused(resolved(func), found)
        return result


ARGUMENTS = _Arguments()


def notice_tensor(kind: type) -> None:
    """A tensor of a subclass has come into being."""
    notice(kind)
    if has_dispatch(kind):
        from flambeau.interposing import dispatching  # which few programs need

        dispatching.begin()


def notice(kind: type) -> bool:
    """An instance of a class has been met; is it the first that answers?"""
    if kind is Tensor or roles[kind] != SPEAKS or interposing.is_pushed(ARGUMENTS):
        return False
    interposing.push(ARGUMENTS)
    return True


def disabled_for_subclasses() -> switched_off:
    """A context in which subclasses count as plain tensors."""
    return switched_off(ARGUMENTS)


def tried_again(function: Callable, op: Any, args: tuple, kwargs: dict) -> Any:
    """For `except` blocks of slow paths: a call that failed, perhaps as an argument is no tensor.

    If one is an object that answers for functions, and the first such, the handler comes and the
    public function is called once more; else the exception goes on.
    """
    if interposing.is_pushed(ARGUMENTS) or not speakers([*args, *kwargs.values()]):
        raise
    interposing.push(ARGUMENTS)
    args, kwargs = as_written(op, args, kwargs)
    return function(*args, **kwargs)


def as_written(op: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """Arguments as somebody would write them: by position where that goes, without defaults."""
    given, named = list(args), dict(kwargs)
    params = [p for p in op.params if not p.keyword_only]
    for p in params[len(given) :]:
        if p.name not in named:
            break
        given.append(named.pop(p.name))
    while len(given) <= len(params) and given and given[-1] is params[len(given) - 1].default:
        given.pop()
    for p in op.params:
        if p.keyword_only and named.get(p.name, REQUIRED) is p.default:
            del named[p.name]
    return tuple(given), named


def answering(function: Callable, op: Any) -> Callable:
    """A slow path that is tried again through the public function of its row."""

    def tried(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except (TypeError, AttributeError):
            return tried_again(public(op.name), op, args, kwargs)

    tried.__wrapped__ = function  # type: ignore[attr-defined]  # signatures are read from it
    return tried


def asking_first(function: Called) -> Called:
    """A function that looks for objects which answer for it, at little cost, before it begins."""

    @functools.wraps(function)
    def asking(*args, **kwargs):
        values = (*args, *kwargs.values()) if kwargs else args
        if speakers(values) and not interposing.is_pushed(ARGUMENTS):
            interposing.push(ARGUMENTS)
            return asking(*args, **kwargs)
        return function(*args, **kwargs)

    return cast(Called, asking)


def answerable(function: Called, telling: Callable | None = None, kind: str = "asking") -> Called:
    """A function that is no row, for which arguments may answer.

    telling: (args, kwargs) of a call -> those that PyTorch tells of. kind: of its calls; only
    arguments and modes are told of "asking".
    """

    asking = asking_first(function)
    if telling is not None:
        TELLING[asking] = telling
    if kind == "op":
        interposing.offer(asking, "aten::" + function.__name__)
    else:
        module = function.__module__.removeprefix("flambeau")
        full = f"torch{module}.{function.__name__}"
        interposing.offer(asking, full, kind, full)
    return asking


def by_name(function: Called) -> Called:
    """`answerable` for a function that is told with all its arguments by name."""
    signature = inspect.signature(function)

    def telling(args, kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return (), dict(bound.arguments)

    return answerable(function, telling)


# -- subclasses of Tensor --------------------------------------------------------------------------


def nowrap() -> set:
    """Functions whose result keeps its class."""
    members = Tensor.__dict__
    return {members[name].__get__ for name in ("_base", "grad") if name in members}


def converted(result: Any, cls: type) -> Any:
    """A result, however deep in lists and tuples, as a subclass of Tensor."""
    if cls is Tensor:
        return result
    if isinstance(result, Tensor) and not isinstance(result, cls):
        return result.as_subclass(cls)
    if isinstance(result, (tuple, list)):
        items = [converted(item, cls) for item in result]
        kind: Any = type(result)
        return kind(*items) if hasattr(kind, "_fields") else kind(items)
    return result


def _torch_function(
    cls: type, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
) -> Any:
    """Calls a function as usual; tensors among its results become of this class."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    with disabled_for_subclasses():
        result = func(*args, **(kwargs or {}))
    return result if func in nowrap() else converted(result, cls)


METHODS["__torch_function__"] = classmethod(_torch_function)


@method
def as_subclass(self, cls):
    """The same tensor as an instance of a subclass."""
    if not issubclass(cls, Tensor):
        raise TypeError(
            "Creating a Tensor subclass from a class that does not inherit from Tensor is not "
            "possible. Make sure your class inherits from Tensor."
        )
    if self._requires_grad and self._grad_fn is None and modes.grad:
        with disabled_for_subclasses():
            self = self.view(self.shape)  # so that gradients reach the leaf itself
    out = make_tensor(self._layout, self._storage, self._offset, cls)
    out._requires_grad, out._grad_fn, out._output_nr = (
        self._requires_grad,
        self._grad_fn,
        self._output_nr,
    )
    notice_tensor(cls)
    return out


def _make_subclass(cls: type, data: Tensor, require_grad: bool = False, **options: Any) -> Any:
    """A leaf of a subclass over the memory of a tensor."""
    out = make_tensor(data._layout, data._storage, data._offset, cls)
    out._requires_grad = require_grad
    notice_tensor(cls)
    return out


def _make_wrapper_subclass(
    cls: type,
    size: Any,
    strides: Any = None,
    storage_offset: Any = None,
    memory_format: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    dispatch_sizes_strides_policy: str | None = None,
    dispatch_device: bool = False,
    dispatch_layout: bool = False,
    **options: Any,
) -> Any:
    """A tensor of a subclass whose values others hold; it has memory that nobody reads."""
    kind = default_dtype() if dtype is None else dtype
    where = _device.default_device() if device is None else _device.resolve(device)
    shape = Size(size)
    plain = dense_layout(shape, kind, where)
    nbytes = plain.nbytes
    if strides is not None:
        nbytes = reach(shape, strides, 0, kind.itemsize)
        plain = make_layout(shape, tuple(strides), kind, where)
    out = make_tensor(plain, new_storage(nbytes), 0, cls)
    out._requires_grad = requires_grad
    notice_tensor(cls)
    return out


METHODS["_make_subclass"] = staticmethod(_make_subclass)
METHODS["_make_wrapper_subclass"] = staticmethod(_make_wrapper_subclass)
