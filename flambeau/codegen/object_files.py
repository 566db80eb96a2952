"""Is an object file whole? LLVM ends the process over many that are not.

Entries of the cache have checksums, so this is for what a checksum does not see: an entry that was
written from something broken. Only what our own compiler writes is let through (relocatable ELF
files, 64 bits, little-endian); a file of another format is left to LLVM.
"""

import platform
import struct
from typing import NamedTuple

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QIIq")
_IDENTITY = b"\x7fELF\x02\x01\x01"
_NO_BITS, _SYMBOLS, _STRINGS, _RELOCATIONS = 8, 2, 3, 4
_OTHER_RELOCATIONS, _IN_MEMORY, _THREAD_LOCAL = 9, 2, 0x400
_ABSOLUTE = 0xFFF1
_LARGE = 1 << 26  # more zeros, or a longer way, than any kernel has
# the machine that a file is for, and the kinds of relocation that LLVM's loader knows there
_MACHINE, _KINDS = {
    "x86_64": (62, frozenset({1, 2, 4, 9, 24, 41, 42})),
    "aarch64": (
        183,
        frozenset({257, 258, 260, 261, *range(263, 276), *range(277, 287), 299, 311, 312}),
    ),
}.get(platform.machine(), (None, frozenset()))
_NEAR = frozenset({2, 275})  # those that do not reach what lies outside the object


class _Section(NamedTuple):
    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


def is_whole(image):
    """Does everything in an object lie where the object says?"""
    if image[:4] != _IDENTITY[:4]:
        return True
    try:
        return _is_whole(image)
    except (struct.error, IndexError, OverflowError):
        return False


def _is_whole(image):
    given = _HEADER.unpack_from(image)
    at, width, count, names = given[6], given[11], given[12], given[13]
    if not image.startswith(_IDENTITY) or given[1] != 1 or given[2] != _MACHINE:
        return False
    if width != _SECTION.size or names >= count:
        return False
    sections = [_Section(*_SECTION.unpack_from(image, at + k * width)) for k in range(count)]
    return all(_fits(s, image) for s in sections) and all(
        s.name < sections[names].size and _content_fits(s, sections, image, _KINDS)
        for s in sections
    )


def _fits(section, image):
    if section.flags & _THREAD_LOCAL or section.type == _OTHER_RELOCATIONS:
        return False
    if section.align & (section.align - 1) or section.align > 4096:
        return False
    if section.type == _NO_BITS:
        return section.size <= _LARGE
    return section.offset + section.size <= len(image)


def _content_fits(section, sections, image, kinds):
    content = image[section.offset : section.offset + section.size]
    if section.type == _STRINGS:
        return content[-1:] == b"\0"
    if section.type == _SYMBOLS:
        names = sections[section.link]
        return (
            names.type == _STRINGS
            and section.entry == _SYMBOL.size
            and not section.size % _SYMBOL.size
            and all(_symbol_fits(s, names, sections) for s in _SYMBOL.iter_unpack(content))
        )
    if section.type == _RELOCATIONS:
        symbols, target = sections[section.link], sections[section.info]
        return (
            symbols.type == _SYMBOLS
            and section.entry == _RELOCATION.size
            and not section.size % _RELOCATION.size
            and target.type != _NO_BITS
            and target.flags & _IN_MEMORY
            and all(
                at + 4 <= target.size
                and kind in kinds
                and number < symbols.size // _SYMBOL.size
                and _is_reached(kind, _symbol(number, symbols, image), sections)
                and abs(addend) < _LARGE
                for at, kind, number, addend in _RELOCATION.iter_unpack(content)
            )
        )
    return True


def _symbol(number, symbols, image):
    return _SYMBOL.unpack_from(image, symbols.offset + number * _SYMBOL.size)


def _is_reached(kind, symbol, sections):
    """Can a relocation of a kind reach a symbol? It must be in memory, and not too far away."""
    section = symbol[3]
    return sections[section].flags & _IN_MEMORY if section else kind not in _NEAR


def _symbol_fits(symbol, names, sections):
    name, info, _, section, value, size = symbol
    if name >= names.size:
        return False
    if section in (0, _ABSOLUTE):
        return info & 15 <= 4 and not value
    return value + size <= sections[section].size and info & 15 <= 4
