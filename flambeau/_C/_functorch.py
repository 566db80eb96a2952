"""`torch._C._functorch`: tensors that transforms have wrapped, and questions about them.

Levels are numbers here, as PyTorch counts them: the outermost transform that runs is 1.
"""

from typing import Any

from flambeau._tensor import Tensor
from flambeau.transforms.batching import BatchLevel
from flambeau.transforms.levels import Wrapped, depth, is_at, running

__all__: list[str] = []


def is_functorch_wrapped_tensor(tensor: Any) -> bool:
    """Has a transform wrapped it?"""
    return isinstance(tensor, Wrapped)


def is_batchedtensor(tensor: Any) -> bool:
    """Is it a whole batch that a function of `torch.vmap` sees one element of?"""
    return isinstance(tensor, Wrapped) and isinstance(tensor._level, BatchLevel)


def is_gradtrackingtensor(tensor: Any) -> bool:
    """Has `grad` or `jvp` wrapped it?"""
    return isinstance(tensor, Wrapped) and not isinstance(tensor._level, BatchLevel)


def is_legacy_batchedtensor(tensor: Any) -> bool:
    """Is it a batch of a transform that PyTorch has left behind? No."""
    return False


def get_unwrapped(tensor: Any) -> Tensor:
    """What is inside of a wrapped tensor."""
    if not isinstance(tensor, Wrapped):
        raise RuntimeError("No wrappers present!")
    return tensor._value


def maybe_get_level(tensor: Any) -> int:
    """Which transform has wrapped it; -1 for none."""
    return depth(tensor._level) if isinstance(tensor, Wrapped) else -1


def _level(number):
    level = running.levels[number - 1]
    assert isinstance(level, BatchLevel), "the level is no vmap"
    return level


def _add_batch_dim(tensor: Tensor, in_dim: int, level: int) -> Tensor:
    """A batch as one sample of it looks inside of a vmap."""
    return _level(level).batched(tensor.movedim(in_dim, 0) if in_dim else tensor)


def _remove_batch_dim(tensor: Tensor, level: int, batch_size: int, out_dim: int) -> Tensor:
    """A sample as the batch that it stands for."""
    found = _level(level)
    if is_at(tensor, found) and found.is_batched(tensor):
        return tensor._value.movedim(0, out_dim) if out_dim else tensor._value
    value = found.plain(tensor)
    return value.expand(batch_size, *value.shape).movedim(0, out_dim)
