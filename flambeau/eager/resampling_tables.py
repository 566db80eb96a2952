"""Tables of resampling in native memory: which inputs an output reads, and how much of each.

`codegen/templates/resampling_tables.py` fills those of nearest and linear neighbours; taps of cubic
and of antialiased neighbours are listed in `planning/resampling.py`. `SIDES` remembers tables:
images of many sizes share those of their sides.
"""

import math
import struct
from array import array
from typing import NamedTuple

from flambeau import _dtype
from flambeau._device import cpu
from flambeau.codegen.descriptions_images import Blocks, Regular, Spread, Turned
from flambeau.eager.plans import Plans
from flambeau.planning.resampling import LISTED, double, merged, pace, single
from flambeau.runtime.cpu import packed, read_bytes, write_bytes
from flambeau.storage import brought, new_storage

_WAYS = ("near", "far", "gather")
WIDE = (_dtype.float64.code, _dtype.uint8.code)  # sums are kept in double
FEW = 4  # up to so many taps a kernel knows their number
REMEMBERED = 48  # tables and plans: some words per row and column, which caches should hold


class Table(NamedTuple):
    """The taps of every output: where they begin, their indices, their weights."""

    memory: object  # what keeps it
    places: tuple  # where pointers, indices and weights lie
    outputs: int
    room: int  # taps that fit in
    wide: bool  # are weights double?


def _table(memory, at, outputs, room, wide):
    indices = at + 8 * (outputs + 1)
    return Table(memory, (at, indices, indices + 8 * room), outputs, room, wide)


def _memory(words):
    """(what keeps so many words, their address)."""
    kept = new_storage(8 * words)
    return kept, kept.pointer


def _empty(outputs, taps, wide):
    room = taps + 1  # one more counts for nothing
    return _table(*_memory(outputs + 1 + 2 * room), outputs, room, wide)


def _kernel(device, name, *facts):
    return device.runtime.kernel("resample_" + name, "resampling_tables:build_" + name, *facts)


def listed(rows, wide):
    """The table of taps (input, weight) that are listed for every output."""
    pointers, indices, weights = array("q", [0]), array("q"), array("d" if wide else "f")
    for row in rows:
        indices.extend([i for i, _ in row])
        weights.extend([v for _, v in row])
        pointers.append(len(indices))
    room = len(indices) + 1
    indices.append(0)
    memory = pointers + indices + array("q", weights.tobytes().ljust(8 * room, b"\0"))
    return _table(memory, memory.buffer_info()[0], len(rows), room, wide)


def moved(table, device):
    """The same table in memory of another device than the host."""
    memory = brought(table.places[0], 8 * (table.outputs + 1 + 2 * table.room), device)
    return _table(memory, memory.pointer, table.outputs, table.room, table.wide)


def turned(device, table, inputs):
    """The table of the gradient: for every input, the outputs that read it."""
    found = _empty(inputs, table.room - 1, table.wide)
    described = packed(Turned(1, table.outputs, inputs))
    _kernel(device, "turned", table.wide)(described, *table.places, *found.places)
    return found


def _quantise(table):
    """Weights as 16-bit fractions of as many bits as fit, which is what PyTorch has for bytes."""
    pointers, _, at = table.places
    (used,) = array("q", read_bytes(pointers + 8 * table.outputs, 8))
    weights = array("d", read_bytes(at, 8 * used))
    largest = max(weights, default=0.0)
    bits = 0
    while bits < 22 and int(0.5 + largest * (1 << bits + 1)) < 1 << 15:
        bits += 1
    one = 1 << bits
    weights = [math.trunc(w * one + math.copysign(0.5, w)) / one for w in weights]
    write_bytes(at, array("d", weights).tobytes())


class Columns(NamedTuple):
    """A table for registers of outputs, and how they read by it."""

    taps: int  # of each output
    lanes: int
    memory: object  # what keeps bases, indices and weights
    places: tuple  # and where they lie
    facts: tuple  # of the kernel which reads by it


def in_blocks(device, table, code):
    """A table for registers of the outputs of a dtype."""
    pointers, indices, _ = table.places
    spread = _kernel(device, "spread", code)(packed(Spread(1, table.outputs)), pointers, indices)
    ragged, way, lanes, count = spread >> 1 & 1, spread >> 2 & 3, spread >> 4 & 0xFFFF, spread >> 20
    slots = -(-table.outputs // lanes) * count
    memory, at = _memory(slots * (1 + 2 * lanes))
    places = at, at + 8 * slots, at + 8 * slots * (1 + lanes)
    kernel = _kernel(device, "blocks", code, _WAYS[way] == "gather")
    kernel(packed(Blocks(1, table.outputs, count)), *table.places, *places)
    facts = code, count if count <= FEW else 0, _WAYS[way], bool(ragged)
    return Columns(count, lanes, memory, places, facts)


def rows_kernel(device, facts, regular=None):
    """The kernel of planes of rows, whose columns are read as these facts say."""
    return device.runtime.kernel("resample_rows", "resampling:build_rows", *facts, regular)


def _bits(number):
    """A double as an integer of its bits."""
    return _WORD.unpack(_DOUBLE.pack(number))[0]


_WORD, _DOUBLE = struct.Struct("q"), struct.Struct("d")


class Sides:
    """Tables of the sides of images, for one kind of neighbours; backward: those of gradients.

    tables: by (size, size wanted, scale), columns: the same for registers of outputs. is_regular:
    may rows do without a table?
    """

    def __init__(self, key):
        self.device, dtype, self.kind, self.align_corners, self.backward = self.key = key
        nearest, self.is_bytes = self.kind.startswith("nearest"), dtype is _dtype.uint8
        self.code, self.wide = dtype.code, dtype.code in WIDE
        self.exact = dtype is _dtype.float64 or (self.is_bytes and not nearest)
        plain = nearest or (self.kind == "linear" and not self.is_bytes)
        self.is_regular = plain and not self.backward and self.device.runtime.is_host
        self.kernels: dict = {}
        self.tables, self.fills = Plans(self._table, room=REMEMBERED), {}
        self.columns = Plans(
            lambda side: in_blocks(self.device, self.tables[side], self.code), room=REMEMBERED
        )

    def _table(self, side):
        if not self.device.runtime.is_host:
            return moved(SIDES[cpu, *self.key[1:]].tables[side], self.device)
        if self.backward:
            return turned(self.device, SIDES[*self.key[:-1], False].tables[side], side[0])
        kind, size, wanted, scale = self._settled(side)
        if kind in LISTED:
            rounded = double if self.exact else single
            rows = LISTED[kind](size, wanted, self.align_corners, scale, rounded)
            found = listed([merged(row) for row in rows], self.wide)
        else:
            found = self._regular(kind, size, wanted, scale)
        if self.is_bytes and not kind.startswith("nearest"):
            _quantise(found)
        return found

    def _settled(self, side):
        """(kind of neighbours, size, size wanted, scale)."""
        size, wanted, scale = side
        if size == wanted and (self.is_bytes or self.kind == "linear"):
            return "nearest", size, wanted, 1.0  # the very elements
        return self.kind, size, wanted, scale

    def _step(self, kind, size, wanted, scale):
        aligned = kind == "linear" and self.align_corners
        return aligned, pace(size, wanted, aligned, scale, double if self.exact else single)

    def without_table(self, side, columns):
        """(kernel, what stands in place of a table) of rows at regular distances."""
        kind, *facts = self._settled(side)
        aligned, step = self._step(kind, *facts)
        return self.kernel(columns.facts, (kind, aligned, self.exact)), (_bits(step), 0, 0)

    def kernel(self, facts, regular=None):
        """The kernel of rows and such columns."""
        found = self.kernels.get((facts, regular))
        if found is None:
            found = self.kernels[facts, regular] = rows_kernel(self.device, facts, regular)
        return found

    def _regular(self, kind, size, wanted, scale):
        """Nearest or linear neighbours."""
        aligned, step = self._step(kind, size, wanted, scale)
        found = _empty(wanted, 2 * wanted if kind == "linear" else wanted, self.wide)
        kernel = self.fills.get(kind)
        if kernel is None:
            kernel = _kernel(self.device, "regular", kind, aligned, self.exact, self.wide)
            self.fills[kind] = kernel
        kernel(packed(Regular(1, size, wanted)), *found.places, step)
        return found


SIDES = Plans(Sides)  # by (device, dtype, kind, align_corners, backward)
