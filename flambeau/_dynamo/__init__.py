"""`torch._dynamo`: reading programs, for `torch.compile`.

What is read how is in docs/design/014-compile-reading.md; what users need to know in
docs/compile.md. The names here are PyTorch's.
"""

import importlib
from typing import Any

_HOMES = {
    **dict.fromkeys(
        "OptimizedModule compile compiled_call disable optimize reset".split(), "eval_frame"
    ),
    **dict.fromkeys("list_backends lookup_backend register_backend".split(), "backends"),
    **dict.fromkeys(
        "allow_in_graph assume_constant_result disallow_in_graph forbid_in_graph graph_break "
        "is_compiling is_dynamo_compiling mark_dynamic mark_static mark_static_address "
        "mark_unbacked maybe_mark_dynamic nonstrict_trace run substitute_in_graph".split(),
        "decorators",
    ),
    "explain": "explaining",
}
_MODULES = frozenset(
    "backends config decorators eval_frame exc testing utils steps "
    "_trace_wrapped_higher_order_op".split()
)

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "disable",
    "disallow_in_graph",
    "exc",
    "explain",
    "graph_break",
    "is_compiling",
    "list_backends",
    "lookup_backend",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "maybe_mark_dynamic",
    "nonstrict_trace",
    "optimize",
    "register_backend",
    "reset",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(f"flambeau._dynamo.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"flambeau._dynamo.{name}")
    raise AttributeError(f"module 'flambeau._dynamo' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
