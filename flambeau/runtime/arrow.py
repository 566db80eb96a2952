"""Where the values of an Arrow array lie, read from the capsule of Arrow's C data interface.

Pillow shows the pixels of an image this way without copying them. Only what that takes is here:
one array of plain values, or one whose elements are fixed groups of such values.
"""

import ctypes

# a function object of its own: the one of pythonapi is everybody's, and has the types of dlpack.py
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_word = ctypes.c_size_t.from_address

# struct ArrowArray: five 64-bit numbers, the fourth of which counts the buffers and the fifth the
# children, then the addresses of the lists of both
_CHILDREN_COUNT, _BUFFERS, _CHILDREN = 32, 40, 48


def values_address(capsule: object) -> int:
    """The address of the values. The capsule must outlive its use."""
    array = _pointer_of(capsule, b"arrow_array")
    if _word(array + _CHILDREN_COUNT).value:
        array = _word(_word(array + _CHILDREN).value).value
    return _word(_word(array + _BUFFERS).value + 8).value  # after the bitmap of missing values
