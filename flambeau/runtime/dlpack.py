"""DLPack: the structures by which libraries hand each other tensors without copying.

A capsule carries the address of a structure with a `deleter`; whoever takes the structure over
renames the capsule and calls the deleter when done. What we export is kept in `_exported` until
then. Version 1 ("dltensor_versioned") adds flags; both versions travel in both directions. Tensors
are elsewhere (_tensor/dlpack.py): here are only addresses, sizes and codes.
"""

import ctypes
from typing import NamedTuple

READ_ONLY, IS_COPIED = 1, 2
VERSION = (1, 0)


class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("index", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device", _Device), ("ndim", ctypes.c_int32),
        ("dtype", _DataType), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    """Version 0."""

    _fields_ = [
        ("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
    ]  # fmt: skip


class _ManagedVersioned(ctypes.Structure):
    """Version 1."""

    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor),
    ]  # fmt: skip


# Names are compared by content but kept by address, so the bytes must live for good.
_NAMES = {_Managed: b"dltensor", _ManagedVersioned: b"dltensor_versioned"}
_USED = {_Managed: b"used_dltensor", _ManagedVersioned: b"used_dltensor_versioned"}

_api = ctypes.pythonapi
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
# Capsules go by address: inside a destructor the object must not be touched by reference counting.
for _name in ("PyCapsule_IsValid", "PyCapsule_GetPointer", "PyCapsule_SetName"):
    getattr(_api, _name).argtypes = [ctypes.c_void_p, ctypes.c_char_p]
_api.PyCapsule_IsValid.restype = _api.PyCapsule_SetName.restype = ctypes.c_int
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p


class Described(NamedTuple):
    """A tensor in DLPack's terms."""

    address: int
    device: tuple  # (type, index)
    dtype: tuple  # (code, bits, lanes)
    shape: tuple
    strides: tuple | None  # in elements; None if row-major
    flags: int


# -- export ----------------------------------------------------------------------------------------

_exported: dict = {}  # address of a structure -> what it needs alive


def _release(address):
    _exported.pop(address, None)


def _destroy_capsule(capsule):
    """A capsule dies: if nobody took its structure over, release that."""
    for kind, name in _NAMES.items():
        if _api.PyCapsule_IsValid(capsule, name):
            _release(_api.PyCapsule_GetPointer(capsule, name))
            return kind


_release_callback = _Deleter(_release)
_destroy_callback = _Deleter(_destroy_capsule)
# Arrays of others may outlive this module at the end of the process: never free the callbacks.
for _callback in (_release_callback, _destroy_callback):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_callback))


def _address(function):
    return ctypes.cast(function, ctypes.c_void_p).value


def capsule_of(described, owner, versioned):
    """A capsule for memory that owner keeps alive."""
    kind = _ManagedVersioned if versioned else _Managed
    managed = kind()
    ndim = len(described.shape)
    sizes = (ctypes.c_int64 * max(1, 2 * ndim))(*described.shape, *described.strides)
    steps = ctypes.byref(sizes, 8 * ndim)
    tensor = managed.tensor
    tensor.data, tensor.ndim, tensor.byte_offset = described.address, ndim, 0
    tensor.device = _Device(*described.device)
    tensor.dtype = _DataType(*described.dtype)
    tensor.shape = ctypes.cast(sizes, ctypes.POINTER(ctypes.c_int64))
    tensor.strides = ctypes.cast(steps, ctypes.POINTER(ctypes.c_int64))
    managed.deleter = _address(_release_callback)
    if versioned:
        managed.major, managed.minor = VERSION
        managed.flags = described.flags
    at = ctypes.addressof(managed)
    _exported[at] = (managed, sizes, owner)
    return _api.PyCapsule_New(at, _NAMES[kind], _address(_destroy_callback))


# -- import ----------------------------------------------------------------------------------------


class Borrowed:
    """Keeps somebody's structure until the last tensor over it goes away."""

    __slots__ = ("address", "deleter", "__weakref__")

    def __init__(self, address, deleter):
        self.address, self.deleter = address, deleter

    def __del__(self):
        if self.deleter:
            _Deleter(self.deleter)(self.address)


def is_capsule(value):
    return type(value).__name__ == "PyCapsule"


def take(capsule):
    """(what a capsule describes, owner), using it up; None if it was, or is no DLPack."""
    if not is_capsule(capsule):
        return None
    for kind, name in _NAMES.items():
        if _api.PyCapsule_IsValid(id(capsule), name):
            address = _api.PyCapsule_GetPointer(id(capsule), name)
            managed = kind.from_address(address)
            if kind is _ManagedVersioned and managed.major > VERSION[0]:
                raise BufferError(
                    f"Unsupported DLPack version {managed.major}.{managed.minor}: "
                    f"at most {VERSION[0]}.x is understood"
                )
            described = _read(managed)
            _api.PyCapsule_SetName(id(capsule), _USED[kind])
            return described, Borrowed(address, managed.deleter)
    return None


def _read(managed):
    t = managed.tensor
    shape = tuple(t.shape[k] for k in range(t.ndim))
    strides = tuple(t.strides[k] for k in range(t.ndim)) if t.strides else None
    return Described(
        (t.data or 0) + t.byte_offset,
        (t.device.type, t.device.index),
        (t.dtype.code, t.dtype.bits, t.dtype.lanes),
        shape,
        strides,
        getattr(managed, "flags", 0),
    )
