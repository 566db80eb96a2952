"""Regions of images: which boxes cover others (nms), means and maxima of what lies in boxes.

roi_align averages samples between pixels. The weight of a pixel is the product of one weight for
its row and one for its column, so a region is two small tables: rows are summed into one line, the
line into bins, whole registers at a time, for several channels side by side. On the way back the
same tables spread a gradient; there a chunk owns channels, because regions overlap.
"""

from flambeau.codegen import descriptions_images as descriptions
from flambeau.codegen.descriptions_images import REGION_CHANNELS as TOGETHER
from flambeau.codegen.llvm import (
    convert,
    load_element,
    masked_load,
    masked_store,
    store_element,
)
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I1, I8, I64, bytes_of, vector
from flambeau.codegen.target import current
from flambeau.codegen.templates.sorting import Kernel

PADDING = 64  # elements after the boxes that nms may read
_MOST_SAMPLES = 1 << 20  # of a bin in one direction: coordinates may be anything
_FAR = float(1 << 30)  # pixels


def lanes(code):
    """Elements of a register."""
    return current().vector_bytes // bytes_of(LLVM_TYPE[COMPUTE_TYPE[code]])


# -- boxes that cover others -----------------------------------------------------------------------


def build_nms(code):
    """Boxes, the best first, that no kept one covers: (sides, marks, kept, threshold).

    Sides are lines of x1, y1, x2, y2 and areas; marks are zero bytes; kept gets places in that
    order, and after them how many.
    """
    kernel = Kernel("pppf")
    fn, type, w = kernel.fn, LLVM_TYPE[code], lanes(code)
    lines, marks, kept, threshold = kernel.arguments
    _, count, stride = kernel.described(descriptions.Boxes)
    limit = fn.splat(convert(fn, threshold, "f64", code), w)
    sides = [fn.gep(lines, stride * k, type) for k in range(5)]
    zero = fn.value(0.0, vector(type, w))
    found = fn.var(fn.value(0, I64))
    with fn.loop(0, count) as i, fn.when(fn.load(fn.gep(marks, i, I8), I8) == 0):
        fn.store(i, fn.gep(kept, found.get(), I64))
        found.set(found.get() + 1)
        x1, y1, x2, y2, area = (fn.splat(fn.load(fn.gep(side, i, type), type), w) for side in sides)
        with fn.loop(i + 1, count, w) as j:
            a1, b1, a2, b2, other = (
                fn.load(fn.gep(side, j, type), vector(type, w)) for side in sides
            )
            # written so that nan does what it does in C++'s std::max and std::min
            width = fn.select(a2 < x2, a2, x2) - fn.select(x1 < a1, a1, x1)
            height = fn.select(b2 < y2, b2, y2) - fn.select(y1 < b1, b1, y1)
            width = fn.select(zero < width, width, zero)
            height = fn.select(zero < height, height, zero)
            common = width * height
            over = common / (area + other - common) > limit
            place = fn.gep(marks, j, I8)
            old = fn.load(place, vector(I8, w))
            fn.store(old | fn.convert("zext", over, vector(I8, w)), place)
    fn.store(found.get(), fn.gep(kept, count, I64))
    return kernel.text()


# -- samples between pixels ------------------------------------------------------------------------


class _Axis:
    """Along one direction: the table of weights, and which pixels each bin reads."""

    def __init__(self, bins, size, table, index, spans):
        self.bins, self.size = bins, size
        self.table, self.index = table, index  # weight of (bin, pixel): element index(bin, pixel)
        self.spans = spans  # first pixel and the one after the last, for each bin


class _Aligner:
    """What both kernels of roi_align share: from a box to two tables of weights."""

    def __init__(self, code, aligned, kinds):
        self.code, self.aligned = code, aligned
        self.kernel = Kernel(kinds)
        self.fn = self.kernel.fn
        self.type = COMPUTE_TYPE[code]
        self.scalar = LLVM_TYPE[self.type]
        self.memory = MEMORY_TYPE[code]
        self.width = lanes(code)
        self.vector = vector(self.scalar, self.width)
        words = self.kernel.described(descriptions.Regions)
        _, self.rois, self.images, self.channels, self.height, self.width_in, *words = words
        self.rows, self.columns, self.per_chunk, self.samples, *words = words
        self.scratch, self.bin_stride, self.line = words

    def mask(self, left):
        fn = self.fn
        left = fn.splat(left, self.width)
        return fn.pure(f"icmp slt {fn.iota(left.type)}, {left.name}", vector(I1, self.width))

    def number(self, x):
        return convert(self.fn, x, "i64", self.type)

    def element(self, pointer, place):
        at = self.fn.gep(pointer, place, self.memory)
        return load_element(self.fn, at, self.code, 1, "s")

    def box(self, rois, place, scale):
        """(image, start and size down, start and size to the right), in pixels."""
        fn = self.fn
        at = fn.gep(rois, place * 5, self.memory)
        image = convert(fn, self.element(at, 0), self.type, "i64")
        x1, y1, x2, y2 = (self.element(at, k) * scale for k in (1, 2, 3, 4))
        if self.aligned:
            x1, y1, x2, y2 = (side - 0.5 for side in (x1, y1, x2, y2))
        down, right = y2 - y1, x2 - x1
        if not self.aligned:
            one = fn.value(1.0, self.scalar)
            down, right = (fn.select(side < 1.0, one, side) for side in (down, right))
        return image, (y1, down), (x1, right)

    def grid(self, size, bins):
        """Samples of a bin in one direction: given, or about one for each pixel."""
        fn = self.fn
        own = fn.intrinsic("ceil", size / self.number(bins))
        own = fn.select(own >= 0.0, own, fn.value(0.0, self.scalar))
        most = fn.value(float(_MOST_SAMPLES), self.scalar)
        own = convert(fn, fn.select(own < most, own, most), self.type, "i64")
        return fn.select(self.samples > 0, self.samples, own)

    def fill(self, axis, start, size, grid):
        """Write the weights of all bins; (first pixel, the one after the last) of any of them."""
        fn = self.fn
        step = size / self.number(axis.bins)
        first, last = fn.var(axis.size), fn.var(fn.value(0, I64))
        zero = fn.value(0.0, self.scalar)
        with fn.loop(0, axis.bins) as place:
            low, high = fn.var(axis.size), fn.var(fn.value(0, I64))
            with fn.loop(0, axis.size) as n:
                fn.store(zero, fn.gep(axis.table, axis.index(place, n), self.scalar))
            edge = start + self.number(place) * step
            with fn.loop(0, grid) as k:
                at = edge + (self.number(k) + 0.5) * step / self.number(grid)
                with fn.when((at >= -1.0) & (at <= self.number(axis.size))):
                    self._tap(axis, place, at, low, high)
            if axis.spans is not None:
                fn.store(low.get(), fn.gep(axis.spans, place * 2, I64))
                fn.store(high.get(), fn.gep(axis.spans, place * 2 + 1, I64))
            first.set(fn.min(first.get(), low.get()))
            last.set(fn.max(last.get(), high.get()))
        return first.get(), last.get()

    def _tap(self, axis, place, at, low, high):
        """Add the two weights of one sample."""
        fn = self.fn
        at = fn.select(at > 0.0, at, fn.value(0.0, self.scalar))
        left = convert(fn, at, self.type, "i64")
        end = axis.size - 1
        edge = left >= end
        left = fn.select(edge, end, left)
        right = fn.select(edge, end, left + 1)
        at = fn.select(edge, self.number(end), at)
        part = at - self.number(left)
        for pixel, weight in ((left, 1.0 - part), (right, part)):
            cell = fn.gep(axis.table, axis.index(place, pixel), self.scalar)
            fn.store(fn.load(cell, self.scalar) + weight, cell)
        low.set(fn.min(low.get(), left))
        high.set(fn.max(high.get(), right + 1))

    def tables(self, place, transposed):
        """Scratch of this chunk: the axes down and to the right, and lines of pixels after them."""
        fn = self.fn
        base = fn.gep(place, self.kernel.chunk * self.scratch, I8)
        spans = base
        down = fn.gep(base, self.rows * 2, I64)
        right = fn.gep(down, self.rows * self.height, self.scalar)
        lines = fn.gep(right, self.width_in * self.bin_stride, self.scalar)
        y = _Axis(self.rows, self.height, down, lambda bin, n: bin * self.height + n, spans)

        def index(bin, n):
            # forward reads the bins of a pixel side by side, backward the pixels of a bin
            return n * self.bin_stride + bin if transposed else bin * self.line + n

        return y, _Axis(self.columns, self.width_in, right, index, None), lines

    def fma(self, a, b, c):
        return self.fn.intrinsic("fma", a, b, c)

    def spread(self, pointer, place):
        """One number of a table in all lanes."""
        fn = self.fn
        return fn.splat(fn.load(fn.gep(pointer, place, self.scalar), self.scalar), self.width)

    def zeros(self):
        return self.fn.value(0.0, self.vector)

    def rows_summed(self, planes, down, row, span, at, last):
        """For each plane, a register of columns from `at` on, summed over the rows of a bin."""
        fn, mask = self.fn, self.mask(last - at)
        top, bottom = span

        def step(held):
            y, *sums = held
            weight = self.spread(down.table, down.index(row, y))
            found = [y + 1]
            for plane, total in zip(planes, sums, strict=True):
                place = fn.gep(plane, y * self.width_in + at, self.memory)
                value = load_element(fn, place, self.code, self.width, "c", None, mask)
                found.append(self.fma(value, weight, total))
            return found

        return fn.carry(bottom - top, [top] + [self.zeros()] * len(planes), step)[1:]

    def pixels_summed(self, lines, right, column, first, last):
        """For each line, a register of bins from `column` on."""
        fn = self.fn

        def step(held):
            pixel, *sums = held
            place = fn.gep(right.table, right.index(column, pixel), self.scalar)
            weights = fn.load(place, self.vector)
            found = [pixel + 1]
            for k, total in enumerate(sums):
                value = self.spread(lines, self.line * k + pixel - first)
                found.append(self.fma(value, weights, total))
            return found

        return fn.carry(last - first, [first] + [self.zeros()] * TOGETHER, step)[1:]

    def bins_spread(self, g, source, right, at):
        """A register of columns from `at` on: what the gradients of a row of bins give them."""
        fn = self.fn

        def step(held):
            column, total = held
            one = fn.splat(self.element(g, source + column), self.width)
            place = fn.gep(right.table, right.index(column, at), self.scalar)
            return [column + 1, self.fma(one, fn.load(place, self.vector), total)]

        return fn.carry(self.columns, [fn.value(0, I64), self.zeros()], step)[1]


def build_align(code, aligned):
    """Means of bins: (out, input, rois, scratch, scale)."""
    a = _Aligner(code, aligned, "ppppf")
    kernel, fn, w = a.kernel, a.fn, a.width
    out, x, rois, scratch, scale = kernel.arguments
    scale = convert(fn, scale, "f64", a.type)
    down, right, lines = a.tables(scratch, transposed=True)
    begin = kernel.chunk * a.per_chunk
    plane = a.height * a.width_in
    with fn.loop(begin, fn.min(begin + a.per_chunk, a.rois)) as roi:
        image, (y_start, y_size), (x_start, x_size) = a.box(rois, roi, scale)
        good = (image >= 0) & (image < a.images)
        kernel.fail(~good)
        with fn.when(good):
            y_grid, x_grid = a.grid(y_size, a.rows), a.grid(x_size, a.columns)
            a.fill(down, y_start, y_size, y_grid)
            first, last = a.fill(right, x_start, x_size, x_grid)
            count = fn.splat(a.number(fn.max(y_grid * x_grid, 1)), w)
            with fn.loop(0, a.channels, TOGETHER) as c:
                channels = [fn.min(c + k, a.channels - 1) for k in range(TOGETHER)]
                planes = [
                    fn.gep(x, (image * a.channels + one) * plane, a.memory) for one in channels
                ]
                with fn.loop(0, a.rows) as row:
                    top = fn.load(fn.gep(down.spans, row * 2, I64), I64)
                    bottom = fn.load(fn.gep(down.spans, row * 2 + 1, I64), I64)
                    with fn.loop(first, last, w) as at:
                        sums = a.rows_summed(planes, down, row, (top, bottom), at, last)
                        for k, total in enumerate(sums):
                            fn.store(total, fn.gep(lines, a.line * k + at - first, a.scalar))
                    with fn.loop(0, a.columns, w) as column:
                        sums = a.pixels_summed(lines, right, column, first, last)
                        mask = a.mask(a.columns - column)
                        for one, total in zip(channels, sums, strict=True):
                            place = ((roi * a.channels + one) * a.rows + row) * a.columns + column
                            at = fn.gep(out, place, a.memory)
                            store_element(fn, total / count, at, code, w, "c", None, mask)
    return kernel.text()


def build_align_back(code, aligned):
    """The gradient of the input: (grad_input, grad, rois, scratch, scale).

    grad_input is zero before, and of the type that is computed in. Words as build_align, with
    channels of a chunk in place of rois.
    """
    a = _Aligner(code, aligned, "ppppf")
    kernel, fn, w = a.kernel, a.fn, a.width
    target, g, rois, scratch, scale = kernel.arguments
    scale = convert(fn, scale, "f64", a.type)
    down, right, _ = a.tables(scratch, transposed=False)
    begin = kernel.chunk * a.per_chunk
    end = fn.min(begin + a.per_chunk, a.channels)
    with fn.loop(0, a.rois) as roi:
        image, (y_start, y_size), (x_start, x_size) = a.box(rois, roi, scale)
        y_grid, x_grid = a.grid(y_size, a.rows), a.grid(x_size, a.columns)
        a.fill(down, y_start, y_size, y_grid)
        first, last = a.fill(right, x_start, x_size, x_grid)
        count = fn.splat(a.number(fn.max(y_grid * x_grid, 1)), w)
        with fn.loop(begin, end) as c:
            plane = (image * a.channels + c) * a.height * a.width_in
            with fn.loop(0, a.rows) as row:
                top = fn.load(fn.gep(down.spans, row * 2, I64), I64)
                bottom = fn.load(fn.gep(down.spans, row * 2 + 1, I64), I64)
                source = ((roi * a.channels + c) * a.rows + row) * a.columns
                with fn.loop(first, last, w) as at:
                    mask = a.mask(last - at)
                    total = a.bins_spread(g, source, right, at) / count
                    with fn.loop(top, bottom) as y:
                        place = fn.gep(target, plane + y * a.width_in + at, a.scalar)
                        weight = a.spread(down.table, down.index(row, y))
                        old = masked_load(fn, place, a.vector, mask)
                        masked_store(fn, a.fma(total, weight, old), place, mask)
    return kernel.text()


# -- the largest pixel of each bin -----------------------------------------------------------------


def build_pool(code):
    """Largest elements of bins: (out, places, input, rois, scale).

    Places are those of the largest elements in their planes, -1 where a bin is empty.
    """
    kernel = Kernel("ppppf")
    fn, type, memory = kernel.fn, COMPUTE_TYPE[code], MEMORY_TYPE[code]
    scalar = LLVM_TYPE[type]
    out, places, x, rois, scale = kernel.arguments
    scale = convert(fn, scale, "f64", type)
    words = kernel.described(descriptions.Regions)
    _, many, images, channels, height, width, rows, columns, per_chunk, *_ = words

    def element(pointer, place):
        return load_element(fn, fn.gep(pointer, place, memory), code, 1, "s")

    def whole(value):
        """An integer, whatever the coordinate is."""
        far = fn.value(_FAR, scalar)
        value = fn.select(value < far, value, far)
        value = fn.select(value > -_FAR, value, -far)  # nan too
        return convert(fn, value, type, "i64")

    def edges(start, size, bins, place, length):
        """[low, high) of a bin in one direction."""
        step = convert(fn, size, "i64", type) / convert(fn, bins, "i64", type)
        found = []
        for number, rounding in ((place, "floor"), (place + 1, "ceil")):
            edge = fn.intrinsic(rounding, convert(fn, number, "i64", type) * step)
            edge = whole(edge) + start
            found.append(fn.min(fn.max(edge, 0), length))
        return found

    begin = kernel.chunk * per_chunk
    with fn.loop(begin, fn.min(begin + per_chunk, many)) as roi:
        at = fn.gep(rois, roi * 5, memory)
        image = convert(fn, element(at, 0), type, "i64")
        good = (image >= 0) & (image < images)
        kernel.fail(~good)
        with fn.when(good):
            x1, y1, x2, y2 = (
                whole(fn.intrinsic("round", element(at, k) * scale)) for k in (1, 2, 3, 4)
            )
            down, right = fn.max(y2 - y1 + 1, 1), fn.max(x2 - x1 + 1, 1)
            with fn.loop(0, rows) as row, fn.loop(0, columns) as column:
                top, bottom = edges(y1, down, rows, row, height)
                left, end = edges(x1, right, columns, column, width)
                empty = (bottom <= top) | (end <= left)
                lowest = fn.value(-3.4028234663852886e38, scalar)  # of float32, as in C++
                start = fn.select(empty, fn.value(0.0, scalar), lowest)
                with fn.loop(0, channels) as c:
                    plane = fn.gep(x, (image * channels + c) * height * width, memory)
                    best, where = fn.var(start), fn.var(fn.value(-1, I64))
                    with fn.loop(top, bottom) as y, fn.loop(left, end) as k:
                        value = element(plane, y * width + k)
                        with fn.when(value > best.get()):
                            best.set(value)
                            where.set(y * width + k)
                    place = ((roi * channels + c) * rows + row) * columns + column
                    store_element(
                        fn, best.get(), fn.gep(out, place, memory), code, 1, "c", None, None
                    )
                    fn.store(where.get(), fn.gep(places, place, I64))
    return kernel.text()
