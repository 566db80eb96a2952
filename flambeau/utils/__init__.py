"""Utilities around tensors, under PyTorch's paths: data loading, DLPack and others."""

import importlib as _importlib

_MODULES = {
    "_pytree",
    "_python_dispatch",
    "hooks",
    "checkpoint",
    "data",
    "deterministic",
    "dlpack",
    "early_stopping",
    "model_zoo",
    "flop_counter",
    "tensorboard",
    "training_state",
    "module_tracker",
    "benchmark",
    "collect_env",
}


def set_module(obj, mod):
    """Say that an object comes from a module, for nicer printing."""
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod


def __getattr__(name):
    if name in _MODULES:
        return _importlib.import_module(f"flambeau.utils.{name}")
    if name == "swap_tensors":
        return _importlib.import_module("flambeau.utils.swapping").swap_tensors
    raise AttributeError(f"module 'flambeau.utils' has no attribute '{name}'")
