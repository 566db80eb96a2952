"""A part of a program that runs with gradients on, or off."""

from collections.abc import Callable
from typing import Any

from flambeau.aten.overloads import namespace
from flambeau.autograd.grad_mode import set_grad_enabled

__all__ = ["wrap_with_set_grad_enabled"]


def _wrapped(enable_grad: bool, function: Callable, *operands: Any) -> Any:
    with set_grad_enabled(enable_grad):
        return function(*operands)


wrap_with_set_grad_enabled = namespace("higher_order").packet("wrap_with_set_grad_enabled")
wrap_with_set_grad_enabled.function = lambda overload="": _wrapped
