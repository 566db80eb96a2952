"""`torch._dynamo` where functions are never recorded: nothing is compiled, and it says so.

Libraries ask whether a module was compiled and mark functions to be left alone; both have true
answers here. `torch.compile` itself is in `compiler/`.
"""

import importlib
from typing import Any

from flambeau.compiler import (
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    reset,
)
from flambeau.nn import Module

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "disable",
    "is_compiling",
    "mark_dynamic",
    "reset",
]


class OptimizedModule(Module):
    """What `torch.compile` makes of a module in PyTorch; here it gives back the module itself."""

    def __init__(self, mod: Module, dynamo_ctx: Any) -> None:
        raise NotImplementedError("flambeau runs modules as they are: there is none to wrap")


def __getattr__(name: str) -> Any:
    if name == "eval_frame":
        return importlib.import_module("flambeau._dynamo.eval_frame")
    raise AttributeError(f"module 'flambeau._dynamo' has no attribute '{name}'")


def mark_dynamic(t: Any, index: Any, **options: Any) -> None:
    """Which sizes of an argument vary: functions that run as they are take any."""


maybe_mark_dynamic = mark_dynamic


def mark_static(t: Any, index: Any = None) -> None:
    """Which sizes of an argument never vary; the same."""


def mark_static_address(t: Any, guard: bool = False) -> None:
    """An argument that stays where it is in memory: nothing is recorded that could rely on it."""
