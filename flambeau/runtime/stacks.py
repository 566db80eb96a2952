"""Room and peace for the compiler: LLVM recurses deeply, and must not be left half-way.

`threading.stack_size` lets a program have threads of 64 KB, where compiling a larger kernel would
run over the end of the stack. And in the main thread Control-C (or any handler of a signal) may
raise in the midst of llvmlite, whose lock would then stay locked for good. So both have it done by
a thread of its own.
"""

import ctypes
import sys
import threading

ENOUGH = 1 << 20  # bytes of stack that LLVM can live with
_OWN = 1 << 23  # of threads that are started here
_lock = threading.Lock()  # threading.stack_size speaks for all threads that start


def with_room(act, *args):
    """act(*args), on another thread where this one's stack is small or signals may interrupt."""
    if threading.current_thread() is not threading.main_thread() and stack_bytes() >= ENOUGH:
        return act(*args)
    return _elsewhere(act, args)


def stack_bytes():
    """The size of this thread's stack; 0 where it cannot be found out."""
    if threading.current_thread() is threading.main_thread():
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
    found: list = []

    def run():
        try:
            found.append((act(*args), None))
        except BaseException as error:
            found.append((None, error))

    thread = threading.Thread(target=run, name="flambeau compiler")
    with _lock:
        previous = threading.stack_size(_OWN)
        try:
            thread.start()
        except RuntimeError:  # the interpreter is about to end
            return act(*args)
        finally:
            threading.stack_size(previous)
    interruption = None
    while thread.is_alive():
        try:
            thread.join()
        except BaseException as raised:  # and raised again once the compiler is done
            interruption = raised
    if interruption is not None:
        raise interruption
    ((result, error),) = found
    if error is not None:
        raise error
    return result
