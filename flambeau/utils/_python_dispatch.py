"""`torch.utils._python_dispatch`: tensors that wrap others, and modes that see every op.

There are neither; libraries ask about the first and are told no, entering the second is refused.
"""

from typing import Any

__all__ = ["TorchDispatchMode", "is_traceable_wrapper_subclass"]


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Is it a tensor made of others, which can be taken apart?"""
    return hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


class TorchDispatchMode:
    """A context that sees every op; classes may derive from it, entering one is refused."""

    def __init__(self, _dispatch_key: Any = None) -> None:
        pass

    def __enter__(self) -> "TorchDispatchMode":
        raise NotImplementedError(
            "TorchDispatchMode is not implemented in flambeau: ops cannot be intercepted"
        )

    def __exit__(self, *error: Any) -> None:
        pass
