"""`torch.cuda` as in a PyTorch that was built without CUDA: programs ask, seed and go on.

What needs a GPU says so in PyTorch's words; seeds, caches and statistics of no GPU are harmless.
"""

from collections import OrderedDict
from typing import Any, NoReturn

from flambeau._device import device as _device
from flambeau._tensor.legacy import TYPED as _TYPED
from flambeau.cuda import amp as amp
from flambeau.errors import OutOfMemoryError as OutOfMemoryError

__all__ = [
    "current_device",
    "device",
    "device_count",
    "empty_cache",
    "get_device_name",
    "is_available",
    "is_bf16_supported",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "memory_allocated",
    "set_device",
    "synchronize",
]


def is_available() -> bool:
    """Can tensors be on a GPU?"""
    return False


def device_count() -> int:
    """The number of GPUs that can be used."""
    return 0


def is_initialized() -> bool:
    """Has a GPU been used?"""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Does the GPU compute with bfloat16?"""
    return False


def is_current_stream_capturing() -> bool:
    """Is a graph being recorded?"""
    return False


def get_arch_list() -> list[str]:
    """The architectures that kernels were built for."""
    return []


# -- seeds, caches and statistics of no GPU --------------------------------------------------------


def manual_seed(seed: int) -> None:
    """Nothing to seed."""


manual_seed_all = manual_seed


def seed() -> None:
    """Nothing to seed."""


seed_all = seed


def get_rng_state_all() -> list:
    """The state of every GPU's generator."""
    return []


def set_rng_state_all(new_states: Any) -> None:
    """The state of every GPU's generator."""
    for state in new_states:
        set_rng_state(state)


def empty_cache() -> None:
    """Nothing to empty."""


def memory_allocated(device: Any = None) -> int:
    """Bytes in use on a GPU."""
    return 0


memory_reserved = max_memory_allocated = max_memory_reserved = memory_allocated


def memory_stats(device: Any = None) -> OrderedDict[str, Any]:
    """Counters of the allocator."""
    return OrderedDict()


def reset_peak_memory_stats(device: Any = None) -> None:
    """Nothing to reset."""


reset_max_memory_allocated = reset_accumulated_memory_stats = reset_peak_memory_stats


# -- what needs a GPU ------------------------------------------------------------------------------


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise AssertionError("Torch not compiled with CUDA enabled")


init = synchronize = current_device = current_stream = default_stream = ipc_collect = _refuse
get_device_name = get_device_capability = get_device_properties = mem_get_info = _refuse
get_rng_state = set_rng_state = initial_seed = set_per_process_memory_fraction = _refuse
memory_summary = memory_snapshot = current_blas_handle = set_stream = _refuse


def set_device(device: Any) -> None:
    """Choose a GPU; a negative number chooses none."""
    if not isinstance(device, int) and str(_device(device)).partition(":")[0] != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {device}")
    if not isinstance(device, int) or device >= 0:
        _refuse()


class device:
    """`with torch.cuda.device(i):` chooses a GPU for a while; None or a negative number none."""

    def __init__(self, device: Any) -> None:
        self.idx = device

    def __enter__(self) -> None:
        if self.idx is not None and not (isinstance(self.idx, int) and self.idx < 0):
            raise RuntimeError("PyTorch was compiled without CUDA support")

    def __exit__(self, *error: Any) -> None:
        pass


class _NeedsCuda:
    """A class that cannot be made without a GPU."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(f"torch.cuda.{type(self).__name__} requires CUDA support")


class Stream(_NeedsCuda):
    """A queue of work on a GPU."""


class Event(_NeedsCuda):
    """A mark in a stream."""


class CUDAGraph(_NeedsCuda):
    """Work that is recorded once and replayed."""


class graph(_NeedsCuda):
    """`with torch.cuda.graph(g):` records work into a graph."""


class stream:
    """`with torch.cuda.stream(s):`; None chooses none."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            _refuse()

    def __exit__(self, *error: Any) -> None:
        pass


StreamContext = stream  # the class, in PyTorch, of what the function stream gives


def _typed(name):
    """`torch.cuda.FloatTensor` and its kin: no tensor is one, and none can be made."""

    def refuse(cls, *args, **kwargs):
        raise TypeError(
            f"type torch.cuda.{name} not available. Torch not compiled with CUDA enabled."
        )

    return type(name, (), {"__new__": refuse, "__module__": "torch.cuda"})


globals().update({name: _typed(name) for name in _TYPED})
