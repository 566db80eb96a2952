"""`torch.compiler`, and `torch.compile` as far as it goes: functions run as they are, eagerly."""

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "reset",
]

F = TypeVar("F", bound=Callable[..., Any])


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """The function or module itself: whole steps are not compiled yet, and results are the same."""
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if model is None:
        return lambda function: compile(function, mode=mode, options=options)
    if not callable(model):
        raise RuntimeError(f"torch.compile needs a function or a module, not {type(model)}")
    return model


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The function itself; also as a decorator with arguments."""
    return fn if fn is not None else (lambda function: function)


def allow_in_graph(fn: Any) -> Any:
    """Marks a function that a graph calls as a whole; it comes back as it is."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """Marks a function whose result does not change; it is called each time, all the same."""
    return fn


def is_compiling() -> bool:
    """Is a graph being made just now? Never, here."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def reset() -> None:
    """Forget what was compiled."""
