"""Which inputs an output of resampling reads along one dimension, and how much of each.

Tables lie in native memory, as kernels read them (`codegen/templates/resampling_tables.py`, which
also fills those of nearest and linear neighbours). Taps of cubic and of antialiased neighbours are
listed here. Positions are computed in the precision PyTorch computes them in (float32 unless the
tensor is float64), because the nearest neighbour of a tie, and the weights of large images, depend
on it. `SIDES` remembers tables: images of many sizes share those of their sides.
"""

import math
import struct
from array import array
from typing import NamedTuple

from flambeau import _dtype
from flambeau._device import cpu
from flambeau.codegen.descriptions_images import Blocks, Regular, Spread, Turned
from flambeau.eager.plans import Plans
from flambeau.runtime.cpu import packed, place_of, read_bytes, write_bytes
from flambeau.storage import new_storage

_FLOAT = struct.Struct("f")
_WAYS = ("near", "far", "gather")
WIDE = (_dtype.float64.code, _dtype.uint8.code)  # sums are kept in double
FEW = 4  # up to so many taps a kernel knows their number
REMEMBERED = 48  # tables and plans: some words per row and column, which caches should hold


def _single(x):
    return _FLOAT.unpack(_FLOAT.pack(x))[0]


def _double(x):
    return x


def _step(size, wanted, align_corners, scale, rounded):
    """Inputs per output."""
    if align_corners:
        return rounded((size - 1) / (wanted - 1)) if wanted > 1 else 0.0
    return rounded(1 / scale) if scale is not None and scale > 0 else rounded(size / wanted)


def _position(k, step, align_corners, rounded):
    return rounded(step * k) if align_corners else rounded(step * (k + 0.5) - 0.5)


def _cubic_weights(t, a, rounded):
    """Weights of the four neighbours of a place t after the second."""

    def near(x):
        return rounded(((a + 2) * x - (a + 3)) * x * x + 1)

    def far(x):
        return rounded(((a * x - 5 * a) * x + 8 * a) * x - 4 * a)

    return far(t + 1), near(t), near(1 - t), far(2 - t)


def _cubic(size, wanted, align_corners, scale, rounded):
    step = _step(size, wanted, align_corners, scale, rounded)
    table = []
    for k in range(wanted):
        at = _position(k, step, align_corners, rounded)
        low = min(math.floor(at), size - 1)
        part = min(max(rounded(at - low), 0.0), 1.0)
        weights = _cubic_weights(part, -0.75, rounded)
        table.append(
            [(min(max(low + j - 1, 0), size - 1), weight) for j, weight in enumerate(weights)]
        )
    return table


def _triangle(x):
    return max(0.0, 1 - abs(x))


def _smooth_cubic(x):
    x, a = abs(x), -0.5
    if x < 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return ((x - 5) * x + 8) * x * a - 4 * a if x < 2 else 0.0


def _lanczos_window(x):
    def sinc(y):
        return math.sin(math.pi * y) / (math.pi * y) if y else 1.0

    return sinc(x) * sinc(x / 3) if -3 <= x < 3 else 0.0


def _smoothed(filter, width):
    """Antialiasing: the filter is stretched over all inputs that an output stands for."""

    def table(size, wanted, align_corners, scale, rounded):
        step = _step(size, wanted, align_corners, scale, rounded)
        stretch = max(step, 1.0)
        support = rounded(width / 2 * stretch)
        found = []
        for k in range(wanted):
            center = rounded(step * (k + 0.5))
            low = max(int(rounded(center - support + 0.5)), 0)
            high = min(int(rounded(center + support + 0.5)), size)
            weights = [filter((j - center + 0.5) / stretch) for j in range(low, high)]
            total = sum(weights) or 1.0
            found.append([(j, rounded(v / total)) for j, v in zip(range(low, high), weights)])
        return found

    return table


_LISTED = {
    "cubic": _cubic,
    "smooth_linear": _smoothed(_triangle, 2),
    "smooth_cubic": _smoothed(_smooth_cubic, 4),
    "smooth_lanczos": _smoothed(_lanczos_window, 6),
}


def _merged(taps):
    """Taps of the same input become one (at an edge several places are clamped to it)."""
    if len({i for i, _ in taps}) == len(taps):
        return taps
    found = {}
    for i, weight in taps:
        found[i] = found.get(i, 0.0) + weight
    return list(found.items())


# -- tables in native memory -----------------------------------------------------------------------


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
    kept = bytes(8 * words)  # which nobody sees but kernels: the first of them fills it
    return kept, place_of(kept)


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
    memory = new_storage(8 * (table.outputs + 1 + 2 * table.room), device)
    device.runtime.write(memory.pointer, table.places[0], memory.nbytes)
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
    kernel: object  # which reads by it


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
    rows = device.runtime.kernel("resample_rows", "resampling:build_rows", *facts)
    return Columns(count, lanes, memory, places, rows)


class Sides:
    """Tables of the sides of images, for one kind of neighbours; backward: those of gradients.

    tables: by (size, size wanted, scale), columns: the same for registers of outputs.
    """

    def __init__(self, key):
        self.device, dtype, self.kind, self.align_corners, self.backward = self.key = key
        nearest, self.is_bytes = self.kind.startswith("nearest"), dtype is _dtype.uint8
        self.code, self.wide = dtype.code, dtype.code in WIDE
        self.exact = dtype is _dtype.float64 or (self.is_bytes and not nearest)
        self.tables, self.fills = Plans(self._table, room=REMEMBERED), {}
        self.columns = Plans(
            lambda side: in_blocks(self.device, self.tables[side], self.code), room=REMEMBERED
        )

    def _table(self, side):
        if not self.device.runtime.runs_programs:
            return moved(SIDES[cpu, *self.key[1:]].tables[side], self.device)
        size, wanted, scale = side
        if self.backward:
            return turned(self.device, SIDES[*self.key[:-1], False].tables[side], size)
        kind = self.kind
        if size == wanted and (self.is_bytes or kind == "linear"):
            kind, scale = "nearest", 1.0  # the very elements
        if kind in _LISTED:
            rounded = _double if self.exact else _single
            rows = _LISTED[kind](size, wanted, self.align_corners, scale, rounded)
            found = listed([_merged(row) for row in rows], self.wide)
        else:
            found = self._regular(kind, size, wanted, scale)
        if self.is_bytes and not kind.startswith("nearest"):
            _quantise(found)
        return found

    def _regular(self, kind, size, wanted, scale):
        """Nearest or linear neighbours."""
        aligned = kind == "linear" and self.align_corners
        step = _step(size, wanted, aligned, scale, _double if self.exact else _single)
        found = _empty(wanted, 2 * wanted if kind == "linear" else wanted, self.wide)
        kernel = self.fills.get(kind)
        if kernel is None:
            kernel = _kernel(self.device, "regular", kind, aligned, self.exact, self.wide)
            self.fills[kind] = kernel
        kernel(packed(Regular(1, size, wanted)), *found.places, step)
        return found


SIDES = Plans(Sides)  # by (device, dtype, kind, align_corners, backward)
