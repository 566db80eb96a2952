"""`torch.fx.passes`: what is done with graphs."""

import importlib
from typing import Any

_MODULES = frozenset(
    "dialect fake_tensor_prop graph_drawer graph_manipulation infra operator_support shape_prop "
    "split_module tools_common utils".split()
)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"flambeau.fx.passes.{name}")
    raise AttributeError(f"module 'torch.fx.passes' has no attribute {name!r}")
