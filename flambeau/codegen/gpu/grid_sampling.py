"""Grid sampling on a GPU: a thread per place, with the taps of templates/grid_sampling.py.

The gradient of the image is made pixel by pixel: the pixel of every tap is written down with its
weight (`build_taps`), both are sorted by pixel, and a thread per pixel and channel adds up what
belongs to it (`build_taken`), always in the same order.
"""

from flambeau.codegen.descriptions_images import GridSampling
from flambeau.codegen.gpu.pointwise import divided
from flambeau.codegen.gpu.together import unsigned
from flambeau.codegen.llvm import from_memory, load_element, store_element
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I32, I64, Module
from flambeau.codegen.templates import grid_sampling as host
from flambeau.codegen.templates.grid_sampling import Pattern

THREADS = 256
CHANNELS = 8  # that a thread reads with the same taps
WORDS = len(GridSampling._fields)


class _Sampler(host._Sampler):
    """From the grid to taps, one place at a time."""

    def __init__(self, pattern, kinds):
        self.pattern, self.code = pattern, pattern.code
        self.type = COMPUTE_TYPE[pattern.code]
        self.scalar = self.vector = LLVM_TYPE[self.type]
        self.memory, self.width = MEMORY_TYPE[pattern.code], 1
        self.module = Module()
        self.kernel = kernel = Kernel(self.module, "p" + kinds, THREADS, words=WORDS)
        self.fn = fn = kernel.fn
        self.arguments = [kernel.argument(1 + k) for k in range(len(kinds))]
        self.d = d = GridSampling(*[kernel.word(k) for k in range(WORDS)])
        self.sizes = [d.width, d.height, d.depth][: pattern.dims]
        self.float_sizes = [fn.convert("sitofp", n, self.scalar) for n in self.sizes]
        self.plane = d.width * d.height * d.depth
        self.batches = d.chunks / d.parts

    def each(self, count, visit, count_of):
        """visit(number) by a thread each; both texts. count_of(words): the same on the host."""
        fn, kernel = self.fn, self.kernel
        first, step = kernel.group * THREADS, kernel.groups * THREADS
        with kernel.threads(last=True) as thread, fn.loop(first + thread, count, step) as at:
            visit(at)
        kernel.done()

        def groups(fn, word):
            found = count_of(GridSampling(*[word(k) for k in range(WORDS)]))
            return (found + (THREADS - 1)) / THREADS

        add_host_entry(self.module, kernel, groups)
        return module_text(self.module)

    def taps_at(self, grid, batch, place):
        """(axes, taps) of a place."""
        at = (batch * self.d.places + place) * self.pattern.dims
        axes = self.places(self.fn.gep(grid, at, self.memory), None)
        return axes, self.combined(axes)

    def read(self, x, batch, channel, offset, inside):
        """A tap of a channel: 0 outside."""
        fn = self.fn
        place = (batch * self.d.channels + channel) * self.plane + offset

        def load():
            return from_memory(fn, fn.load(fn.gep(x, place, self.memory), self.memory), self.code)

        return fn.if_else(inside, load, lambda: fn.value(0.0, self.scalar))

    def element(self, batch, channel, place):
        """The number of a result."""
        return (batch * self.d.channels + channel) * self.d.places + place


def build_sample(*facts):
    """Values at places: (out, input, grid)."""
    s = _Sampler(Pattern(*facts), "ppp")
    fn, d, (out, x, grid) = s.fn, s.d, s.arguments
    blocks = (d.channels + (CHANNELS - 1)) / CHANNELS

    def visit(number):
        rest = divided(fn, number, d.places)
        batch = divided(fn, rest, blocks)
        place, first = number - rest * d.places, (rest - batch * blocks) * CHANNELS
        axes, taps = s.taps_at(grid, batch, place)
        weights = [s.weight(axes, ks) for *_, ks in taps]
        with fn.loop(first, fn.min(first + CHANNELS, d.channels)) as c:
            total = None
            for (offset, inside, _), weight in zip(taps, weights):
                v = s.read(x, batch, c, offset, inside)
                if s.pattern.mode == "nearest":
                    total = v
                else:
                    total = v * weight if total is None else fn.intrinsic("fma", v, weight, total)
            at = s.element(batch, c, place)
            store_element(fn, total, fn.gep(out, at, s.memory), s.code, 1, "c")

    def count(d):
        return d.chunks / d.parts * d.places * ((d.channels + (CHANNELS - 1)) / CHANNELS)

    return s.each(s.batches * blocks * d.places, visit, count)


def build_grid_gradient(*facts):
    """The gradient of the grid: (grad_grid, grad_output, input, grid)."""
    s = _Sampler(Pattern(*facts), "pppp")
    fn, d, (target, g, x, grid) = s.fn, s.d, s.arguments
    dims = s.pattern.dims

    def visit(number):
        batch = divided(fn, number, d.places)
        place = number - batch * d.places
        axes, taps = s.taps_at(grid, batch, place)
        sums = [fn.var(fn.value(0.0, s.scalar)) for _ in taps]
        with fn.loop(0, d.channels) as c:
            at = fn.gep(g, s.element(batch, c, place), s.memory)
            given = load_element(fn, at, s.code, 1, "c")
            for (offset, inside, _), sum in zip(taps, sums):
                v = s.read(x, batch, c, offset, inside)
                sum.set(fn.intrinsic("fma", v, given, sum.get()))
        for k in range(dims):
            total = fn.value(0.0, s.scalar)
            for (*_, ks), sum in zip(taps, sums):
                total = fn.intrinsic("fma", sum.get(), s.weight(axes, ks, k), total)
            at = fn.gep(target, number * dims + k, s.memory)
            store_element(fn, total * axes[k].factor, at, s.code, 1, "c")

    return s.each(s.batches * d.places, visit, lambda d: d.chunks / d.parts * d.places)


def build_taps(*facts):
    """The pixel of every tap, and its weight: (pixels, weights, grid), 32-bit pixels.

    What lies outside is one pixel more than there are.
    """
    s = _Sampler(Pattern(*facts), "ppp")
    fn, d, (pixels, weights, grid) = s.fn, s.d, s.arguments

    def visit(number):
        batch = divided(fn, number, d.places)
        axes, taps = s.taps_at(grid, batch, number - batch * d.places)
        for k, (offset, inside, ks) in enumerate(taps):
            at = number * len(taps) + k
            pixel = fn.select(inside, batch * s.plane + offset, s.batches * s.plane)
            fn.store(fn.convert("trunc", pixel, I32), fn.gep(pixels, at, I32))
            fn.store(s.weight(axes, ks), fn.gep(weights, at, s.scalar))

    return s.each(s.batches * d.places, visit, lambda d: d.chunks / d.parts * d.places)


def build_taken(*facts):
    """Sums over the taps of pixels: (target, grad, firsts, pixels, order, weights).

    pixels are sorted; firsts: where the run of each begins, or -1; order: what they were.
    """
    s = _Sampler(Pattern(*facts), "pppppp")
    fn, d = s.fn, s.d
    target, g, firsts, pixels, order, weights = s.arguments
    taps = host.TAPS[s.pattern.mode] ** s.pattern.dims
    count = s.batches * d.places * taps

    def visit(number):
        rest = divided(fn, number, s.plane)
        batch = divided(fn, rest, d.channels)
        channel = rest - batch * d.channels
        pixel = fn.convert("trunc", batch * s.plane + number - rest * s.plane, I32)
        total = fn.var(fn.value(0.0, s.scalar))
        first = fn.load(fn.gep(firsts, unsigned(fn, pixel), I32), I32)
        with fn.when(first >= 0):
            q = fn.var(unsigned(fn, first))

            def goes_on():
                here = fn.load(fn.gep(pixels, fn.min(q.get(), count - 1), I32), I32)
                return (q.get() < count) & (here == pixel)

            with fn.while_(goes_on):
                tap = unsigned(fn, fn.load(fn.gep(order, q.get(), I32), I32))
                place = divided(fn, tap, fn.value(taps, I64)) - batch * d.places
                at = fn.gep(g, s.element(batch, channel, place), s.memory)
                weight = fn.load(fn.gep(weights, tap, s.scalar), s.scalar)
                v = load_element(fn, at, s.code, 1, "c")
                total.set(fn.intrinsic("fma", v, weight, total.get()))
                q.set(q.get() + 1)
        fn.store(total.get(), fn.gep(target, number, s.scalar))

    def pixels_of(d):
        return d.chunks / d.parts * d.channels * d.width * d.height * d.depth

    return s.each(s.batches * d.channels * s.plane, visit, pixels_of)
