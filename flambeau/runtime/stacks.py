"""Room for the compiler: LLVM recurses deeply, and threads may have very small stacks.

`threading.stack_size` lets a program have threads of 64 KB, where compiling a larger kernel would
run over the end of the stack.
"""

import ctypes
import sys
import threading

ENOUGH = 1 << 20  # bytes of stack that LLVM can live with
_OWN = 1 << 23  # of threads that are started here
_lock = threading.Lock()  # threading.stack_size speaks for all threads that start


def with_room(act, *args):
    """act(*args), on a thread with a larger stack where this one's is small."""
    return act(*args) if stack_bytes() >= ENOUGH else _elsewhere(act, args)


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
        finally:
            threading.stack_size(previous)
    thread.join()
    ((result, error),) = found
    if error is not None:
        raise error
    return result
