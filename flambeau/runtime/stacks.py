"""Room and peace for the compiler: LLVM recurses deeply, and must not be left half-way.

`threading.stack_size` lets a program have threads of 64 KB, where compiling a larger kernel would
run over the end of the stack. And in the main thread Control-C (or any handler of a signal) may
raise in the midst of llvmlite or of an import, whose locks would then stay locked for good. So both
have it done by a thread of its own.

Only one thread at a time does such things. Builders import what they need, and where two threads
import modules that need each other, Python shows one of them a module that is half there.
"""

import _thread
import ctypes
import os
import sys
import threading

ENOUGH = 1 << 20  # bytes of stack that LLVM can live with
_OWN = 1 << 23  # of threads that are started here
_starting = threading.RLock()  # threading.stack_size speaks for all threads that start
_one = threading.RLock()
_holder = None  # the thread that has it
if hasattr(os, "register_at_fork"):
    # no thread may be at it while the process is copied: in the child it would never finish
    for _lock in (_starting, _one):
        os.register_at_fork(
            before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
        )


def alone(act, *args):
    """act(*args) while no other thread compiles, with room and uninterrupted."""
    if _holder == threading.get_ident():
        return act(*args)
    if not _is_main() and stack_bytes() >= ENOUGH:
        return _in_turn(act, args)
    return _elsewhere(act, args)


def _in_turn(act, args):
    global _holder
    with _one:
        _holder = threading.get_ident()
        try:
            return act(*args)
        finally:
            _holder = None


def _is_main():
    return threading.get_ident() == threading.main_thread().ident


def stack_bytes():
    """The size of this thread's stack; 0 where it cannot be found out."""
    if _is_main():
        return ENOUGH  # the system's choice, and it grows
    try:
        return _SIZES[sys.platform](ctypes.CDLL(None))
    except (AttributeError, KeyError, OSError):
        return 0


def _linux(library):
    attributes = ctypes.create_string_buffer(256)  # more than any system's pthread_attr_t
    this, size = library.pthread_self, ctypes.c_size_t()
    this.restype = ctypes.c_void_p
    if library.pthread_getattr_np(ctypes.c_void_p(this()), attributes):
        return 0
    library.pthread_attr_getstacksize(attributes, ctypes.byref(size))
    library.pthread_attr_destroy(attributes)
    return size.value


def _darwin(library):
    this, ask = library.pthread_self, library.pthread_get_stacksize_np
    this.restype, ask.restype = ctypes.c_void_p, ctypes.c_size_t
    return ask(ctypes.c_void_p(this()))


_SIZES = {"linux": _linux, "darwin": _darwin}


def _elsewhere(act, args):
    """The same on another thread. An interruption is raised when that has come to its end."""
    found, started, interruption = [], [], None
    done = _thread.allocate_lock()
    done.acquire()

    def run():
        try:
            found.append((_in_turn(act, args), None))
        except BaseException as error:
            found.append((None, error))
        finally:
            done.release()

    try:
        _start(run, started)
    except BaseException as raised:
        interruption = raised
    if not started:  # nothing can be started any more: the interpreter is about to end
        if isinstance(interruption, RuntimeError):
            return _in_turn(act, args)
        raise interruption
    while not found:
        try:
            done.acquire()
        except BaseException as raised:
            interruption = raised
    if interruption is not None:
        raise interruption
    ((result, error),) = found
    if error is not None:
        raise error
    return result


def _start(run, started):
    """Start a thread and put its number into a list, with nothing in between to interrupt."""
    if sys.is_finalizing():
        raise RuntimeError("no thread would run")
    with _starting:
        previous = threading.stack_size(_OWN)
        try:
            started.extend(map(_thread.start_new_thread, (run,), ((),)))
        finally:
            threading.stack_size(previous)
