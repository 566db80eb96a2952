"""`torch.ao.nn`: modules before, while and after they are quantized."""

import importlib

_MODULES = frozenset({"intrinsic", "qat", "quantizable", "quantized"})


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
