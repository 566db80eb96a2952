"""Grid sampling: values of an image (or volume) at places that a grid gives, and both gradients.

A register holds neighbouring places of the grid. Along each dimension a place has 1, 2 or 4 taps
(nearest, linear, cubic): an index, whether it lies inside, a weight and the slope of the weight.
The taps of a place are all combinations; what varies with the channel is only what they read. The
gradient of the image adds to it place by place, so a chunk owns whole channels; the gradient of the
grid sums over channels, so there a chunk owns places.
"""

from typing import NamedTuple

from flambeau.codegen import descriptions_images as descriptions
from flambeau.codegen.llvm import (
    convert,
    from_memory,
    gather,
    load_element,
    store_element,
)
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I1, I64, PTR, V, bytes_of, vector
from flambeau.codegen.target import current
from flambeau.codegen.templates.sorting import Kernel

TAPS = {"bilinear": 2, "nearest": 1, "bicubic": 4}
_A = -0.75  # of the cubic convolution


class Pattern(NamedTuple):
    """What a kernel is made for."""

    code: str
    dims: int
    mode: str
    padding: str
    align_corners: bool
    wide: bool  # planes of more elements than 32 bits count


class _Axis(NamedTuple):
    """The taps of places along one dimension; lists with an element per tap."""

    indices: list  # i64 lanes, 0 where outside
    inside: list
    weights: list
    slopes: list
    factor: V  # how the place moves with the grid


class _Sampler:
    """Writes what all three kernels share: from the grid to taps."""

    def __init__(self, pattern, kinds):
        self.pattern = pattern
        self.kernel = Kernel(kinds)
        self.fn = self.kernel.fn
        self.code = pattern.code
        self.type = COMPUTE_TYPE[pattern.code]
        self.scalar = LLVM_TYPE[self.type]
        self.memory = MEMORY_TYPE[pattern.code]
        self.width = current().vector_bytes // bytes_of(self.scalar)
        self.vector = vector(self.scalar, self.width)

    def number(self, x):
        return self.fn.value(float(x), self.vector)

    def words(self):
        """The description; keeps the sizes of the image, from the last dimension on."""
        found = self.kernel.described(descriptions.GridSampling)
        self.sizes = [found.width, found.height, found.depth][: self.pattern.dims]
        self.float_sizes = [
            self.fn.splat(self.fn.convert("sitofp", n, self.scalar), self.width) for n in self.sizes
        ]
        plane = self.sizes[0]
        for n in self.sizes[1:]:
            plane = plane * n
        self.plane = plane
        return found.places, found.channels, found.per_chunk, found.parts

    def mask(self, left):
        fn = self.fn
        left = fn.splat(left, self.width)
        return fn.pure(f"icmp slt {fn.iota(left.type)}, {left.name}", vector(I1, self.width))

    def places(self, grid, mask):
        """The axes of a register of places; grid points to the first of them."""
        dims, size = self.pattern.dims, bytes_of(self.memory)
        stride = V(self.fn, I64, str(dims * size))
        axes = []
        for d in range(dims):
            at = self.fn.gep(grid, d, self.memory)
            x = load_element(self.fn, at, self.code, self.width, "n", stride, mask)
            axes.append(self.axis(x, self.float_sizes[d], self.sizes[d]))
        return axes

    def axis(self, x, size, whole_size):
        fn, mode, padding = self.fn, self.pattern.mode, self.pattern.padding
        x, factor = self.unnormalised(x, size)
        if mode != "bicubic":
            x, slope = self.padded(x, size)
            factor = factor if slope is None else factor * slope
        if mode == "nearest":
            taps, weights, slopes = [fn.intrinsic("rint", x)], [self.number(1)], [self.number(0)]
        else:
            low = fn.intrinsic("floor", x)
            t = x - low
            first = 0 if mode == "bilinear" else -1
            taps = [low + float(first + k) for k in range(TAPS[mode])]
            weights, slopes = self.linear(t) if mode == "bilinear" else self.cubic(t)
            if mode == "bicubic" and padding != "zeros":
                taps = [self.padded(tap, size)[0] for tap in taps]
        inside = [(tap >= 0.0) & (tap <= size - 1.0) for tap in taps]
        # outside (and nan) is not a number that an integer can hold
        indices = [
            convert(fn, fn.select(ok, tap, self.number(0)), self.type, "i64")
            for tap, ok in zip(taps, inside)
        ]
        if self.pattern.dims == 3:  # what is outside does not count there, not even as nan
            weights = [fn.select(ok, w, self.number(0)) for ok, w in zip(inside, weights)]
        return _Axis(indices, inside, weights, slopes, factor)

    def unnormalised(self, x, size):
        """From -1 .. 1 to elements, and how fast."""
        if self.pattern.align_corners:
            scale = (size - 1.0) * 0.5
            return (x + 1.0) * scale, scale
        return ((x + 1.0) * size - 1.0) * 0.5, size * 0.5

    def padded(self, x, size):
        """A place brought inside by the padding mode, and the slope of that (None: one)."""
        fn, padding = self.fn, self.pattern.padding
        if padding == "zeros":
            return x, None
        slope = None
        if padding == "reflection":
            x, slope = self.reflected(x, size)
        low, high = x > 0.0, x < size - 1.0
        # nan becomes 0 in planes and the last place in volumes, as in PyTorch
        if self.pattern.dims == 3:
            x = fn.select(high, x, size - 1.0)
            x = fn.select(x > 0.0, x, self.number(0))
        else:
            x = fn.select(low, x, self.number(0))
            x = fn.select(x < size - 1.0, x, size - 1.0)
        inner = fn.select(low & high, self.number(1), self.number(0))
        return x, inner if slope is None else inner * slope

    def reflected(self, x, size):
        fn = self.fn
        if self.pattern.align_corners:
            low, span = self.number(0), size - 1.0
        else:
            low, span = self.number(-0.5), size
        away = x - low
        slope = fn.select(away < 0.0, self.number(-1), self.number(1))
        away = fn.intrinsic("fabs", away)
        period = span + span
        rest = away - fn.intrinsic("floor", away / period) * period
        back = rest >= span
        slope = fn.select(back, -slope, slope)
        x = fn.select(back, period - rest, rest) + low
        if self.pattern.align_corners:  # one element: everything is reflected onto it
            nothing = span == 0.0
            x = fn.select(nothing, self.number(0), x)
            slope = fn.select(nothing, self.number(0), slope)
        return x, slope

    def linear(self, t):
        return [1.0 - t, t], [self.number(-1), self.number(1)]

    def cubic(self, t):
        def near(x):
            return ((_A + 2) * x - (_A + 3)) * x * x + 1.0

        def far(x):
            return ((_A * x - 5 * _A) * x + 8 * _A) * x - 4 * _A

        def near_slope(x):
            return (3 * (_A + 2) * x - 2 * (_A + 3)) * x

        def far_slope(x):
            return (3 * _A * x - 10 * _A) * x + 8 * _A

        u = 1.0 - t
        weights = [far(t + 1.0), near(t), near(u), far(u + 1.0)]
        return weights, [far_slope(t + 1.0), near_slope(t), -near_slope(u), -far_slope(u + 1.0)]

    def combined(self, axes):
        """(offset in a plane, inside, number of the tap along each dimension) of all taps."""
        fn, dims = self.fn, len(axes)
        found = []
        for number in range(TAPS[self.pattern.mode] ** dims):
            ks = [
                number // TAPS[self.pattern.mode] ** d % TAPS[self.pattern.mode]
                for d in range(dims)
            ]
            offset, inside = None, None
            for d in reversed(range(dims)):
                index, ok = axes[d].indices[ks[d]], axes[d].inside[ks[d]]
                if offset is None:
                    offset, inside = index, ok
                else:
                    offset = offset * fn.splat(self.sizes[d], self.width) + index
                    inside = inside & ok
            found.append((offset, inside, ks))
        return found

    def weight(self, axes, ks, along=None):
        """The weight of a tap, or its slope along a dimension."""
        total = None
        for d, k in enumerate(ks):
            part = axes[d].slopes[k] if d == along else axes[d].weights[k]
            total = part if total is None else total * part
        return total


BLOCK = 8  # registers of places whose taps are kept while the channels pass
PICKED = 4  # up to so many taps may be read lane by lane; more would make long kernels


class _Taps:
    """The taps of a block of places, kept in memory while the channels pass."""

    def __init__(self, sampler):
        s, fn = sampler, sampler.fn
        self.s, self.count = s, TAPS[s.pattern.mode] ** s.pattern.dims
        self.index = "i64" if s.pattern.wide else "i32"
        self.offsets = fn.alloca(self.index, BLOCK * self.count * s.width)
        self.weights = fn.alloca(s.scalar, BLOCK * self.count * s.width)
        self.whole = fn.alloca("i8", BLOCK * self.count)  # are all lanes inside?

    def _slot(self, number, k):
        return (number * self.count + k) * self.s.width

    def keep(self, number, axes, mask):
        """Write the taps of a register of places: offsets (-1 outside) and weights."""
        s, fn = self.s, self.s.fn
        outside = fn.value(-1, vector(self.index, s.width))
        for k, (offset, inside, ks) in enumerate(s.combined(axes)):
            offset = fn.convert("trunc", offset, outside.type)
            inside = inside & mask
            whole = fn.convert("zext", ~fn.any(~inside), "i8")
            fn.store(whole, fn.gep(self.whole, number * self.count + k, "i8"))
            offset = fn.select(inside, offset, outside)
            fn.store(offset, fn.gep(self.offsets, self._slot(number, k), self.index), 64)
            weight = s.weight(axes, ks)
            fn.store(weight, fn.gep(self.weights, self._slot(number, k), s.scalar), 64)

    def offset(self, number, k):
        fn = self.s.fn
        at = fn.gep(self.offsets, self._slot(number, k), self.index)
        return fn.load(at, vector(self.index, self.s.width), 64)

    def weight(self, number, k):
        fn = self.s.fn
        return fn.load(
            fn.gep(self.weights, self._slot(number, k), self.s.scalar), self.s.vector, 64
        )

    def read(self, number, k, plane):
        """What tap k reads in a plane: 0 outside."""
        fn = self.s.fn
        if self.count > PICKED:
            return self._gathered(number, k, plane)
        whole = fn.load(fn.gep(self.whole, number * self.count + k, "i8"), "i8")
        return fn.if_else(
            whole != 0,
            lambda: self._picked(number, k, plane),
            lambda: self._gathered(number, k, plane),
        )

    def _picked(self, number, k, plane):
        """Lane by lane, where all are inside: several times faster than the instruction for it."""
        s, fn = self.s, self.s.fn
        found = V(fn, vector(s.memory, s.width), "poison")
        for lane in range(s.width):
            at = fn.gep(self.offsets, self._slot(number, k) + lane, self.index)
            offset = fn.convert("sext", fn.load(at, self.index), I64)
            found = fn.insert(found, fn.load(fn.gep(plane, offset, s.memory), s.memory), lane)
        return from_memory(fn, found, s.code)

    def _gathered(self, number, k, plane):
        s, fn = self.s, self.s.fn
        offset = self.offset(number, k)
        # signed 32-bit offsets go into the instruction as they are
        wide = fn.convert("sext", offset, vector(I64, s.width))
        pointers = fn.pure(f"getelementptr {s.memory}, {plane}, {wide}", vector(PTR, s.width))
        return from_memory(fn, gather(fn, pointers, s.memory, offset >= 0), s.code)


def build_sample(*facts):
    """Values at places: (out, input, grid)."""
    pattern = Pattern(*facts)
    s = _Sampler(pattern, "ppp")
    kernel, fn, w = s.kernel, s.fn, s.width
    out, x, grid = kernel.arguments
    places, channels, per_chunk, chunks = s.words()
    batch, part = kernel.chunk / chunks, kernel.chunk % chunks
    begin = part * per_chunk
    end = fn.min(begin + per_chunk, places)
    image = fn.gep(x, batch * channels * s.plane, s.memory)
    target = fn.gep(out, batch * channels * places, s.memory)
    lines = fn.gep(grid, batch * places * pattern.dims, s.memory)
    taps = _Taps(s)
    with fn.loop(begin, end, BLOCK * w) as first:
        stop = fn.min(first + BLOCK * w, end)
        with fn.loop(first, stop, w) as at:
            mask = s.mask(end - at)
            axes = s.places(fn.gep(lines, at * pattern.dims, s.memory), mask)
            taps.keep((at - first) / w, axes, mask)
        with fn.loop(0, channels) as c:
            plane = fn.gep(image, c * s.plane, s.memory)
            line = fn.gep(target, c * places, s.memory)
            with fn.loop(first, stop, w) as at:
                number, total = (at - first) / w, None
                for k in range(taps.count):
                    v = taps.read(number, k, plane)
                    if pattern.mode == "nearest":
                        total = v
                    elif total is None:
                        total = v * taps.weight(number, k)
                    else:
                        total = fn.intrinsic("fma", v, taps.weight(number, k), total)
                place = fn.gep(line, at, s.memory)
                store_element(fn, total, place, s.code, w, "c", None, s.mask(end - at))
    return kernel.text()


def build_grid_gradient(*facts):
    """The gradient of the grid: (grad_grid, grad_output, input, grid)."""
    pattern = Pattern(*facts)
    s = _Sampler(pattern, "pppp")
    kernel, fn, w, dims = s.kernel, s.fn, s.width, pattern.dims
    target, g, x, grid = kernel.arguments
    places, channels, per_chunk, chunks = s.words()
    batch, part = kernel.chunk / chunks, kernel.chunk % chunks
    begin = part * per_chunk
    end = fn.min(begin + per_chunk, places)
    image = fn.gep(x, batch * channels * s.plane, s.memory)
    incoming = fn.gep(g, batch * channels * places, s.memory)
    stride = V(fn, I64, str(dims * bytes_of(s.memory)))
    taps = _Taps(s)
    with fn.loop(begin, end, w) as at:
        mask = s.mask(end - at)
        first = (batch * places + at) * dims
        axes = s.places(fn.gep(grid, first, s.memory), mask)
        combined = s.combined(axes)
        here = V(fn, I64, "0")
        taps.keep(here, axes, mask)
        sums = [fn.var(s.number(0)) for _ in combined]
        with fn.loop(0, channels) as c:
            plane = fn.gep(image, c * s.plane, s.memory)
            place = fn.gep(incoming, c * places + at, s.memory)
            v = load_element(fn, place, s.code, w, "c", None, mask)
            for k, sum in enumerate(sums):
                sum.set(fn.intrinsic("fma", taps.read(here, k, plane), v, sum.get()))
        for d in range(dims):
            total = s.number(0)
            for (_, _, ks), sum in zip(combined, sums):
                total = fn.intrinsic("fma", sum.get(), s.weight(axes, ks, d), total)
            place = fn.gep(target, first + d, s.memory)
            store_element(fn, total * axes[d].factor, place, s.code, w, "n", stride, mask)
    return kernel.text()


def build_image_gradient(*facts):
    """The gradient of the image: (grad_input of the compute type, grad_output, grid)."""
    pattern = Pattern(*facts)
    s = _Sampler(pattern, "ppp")
    kernel, fn, w = s.kernel, s.fn, s.width
    target, g, grid = kernel.arguments
    places, channels, per_chunk, chunks = s.words()
    batch, part = kernel.chunk / chunks, kernel.chunk % chunks
    begin = part * per_chunk
    end = fn.min(begin + per_chunk, channels)
    image = fn.gep(target, batch * channels * s.plane, s.scalar)
    incoming = fn.gep(g, batch * channels * places, s.memory)
    lines = fn.gep(grid, batch * places * pattern.dims, s.memory)
    taps = _Taps(s)
    values = fn.alloca(s.scalar, w)
    with fn.loop(begin * s.plane, end * s.plane) as i:
        fn.store(fn.value(0.0, s.scalar), fn.gep(image, i, s.scalar))
    with fn.loop(0, places, BLOCK * w) as first:
        stop = fn.min(first + BLOCK * w, places)
        with fn.loop(first, stop, w) as at:
            mask = s.mask(places - at)
            axes = s.places(fn.gep(lines, at * pattern.dims, s.memory), mask)
            taps.keep((at - first) / w, axes, mask)
        with fn.loop(begin, end) as c:
            plane = fn.gep(image, c * s.plane, s.scalar)
            with fn.loop(first, stop, w) as at:
                place = fn.gep(incoming, c * places + at, s.memory)
                mask = s.mask(places - at)
                fn.store(load_element(fn, place, s.code, w, "c", None, mask), values)
                _add_lanes(taps, (at - first) / w, plane, values)
    return kernel.text()


def _add_lanes(taps, number, plane, values):
    """Add a register of values to a plane, at their taps; places may coincide."""
    s, fn = taps.s, taps.s.fn
    with fn.loop(0, s.width) as lane:
        value = fn.load(fn.gep(values, lane, s.scalar), s.scalar)
        for k in range(taps.count):
            slot = (number * taps.count + k) * s.width + lane
            offset = fn.load(fn.gep(taps.offsets, slot, taps.index), taps.index)
            with fn.when(offset >= 0):
                weight = fn.load(fn.gep(taps.weights, slot, s.scalar), s.scalar)
                place = fn.gep(plane, fn.convert("sext", offset, I64), s.scalar)
                old = fn.load(place, s.scalar)
                fn.store(fn.intrinsic("fma", value, weight, old), place)
