"""`torch.fx.experimental`: recording ops as they run, folding, fusing."""

import importlib
from typing import Any

_MODULES = frozenset("const_fold optimization proxy_tensor".split())


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"flambeau.fx.experimental.{name}")
    raise AttributeError(f"module 'torch.fx.experimental' has no attribute {name!r}")
