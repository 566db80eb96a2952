"""Which inputs an output of resampling reads along one dimension, and how much of each.

A table is a list with the taps of every output, (input, weight) each. `turned` gives the table of
the gradient. Positions are computed in the precision PyTorch computes them in (float32 unless the
tensor is float64), because the nearest neighbour of a tie, and the weights of large images, depend
on it. Tables become memory for the kernels in `resampling.py`.
"""

import math
import struct

_FLOAT = struct.Struct("f")


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


# The place of a nearest neighbour is rounded down as a float32, whatever it was computed in.


def _nearest(size, wanted, align_corners, scale, rounded):
    step = _step(size, wanted, False, scale, rounded)
    return [[(min(math.floor(_single(k * step)), size - 1), 1.0)] for k in range(wanted)]


def _nearest_exact(size, wanted, align_corners, scale, rounded):
    step = _step(size, wanted, False, scale, rounded)
    return [[(min(math.floor(_single((k + 0.5) * step)), size - 1), 1.0)] for k in range(wanted)]


def _linear(size, wanted, align_corners, scale, rounded):
    if size == wanted:
        return [[(k, 1.0)] for k in range(wanted)]
    step = _step(size, wanted, align_corners, scale, rounded)
    table = []
    for k in range(wanted):
        at = max(_position(k, step, align_corners, rounded), 0.0)
        low = min(int(at), size - 1)
        part = min(max(rounded(at - low), 0.0), 1.0)
        table.append([(low, rounded(1 - part)), (low + (low < size - 1), part)])
    return table


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


_TABLES = {
    "nearest": _nearest,
    "nearest_exact": _nearest_exact,
    "linear": _linear,
    "cubic": _cubic,
    "smooth_linear": _smoothed(_triangle, 2),
    "smooth_cubic": _smoothed(_smooth_cubic, 4),
    "smooth_lanczos": _smoothed(_lanczos_window, 6),
}


def table(kind, size, wanted, align_corners, scale, is_double):
    """The taps of every output along a dimension."""
    rounded = _double if is_double else _single
    return [_merged(taps) for taps in _TABLES[kind](size, wanted, align_corners, scale, rounded)]


def _merged(taps):
    """Taps of the same input become one (at an edge several places are clamped to it)."""
    if len({i for i, _ in taps}) == len(taps):
        return taps
    found = {}
    for i, weight in taps:
        found[i] = found.get(i, 0.0) + weight
    return list(found.items())


def quantised(taps):
    """Weights as 16-bit fractions of as many bits as fit, which is what PyTorch has for bytes."""
    largest = max((w for row in taps for _, w in row), default=0.0)
    bits = 0
    while bits < 22 and int(0.5 + largest * (1 << bits + 1)) < 1 << 15:
        bits += 1
    one = 1 << bits
    return [
        [(i, math.trunc(w * one + math.copysign(0.5, w)) / one) for i, w in row] for row in taps
    ]


def turned(taps, size):
    """The table of the gradient: for every input, the outputs that read it."""
    found = [[] for _ in range(size)]
    for k, row in enumerate(taps):
        for i, weight in row:
            if weight:
                found[i].append((k, weight))
    return found


def blocked(rows, lanes, reach):
    """A table for registers of outputs.

    (way, taps per output, ragged, bases, lane indices, weights): taps are padded to the same number
    with zero weights. Where the taps number k of a register lie within reach, their indices count
    from a base of their own.
    """
    count = max(1, max(map(len, rows), default=1))
    ragged = any(len(row) < count for row in rows)
    rows = rows + [[]] * (-len(rows) % lanes)
    groups = []
    for start in range(0, len(rows), lanes):
        for k in range(count):
            taps = [row[k] if k < len(row) else None for row in rows[start : start + lanes]]
            used = [t[0] for t in taps if t is not None]
            base = min(used, default=0)
            groups.append((base, max(used, default=0) - base, taps))
    span = max(spread for _, spread, _ in groups)
    way = next(
        (name for name, limit in sorted(reach.items(), key=lambda r: r[1]) if span < limit),
        "gather",
    )
    bases, indices, weights = [], [], []
    for base, _, taps in groups:
        origin = 0 if way == "gather" else base
        bases.append(base)
        indices += [(base if t is None else t[0]) - origin for t in taps]
        weights += [0.0 if t is None else t[1] for t in taps]
    return way, count, ragged, bases, indices, weights
