"""`torch.ao`: quantization, and the modules that it uses and makes."""

import importlib

_MODULES = frozenset({"nn", "ns", "quantization", "quantized_ops"})


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
