"""`torch.overrides`: who answers for functions: arguments with `__torch_function__`, and modes.

A mode is a handler (interposing/) above all others: it is told of every function that is
called inside of its `with`. While it answers it is off, so it may call what it was told of.
Arguments that answer, and subclasses of Tensor, are in interposing/overriding.py.
"""

import contextlib
import functools
import inspect
import types as python_types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flambeau import interposing
from flambeau._tensor import Tensor
from flambeau.interposing import places
from flambeau.interposing.overriding import (
    ARGUMENTS,
    KINDS,
    answer,
    nowrap,
    public_function,
    refused,
    resolved,
    speakers,
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
    "resolve_name",
    "wrap_torch_function",
]


# -- modes -----------------------------------------------------------------------------------------


class _Entered(interposing.Handler):
    """A mode that has been entered; the same mode may be entered again within itself."""

    kinds = KINDS
    level = interposing.FUNCTION_MODES
    forks = True

    def __init__(self, mode: "TorchFunctionMode") -> None:
        self.mode = mode

    def around(self, name: interposing.Name, function: Callable, args: tuple, kwargs: dict) -> Any:
        return _told(self.mode, public_function(name), speakers([*args, *kwargs.values()]), args,
                     kwargs)  # fmt: skip


def _told(mode, func, found, args, kwargs):
    """What a mode answers, or the arguments if it does not."""
    result = mode.__torch_function__(func, tuple(map(type, found)), args, kwargs)
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


def _heard(values: Iterable[Any]) -> list:
    """Arguments that answer, unless they are told to be silent."""
    stack_off = interposing.is_pushed(ARGUMENTS) and not interposing.is_on(ARGUMENTS)
    return [] if stack_off else speakers(tuple(values))


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Is there a mode, or an argument with a `__torch_function__` of its own?"""
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
        with interposing.switched_off(modes[-1]):
            return _told(modes[-1].mode, public_api, found, args, kwargs)
    result = answer(public_api, found, args, kwargs)
    if result is NotImplemented:
        name = f"{public_api.__module__}.{public_api.__name__}"
        raise TypeError(
            f"no implementation found for '{name}' on types that implement __torch_function__: "
            f"{[type(v) for v in found]}"
        )
    return result


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
    return {f for f in found if callable(f)}


def get_overridable_functions() -> dict[Any, list[Callable]]:
    """Functions about which arguments are asked, by where they are found."""
    import flambeau  # the front door, which knows all public names

    found: dict[Any, list[Callable]] = {}
    spaces = [flambeau, flambeau.nn.functional, flambeau.linalg, flambeau.fft, flambeau.special]
    for space in spaces:
        names = [n for n in dir(space) if n[0] != "_" and n not in flambeau._SUBPACKAGES]
        members = [getattr(space, n, None) for n in names]
        found[space] = [f for f in members if isinstance(f, python_types.FunctionType)]
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
