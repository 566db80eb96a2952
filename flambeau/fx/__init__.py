"""`torch.fx` as far as libraries mark functions for it; graphs are not recorded yet."""

from typing import Any

__all__ = ["wrap"]


def wrap(fn_or_name: Any) -> Any:
    """Marks a function that a recorded graph calls as a whole; it comes back as it is."""
    if not (callable(fn_or_name) or isinstance(fn_or_name, str)):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    return fn_or_name
