"""`torch._C._functorch`: questions about tensors that `torch.func` has wrapped."""

from typing import Any

from flambeau._tensor import Tensor

__all__: list[str] = []


def is_batchedtensor(tensor: Tensor) -> bool:
    """Is it a whole batch that a function of `torch.vmap` sees one element of?"""
    return False


is_legacy_batchedtensor = is_gradtrackingtensor = is_functorch_wrapped_tensor = is_batchedtensor


def get_unwrapped(tensor: Any) -> Any:
    """What is inside of a wrapped tensor."""
    return tensor


def maybe_get_level(tensor: Any) -> int:
    """Which transform has wrapped it; -1 for none."""
    return -1
