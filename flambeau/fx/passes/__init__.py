"""`torch.fx.passes`: what is done with graphs."""

import importlib
from typing import Any

_MODULES = frozenset("graph_drawer graph_manipulation shape_prop split_module utils".split())


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"flambeau.fx.passes.{name}")
    raise AttributeError(f"module 'torch.fx.passes' has no attribute {name!r}")
