"""Batches in page-locked memory, from which an accelerator copies faster.

`pin_memory` walks through a batch of any kind; `may_pin` says whether there is an accelerator at
all, in PyTorch's words where there is none. Iterators with and without workers use both.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import flambeau

from .convert import is_named_tuple, rebuilt_mapping, rebuilt_sequence

# From `may_pin` up to the line that iterates: two constructors, _get_iterator, __iter__.
CALLER = 6


def pin_memory(data: Any, device: Any = None) -> Any:
    """The same batch with its tensors in pinned memory; objects may have a way of their own."""
    if hasattr(data, "pin_memory"):  # tensors too
        return data.pin_memory()
    if isinstance(data, (str, bytes)):  # sequences, but not of tensors
        return data
    if isinstance(data, Mapping):
        return rebuilt_mapping(data, lambda key: pin_memory(data[key], device))
    if is_named_tuple(data):
        return type(data)(*(pin_memory(value, device) for value in data))
    if isinstance(data, tuple):
        return type(data)(pin_memory(value, device) for value in data)
    if isinstance(data, Sequence):
        return rebuilt_sequence(data, lambda: (pin_memory(value, device) for value in data))
    return data


def may_pin(wanted: bool, device: str) -> bool:
    """Whether batches will be pinned; warns if they were to be and cannot."""
    if not wanted:
        return False
    if device:
        warnings.warn(
            "pin_memory_device is deprecated, the current accelerator will be used as the device,"
            f"ignore pin_memory_device='{device}'.",
            stacklevel=CALLER,
        )
    if flambeau.cuda.is_available():
        return True
    warnings.warn(
        "'pin_memory' argument is set as true but no accelerator is found, "
        "then device pinned memory won't be used.",
        stacklevel=CALLER,
    )
    return False
