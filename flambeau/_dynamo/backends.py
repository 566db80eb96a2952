"""Backends: functions that take a graph and example inputs, and give a function of tensors."""

import importlib
from collections.abc import Callable
from typing import Any

from flambeau._dynamo.exc import InvalidBackend

_registered: dict[str, Callable] = {}
_DEBUG = ("eager", "aot_eager")


def register_backend(compiler_fn: Any = None, name: str | None = None, tags: Any = ()) -> Any:
    """Make a function a backend under its name, or another; also a decorator."""
    if compiler_fn is None:
        return lambda function: register_backend(function, name, tags)
    if not callable(compiler_fn):
        raise TypeError("a backend is a function of a graph and inputs")
    _registered[name or compiler_fn.__name__] = compiler_fn
    compiler_fn._tags = tuple(tags)
    return compiler_fn


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """Names of backends, those for debugging left out."""
    hidden = set(exclude_tags or ())
    return sorted(n for n, f in _registered.items() if not hidden & set(getattr(f, "_tags", ())))


def lookup_backend(compiler_fn: Any) -> Callable:
    """A backend by name; functions as they are."""
    if not isinstance(compiler_fn, str):
        return compiler_fn
    if compiler_fn not in _registered:
        raise InvalidBackend(compiler_fn)
    return _registered[compiler_fn]


resolved = lookup_backend


@register_backend(tags=("debug",))
def eager(gm: Any, example_inputs: list, **options: Any) -> Callable:
    """The graph's own code, op by op."""
    return gm.forward


@register_backend(tags=("debug",))
def aot_eager(gm: Any, example_inputs: list, **options: Any) -> Callable:
    """The same here: gradients come from the ops themselves."""
    return gm.forward


@register_backend
def inductor(gm: Any, example_inputs: list, options: dict | None = None) -> Callable:
    """The graph as a program of tapes: see compiler/program.py."""
    if any(type(value) in (int, float) for value in example_inputs):
        counted = importlib.import_module("flambeau.compiler.counted")
        return counted.Counted(gm, example_inputs)
    program = importlib.import_module("flambeau.compiler.program")  # with all of fx: on first need
    return program.compile_graph(gm, example_inputs, options or {})


inductor.takes_options = True
for _backend in (eager, aot_eager, inductor):
    _backend.takes_any_size = True
for _name in ("aot_eager_decomp_partition", "aot_eager_default_partitioner"):
    _registered[_name] = aot_eager
