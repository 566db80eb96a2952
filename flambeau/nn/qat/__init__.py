"""`torch.nn.qat`: an older name of torch.ao.nn.qat."""

import importlib

# by name: what is meant stands above this package
_new = importlib.import_module("flambeau.ao.nn.qat")


def __getattr__(name: str) -> object:
    return getattr(_new, name)


def __dir__() -> list[str]:
    return dir(_new)
