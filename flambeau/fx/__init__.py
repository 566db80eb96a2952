"""`torch.fx`: programs as graphs that can be read, changed and run.

`symbolic_trace` records a module or a function; the result is a module with a `graph` and the
`code` made from it. What is in which file is in docs/design/011-fx.md. Names load when first used,
as libraries import this package for `wrap` alone.
"""

import importlib
from typing import Any

from flambeau.fx.wrapping import wrap as wrap

_HOMES = {
    "Graph": "graph",
    "CodeGen": "graph",
    "GraphModule": "graph_module",
    "Interpreter": "interpreter",
    "Transformer": "interpreter",
    "Node": "node",
    "map_arg": "node",
    "has_side_effect": "node",
    "Proxy": "proxy",
    "PH": "_symbolic_trace",
    "ProxyableClassMeta": "_symbolic_trace",
    "Tracer": "_symbolic_trace",
    "symbolic_trace": "_symbolic_trace",
    "replace_pattern": "subgraph_rewriter",
    "immutable_dict": "immutable_collections",
    "immutable_list": "immutable_collections",
}
_MODULES = frozenset(
    "_pytree _symbolic_trace annotate config experimental graph graph_module immutable_collections "
    "interpreter node operator_schemas passes proxy subgraph_rewriter tensor_type "
    "traceback".split()
)

__all__ = [
    "symbolic_trace",
    "Tracer",
    "wrap",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Transformer",
    "Node",
    "Proxy",
    "replace_pattern",
    "has_side_effect",
    "map_arg",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(f"flambeau.fx.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"flambeau.fx.{name}")
    raise AttributeError(f"module 'torch.fx' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
