"""Sleeping until a word in shared memory changes, and waking who sleeps: Linux's futex."""

import ctypes
import platform
import sys

_NUMBERS = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}
_CALL = _NUMBERS.get(platform.machine()) if sys.platform == "linux" else None
WAIT, WAKE, ALL = 0, 1, (1 << 31) - 1


class _Time(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


class Bells:
    """Words of a writable buffer that processes can sleep on; None of this without futexes."""

    def __init__(self, memory):
        self.hold = ctypes.c_char.from_buffer(memory)
        self.address = ctypes.addressof(self.hold)
        self.call = ctypes.CDLL(None).syscall

    def wait(self, offset, expected, seconds):
        """Until the 4 bytes at offset are not expected, somebody wakes us, or time is over."""
        limit = _Time(0, int(seconds * 1e9))
        address = ctypes.c_void_p(self.address + offset)
        value = ctypes.c_uint32(expected & 0xFFFFFFFF)
        self.call(_CALL, address, WAIT, value, ctypes.byref(limit), None, 0)

    def wake(self, offset):
        """Everybody who sleeps on these bytes."""
        self.call(_CALL, ctypes.c_void_p(self.address + offset), WAKE, ALL, None, None, 0)


def bells(memory):
    """Bells over a buffer, or None where the system has none."""
    return Bells(memory) if _CALL is not None else None
