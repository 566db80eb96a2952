"""Launching Fourier transforms: factors, tables of roots, long lines and awkward lengths.

`run_lines` transforms many lines at once. A long line on its own is cut into a square: transforms
along its columns, a turn, transforms along its rows (four steps). Lengths with a large prime factor
become a circular convolution of a friendly length (Bluestein). Rows of the table: ops/fourier.py;
kernels: codegen/templates/fourier.py; GPUs have a library for it: cuda_fourier.py.
"""

import math

from flambeau import _dtype as d
from flambeau._layout import Size, collapse, dense_layout, make_layout
from flambeau._memory_format import contiguous_format
from flambeau._tensor import empty_like_layout, empty_tensor
from flambeau.autograd.grad_mode import no_grad
from flambeau.codegen.descriptions import PASSES, Fourier
from flambeau.codegen.scalar import conj
from flambeau.eager import creation, ranges
from flambeau.eager.copying import FILLS
from flambeau.eager.launching import launches
from flambeau.eager.plan import plan_nest
from flambeau.eager.plans import Plans
from flambeau.eager.rows import address, chunks_of, dense_like, has_work, vector_layout
from flambeau.ops.table import public as function
from flambeau.runtime.cpu import packed
from flambeau.runtime.processor import second_level

LONGEST = 4096  # elements of a line that is transformed in one go
LONELY = 256  # from here on a line without company is cut
CHUNKS = 8
NARROWEST = 16  # bytes of a vector, if there are vectors
LARGEST = 400  # prime factors from here on are left to a convolution
LONELY_LARGEST = 150  # the same for lines without company, which leave lanes empty
GPU_LARGEST = 32  # and where a thread has a line of its own
ROOM = 1 << 28  # bytes of scratch of all chunks of a GPU

_COMPLEX = {d.float32: d.complex64, d.float64: d.complex128}


def factors(n, largest=LARGEST):
    """Radices whose product is n, or None if a prime factor is too large."""
    found = []
    for radix in (8, 4, 2, 5, 3, 7, *range(11, largest, 2)):
        while n % radix == 0:
            found.append(radix)
            n //= radix
        if radix > 8 and radix * radix > n:  # what is left has no other factor
            break
    if 1 < n < largest:
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
    kernel = device.runtime.kernel("fft", "fourier:build", kind, dtype.code, len(sizes), width)
    return kernel, packed([*words, *rest]), vector_layout(chunks * 4 * n * width, real, device)


PLANS = Plans(_plan)


# -- ways to transform -----------------------------------------------------------------------------
# Each is a function of the addresses of result and input, and of a factor.


def _in_one_go(kind, where, n, kept, forward, sizes, out, source, turns=None):
    """All lines of length n. out, source: (step, strides of sizes), in bytes.

    where: device and dtype of the complex side; kept: how many elements of a half spectrum there
    are; turns: (table, elements per row) of a longer transform.
    """
    row = turns[1] if turns else 0
    kernel, description, room = PLANS[kind, *where, n, kept, forward, row, sizes, *out, *source]
    roots = TABLES["roots", room.device, room.dtype, n]
    table, turn_table = [
        t._storage.pointer if t is not None else 0 for t in (roots, turns and turns[0])
    ]

    def run(to, at, scale):
        scratch = empty_like_layout(room)
        kernel(description, to, at, scratch._storage.pointer, table, turn_table, scale)

    run.kept = roots, turns  # the tables whose addresses it has
    return run


def _along(layout, dim):
    """(bytes from element to element of dim, strides of all other dimensions in bytes)."""
    strides = [s * layout.itemsize for s in layout.strides]
    return strides[dim], tuple(strides[:dim] + strides[dim + 1 :])


def _others(layout, dim):
    return layout.sizes[:dim] + layout.sizes[dim + 1 :]


def _is_lonely(layout, dim, n):
    """Is a line long, or without company? Then lanes are filled from the line itself."""
    return n > LONGEST or (n >= LONELY and max(_others(layout, dim), default=1) < 8)


def _is_crowded(layout, dim, n):
    """Do the lines of a vector's lanes, twice in scratch memory, take a quarter of the cache?

    Then passes over them wait for it: 64 lines of 2048 took 234 microseconds, in four steps 191.
    But not if what lies between the steps is far away, or is read and written in short pieces.
    """
    runtime = layout.device.runtime
    if not runtime.is_host or n & (n - 1) or layout.strides[dim] != 1:
        return False
    crowded = 4 * n * runtime.target().vector_bytes >= second_level() // 4
    return crowded and layout.nbytes <= 2 * second_level()


def _largest(layout, dim):
    """From which prime factor on lines are convolved."""
    if not layout.device.runtime.is_host:
        return GPU_LARGEST
    return LARGEST if max(_others(layout, dim), default=1) >= 8 else LONELY_LARGEST


def _plan_real(key):
    """The way of real lines or half spectra; None where they become complex lines first."""
    kind, layout, out, dim, n = key
    if not (has_work(layout) and has_work(out)):
        return _nothing
    if factors(n, _largest(layout, dim)) is None or _is_lonely(layout, dim, n):
        return None
    half = out if kind == "r2c" else layout
    facts = n, half.sizes[dim], kind == "r2c", _others(layout, dim)
    return _in_one_go(kind, (out.device, half.dtype), *facts, _along(out, dim), _along(layout, dim))


def _plan_complex(key):
    """The way of complex lines."""
    layout, out, dim, forward = key
    if not has_work(out):
        return _nothing
    n, where = layout.sizes[dim], (layout.device, layout.dtype)
    if factors(n, _largest(layout, dim)) is None:
        return _convolution(layout, out, dim, forward)
    facts = _others(layout, dim), _along(out, dim), _along(layout, dim)
    if (_is_lonely(layout, dim, n) or _is_crowded(layout, dim, n)) and _square(n)[0] > 4:
        return _in_four_steps(where, *_square(n), forward, *facts)
    return _in_one_go("c2c", where, n, n, forward, *facts)


REAL = Plans(_plan_real, by_default=False)
COMPLEX = Plans(_plan_complex, by_default=False)


def _nothing(to, at, scale):
    """There is nothing to transform."""


def _in_four_steps(where, low, high, forward, sizes, out, source):
    """Columns, a turn, rows: element j high + i of a line is row j, column i of the square."""
    device, dtype = where
    (out_step, out_strides), (in_step, in_strides) = out, source
    item = dtype.itemsize
    middle = dense_layout((*sizes, low, high), dtype, device)
    strides = tuple([s * item for s in middle.strides[:-2]])
    turns = TABLES["turns", device, dtype.to_real(), low, high], high
    columns = _in_one_go(
        "c2c", where, low, low, forward, (*sizes, high),
        (high * item, (*strides, item)), (in_step * high, (*in_strides, in_step)), turns,
    )  # fmt: skip
    rows = _in_one_go(
        "c2c", where, high, high, forward, (*sizes, low),
        (out_step * low, (*out_strides, out_step)), (item, (*strides, high * item)),
    )  # fmt: skip

    def run(to, at, scale):
        between = empty_like_layout(middle)
        columns(between._storage.pointer, at, 1.0)
        rows(to, between._storage.pointer, scale)

    return run


def _convolution(layout, out, dim, forward):
    """Any length: jk is (j² + k² - (j - k)²) / 2, so that the sum becomes a convolution."""
    dtype, device, n = layout.dtype, layout.device, layout.sizes[dim]
    length, sizes, item = _friendly(n), _others(layout, dim), dtype.itemsize
    chirp, spectrum = TABLES["chirps", device, dtype, n, forward]
    whole = dense_layout((*sizes, length), dtype, device)
    head = make_layout((*sizes, n), whole.strides, dtype, device)
    tail = make_layout((*sizes, length - n), whole.strides, dtype, device)
    line = chirp._layout
    given, result = [_moved(side, dim) for side in (layout, out)]
    begin, fold, end = (
        TIMES[head, given, line],
        TIMES[whole, whole, spectrum._layout],
        TIMES[result, head, line],
    )
    fill, last = FILLS[tail, int], len(sizes)
    there, back = COMPLEX[whole, whole, last, True], COMPLEX[whole, whole, last, False]

    def run(to, at, scale):
        first, second = empty_like_layout(whole), empty_like_layout(whole)
        x, y = first._storage.pointer, second._storage.pointer
        _launch(begin, x, at, chirp._storage.pointer)
        _launch(fill, x + n * item, 0)
        there(y, x, 1.0)
        _launch(fold, y, y, spectrum._storage.pointer)
        back(x, y, scale / length)
        _launch(end, to, x, chirp._storage.pointer)

    return run


def _launch(found, *arguments):
    kernel, description = found
    kernel(description, *arguments)


def _moved(layout, dim):
    """The layout with a dimension last."""
    sizes, strides = [(*x[:dim], *x[dim + 1 :], x[dim]) for x in (layout.sizes, layout.strides)]
    return make_layout(sizes, strides, layout.dtype, layout.device)


def _plan_times(key):
    """(kernel, description) of a product of two layouts, into a third."""
    out, a, b = key
    product = ("times", a.dtype.code)
    return plan_nest(product, _times, [a, b], "", (out.dtype,), (out,), out.shape)[1:]


def _times(a, b):
    return (a * b,)


TIMES = Plans(_plan_times, by_default=False)


def transform(source, out, dim, forward, scale):
    """The complex transform of source along dim, into out (both complex, plain)."""
    COMPLEX[source._layout, out._layout, dim, forward](address(out), address(source), scale)


def _new(input, shape, dtype):
    return empty_tensor(Size(shape), dtype, input.device)


def fft_c2c(input, dims, scale, forward):
    """Transforms along several dimensions, the last first."""
    found = _on_gpu("c2c", input, dims, scale, forward)
    if found is not None:
        return found
    found = input
    for dim in reversed(dims):
        out = empty_like_layout(dense_like(input._layout))
        transform(found, out, dim, forward, scale)
        found, scale = out, 1.0
    return found if dims else input.clone()


def _on_gpu(kind, input, *facts):
    """The transform by a GPU's library, or None."""
    own = input.device.runtime.transforms
    return None if own is None else getattr(own, kind)(input, *facts)


def _widely(function, wide, narrow):
    """Let a launcher compute half types in single precision, and round once."""

    def launcher(input, *facts):
        if input.dtype not in wide:
            return function(input, *facts)
        with no_grad():
            return function(input.detach().to(wide[input.dtype]), *facts).to(narrow)

    return launcher


def fft_r2c(input, dims, scale, onesided):
    """Along the last of dims first, where numbers are real, then along the others."""
    found = _on_gpu("r2c", input, dims, scale, onesided)
    if found is None:
        *others, dim = dims
        found = _from_real(input, dim, scale, onesided)
        found = fft_c2c(found, others, 1.0, True) if others else found
    return found


def _from_real(input, dim, scale, onesided):
    layout = input._layout
    n, dtype = layout.sizes[dim], _COMPLEX[layout.dtype]
    half = n // 2 + 1
    shape = list(layout.sizes)
    shape[dim] = half if onesided else n
    out = _new(input, shape, dtype)
    run = REAL["r2c", layout, out._layout, dim, n]
    if run is not None:
        run(address(out), address(input), scale)
    else:
        whole = out if not onesided else _new(input, input.shape, dtype)
        transform(input.detach().to(dtype), whole, dim, True, scale)
        return out if not onesided else _copied(function("narrow")(whole, dim, 0, half))
    return out


def _copied(t):
    return function("clone")(t, memory_format=contiguous_format)


def complete(out, dim):
    """The second half of a spectrum of real numbers mirrors the first."""
    to, at, found = MIRRORS[out._layout, dim]
    _launch(found, address(out) + to, address(out) + at)


def _plan_mirror(key):
    """(bytes to where the second half begins, to where it is read from, backward; launch)."""
    layout, dim = key
    n, step = layout.sizes[dim], layout.strides[dim] * layout.itemsize
    half = n // 2 + 1
    sizes, back = list(layout.sizes), list(layout.strides)
    sizes[dim], back[dim] = n - half, -back[dim]
    out, source = [
        make_layout(tuple(sizes), tuple(strides), layout.dtype, layout.device)
        for strides in (layout.strides, back)
    ]
    facts = [source], "", (out.dtype,), (out,), out.shape
    return half * step, (n - half) * step, plan_nest(("mirror", out.dtype.code), _conj, *facts)[1:]


def _conj(a):
    return (conj(a),)


MIRRORS = Plans(_plan_mirror, by_default=False)


def fft_c2r(input, dims, scale, n):
    """Along the last of dims last: only then numbers are real."""
    found = _on_gpu("c2r", input, dims, scale, n)
    if found is not None:
        return found
    *others, dim = dims
    return _to_real(fft_c2c(input, others, 1.0, False) if others else input, dim, scale, n)


def _to_real(input, dim, scale, n):
    shape = list(input.shape)
    shape[dim] = n
    real, half = input.dtype.to_real(), n // 2 + 1
    out = _new(input, shape, real)
    run = REAL["c2r", input._layout, out._layout, dim, n]
    if run is not None:
        run(address(out), address(input), scale)
    else:
        whole = _new(input, shape, input.dtype)
        with no_grad():
            kept = function("narrow")(whole, dim, 0, half)
            kept.copy_(input)
            for k in {0, half - 1} if n % 2 == 0 else {0}:
                function("select")(kept, dim, k).imag.zero_()
            if n > 2:
                complete(whole, dim)
            result = _new(input, shape, input.dtype)
            transform(whole, result, dim, False, scale)
            return _copied(result.real)
    return out


_WIDE = {d.float16: d.float32, d.complex32: d.complex64}
launches("fft_c2c")(_widely(fft_c2c, _WIDE, d.complex32))
launches("fft_r2c")(_widely(fft_r2c, _WIDE, d.complex32))
launches("fft_c2r")(_widely(fft_c2r, _WIDE, d.float16))
