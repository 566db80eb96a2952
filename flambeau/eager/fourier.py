"""Launching Fourier transforms: factors, tables of roots, long lines and awkward lengths.

`run_lines` transforms many lines at once. A long line on its own is cut into a square: transforms
along its columns, a turn, transforms along its rows (four steps). Lengths with a large prime factor
become a circular convolution of a friendly length (Bluestein). Rows of the table: ops/fourier.py;
kernels: codegen/templates/fourier.py.
"""

import math

from flambeau import _dtype as d
from flambeau._layout import Size, collapse, dense_layout
from flambeau._memory_format import contiguous_format
from flambeau._tensor import empty_like_layout, empty_tensor
from flambeau.autograd.grad_mode import no_grad
from flambeau.codegen.descriptions import PASSES, Fourier
from flambeau.eager import creation, ranges
from flambeau.eager.launching import launches
from flambeau.eager.plans import Plans
from flambeau.eager.rows import address, chunks_of, has_work, vector_layout
from flambeau.ops.table import public as function
from flambeau.runtime.cpu import packed

LONGEST = 4096  # elements of a line that is transformed in one go
LONELY = 256  # from here on a line without company is cut
CHUNKS = 8
NARROWEST = 16  # bytes of a vector, if there are vectors
LARGEST = 400  # prime factors from here on are left to a convolution

_COMPLEX = {d.float32: d.complex64, d.float64: d.complex128}


def factors(n):
    """Radices whose product is n, or None if a prime factor is too large."""
    found = []
    for radix in (8, 4, 2, 5, 3, 7, *range(11, LARGEST, 2)):
        while n % radix == 0:
            found.append(radix)
            n //= radix
        if radix > 8 and radix * radix > n:  # what is left has no other factor
            break
    if 1 < n < LARGEST:
        found.append(n)
        n = 1
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


def _friendly(n):
    """A power of two that is long enough for the convolution of lines of length n."""
    return 1 << (2 * n - 2).bit_length()


def _table(key):
    name, *facts = key
    with no_grad():
        return _MAKE[name](*facts)


_MAKE = {"roots": _roots, "turns": _turns, "chirps": _chirps}
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
    width = max(1, device.runtime.target().vector_bytes // real.itemsize)
    together = 1 if kind == "c2c" else 2  # lines in a lane
    while width * real.itemsize > NARROWEST and lines * 2 <= width * together:
        width //= 2  # the other lanes would wait for nothing
    per_group = width * together
    blocks = -(-lines // per_group)
    groups = blocks * math.prod(sizes)
    # few groups of a long line still fill two threads; a chunk has scratch of its own
    chunks = min(CHUNKS, groups, max(1, groups * n * per_group >> 13))
    per_chunk = -(-groups // chunks)
    chunks, radices = chunks_of(groups, per_chunk), factors(n)
    words = Fourier(
        chunks, groups, per_chunk, n, lines, blocks, in_step, in_line, out_step, out_line,
        passes=len(radices), swap=int(not forward), turn_row=row, kept=kept,
    )  # fmt: skip
    rest = radices + [0] * (PASSES - len(radices)) + sizes + out_strides + in_strides
    kernel = device.runtime.kernel("fft", "fourier:build", kind, dtype.code, len(sizes), width)
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


def _plan_whole(key):
    """(kernel, description, layout of the scratch, roots) where lines are transformed in one go; a
    function of tensors that does it in another way; None where there is nothing to do.

    Key: kind, layouts of input and result, dimension, number of points, is it forward?
    """
    kind, layout, out, dim, n, forward = key
    if not (has_work(layout) and has_work(out)):
        return None
    complex_side = out if kind == "r2c" else layout
    others = layout.sizes[:dim] + layout.sizes[dim + 1 :]
    if factors(n) is None:
        return _convolve
    alone = n > LONGEST or (n >= LONELY and max(others, default=1) < 8)
    if alone and (kind != "c2c" or _square(n)[0] > 4):
        return _four_steps
    steps = [_strides_along(side, dim) for side in (out, layout)]
    kept = n if kind == "c2c" else complex_side.sizes[dim]
    where = layout.device, complex_side.dtype
    facts = kind, *where, n, kept, forward, 0, others, *steps[0], *steps[1]
    kernel, description, room = PLANS[facts]
    return kernel, description, room, TABLES["roots", room.device, room.dtype, n]


WHOLE = Plans(_plan_whole, by_default=False)


def _strides_along(layout, dim):
    """(bytes from element to element of dim, strides of all other dimensions in bytes)."""
    strides = [s * layout.itemsize for s in layout.strides]
    return strides[dim], tuple(strides[:dim] + strides[dim + 1 :])


def _run_whole(found, out, source, scale):
    """Transform all lines in one go."""
    kernel, description, room, roots = found
    to, at, scratch = address(out), address(source), empty_like_layout(room)
    kernel(description, to, at, scratch._storage.pointer, roots._storage.pointer, 0, scale)


def transform(source, out, dim, forward, scale):
    """The complex transform of source along dim, into out (both complex, plain)."""
    layout = source._layout
    found = WHOLE["c2c", layout, out._layout, dim, layout.sizes[dim], forward]
    if type(found) is tuple:
        _run_whole(found, out, source, scale)
    elif found is not None:
        found(source, out, dim, forward, scale)


def _four_steps(source, out, dim, forward, scale):
    """Columns, a turn, rows: element j high + i of a line is row j, column i of the square."""
    low, high = _square(source.shape[dim])
    sizes = _others(source, dim)
    (to, out_step, out_strides), (at, in_step, in_strides) = _bytes(out, dim), _bytes(source, dim)
    where = device, dtype = source.device, source.dtype
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


def _convolve(source, out, dim, forward, scale):
    """Any length: jk is (j² + k² - (j - k)²) / 2, so that the sum becomes a convolution."""
    n, dtype = source.shape[dim], source.dtype
    length = _friendly(n)
    chirp, spectrum = TABLES["chirps", source.device, dtype, n, forward]
    movedim, mul = function("movedim"), function("mul")
    with no_grad():
        moved = movedim(source, dim, -1)
        padded = empty_tensor(Size((*moved.shape[:-1], length)), dtype, source.device)
        padded[..., n:] = 0
        mul(moved, chirp, out=padded[..., :n])
        last = padded.ndim - 1
        work = creation.empty_like(padded)
        transform(padded, work, last, True, 1.0)
        work *= spectrum
        transform(work, padded, last, False, scale / length)
        mul(padded[..., :n], chirp, out=movedim(out, dim, -1))


def _new(input, shape, dtype):
    return empty_tensor(Size(shape), dtype, input.device)


@launches("fft_c2c")
def fft_c2c(input, dims, scale, forward):
    """Transforms along several dimensions, the last first."""
    found = input
    for dim in reversed(dims):
        out = empty_like_layout(_dense(input._layout))
        transform(found, out, dim, forward, scale)
        found, scale = out, 1.0
    return found if dims else input.clone()


def _dense(layout):
    return layout if layout.is_dense else dense_layout(layout.sizes, layout.dtype, layout.device)


@launches("fft_r2c")
def fft_r2c(input, dim, scale, onesided):
    layout = input._layout
    n, dtype = layout.sizes[dim], _COMPLEX[layout.dtype]
    half = n // 2 + 1
    shape = list(layout.sizes)
    shape[dim] = half if onesided else n
    out = _new(input, shape, dtype)
    found = WHOLE["r2c", layout, out._layout, dim, n, True]
    if type(found) is tuple:
        _run_whole(found, out, input, scale)
    elif found is not None:
        whole = out if not onesided else _new(input, input.shape, dtype)
        transform(input.detach().to(dtype), whole, dim, True, scale)
        return out if not onesided else _copied(function("narrow")(whole, dim, 0, half))
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
    found = WHOLE["c2r", input._layout, out._layout, dim, n, False]
    if type(found) is tuple:
        _run_whole(found, out, input, scale)
    elif found is not None:
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
    return out
