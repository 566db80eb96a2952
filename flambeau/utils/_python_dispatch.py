"""`torch.utils._python_dispatch`, by name; the code is in interposing/dispatching.py."""

from flambeau.interposing.dispatching import (
    TorchDispatchMode,
    current_mode_stack,
    is_traceable_wrapper_subclass,
)

__all__ = ["TorchDispatchMode", "is_traceable_wrapper_subclass"]

_get_current_dispatch_mode_stack = current_mode_stack


def _get_current_dispatch_mode() -> TorchDispatchMode | None:
    found = current_mode_stack()
    return found[-1] if found else None
