"""`torch.autograd.profiler`: the profiler of one stretch of a program, where it was first.

The code is in flambeau/profiler/, which loads when a name is asked for.
"""

import importlib as _importlib


def __getattr__(name):
    if name == "_is_profiler_enabled":  # a truth that changes, so it is looked up every time
        return _importlib.import_module("flambeau.profiler.legacy").is_enabled()
    for place in ("legacy", "events", "recording", "activities"):
        home = _importlib.import_module("flambeau.profiler." + place)
        if hasattr(home, name):
            return getattr(home, name)
    raise AttributeError(f"module 'flambeau.autograd.profiler' has no attribute '{name}'")


def __dir__():
    return sorted(_importlib.import_module("flambeau.profiler.legacy").__all__)
