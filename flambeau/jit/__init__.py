"""`torch.jit` as far as it goes without a compiler of its own: marks, and questions that are no.

Libraries mark methods for scripting and ask whether they are being scripted. `script` gives its
argument back, since Python runs it as it is; tracing and saved programs are not there yet.
"""

from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeVar

from flambeau.jit import annotations as annotations
from flambeau.nn.modules.module import Module

__all__ = [
    "Attribute",
    "Final",
    "ScriptModule",
    "annotate",
    "export",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "script",
    "script_if_tracing",
    "script_method",
    "unused",
]

F = TypeVar("F")


def is_scripting() -> bool:
    """Is a program being made of this code just now?"""
    return False


def is_tracing() -> bool:
    """Is a program being recorded just now?"""
    return False


def script(obj: F, *args: Any, **kwargs: Any) -> F:
    """The function, class or module itself."""
    return obj


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Marks a method that scripting leaves to Python; used with and without parentheses."""
    return drop if callable(drop) else (lambda function: function)


def unused(fn: F) -> F:
    """Marks a method that scripting leaves out."""
    return fn


export = script_method = script_if_tracing = interface = unused


def annotate(the_type: Any, the_value: F) -> F:
    """The value, with a type for scripting."""
    return the_value


class Attribute:
    """A value with a type for scripting."""

    def __init__(self, value: Any, type: Any) -> None:
        self.value, self.type = value, type


class ScriptModule(Module):
    """A module as it is: the base of classes that were written for scripting."""


class ScriptFunction:
    """What PyTorch makes of functions; nothing here is one."""


def _missing(name: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"torch.jit.{name} is not implemented in flambeau yet; call the module itself"
        )

    return refuse


trace, trace_module, freeze, save, load = map(
    _missing, "trace trace_module freeze save load".split()
)
