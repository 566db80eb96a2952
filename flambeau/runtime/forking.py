"""Before the process is copied: no other thread may be in the middle of one of our imports.

Much loads on first need. Python has a lock for each module that is being imported, and a copy of
the process keeps what other threads held, though those threads are not in it: the copy would wait
for such a module for ever. So who forks waits until imports of ours, and of what we import, are
done.

This must run after everything else that is done before a fork, so that nobody who waits for a lock
of ours starts an import meanwhile; handlers run in the reverse of the order in which they came.
"""

import importlib
import os
import threading
import time

OURS = ("flambeau", "llvmlite", "numpy")
LONGEST = 10.0  # seconds to wait; an import that forks would wait for itself
_NAP = 0.0005


def _is_importing() -> bool:
    """Is another thread importing a module of ours?"""
    # there is no public way to ask
    locks = getattr(getattr(importlib, "_bootstrap", None), "_module_locks", {})
    this = threading.get_ident()
    for name, reference in list(locks.items()):
        owner = getattr(reference(), "owner", None)
        if owner not in (None, this) and str(name).partition(".")[0] in OURS:
            return True
    return False


def wait_for_imports() -> None:
    """Come back when no other thread imports anything of ours."""
    until = time.monotonic() + LONGEST
    while _is_importing() and time.monotonic() < until:
        time.sleep(_NAP)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=wait_for_imports)
