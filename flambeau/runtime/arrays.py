"""NumPy's side of the fence: arrays over native memory, and native memory of arrays.

Arrays go out as windows on memory of ours, and come in by address, shape, strides in bytes and
type. NumPy is loaded by the first call that needs it. Which dtype is which is known to
_tensor/interchange.py.
"""

import ctypes

from flambeau.runtime.touching import told, touched


def is_array(value):
    import numpy

    return isinstance(value, numpy.ndarray)


def as_array(value):
    """An array, or what can be made one."""
    import numpy

    return numpy.asarray(value)


def window(shape, strides, typestr, nbytes):
    """What array_over makes arrays of: a type for so many bytes, and the facts NumPy wants."""
    import numpy

    return ctypes.c_char * nbytes, numpy.ndarray, shape, numpy.dtype(typestr), strides


def array_over(owner, address, memory, array, shape, dtype, strides):
    """An array over native memory, which keeps its owner alive; see window for the rest."""
    if told:
        touched()
    hold = memory.from_address(address)
    hold.owner = owner
    return array(shape, dtype, hold, 0, strides)


def function_table():
    """Where NumPy's table of functions lies, for native code; None if arrays are not as it thinks.

    The table, and what an array consists of, are NumPy's binary interface: data, number of
    dimensions, sizes, strides, base, type, flags.
    """
    import numpy

    module = getattr(numpy, "_core", None) or numpy.core
    read = ctypes.PyDLL(None).PyCapsule_GetPointer
    read.restype, read.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = read(module.multiarray._ARRAY_API, None)
    sample = numpy.zeros((3, 2), "int16")
    words = (ctypes.c_size_t * 7).from_address(id(sample) + _DATA)
    facts = [(ctypes.c_ssize_t * 2).from_address(words[k])[:] for k in (2, 3)]
    as_known = (
        ctypes.c_size_t.from_address(table + 2 * 8).value == id(numpy.ndarray)
        and words[0] == sample.ctypes.data
        and words[1] & 0xFFFFFFFF == sample.ndim
        and facts == [[3, 2], [4, 2]]
        and words[5] == id(sample.dtype)
        and words[6] & 0x401 == 0x401
    )
    return table if as_known else None


def type_of(typestr):
    """NumPy's dtype."""
    import numpy

    return numpy.dtype(typestr)


# Where the address of the elements lies in an array object: the first field after the head, and
# that is part of NumPy's binary interface.
_DATA = object.__basicsize__


def address(array):
    """Where the elements of an array begin."""
    if told:
        touched()
    return ctypes.c_size_t.from_address(id(array) + _DATA).value


def buffer_memory(buffer):
    """(owner, address, bytes, is it read-only) of an object with the buffer protocol."""
    if told:
        touched()
    view = memoryview(buffer).cast("B")
    kind = ctypes.c_char * len(view)
    # ctypes refuses to look into read-only memory, so that is copied
    hold = kind.from_buffer_copy(view) if view.readonly else kind.from_buffer(view)
    return (hold, buffer), ctypes.addressof(hold), len(view), view.readonly
