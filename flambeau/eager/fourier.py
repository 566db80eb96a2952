"""Launching Fourier transforms: factors, tables of roots, long lines and awkward lengths.

`run_lines` transforms many lines at once. A long line on its own is cut into a square: transforms
along its columns, a turn, transforms along its rows (four steps). Lengths with a large prime factor
become a circular convolution of a friendly length (Bluestein), short ones a product with the matrix
of all roots. Rows of the table: ops/fourier.py;
kernels: codegen/templates/fourier.py.
"""

import math

from flambeau import _dtype as d
from flambeau._layout import Size, collapse
from flambeau._memory_format import contiguous_format
from flambeau._tensor import empty_like_layout, empty_tensor
from flambeau.autograd.grad_mode import no_grad
from flambeau.codegen.descriptions import PASSES, Fourier
from flambeau.eager import creation, ranges
from flambeau.eager.launching import launches
from flambeau.eager.plans import Plans
from flambeau.eager.rows import address, chunks_of, is_computed, vector_layout
from flambeau.ops.table import public as function
from flambeau.runtime.cpu import packed

LONGEST = 4096  # elements of a line that is transformed in one go
LONELY = 256  # from here on a line without company is cut
CHUNKS = 8
ROOM = 1 << 28  # bytes of scratch of all chunks of a GPU
DIRECT = 192  # elements of lines of awkward length for which a matrix is faster than a convolution

_COMPLEX = {d.float32: d.complex64, d.float64: d.complex128}


def factors(n):
    """Radices whose product is n, or None if a prime factor is too large."""
    found = []
    for radix in (8, 4, 2, 5, 3, 7, 11, 13, 17, 19, 23, 29, 31):
        while n % radix == 0:
            found.append(radix)
            n //= radix
    return found if n == 1 else None


def _square(n):
    """n as a product of two factors that are as close to each other as can be."""
    low = math.isqrt(n)
    while n % low:
        low -= 1
    return low, n // low


# -- tables ----------------------------------------------------------------------------------------


def _unit(turns, period, real):
    """exp(-2 pi i turns / period) as pairs, rounded once."""
    angle = turns.double() * (-2 * math.pi / period)
    return function("stack")([angle.cos(), angle.sin()], -1).to(real)


def _roots(device, real, n):
    return _unit(ranges.arange(n, device=device), n, real)


def _turns(device, real, rows, columns):
    """Row k, column j: k j of rows * columns parts of a circle."""
    k, j = ranges.arange(rows, device=device), ranges.arange(columns, device=device)
    return _unit(function("outer")(k, j), rows * columns, real)


def _chirps(device, dtype, n, forward):
    """What lines of a length are multiplied with, and the spectrum that they are folded with."""
    length, sign = _friendly(n), 1 if forward else -1
    j = ranges.arange(n, device=device)
    chirp = function("view_as_complex")(_unit((j * j) % (2 * n), 2 * n * sign, d.float64))
    around = creation.zeros(length, dtype=d.complex128, device=device)
    around[:n] = chirp.conj().resolve_conj()
    around[length - n + 1 :] = around[1:n].flip(0)
    spectrum = creation.empty_like(around)
    transform(around, spectrum, 0, True, 1.0)
    return chirp.to(dtype), spectrum.to(dtype)


def _matrix(device, dtype, n, forward, scale):
    """What lines of a length are multiplied with, in place of a transform."""
    k = ranges.arange(n, device=device)
    turns = function("outer")(k, k) % n
    roots = function("view_as_complex")(_unit(turns, n if forward else -n, d.float64))
    return (roots * scale).to(dtype)


def _friendly(n):
    """A power of two that is long enough for the convolution of lines of length n."""
    return 1 << (2 * n - 2).bit_length()


def _table(key):
    name, *facts = key
    with no_grad():
        return _MAKE[name](*facts)


_MAKE = {"roots": _roots, "turns": _turns, "chirps": _chirps, "matrix": _matrix}
TABLES = Plans(_table, room=64)


def run_lines(kind, where, n, kept, forward, scale, sizes, out, source, turns=None):
    """Transform all lines of length n. out, source: (address, step, strides of sizes), in bytes.

    where: device and dtype of the complex side; kept: how many elements of a half spectrum there
    are; turns: (table, elements per row) of a longer transform.
    """
    (to, out_step, out_strides), (at, in_step, in_strides) = out, source
    row = turns[1] if turns else 0
    kernel, description, room = PLANS[
        kind, *where, n, kept, forward, row, tuple(sizes),
        out_step, tuple(out_strides), in_step, tuple(in_strides),
    ]  # fmt: skip
    scratch, table = empty_like_layout(room), TABLES["roots", room.device, room.dtype, n]
    turn_table = turns[0]._storage.pointer if turns else 0
    kernel(description, to, at, scratch._storage.pointer, table._storage.pointer, turn_table, scale)


def _plan(key):
    """(kernel, description, layout of the scratch)."""
    kind, device, dtype, n, kept, forward, row, sizes, *steps = key
    out_step, out_strides, in_step, in_strides = steps
    sizes, (out_strides, in_strides) = collapse(sizes, [out_strides, in_strides])
    lane = max(range(len(sizes)), key=lambda k: (min(sizes[k], 16), -in_strides[k]), default=None)
    if lane is None:
        lines, out_line, in_line = 1, 0, 0
    else:  # what is left are outer dimensions
        lines, out_line, in_line = (x.pop(lane) for x in (sizes, out_strides, in_strides))
    real = dtype.to_real()
    width = device.runtime.target().vector_bytes // real.itemsize
    per_group = width if kind == "c2c" else 2 * width
    blocks = -(-lines // per_group)
    groups = blocks * math.prod(sizes)
    # few groups of a long line still fill two threads; a chunk has scratch of its own
    most, grain = CHUNKS, groups * n * per_group >> 13
    if not device.runtime.is_host:  # a chunk is a thread's
        most, grain = max(CHUNKS, ROOM // (4 * n * width * real.itemsize)), groups
    chunks = min(most, groups, max(1, grain))
    per_chunk = -(-groups // chunks)
    chunks, radices = chunks_of(groups, per_chunk), factors(n)
    words = Fourier(
        chunks, groups, per_chunk, n, lines, blocks, in_step, in_line, out_step, out_line,
        passes=len(radices), swap=int(not forward), turn_row=row, kept=kept,
    )  # fmt: skip
    rest = radices + [0] * (PASSES - len(radices)) + sizes + out_strides + in_strides
    kernel = device.runtime.kernel("fft", "fourier:build", kind, dtype.code, len(sizes))
    return kernel, packed([*words, *rest]), vector_layout(chunks * 4 * n * width, real, device)


PLANS = Plans(_plan)


def _bytes(t, dim):
    """(address, bytes from element to element of dim, strides of all other dimensions)."""
    layout = t._layout
    size = layout.itemsize
    strides = [s * size for s in layout.strides]
    return address(t), strides[dim], strides[:dim] + strides[dim + 1 :]


def _others(t, dim):
    return [*t.shape[:dim], *t.shape[dim + 1 :]]


def transform(source, out, dim, forward, scale):
    """The complex transform of source along dim, into out (both complex, plain)."""
    n, where = source.shape[dim], (source.device, source.dtype)
    if factors(n) is None:
        other = _multiply if n <= DIRECT else _convolve
        return other(source, out, dim, forward, scale)
    sizes = _others(source, dim)
    to, at = _bytes(out, dim), _bytes(source, dim)
    low, high = _square(n)
    crowd = max(sizes, default=1)
    if (n > LONGEST or (n >= LONELY and crowd < 8)) and low > 4:
        return _four_steps(where, (low, high), forward, scale, sizes, to, at)
    run_lines("c2c", where, n, n, forward, scale, sizes, to, at)
    return None


def _four_steps(where, square, forward, scale, sizes, out, source):
    """Columns, a turn, rows: element j high + i of a line is row j, column i of the square."""
    low, high = square
    (to, out_step, out_strides), (at, in_step, in_strides) = out, source
    device, dtype = where
    item = dtype.itemsize
    middle = empty_tensor(Size((*sizes, low, high)), dtype, device)
    strides = [s * item for s in middle._layout.strides[:-2]]
    turns = TABLES["turns", device, dtype.to_real(), low, high], high
    start = middle._storage.pointer
    run_lines(
        "c2c", where, low, low, forward, 1.0, [*sizes, high],
        (start, high * item, [*strides, item]), (at, in_step * high, [*in_strides, in_step]),
        turns,
    )  # fmt: skip
    run_lines(
        "c2c", where, high, high, forward, scale, [*sizes, low],
        (to, out_step * low, [*out_strides, out_step]), (start, item, [*strides, high * item]),
    )  # fmt: skip


def _multiply(source, out, dim, forward, scale):
    """Short lines of any length."""
    n = source.shape[dim]
    matrix = TABLES["matrix", source.device, source.dtype, n, forward, scale]
    with no_grad():
        if dim == source.ndim - 1:
            out.copy_(source @ matrix)
        else:
            movedim = function("movedim")
            movedim(out, dim, -1).copy_(movedim(source, dim, -1) @ matrix)


def _convolve(source, out, dim, forward, scale):
    """Any length: jk is (j² + k² - (j - k)²) / 2, so that the sum becomes a convolution."""
    n, dtype = source.shape[dim], source.dtype
    length = _friendly(n)
    chirp, spectrum = TABLES["chirps", source.device, dtype, n, forward]
    with no_grad():
        moved = function("movedim")(source, dim, -1)
        padded = creation.zeros((*moved.shape[:-1], length), dtype=dtype, device=source.device)
        padded[..., :n] = moved * chirp
        last = padded.ndim - 1
        work = creation.empty_like(padded)
        transform(padded, work, last, True, 1.0)
        work *= spectrum
        transform(work, padded, last, False, scale / length)
        function("movedim")(out, dim, -1).copy_(padded[..., :n] * chirp)


def _new(input, shape, dtype):
    return empty_tensor(Size(shape), dtype, input.device)


@launches("fft_c2c")
def fft_c2c(input, dims, scale, forward):
    """Transforms along several dimensions, the last first."""
    found = input
    for k, dim in enumerate(reversed(dims)):
        out = _new(input, input.shape, input.dtype)
        if is_computed(input):
            transform(found, out, dim, forward, scale if k == 0 else 1.0)
        found = out
    return found if dims else input.clone()


def _lonely(input, dim, n):
    """Lines that the kernels for real lines do not suit: long, alone or of an awkward length."""
    sizes = _others(input, dim)
    return factors(n) is None or n > LONGEST or (n >= LONELY and max(sizes, default=1) < 8)


@launches("fft_r2c")
def fft_r2c(input, dim, scale, onesided):
    n = input.shape[dim]
    half, dtype = n // 2 + 1, _COMPLEX[input.dtype]
    shape = list(input.shape)
    shape[dim] = half if onesided else n
    out = _new(input, shape, dtype)
    if not is_computed(input):
        return out
    if _lonely(input, dim, n):
        whole = out if not onesided else _new(input, input.shape, dtype)
        transform(input.detach().to(dtype), whole, dim, True, scale)
        return out if not onesided else _copied(function("narrow")(whole, dim, 0, half))
    sizes, kept = _others(input, dim), shape[dim]
    run_lines(
        "r2c",
        (input.device, dtype),
        n,
        kept,
        True,
        scale,
        sizes,
        _bytes(out, dim),
        _bytes(input, dim),
    )
    return out


def _copied(t):
    return function("clone")(t, memory_format=contiguous_format)


def _complete(out, dim, n):
    """The second half of a spectrum of real numbers mirrors the first."""
    half, narrow = n // 2 + 1, function("narrow")
    mirrored = narrow(out, dim, 1, n - half).flip(dim).conj().resolve_conj()
    narrow(out, dim, half, n - half).copy_(mirrored)


@launches("fft_c2r")
def fft_c2r(input, dim, scale, n):
    shape = list(input.shape)
    shape[dim] = n
    real, half = input.dtype.to_real(), n // 2 + 1
    out = _new(input, shape, real)
    if not is_computed(out):
        return out
    if _lonely(input, dim, n):
        whole = _new(input, shape, input.dtype)
        with no_grad():
            kept = function("narrow")(whole, dim, 0, half)
            kept.copy_(input)
            for k in {0, half - 1} if n % 2 == 0 else {0}:
                function("select")(kept, dim, k).imag.zero_()
            if n > 2:
                _complete(whole, dim, n)
            result = _new(input, shape, input.dtype)
            transform(whole, result, dim, False, scale)
            return _copied(result.real)
    sizes = _others(out, dim)
    run_lines(
        "c2r",
        (input.device, input.dtype),
        n,
        half,
        False,
        scale,
        sizes,
        _bytes(out, dim),
        _bytes(input, dim),
    )
    return out
