"""`torch.fx` as far as libraries mark functions for it; graphs are not recorded yet.

Its classes are there to be asked for: nothing is an instance of them, and making one is refused.
"""

from typing import Any, NoReturn

from flambeau.nn import Module

__all__ = [
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "Tracer",
    "Transformer",
    "symbolic_trace",
    "wrap",
]


def wrap(fn_or_name: Any) -> Any:
    """Marks a function that a recorded graph calls as a whole; it comes back as it is."""
    if not (callable(fn_or_name) or isinstance(fn_or_name, str)):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    return fn_or_name


class _Unmade:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse(type(self).__name__)


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(f"torch.fx.{name} is not implemented in flambeau yet")


class Graph(_Unmade):
    """A recorded program."""


class Node(_Unmade):
    """One step of it."""


class Proxy(_Unmade):
    """A value that is being recorded."""


class Tracer(_Unmade):
    """Records modules."""


class Interpreter(_Unmade):
    """Runs a graph step by step."""


class Transformer(Interpreter):
    """Runs a graph to make another."""


class GraphModule(_Unmade, Module):
    """A module made from a graph."""


def symbolic_trace(root: Any, concrete_args: dict | None = None) -> NoReturn:
    """Record a module as a graph: not there yet."""
    _refuse("symbolic_trace")
