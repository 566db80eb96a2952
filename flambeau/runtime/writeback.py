"""Telling the operating system to begin writing a part of a file to the disk.

A file that must be safe on the disk is waited for at its end (`os.fsync`). Where the system lets
us ask early, the disk works on the first part while the next is copied, and little is left to wait
for. Elsewhere nothing happens, and the wait is longer.
"""

import ctypes
import sys

SYNC_FILE_RANGE_WRITE = 2


def _system_call():
    if not sys.platform.startswith("linux"):
        return None
    function = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if function is not None:
        function.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return function


_sync_file_range = _system_call()


def begin_writeback(descriptor, start, count):
    """Begin writing some bytes of a file to the disk; failing to is no error, fsync will tell."""
    if _sync_file_range is not None:
        _sync_file_range(descriptor, start, count, SYNC_FILE_RANGE_WRITE)
