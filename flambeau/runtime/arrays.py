"""NumPy's side of the fence: arrays over native memory, and native memory of arrays.

Arrays travel by their interface dictionary (address, shape, strides in bytes, type). NumPy is
loaded by the first call that needs it. Which dtype is which is known to eager/interchange.py.
"""

import ctypes
from typing import NamedTuple


class Array(NamedTuple):
    """What there is to know of an array."""

    owner: object  # keeps the memory alive
    address: int
    shape: tuple
    strides: tuple  # in bytes
    itemsize: int
    typestr: str  # as in "<f4"
    type_name: str  # as in "float32", for messages
    nbytes: int
    is_native: bool
    is_writeable: bool


def is_array(value):
    import numpy

    return isinstance(value, numpy.ndarray)


def read_array(value):
    """An array (or what can be made one) as an Array."""
    import numpy

    a = numpy.asarray(value)
    return Array(
        a,
        a.__array_interface__["data"][0],
        a.shape,
        a.strides,
        a.itemsize,
        a.dtype.str,
        a.dtype.type.__name__,
        a.nbytes,
        a.dtype.isnative,
        a.flags.writeable,
    )


class _Exported:
    """Memory shown to NumPy; keeps its owner alive."""

    def __init__(self, owner, address, shape, strides, typestr):
        self.owner = owner
        self.__array_interface__ = {
            "version": 3,
            "shape": shape,
            "typestr": typestr,
            "data": (address, False),
            "strides": strides,
        }


def array_over(owner, address, shape, strides, typestr):
    """An array over native memory."""
    import numpy

    return numpy.asarray(_Exported(owner, address, shape, strides, typestr))


def empty_array(shape, typestr):
    import numpy

    return numpy.empty(shape, dtype=typestr)


def buffer_memory(buffer):
    """(owner, address, bytes, is it read-only) of an object with the buffer protocol."""
    view = memoryview(buffer).cast("B")
    kind = ctypes.c_char * len(view)
    # ctypes refuses to look into read-only memory, so that is copied
    hold = kind.from_buffer_copy(view) if view.readonly else kind.from_buffer(view)
    return (hold, buffer), ctypes.addressof(hold), len(view), view.readonly
