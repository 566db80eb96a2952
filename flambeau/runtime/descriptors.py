"""Members of classes that native code answers, without a frame of Python.

Two types, made through CPython's own `PyType_FromSpec`: `Method`, which is called as methods of
`list` are, and `Field`, which reads a property. Both stand for a Python function or property:
whoever asks the class (`Tensor.item`, `Tensor.shape`) is given that one, and so is whoever keeps a
bound method. Native code (codegen/templates/objects_members.py) answers as long as the function has
its own code; handlers exchange it (docs/design/010), and are called then.
"""

import ctypes
import sys

from flambeau.runtime.cpu import string_words

WORDS = "vectorcall shown function code own outer inner".split()
OFFSETS = {name: object.__basicsize__ + 8 * k for k, name in enumerate(WORDS)}
_BYTES = object.__basicsize__ + 8 * len(WORDS)
# numbers of slots and bits of flags, from CPython's stable interface
_CALL, _DESCR_GET, _DESCR_SET, _GETATTRO, _MEMBERS = 50, 54, 55, 58, 72
_IMMUTABLE, _VECTORCALL, _METHOD, _DEFAULT = 1 << 8, 1 << 11, 1 << 17, 1 << 18
_SSIZE, _READ_ONLY = 19, 1

_api = ctypes.PyDLL(None)  # one of our own: others have other types for the same functions
_kept: list = []  # what types and members are made of, for good


class _Slot(ctypes.Structure):
    _fields_ = [("number", ctypes.c_int), ("value", ctypes.c_void_p)]


class _Spec(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    ]


class _Member(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


def place_of_code(function):
    """Where a function keeps its code: looked for, not assumed."""
    words = string_words(id(function), type(function).__basicsize__ // 8)
    return 8 * words.index(id(function.__code__))


# Note [Methods of classes] From 3.12 on CPython remembers what a class has under a name and takes
# it for what the class would show, if its type says that calls need no bound method. The class
# would show our objects then, once a line has run often. So there such methods are bound first,
# which takes some 20 ns; a bound method is quick, as it knows our object.
CALLED_UNBOUND = sys.version_info < (3, 12)


def method_type(get, bind, attribute):
    """The type of methods: addresses of what binds the function, or the method itself, and reads
    an attribute.
    """
    offset = _Member(b"__vectorcalloffset__", _SSIZE, OFFSETS["vectorcall"], _READ_ONLY, None)
    members = (_Member * 2)(offset, _Member())
    call = ctypes.cast(_api.PyVectorcall_Call, ctypes.c_void_p).value
    slots = {_DESCR_GET: get if CALLED_UNBOUND else bind, _CALL: call, _GETATTRO: attribute}
    slots[_MEMBERS] = ctypes.addressof(members)
    _kept.append(members)
    return _type(b"flambeau.Method", slots, _VECTORCALL | (_METHOD if CALLED_UNBOUND else 0))


def field_type(get, set):
    """The type of properties that are fields; get and set: addresses."""
    return _type(b"flambeau.Field", {_DESCR_GET: get, _DESCR_SET: set}, 0)


def _type(name, slots, flags):
    table = (_Slot * (len(slots) + 1))(*[_Slot(*pair) for pair in slots.items()], _Slot())
    spec = _Spec(name, _BYTES, 0, flags | _IMMUTABLE | _DEFAULT, table)
    make = _api.PyType_FromSpec
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p]
    found = make(ctypes.addressof(spec))
    _kept.append((name, table, spec, found))
    return found


def member(type, shown, function, own, native=0, outer=0, inner=-1):
    """A member that stands for `shown`, a function or the property of one.

    own: what native code is handed; native: its address, of a method; outer, inner: where a field
    lies in an object and, unless negative, in what is found there.
    """
    make = _api.PyType_GenericAlloc
    make.restype, make.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.c_ssize_t]
    made = make(type, 0)
    things = shown, function, function.__code__, own
    _kept.append((made, things))  # references that the object itself does not count
    for k, word in enumerate((native, *map(id, things), outer, inner)):
        ctypes.c_int64.from_address(id(made) + OFFSETS[WORDS[k]]).value = word
    return made
