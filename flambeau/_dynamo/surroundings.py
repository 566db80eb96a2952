"""What is around a call: modes of this thread that change what ops do.

A graph is good only where they are as they were when it was read. Where somebody watches or answers
calls (design 010), nothing is compiled: they are to see the program itself.
"""

import contextlib
import threading
import warnings
from collections.abc import Iterator
from typing import Any

from flambeau import _dtype, interposing
from flambeau._device import default_device
from flambeau._dynamo.exc import Break
from flambeau.amp.redirection import state as autocasting
from flambeau.amp.redirection import switch
from flambeau.autograd.grad_mode import modes


class _Threads(threading.local):
    plain = 0  # how many reasons there are not to compile: reading, `disable`
    reading = 0


threads = _Threads()


_lock = threading.Lock()
_readers = 0


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """A program is being read in this thread; an op that warns is a break, or it would twice."""
    global _readers, _plain_warn
    with _lock:
        _readers += 1
        if _readers == 1:
            _plain_warn, warnings.warn = warnings.warn, _warn
    threads.plain += 1
    threads.reading += 1
    mine, autocasting.me = autocasting.me, autocasting.me.imagined()
    try:
        yield
    finally:
        for kind, enabled in mine.on.items():
            if autocasting.me.on[kind] is not enabled:
                switch(enabled, kind)  # a break inside of an autocast of the program
        autocasting.me = mine
        threads.plain -= 1
        threads.reading -= 1
        with _lock:
            _readers -= 1
            if not _readers and warnings.warn is _warn:
                warnings.warn = _plain_warn


_plain_warn: Any = warnings.warn


def _warn(message, category=None, stacklevel=1, *args, **kwargs):
    """What warnings.warn is while somebody reads: other threads warn as ever."""
    if threads.reading:
        raise Break(f"a warning: {message}")
    return _plain_warn(message, category, stacklevel + 1, *args, **kwargs)


def is_plain() -> bool:
    """Is everything to run as it is now?"""
    if threads.plain or modes.watched or modes.task is not None:
        return True
    stack = interposing._threads.me.stack
    if stack is not interposing.NOBODY:
        for handler in stack.handlers:
            if handler.level not in (interposing.ARGUMENTS, interposing.CASTING):
                return True
    return default_device().type != "cpu"


def guard_surroundings(guards: Any) -> None:
    """What `is_plain` does not ask, and a graph depends on."""
    name = guards.constant
    guards.require(f"{name(modes)}.grad is {modes.grad}")
    guards.require(f"{name(modes)}.inference is {modes.inference}")
    me, mine = autocasting.me, f"{name(autocasting)}.me"
    guards.require(f"{mine}.on == {name(dict(me.on))}")
    if any(me.on.values()):
        guards.require(f"{mine}.dtypes == {name(dict(me.dtypes))}")
        guards.require(f"{mine}.cache_enabled is {me.cache_enabled}")
    guards.require(f"{name(_dtype.Defaults)}.dtype is {name(_dtype.default_dtype())}")
