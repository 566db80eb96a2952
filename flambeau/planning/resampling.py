"""Which inputs an output of resampling reads along one dimension, and how much of each.

Positions are computed in the precision PyTorch computes them in (float32 unless the tensor is
float64), because the nearest neighbour of a tie, and the weights of large images, depend on it.
"""

import math
import struct

_FLOAT = struct.Struct("f")


def single(x):
    """Rounded to float32."""
    return _FLOAT.unpack(_FLOAT.pack(x))[0]


def double(x):
    """As it is."""
    return x


def pace(size, wanted, align_corners, scale, rounded):
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
    step = pace(size, wanted, align_corners, scale, rounded)
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
        step = pace(size, wanted, align_corners, scale, rounded)
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


# kind -> function of (size, size wanted, align_corners, scale, rounding): taps of every output
LISTED = {
    "cubic": _cubic,
    "smooth_linear": _smoothed(_triangle, 2),
    "smooth_cubic": _smoothed(_smooth_cubic, 4),
    "smooth_lanczos": _smoothed(_lanczos_window, 6),
}


def merged(taps):
    """Taps of the same input become one (at an edge several places are clamped to it)."""
    if len({i for i, _ in taps}) == len(taps):
        return taps
    found = {}
    for i, weight in taps:
        found[i] = found.get(i, 0.0) + weight
    return list(found.items())
