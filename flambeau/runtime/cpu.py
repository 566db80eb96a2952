"""The host runtime: turn native addresses into functions that Python calls as it calls `len`.

A kernel's entry has CPython's fast calling convention (see codegen/llvm_cpu.py); `builtin` wraps
its address. The definition structures must outlive the functions, so they are kept for good.
"""

import ctypes
import struct
from array import array

from flambeau.runtime.touching import told, touched

METH_FASTCALL = 0x80


class _MethodDef(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
        ("entry", ctypes.c_void_p),  # the native code, even while `function` leads elsewhere
        ("callee", ctypes.py_object),  # what native code calls in turn, if anything
        ("away", ctypes.c_int64),  # is this a kernel of another device than the host?
    ]


FUNCTION, ENTRY = _MethodDef.function.offset, _MethodDef.entry.offset
CALLEE, AWAY = _MethodDef.callee.offset, _MethodDef.away.offset

_kept: list = []
_others: list = []
_numbers: dict = {}  # address of a definition -> the same number, an object that stays
homes: dict = {}  # address of a definition -> the runtime of a device that is not the host
on_new: list = []  # functions that are told of the definitions of new kernels
_new = ctypes.pythonapi.PyCFunction_NewEx
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3


def builtin(name, address, own=None, callee=None, home=None, enter=None):
    """A builtin function around native code at an address.

    own: an object that it is handed as self. Those without one are kernels, which can be timed and
    recorded; they are handed the address of their definition, where callee is to be found. home:
    the runtime of a kernel of another device; enter(address): what is to be known of it first.
    """
    definition = _MethodDef(name.encode(), address, METH_FASTCALL, None, address, callee)
    if own is not None:
        _others.append((definition, own))
        return _new(ctypes.addressof(definition), id(own), None)
    _kept.append(definition)
    place = ctypes.addressof(definition)
    number = _numbers[place] = place
    if home is not None:
        homes[place], definition.away = home, 1
    if enter is not None:
        enter(place)
    for tell in on_new:
        tell(definition)
    return _new(place, id(number), None)


def bound(name, address, number):
    """A builtin that is handed a number as self, and its definition, which the caller keeps."""
    definition = _MethodDef(name.encode(), address, METH_FASTCALL, None, address)
    return _new(ctypes.addressof(definition), id(number), None), definition


def own_of(place):
    """What a kernel is handed as self, by the address of its definition."""
    return _numbers[place]


def others(name):
    """The definitions of builtins of a name that are no kernels."""
    return [definition for definition, _ in _others if definition.name == name.encode()]


def name_of(place):
    """The name of a kernel, by the address of its definition."""
    return _MethodDef.from_address(place).name.decode()


def definitions():
    """What every builtin is made of; `function` is its native address."""
    return _kept


def place_of_definition(definition):
    """The address by which a kernel's definition is known."""
    return ctypes.addressof(definition)


def native(address, count):
    """A function of so many integers at an address; other Python threads run meanwhile."""
    return ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * count)(address)


_PACKERS = [struct.Struct(f"{n}q").pack for n in range(96)]


def packed(values):
    """64-bit words as bytes, which a kernel reads in place: a launch description."""
    try:
        return _PACKERS[len(values)](*values)
    except IndexError:
        return packer(len(values))(*values)
    except struct.error:
        raise RuntimeError("value cannot be converted to type int64_t without overflow") from None


def packer(count):
    """The function that packs so many words: packer(2)(a, b)."""
    return _PACKERS[count] if count < len(_PACKERS) else struct.Struct(f"{count}q").pack


def words_of(description):
    """The words of a packed description."""
    return struct.unpack(f"{len(description) // 8}q", description[: len(description) & -8])


def place_of(description):
    """The address of the words in a packed description (the caller keeps it alive)."""
    return id(description) + _CONTENT


_CONTENT = bytes.__basicsize__ - 1


def words(values):
    """64-bit words in native memory: (owner to keep alive, address)."""
    block = array("q", values)
    return block, block.buffer_info()[0]


def slot_offsets(cls):
    """Where the slots of a class lie in its objects: looked for, not assumed."""
    base = next(c for c in (list, object) if issubclass(cls, c))
    sample = base.__new__(cls)
    marks = {name: _Mark() for name in cls.__slots__ if not name.startswith("__")}
    for name, mark in marks.items():
        getattr(cls, name).__set__(sample, mark)
    content = string_words(id(sample), cls.__basicsize__ // 8)
    return {name: 8 * content.index(id(mark)) for name, mark in marks.items()}


def slice_offsets():
    """Where the ends of a slice lie in it."""
    marks = {name: _Mark() for name in ("start", "stop", "step")}
    sample = slice(*marks.values())
    content = string_words(id(sample), slice.__basicsize__ // 8)
    return {name: 8 * content.index(id(mark)) for name, mark in marks.items()}


class _Mark:
    """Something to look for; what is called when an object goes may be one."""

    def __call__(self, *args):
        pass


def string_words(address, count):
    """Words of native memory."""
    return struct.unpack(f"{count}Q", ctypes.string_at(address, 8 * count))


def read_bytes(address, count):
    if told:
        touched()
    return ctypes.string_at(address, count)


def write_bytes(address, data):
    if told:
        touched()
    ctypes.memmove(address, data, len(data))


def pack_at(address, count, form, values):
    """Numbers as struct packs them, into so many bytes at an address."""
    if told:
        touched()
    struct.pack_into(form, (ctypes.c_char * count).from_address(address), 0, *values)


def copy_bytes(target, source, count):
    if told:
        touched()
    ctypes.memmove(target, source, count)


def buffer_at(address, count):
    """A writable memoryview of native memory (the caller keeps the owner alive)."""
    if told:
        touched()
    return memoryview((ctypes.c_char * count).from_address(address)).cast("B")


def owned_buffer(address, count, owner):
    """The same, and the owner lives as long as anything that looks at the memory."""
    if told:
        touched()
    hold = (ctypes.c_char * count).from_address(address)
    hold.owner = owner
    return memoryview(hold).cast("B")


def address_of(buffer):
    """Where a writable buffer begins (the caller keeps it alive)."""
    if told:
        touched()
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))
