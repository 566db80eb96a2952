"""`torch._inductor`: settings of the compiler of graphs, by PyTorch's name."""

import importlib
from typing import Any

__all__ = ["config", "list_mode_options", "list_options"]


def __getattr__(name: str) -> Any:
    if name == "config":
        return importlib.import_module("flambeau._inductor.config")
    raise AttributeError(f"module 'flambeau._inductor' has no attribute '{name}'")


def list_options() -> list[str]:
    """Names of settings."""
    config = importlib.import_module("flambeau._inductor.config")
    return sorted(n for n in vars(config) if not n.startswith("_") and n != "patch")


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, Any]:
    """What each `mode=` of torch.compile sets."""
    found: dict[str, Any] = {
        "default": {},
        "reduce-overhead": {},
        "lite": {},
        "max-autotune-no-cudagraphs": {"max_autotune": True},
        "max-autotune": {"max_autotune": True},
    }
    return found[mode] if mode is not None else found
