"""`torch.autograd.profiler_util`: events and lists of them.

The code is in flambeau/profiler/events.py, which loads when a name is asked for.
"""

import importlib as _importlib

_NAMES = (
    "EventList EventMetadata FormattedTimesMixin FunctionEvent FunctionEventAvg Interval Kernel "
    "MEMORY_EVENT_NAME MemRecordsAcc OUT_OF_MEMORY_EVENT_NAME StringTable"
).split()


def __getattr__(name):
    if name in _NAMES:
        return getattr(_importlib.import_module("flambeau.profiler.events"), name)
    raise AttributeError(f"module 'flambeau.autograd.profiler_util' has no attribute '{name}'")


def __dir__():
    return sorted(_NAMES)
