"""`torch.quantization`: an older name of torch.ao.quantization; `weight_only` is here."""

import importlib
import sys

from flambeau.ao import quantization as _new
from flambeau.ao.quantization import *  # noqa: F403

for _name in sorted(_new._MODULES - {"quantize_fx"}):
    sys.modules[f"{__name__}.{_name}"] = importlib.import_module(f"{_new.__name__}.{_name}")


def __getattr__(name: str) -> object:
    if name == "weight_only":
        return importlib.import_module(f"{__name__}.{name}")
    if name == "quantize_fx":
        found = importlib.import_module("flambeau.ao.quantization.quantize_fx")
        sys.modules[f"{__name__}.{name}"] = found
        return found
    return getattr(_new, name)
