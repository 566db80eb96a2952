"""Settings: the only reader of FLAMBEAU_* environment variables.

FLAMBEAU_CACHE_DIR   where compiled kernels are kept (empty: nowhere, compile in memory only)
FLAMBEAU_NUM_THREADS how many threads kernels use (default: the cores this process may run on)
FLAMBEAU_CHECK       1: look at every launch and at the bytes around its memory; 2: stop at the very
                     instruction that leaves it (for finding bugs in kernels; slow)
FLAMBEAU_VECTOR_BITS 256 or 128: code for narrower vectors than the processor has (512: AVX-512)
FLAMBEAU_CACHE_MB    how much freed memory the allocator may keep at most, in megabytes

PyTorch's TORCH_FORCE_WEIGHTS_ONLY_LOAD and TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD mean the same here.
"""

import os


def cache_dir():
    """Directory of the kernel cache, or None when it is switched off."""
    value = os.environ.get("FLAMBEAU_CACHE_DIR")
    if value is not None:
        return value or None
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "flambeau")


def num_threads():
    value = os.environ.get("FLAMBEAU_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS")
    if value and value.isdigit() and int(value) > 0:
        return int(value)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def vector_bits():
    """The widest vectors that code may use: 512, 256 or 128; None for all that there are."""
    value = os.environ.get("FLAMBEAU_VECTOR_BITS", "")
    if not value:
        return None
    if value not in ("128", "256", "512"):
        raise ValueError(f"FLAMBEAU_VECTOR_BITS must be 128, 256 or 512, but is {value!r}")
    return int(value)


def check_level():
    value = os.environ.get("FLAMBEAU_CHECK", "")
    return int(value) if value.isdigit() else 0


def cache_bytes():
    value = os.environ.get("FLAMBEAU_CACHE_MB", "")
    return int(value) << 20 if value.isdigit() else 4 << 30


def forced_weights_only():
    """What load is told by the environment: True, False for calls that do not say, or None."""
    safe, unsafe = (
        os.environ.get(f"TORCH_FORCE_{word}WEIGHTS_ONLY_LOAD", "").lower()
        in ("1", "y", "yes", "true")
        for word in ("", "NO_")
    )
    if safe and unsafe:
        raise RuntimeError(
            "Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` "
            "should be set, but both were set."
        )
    return safe or (False if unsafe else None)


def cuda():
    """Which GPUs to use: "0" for none, "emulated" for the host in place of one (":2": two)."""
    return os.environ.get("FLAMBEAU_CUDA", "")


def cuda_blocking():
    """Shall every launch be waited for?"""
    return os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0")
