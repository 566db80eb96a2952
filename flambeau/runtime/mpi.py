"""MPI_Init_thread without Python's lock: process 0 answers MPI's questions meanwhile, in Python."""

import ctypes

MULTIPLE = 3  # MPI_THREAD_MULTIPLE, in MPICH and in the standard ABI's order


def init(extension):
    """Initialise the MPI library behind an extension module, given by its file."""
    library = ctypes.CDLL(extension)
    provided = ctypes.c_int()
    code = library.MPI_Init_thread(None, None, MULTIPLE, ctypes.byref(provided))
    if code:
        raise RuntimeError(f"MPI_Init_thread failed with code {code}")
    return provided.value
