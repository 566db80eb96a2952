"""`torch.ao.nn`: modules before, while and after they are quantized."""

import importlib

# The two know each other; it must be the first of them, whichever a program asks for.
import flambeau.ao.quantization  # noqa: F401

_MODULES = frozenset({"intrinsic", "qat", "quantizable", "quantized"})


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
