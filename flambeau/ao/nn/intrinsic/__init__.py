"""`torch.ao.nn.intrinsic`: modules that belong together, fused."""

import importlib

from flambeau.ao.nn.intrinsic.modules.fused import *  # noqa: F403
from flambeau.ao.nn.intrinsic.modules.fused import __all__ as _names
from flambeau.ao.nn.intrinsic.modules.fused import _FusedModule as _FusedModule

__all__ = [*_names]


def __getattr__(name: str) -> object:
    if name in ("modules", "qat", "quantized"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
