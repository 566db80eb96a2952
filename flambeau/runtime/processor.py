"""What is known of the processor, for plans that choose by it: caches and matrix registers."""

import ctypes
import os
import sys
from functools import lru_cache

ANY = 1 << 62
_FOLDER = "/sys/devices/system/cpu/cpu0/cache"
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@lru_cache(1)
def sizes() -> dict[int, int]:
    """Level -> bytes of the data cache that the first processor sees; empty where nobody says."""
    found = {}
    try:
        for entry in os.listdir(_FOLDER):
            if entry.startswith("index") and _read(entry, "type") != "Instruction":
                text = _read(entry, "size")
                found[int(_read(entry, "level"))] = int(text[:-1]) * _UNITS[text[-1]]
    except (OSError, ValueError, KeyError, IndexError):
        return {}
    return found


def _read(entry: str, name: str) -> str:
    with open(os.path.join(_FOLDER, entry, name)) as file:
        return file.read().strip()


@lru_cache(1)
def second_level() -> int:
    """Bytes of the cache that belongs to a core, or nearly so; a usual size where nobody says."""
    return sizes().get(2, 1 << 20)


@lru_cache(1)
def near() -> int:
    """Bytes that can be read again and again, in any order, without much waiting.

    Intel's servers share their third level over the whole chip, and it answers late; elsewhere it
    belongs to a few cores and is nearly as good as the second.
    """
    try:
        with open("/proc/cpuinfo") as file:
            is_intel = "GenuineIntel" in file.read(200)
    except OSError:
        return ANY
    return sizes().get(2, ANY) if is_intel else ANY


@lru_cache(1)
def matrices_allowed() -> bool:
    """May this process use matrix registers (AMX)? Linux wants to be asked, once."""
    if not sys.platform.startswith("linux"):
        return False
    arch_prctl, wanted, tiles = 158, 0x1023, 18  # numbers of x86-64, which alone has them
    try:
        return ctypes.CDLL(None).syscall(arch_prctl, wanted, tiles) == 0
    except (OSError, AttributeError):
        return False
