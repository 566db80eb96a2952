"""`torch.fx.wrap`: functions that graphs call as a whole. Small, as libraries use it on import."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

# (globals of a module, name) of functions that are wrapped while something is recorded
_wrapped_fns_to_patch: dict[tuple[int, str], dict[str, Any]] = {}
_wrapped_methods_to_patch: list[tuple[type, str]] = []


def wrap(fn_or_name: str | Callable) -> str | Callable:
    """Mark a function, at the top level of a module, that graphs call as a whole.

    Use it as a decorator, or with the name of a function that was imported: `wrap("len")`.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    if isinstance(fn_or_name, str):
        name = fn_or_name
    elif hasattr(fn_or_name, "__code__"):
        name = fn_or_name.__name__
    else:
        raise AssertionError(f"wrap needs a function or a name, got {type(fn_or_name)}")
    frame = inspect.currentframe()
    caller = frame.f_back if frame is not None else None
    if caller is None or caller.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped_fns_to_patch[id(caller.f_globals), name] = caller.f_globals
    return fn_or_name


class Patcher:
    """Exchanges attributes and globals, and puts them back."""

    def __init__(self) -> None:
        self.done: list[tuple[Callable, Any]] = []
        self.visited: set[int] = set()

    def patch(self, frame: dict[str, Any], name: str, new: Any, is_builtin: bool) -> None:
        """Another value for a global; a builtin gets one of its own."""
        if is_builtin:
            self.done.append((lambda _: frame.pop(name, None), None))
        else:
            self.done.append((functools.partial(frame.__setitem__, name), frame[name]))
        frame[name] = new

    def patch_method(self, cls: Any, name: str, new: Any) -> None:
        """Another value for an attribute."""
        self.done.append((functools.partial(setattr, cls, name), cls.__dict__[name]))
        setattr(cls, name, new)

    def visit_once(self, thing: Any) -> bool:
        """Is it met for the first time?"""
        first = id(thing) not in self.visited
        self.visited.add(id(thing))
        return first

    def __enter__(self) -> "Patcher":
        return self

    def __exit__(self, *error: Any) -> None:
        for put, value in reversed(self.done):
            put(value)
