"""`torch.overrides`: who answers for functions: arguments with `__torch_function__`, and modes.

A mode is a handler (interposing/) above all others: it is told of every function that is
called inside of its `with`. While it answers it is off, so it may call what it was told of.
Arguments that answer, and subclasses of Tensor, are in interposing/overriding.py.
"""

import contextlib
import functools
import inspect
import operator
import threading
import types as python_types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flambeau import interposing
from flambeau._tensor import Tensor
from flambeau.eager import methods
from flambeau.interposing import places
from flambeau.interposing.overriding import (
    ARGUMENTS,
    KINDS,
    answer,
    nowrap,
    refused,
    resolved,
    speakers,
    told,
)

__all__ = [
    "BaseTorchFunctionMode",
    "TorchFunctionMode",
    "enable_reentrant_dispatch",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "redispatch_function",
    "resolve_name",
    "wrap_torch_function",
]


# -- modes -----------------------------------------------------------------------------------------


class _Entered(interposing.Handler):
    """A mode that has been entered; the same mode may be entered again within itself."""

    kinds = KINDS
    level = interposing.FUNCTION_MODES
    sees = "all"  # it is off while it answers, not while arguments do
    forks = True

    def __init__(self, mode: "TorchFunctionMode") -> None:
        self.mode = mode
        own = inspect.getattr_static(type(mode), "__torch_function__")
        self.of_class = isinstance(own, classmethod)

    def around(self, name: interposing.Name, function: Callable, args: tuple, kwargs: dict) -> Any:
        if self.of_class:
            raise RuntimeError(
                "Defining your mode's `__torch_function__` as a classmethod is not supported, "
                "please make it a plain method"
            )
        found = _heard([*args, *kwargs.values()])
        func, args, kwargs = told(name, args, kwargs)
        return _told(self, func, found, args, kwargs)


def _told(entered, func, found, args, kwargs):
    """What a mode answers, or the arguments if it does not; the mode hears what these call."""
    with interposing.switched_off(entered):
        result = entered.mode.__torch_function__(func, tuple(map(type, found)), args, kwargs)
    if result is NotImplemented:
        result = answer(func, found, args, kwargs)
    if result is NotImplemented:
        raise refused(resolved(func), found)
    return result


class TorchFunctionMode:
    """A context that is told of every function called in it, before anything is computed.

    Example:
        >>> from flambeau.overrides import TorchFunctionMode
        >>> class Loud(TorchFunctionMode):
        ...     def __torch_function__(self, func, types, args=(), kwargs=None):
        ...         print(func.__name__)
        ...         return func(*args, **(kwargs or {}))
        >>> with Loud():
        ...     x = flambeau.ones(3) + 1
        ones
        add
    """

    inner: "TorchFunctionMode"

    def __init__(self) -> None:
        pass

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        raise NotImplementedError

    def __enter__(self) -> "TorchFunctionMode":
        entered = self.__dict__.setdefault("_entered", [])
        entered.append(interposing.push(_Entered(self)))
        return self

    def __exit__(self, *error: Any) -> None:
        interposing.pop(self.__dict__["_entered"].pop())

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> "TorchFunctionMode":
        """A mode to be entered; an old name for making one."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that calls functions as they are."""

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


def _modes() -> list[_Entered]:
    """Modes that are on; the last is asked first."""
    return [h for h in interposing.handlers() if isinstance(h, _Entered)]


def _get_current_function_mode() -> TorchFunctionMode | None:
    found = _modes()
    return found[-1].mode if found else None


def _get_current_function_mode_stack() -> list[TorchFunctionMode]:
    return [entered.mode for entered in _modes()]


@contextlib.contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """Nothing to do: a handler may be asked again while it answers."""
    yield


class DisableTorchFunctionSubclass(interposing.switched_off):
    """A context in which subclasses of Tensor count as plain tensors."""

    def __init__(self) -> None:
        super().__init__(ARGUMENTS)


class DisableTorchFunction(interposing.switched_off):
    """A context in which neither subclasses nor modes are asked."""

    def __init__(self) -> None:
        super().__init__(ARGUMENTS, *_modes())


# -- functions of libraries ------------------------------------------------------------------------


class _Next(threading.local):
    """What is to become of the next question of a thread."""

    is_no = False


_next = _Next()


def _heard(values: Iterable[Any]) -> list:
    """Arguments that answer, unless they are told to be silent."""
    stack_off = interposing.is_pushed(ARGUMENTS) and not interposing.is_on(ARGUMENTS)
    return [] if stack_off else speakers(tuple(values))


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Is there a mode, or an argument with a `__torch_function__` of its own?"""
    if not isinstance(relevant_args, Iterable):
        raise TypeError("expected a sequence")
    if _next.is_no:
        _next.is_no = False
        return False
    return bool(_modes()) or bool(_heard(relevant_args))


def has_torch_function_unary(value: Any) -> bool:
    """The same for one argument."""
    return has_torch_function((value,))


def has_torch_function_variadic(*values: Any) -> bool:
    """The same for several."""
    return has_torch_function(values)


def handle_torch_function(
    public_api: Callable, relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Let a mode or the arguments answer for a function: subclasses first, then left to right."""
    found, modes = _heard(relevant_args), _modes()
    if modes:
        return _told(modes[-1], public_api, found, args, kwargs)
    result = answer(public_api, found, args, kwargs, in_python=True)
    if result is NotImplemented:
        name = f"{public_api.__module__}.{public_api.__name__}"
        raise TypeError(
            f"no implementation found for '{name}' on types that implement __torch_function__: "
            f"{[type(v) for v in found]}"
        )
    return result


def redispatch_function(
    func: Callable, types: Iterable[type], args: tuple, kwargs: dict | None
) -> Any:
    """Call a function without asking modes and arguments about it.

    They are asked about what a function calls that is written in Python. What comes out keeps its
    class: nothing is made of the class of the arguments.
    """
    kwargs = kwargs or {}
    place = interposing.place_of(func)
    if place is not None and place.kind in ("python", "asking"):
        return place.below(interposing.ARGUMENTS, args, kwargs)
    if place is not None or not isinstance(func, python_types.FunctionType):
        with DisableTorchFunction():
            return func(*args, **kwargs)
    _next.is_no = True  # a function of a program, which asks by itself
    try:
        return func(*args, **kwargs)
    finally:
        _next.is_no = False


def wrap_torch_function(dispatcher: Callable) -> Callable:
    """Decorates a function so that arguments may answer for it; dispatcher says which."""

    def wrap(func: Callable) -> Callable:
        @functools.wraps(func)
        def wrapped(*args, **kwargs):
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return wrap


# -- what can be overridden ------------------------------------------------------------------------


def is_tensor_like(inp: Any) -> bool:
    """Is it a tensor, or something that has `__torch_function__`?"""
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Callable) -> bool:
    """Is it a method of Tensor, or what reads or writes one of its properties?"""
    name = getattr(func, "__name__", "")
    return name in ("__get__", "__set__") or getattr(Tensor, name, None) is func


def get_default_nowrap_functions() -> set[Callable]:
    """Functions whose result the default `__torch_function__` leaves as it is."""
    return nowrap()


def get_testing_overrides() -> dict[Callable, Callable]:
    """For each function that can be overridden one with its parameters that gives -1."""
    found = {}
    for functions in get_overridable_functions().values():
        for function in functions:
            found[function] = _dummy(function)
    return found


def _dummy(function):
    def override(*args: Any, **kwargs: Any) -> int:
        return -1

    with contextlib.suppress(TypeError, ValueError):
        override.__signature__ = inspect.signature(function)
    return override


def get_ignored_functions() -> set[Callable]:
    """Functions about which nobody is asked."""
    found = {getattr(Tensor, name, None) for name in places.IGNORED}
    for path, names in places.IGNORED_FUNCTIONS.items():
        space = _spaces()[path]
        found |= {getattr(space, name) for name in names}
    return {f for f in found if callable(f)}


def _spaces() -> dict[str, Any]:
    """The namespaces of functions, by their path."""
    import flambeau  # the front door, which knows all public names

    paths = ("", "nn.functional", "linalg", "fft", "special")
    return {path: operator.attrgetter(path)(flambeau) if path else flambeau for path in paths}


def get_overridable_functions() -> dict[Any, list[Callable]]:
    """Functions about which arguments are asked, by where they are found."""
    found: dict[Any, list[Callable]] = {}
    ignored = get_ignored_functions()
    for path, space in _spaces().items():
        hidden = getattr(space, "_SUBPACKAGES", ())
        names = [n for n in dir(space) if n[0] != "_" and n not in hidden]
        if path:  # what ends so is there for graphs, beside the argument inplace
            names = [n for n in names if n[-1] != "_"]
        else:  # some are not listed before somebody asks for them
            later = (n for n in (*space._ELSEWHERE, *methods.view_copies()) if n[0] != "_")
            names = sorted({*names, *later})
        members = [(n, getattr(space, n, None)) for n in names]
        found[space] = [
            f
            for n, f in members
            if isinstance(f, python_types.FunctionType)
            and f not in ignored
            and (path or n not in space._ELSEWHERE or interposing.is_offered(f))
        ]
    found[Tensor] = []
    for name in dir(Tensor):
        member = getattr(Tensor, name)
        if name in places.IGNORED or name.startswith("_make"):
            continue
        if isinstance(member, property):
            found[Tensor].append(member.__get__)
        elif isinstance(member, python_types.FunctionType):
            found[Tensor].append(member)
    return found


def resolve_name(f: Callable) -> str | None:
    """Where a function is found, such as torch.Tensor.add."""
    if isinstance(f, python_types.FunctionType) or hasattr(f, "__self__"):
        return resolved(f)
    return str(f) if hasattr(f, "overloadpacket") else None
