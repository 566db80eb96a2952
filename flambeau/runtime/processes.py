"""Requests to the operating system about this process that Python has no function for."""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def signal_when_parent_dies(number):
    """Ask for a signal when the parent ends, where that can be asked for."""
    if sys.platform != "linux":
        return
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    if os.getppid() != parent:  # it ended just before
        os.kill(os.getpid(), number)
