"""NVIDIA's library for collectives of GPUs: found, loaded, called.

It comes with `flambeau[cuda]` (the wheels nvidia-nccl-cu12 or -cu13), with PyTorch, or with the
system. Functions are called without Python's lock; pointers and streams are numbers.
"""

import ctypes
import functools
import importlib.util
import os

__all__ = ["Nccl", "find", "library"]

ID_BYTES = 128
P, N, I = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int


class UniqueId(ctypes.Structure):
    """What all members of a communicator must know."""

    _fields_ = [("internal", ctypes.c_char * ID_BYTES)]


SIGNATURES = {
    "ncclGetVersion": [P],
    "ncclGetUniqueId": [P],
    "ncclCommInitRank": [P, I, UniqueId, I],
    "ncclCommAbort": [P],
    "ncclCommDestroy": [P],
    "ncclAllReduce": [P, P, N, I, I, P, P],
    "ncclBroadcast": [P, P, N, I, I, P, P],
    "ncclReduce": [P, P, N, I, I, I, P, P],
    "ncclAllGather": [P, P, N, I, P, P],
    "ncclReduceScatter": [P, P, N, I, I, P, P],
    "ncclSend": [P, N, I, I, P, P],
    "ncclRecv": [P, N, I, I, P, P],
    "ncclGroupStart": [],
    "ncclGroupEnd": [],
}


class Nccl:
    """The library."""

    def __init__(self, path):
        self.functions = ctypes.CDLL(path)
        self.functions.ncclGetErrorString.restype = ctypes.c_char_p
        for name, kinds in SIGNATURES.items():
            getattr(self.functions, name).argtypes = kinds

    def call(self, name, *arguments):
        """ncclName(...); what it refuses is a RuntimeError."""
        code = getattr(self.functions, f"nccl{name}")(*arguments)
        if code:
            why = self.functions.ncclGetErrorString(code).decode()
            raise RuntimeError(f"NCCL error in nccl{name}: {why}")

    def version(self):
        """(major, minor, patch)"""
        found = ctypes.c_int()
        self.call("GetVersion", ctypes.byref(found))
        return found.value // 10000, found.value // 100 % 100, found.value % 100

    def unique_id(self):
        """The bytes by which members of a new communicator find each other."""
        found = UniqueId()
        self.call("GetUniqueId", ctypes.byref(found))
        return bytes(memoryview(found))

    def join(self, identity, size, rank):
        """A communicator; returns when all members have called this."""
        made = ctypes.c_void_p()
        id = UniqueId.from_buffer_copy(identity)
        self.call("CommInitRank", ctypes.byref(made), size, id, rank)
        return made.value


@functools.cache
def find():
    """The path of the library, or None."""
    for package in ("nvidia.nccl", "nvidia.cu13"):
        try:
            spec = importlib.util.find_spec(package)
        except (ImportError, ValueError):
            spec = None
        for folder in (spec.submodule_search_locations or []) if spec else []:
            path = os.path.join(folder, "lib", "libnccl.so.2")
            if os.path.exists(path):
                return path
    import ctypes.util  # it loads much

    return ctypes.util.find_library("nccl")


@functools.cache
def library():
    """The library, loaded."""
    path = find()
    if path is None:
        raise RuntimeError("Distributed package doesn't have NCCL built in")
    return Nccl(path)
