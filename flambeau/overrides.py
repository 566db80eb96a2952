"""`torch.overrides`: arguments that are no tensors but say how functions treat them.

A library's function asks `has_torch_function` for such arguments and lets them answer through
`handle_torch_function`. flambeau's own functions do not ask, so a mode that would see every call
cannot be entered: it says so instead of seeing nothing.
"""

from collections.abc import Callable, Iterable
from typing import Any

from flambeau._tensor import Tensor

__all__ = [
    "BaseTorchFunctionMode",
    "TorchFunctionMode",
    "handle_torch_function",
    "has_torch_function",
    "is_tensor_like",
    "is_tensor_method_or_property",
]


def _speaks_for_itself(value: Any) -> bool:
    return not isinstance(value, Tensor) and hasattr(type(value), "__torch_function__")


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Does any of the arguments have a `__torch_function__` of its own?"""
    return any(map(_speaks_for_itself, relevant_args))


def has_torch_function_unary(value: Any) -> bool:
    """The same for one argument."""
    return _speaks_for_itself(value)


def has_torch_function_variadic(*values: Any) -> bool:
    """The same for several."""
    return has_torch_function(values)


def handle_torch_function(
    public_api: Callable, relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Let the arguments answer for a function: subclasses first, then from left to right."""
    speakers: list = []
    for value in relevant_args:
        if _speaks_for_itself(value) and type(value) not in map(type, speakers):
            below = (i for i, s in enumerate(speakers) if isinstance(value, type(s)))
            speakers.insert(next(below, len(speakers)), value)
    types = tuple(map(type, speakers))
    for speaker in speakers:
        answer = speaker.__torch_function__(public_api, types, args, kwargs)
        if answer is not NotImplemented:
            return answer
    name = f"{public_api.__module__}.{public_api.__name__}"
    raise TypeError(
        f"no implementation found for '{name}' on types that implement __torch_function__: "
        f"{list(types)}"
    )


def is_tensor_like(inp: Any) -> bool:
    """Is it a tensor, or something that has `__torch_function__`?"""
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Callable) -> bool:
    """Is it a method of Tensor, or what reads one of its properties?"""
    name = getattr(func, "__name__", "")
    return name == "__get__" or getattr(Tensor, name, None) is func


class TorchFunctionMode:
    """A context that sees every call; classes may derive from it, entering one is refused."""

    def __init__(self) -> None:
        pass

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        raise NotImplementedError

    def __enter__(self) -> "TorchFunctionMode":
        raise NotImplementedError(
            "TorchFunctionMode is not implemented in flambeau: calls cannot be intercepted"
        )

    def __exit__(self, *error: Any) -> None:
        pass


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that calls functions as they are."""

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))
