"""Elements of grids: values as functions of their coordinates, in the scalar language.

Each is the body of a kernel without inputs (`eager/ranges.py`, `eager/windows.py`). Where PyTorch's
loops round in a way that shows (steps counted from the start of each vector, the upper half of
linspace from the end), so do these.
"""

from flambeau.codegen import scalar

TRACES: dict = {}  # name of a grid -> its element, an expression of coordinates and numbers

# PyTorch counts from the start of each vector of its own, 32 bytes long, two vectors at a time;
# what is left over is counted from the start of the range.
LANES = {"f64": 4, "f32": 8, "f16": 16, "bf16": 16}


def traced(name, *facts):
    """Register a function of numbers, told some facts first, as the element of a grid."""

    def register(function):
        TRACES[name] = lambda *numbers: (function(*facts, *numbers),)
        return function

    return register


# -- ranges ---------------------------------------------------------------------------------------


@traced("arange")
def _arithmetic(start, step):
    return start + scalar.coordinate(0) * step


def _vector_range(code, a, b, whole):
    """One element of a float range. Doubles compute float32, floats compute the half types."""
    wide, fma = "f64" if code in ("f64", "f32") else "f32", scalar.WORDS["fma"]
    a, b, i = scalar.cast(a, wide), scalar.cast(b, wide), scalar.coordinate(0)
    lane = i & (LANES[code] - 1)
    first = fma(b, scalar.cast(i - lane, wide), a)
    if wide == "f32":
        first = _rounded(first, code)
    else:
        first = scalar.cast(scalar.cast(first, code), wide)
    in_vector = fma(b, scalar.cast(lane, wide), first)
    return scalar.select(i < whole, in_vector, fma(b, scalar.cast(i, wide), a))


def _rounded(x, code):
    """A float32 expression rounded to a half type (of moderate size), still as a float32."""
    kept = {"f16": 13, "bf16": 16}[code]  # bits that go
    bits = scalar.bitcast(x, "u32")
    odd = (bits >> kept) & 1
    bits = (bits + odd + ((1 << (kept - 1)) - 1)) & (0xFFFFFFFF ^ ((1 << kept) - 1))
    near = scalar.bitcast(bits, "f32")
    if code == "f16":
        # below the normal range the spacing is constant: adding and subtracting rounds to it
        magic = 2.0**-24 * 2.0**23 * 1.5
        small = (x + magic) - magic
        near = scalar.select(scalar.WORDS["abs"](x) < 2.0**-14, small, near)
    return near


for _code in LANES:
    traced("arange_" + _code, _code)(_vector_range)


@traced("linspace_f32", "f32")
@traced("linspace_f64", "f64")
def _spaced(type, a, b, n):
    a, b = scalar.cast(a, type), scalar.cast(b, type)
    i, fma = scalar.coordinate(0), scalar.WORDS["fma"]
    step = (b - a) / scalar.cast(scalar.select(n > 1, n - 1, 1), type)
    low = fma(step, scalar.cast(i, type), a)
    high = fma(-step, scalar.cast(n - 1 - i, type), b)
    return scalar.select(i < (n >> 1), low, high)


@traced("eye")
def _diagonal():
    return scalar.coordinate(0) == scalar.coordinate(1)


# -- windows --------------------------------------------------------------------------------------


def _window(kind):
    """Register a function of the place and of numbers, in the type that computes."""

    def register(function):
        for wide in ("f32", "f64"):
            traced(f"{kind}_window_{wide}", wide, function)(_element)
        return function

    return register


def _element(wide, function, *numbers):
    place = scalar.cast(scalar.coordinate(0), wide)
    return function(place, *[scalar.cast(n, wide) for n in numbers])


@_window("cosine")
def _cosines(place, step, a, b, c):
    x, cos = place * step, scalar.cos
    return a + cos(x) * b + cos(x * 2) * c


@_window("bartlett")
def _triangle(place, step):
    x = place * step
    return scalar.select(x <= 1, x, 2 - x)


@_window("kaiser")
def _kaiser(place, step, beta):
    x, i0 = place * step - 1, scalar.i0
    inside = scalar.maximum(1 - x * x, 0)
    return i0(scalar.sqrt(inside) * beta) / i0(beta)
