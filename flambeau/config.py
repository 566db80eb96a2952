"""Settings: the only reader of FLAMBEAU_* environment variables.

FLAMBEAU_CACHE_DIR   where compiled kernels are kept (empty: nowhere, compile in memory only)
FLAMBEAU_NUM_THREADS how many threads kernels use (default: the cores this process may run on)
FLAMBEAU_CHECK       1: look at every launch and at the bytes around its memory; 2: stop at the very
                     instruction that leaves it (for finding bugs in kernels; slow)
FLAMBEAU_CACHE_MB    how much freed memory the allocator may keep at most, in megabytes
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


def check_level():
    value = os.environ.get("FLAMBEAU_CHECK", "")
    return int(value) if value.isdigit() else 0


def cache_bytes():
    value = os.environ.get("FLAMBEAU_CACHE_MB", "")
    return int(value) << 20 if value.isdigit() else 4 << 30
