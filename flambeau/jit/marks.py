"""Marks that programs put on functions and types, and questions about scripting."""

import functools
import types
import typing
from collections.abc import Callable
from typing import Any, TypeVar

from flambeau.jit.state import state

F = TypeVar("F")
_MARK = "_torchscript_modifier"


def is_scripting() -> bool:
    """Is this code a script? Python runs it, so it is not."""
    return False


def is_tracing() -> bool:
    """Is a program being recorded just now?"""
    return bool(state.tracers)


def export(fn: F) -> F:
    """Marks a method that is compiled although forward does not call it."""
    fn._torchscript_modifier = "export"  # type: ignore[attr-defined]
    return fn


def _overload(func: F) -> F:
    """Marks a declaration of one more signature; Python runs the function that follows it."""
    return func


_overload_method = _overload


def unused(fn: F) -> F:
    """Marks a method that is left out: calling it in a script is an error when it happens."""
    if isinstance(fn, property):
        for function in (fn.fget, fn.fset):
            if function is not None:
                setattr(function, _MARK, "unused")
        return fn
    fn._torchscript_modifier = "unused"  # type: ignore[attr-defined]
    return fn


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Marks a method that scripts call in Python; used with and without parentheses."""
    if callable(drop):
        drop._torchscript_modifier = "ignore"
        return drop
    if not isinstance(drop, bool):
        raise RuntimeError(
            f"Argument to @torch.jit.ignore must be a bool or a function but got {drop}"
        )

    def mark(fn: F) -> F:
        fn._torchscript_modifier = "drop" if drop else "ignore"  # type: ignore[attr-defined]
        return fn

    return mark


def mark_of(fn: Any) -> str:
    """The mark of a function, or nothing."""
    fn = getattr(fn, "__func__", fn)
    return getattr(fn, _MARK, "")


def annotate(the_type: Any, the_value: F) -> F:
    """The value, with a type for scripting."""
    return the_value


class Attribute(typing.NamedTuple):
    """A value with a type for scripting."""

    value: Any
    type: Any


def interface(obj: F) -> F:
    """A class whose methods say what modules and classes of a script must have."""
    obj._is_interface = True  # type: ignore[attr-defined]
    return obj


def script_method(fn: F) -> F:
    """Marks a method of a ScriptModule that is compiled."""
    fn._torchscript_modifier = "script_method"  # type: ignore[attr-defined]
    return fn


def script_if_tracing(fn: Callable) -> Callable:
    """A function that is compiled when it is called while a program is recorded."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not is_tracing():
            return fn(*args, **kwargs)
        from flambeau.jit.scripting import script

        return script(fn)(*args, **kwargs)

    wrapper.__original_fn = fn  # type: ignore[attr-defined]
    return wrapper


def isinstance_(obj: Any, target_type: Any) -> bool:
    """isinstance for types such as List[int]: looks into containers."""
    if isinstance(target_type, tuple):
        return any(isinstance_(obj, t) for t in target_type)
    origin, args = typing.get_origin(target_type), typing.get_args(target_type)
    if origin is None:
        if target_type in (list, tuple, dict, typing.List, typing.Tuple, typing.Dict):  # noqa: UP006
            raise RuntimeError(
                f"Attempted to use {_bare(target_type)} without a contained type. Please add a "
                f"contained type, e.g. {_bare(target_type)}[int]"
            )
        return target_type is Any or isinstance(obj, target_type or type(None))
    if origin in (typing.Union, types.UnionType):
        return any(isinstance_(obj, a) for a in args)
    if not isinstance(obj, origin):
        return False
    if origin is list:
        return all(isinstance_(item, args[0]) for item in obj)
    if origin is dict:
        pairs = obj.items()
        return all(isinstance_(k, args[0]) and isinstance_(v, args[1]) for k, v in pairs)
    if origin is tuple:
        return len(obj) == len(args) and all(map(isinstance_, obj, args))
    return True


def _bare(kind):
    return getattr(kind, "_name", None) or kind.__name__.capitalize()
