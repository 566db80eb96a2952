"""Embeddings: rows of a table by number, sums of rows by bag, and the way back.

Looking up copies whole rows. The gradient of a table is the converse: for each of its rows, the sum
of the gradients of all places that used it. A first, short kernel links those places (each row
knows the first of its places, each place the next one); then every chunk makes a range of rows,
one after the other, from zeros or from a walk along the links. So the gradient is written once,
nothing of its size is needed besides, and the order of additions does not depend on threads.
"""

from flambeau.codegen import descriptions
from flambeau.codegen.llvm import (
    convert,
    load_element,
    masked_store,
    store_element,
)
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I1, I8, I64, bytes_of, vector
from flambeau.codegen.target import current
from flambeau.codegen.templates.sorting import Kernel

AT_ONCE = 8  # vectors of a row that are summed in one walk
AHEAD, LINES, LINE = 8, 8, 64  # rows that are asked for early, how many lines of them, their bytes
OUT_OF_RANGE, BAD_OFFSETS = 1, 2  # what kernels report


def lanes(code):
    """Elements per register, in the type they are computed in."""
    return current().vector_bytes // bytes_of(LLVM_TYPE[COMPUTE_TYPE[code]])


def place_at(fn, base, i, code):
    return convert(
        fn, load_element(fn, fn.gep(base, i, MEMORY_TYPE[code]), code, 1, "c"), code, "i64"
    )


def _at(fn, base, column, code, access, stride):
    if access == "c":
        return fn.gep(base, column, MEMORY_TYPE[code])
    return base if access == "s" else fn.gep(base, column * stride, "i8")


def _prefetch(fn, pointer, lines):
    """Ask for the first lines of a row that will be read soon."""
    facts = [fn.value(k, "i32") for k in (0, 3, 1)]  # a read, of data that is needed again
    for k in range(lines):
        fn.call("llvm.prefetch.p0", "void", fn.gep(pointer, k * LINE, I8), *facts)


def each_part(fn, length, width, run):
    """run(column, vectors, mask) over a row: several vectors at once, one, a part of one."""
    wide = width * AT_ONCE
    most = (length / wide) * wide
    with fn.loop(0, most, wide) as column:
        run(column, AT_ONCE, None)
    whole = (length / width) * width
    with fn.loop(most, whole, width) as column:
        run(column, 1, None)
    if width > 1:
        with fn.when(whole < length):
            left = fn.splat(length - whole, width)
            run(whole, 1, fn.pure(f"icmp slt {fn.iota(left.type)}, {left.name}", vector(I1, width)))


def build_lookup(size, index):
    """Copy rows of elements of `size` bytes: (out, table, index)."""
    kernel = Kernel("ppp")
    fn, (out, table, places) = kernel.fn, kernel.arguments
    _, count, length, stride, rows, per_chunk = kernel.described(descriptions.Lookup)
    begin = kernel.chunk * per_chunk
    w = current().vector_bytes
    unit = f"i{8 * size}"
    whole = (length / w) * w
    with fn.loop(begin, fn.min(begin + per_chunk, count)) as i:
        row = place_at(fn, places, i, index)
        inside = row.below(rows)
        kernel.fail(~inside, OUT_OF_RANGE)
        soon = place_at(fn, places, fn.min(i + AHEAD, count - 1), index)
        _prefetch(fn, fn.gep(table, soon * stride, I8), LINES)
        with fn.when(inside):
            source, goal = fn.gep(table, row * stride, I8), fn.gep(out, i * length, I8)
            with fn.loop(0, whole, w) as at:
                fn.store(fn.load(fn.gep(source, at, I8), vector(I8, w)), fn.gep(goal, at, I8))

            def last():  # the last whole vector again, as far as the end
                at = length - w
                fn.store(fn.load(fn.gep(source, at, I8), vector(I8, w)), fn.gep(goal, at, I8))

            def short():
                with fn.loop(0, length, size) as at:
                    fn.store(fn.load(fn.gep(source, at, I8), unit), fn.gep(goal, at, I8))

            with fn.when(whole < length):
                fn.if_else(length >= w, last, short)
    return kernel.text()


def build_ones_at():
    """Rows of zeros with a one at a place: (out, places), all 64-bit integers."""
    kernel = Kernel("pp")
    fn, (out, places) = kernel.fn, kernel.arguments
    _, rows, columns, per_chunk = kernel.described(descriptions.Rows)
    begin, w = kernel.chunk * per_chunk, current().vector_bytes // 8
    end = fn.min(begin + per_chunk, rows)
    zero, last = fn.value(0, vector(I64, w)), end * columns
    whole = begin * columns + ((last - begin * columns) / w) * w
    with fn.loop(begin * columns, whole, w) as i:
        fn.store(zero, fn.gep(out, i, I64))
    with fn.loop(whole, last) as i:
        fn.store(fn.value(0, I64), fn.gep(out, i, I64))
    with fn.loop(begin, end) as row:
        place = fn.load(fn.gep(places, row, I64), I64)
        inside = place.below(columns)
        kernel.fail(~inside, OUT_OF_RANGE)
        with fn.when(inside):
            fn.store(fn.value(1, I64), fn.gep(out, row * columns + place, I64))
    return kernel.text()


def build_links(index, link):
    """Link the places that use a row: (firsts, nexts, index); -1 ends a chain.

    Chains go from the first place to the last.
    """
    kernel = Kernel("ppp")
    fn, (firsts, nexts, places) = kernel.fn, kernel.arguments
    _, count, rows, padding = kernel.described(descriptions.Links)
    w = current().vector_bytes // bytes_of(link)
    none = fn.value(-1, vector(link, w))
    whole = (rows / w) * w
    with fn.loop(0, whole, w) as row:
        fn.store(none, fn.gep(firsts, row, link))
    with fn.loop(whole, rows) as row:
        fn.store(fn.value(-1, link), fn.gep(firsts, row, link))
    with fn.loop(0, count) as k:
        i = count - 1 - k
        row = place_at(fn, places, i, index)
        inside = row.below(rows)
        kernel.fail(~inside, OUT_OF_RANGE)
        with fn.when(inside & (row != padding)):
            first = fn.gep(firsts, row, link)
            fn.store(fn.load(first, link), fn.gep(nexts, i, link))
            fn.store(fn.convert("trunc", i, link), first)
    return kernel.text()


def build_linked_sum(code, access, link, bags, factors, averaged):
    """Rows of sums along links: (out, gradient, firsts, nexts, bags, factors).

    access: how a row of the gradient lies (c, s or n); bags: does place i stand for row bags[i] of
    the gradient (else row i)? factors: dtype name of a number per place, or ""; averaged: divide by
    how many places a row has?
    """
    kernel = Kernel("pppppp")
    fn, (out, gradient, firsts, nexts, bag_of, factor_of) = kernel.fn, kernel.arguments
    _, rows, columns, per_chunk, stride, step = kernel.described(descriptions.LinkedSums)
    type, w = COMPUTE_TYPE[code], lanes(code)
    lane_type = vector(LLVM_TYPE[type], w)
    zero = fn.value(0.0, lane_type)
    begin = kernel.chunk * per_chunk

    def follow(first, visit):
        """visit(place) from the first place of a row to its last."""
        place = fn.var(first)
        with fn.while_(lambda: place.get() >= 0):
            i = place.get()
            visit(i)
            following = fn.load(fn.gep(nexts, i, link), link)
            place.set(fn.convert("sext", following, I64))

    with fn.loop(begin, fn.min(begin + per_chunk, rows)) as row:
        first = fn.convert("sext", fn.load(fn.gep(firsts, row, link), link), I64)
        goal = fn.gep(out, row * columns, MEMORY_TYPE[code])
        if access == "c" and not bags:
            soon = fn.load(fn.gep(firsts, fn.min(row + AHEAD, rows - 1), link), link)
            soon = fn.convert("sext", fn.max(soon, 0), I64)
            _prefetch(fn, fn.gep(gradient, soon * stride, "i8"), LINES)

        def put(value, column, mask):
            at = fn.gep(goal, column, MEMORY_TYPE[code])
            store_element(fn, value, at, code, w, "c", None, mask)

        def empty(column, vectors, mask):
            for k in range(vectors):
                put(zero, column + k * w, mask)

        def used():
            share = None
            if averaged:
                count = fn.var(fn.value(0, I64))
                follow(first, lambda i: count.set(count.get() + 1))
                total = fn.convert("sitofp", count.get(), LLVM_TYPE[type])
                share = fn.splat(fn.value(1.0, LLVM_TYPE[type]) / total, w)

            def some(column, vectors, mask):
                sums = [fn.var(zero) for _ in range(vectors)]

                def visit(i):
                    source = i
                    if bags:
                        source = fn.load(fn.gep(bag_of, i, I64), I64)
                    base = fn.gep(gradient, source * stride, "i8")
                    if factors:
                        at = fn.gep(factor_of, i, MEMORY_TYPE[factors])
                        factor = fn.splat(load_element(fn, at, factors, 1, "c"), w)
                    for k, cell in enumerate(sums):
                        at = _at(fn, base, column + k * w, code, access, step)
                        value = load_element(fn, at, code, w, access, step, mask)
                        cell.set(cell.get() + (value * factor if factors else value))

                follow(first, visit)
                for k, cell in enumerate(sums):
                    value = cell.get() if share is None else cell.get() * share
                    put(value, column + k * w, mask)

            each_part(fn, columns, w, some)

        fn.if_else(first >= 0, used, lambda: each_part(fn, columns, w, empty))
    return kernel.text()


class _Bags:
    """The walk over bags that sums and maxima share.

    Arguments: (out, table, index, offsets, extra, bag of each place, size of each bag).
    """

    def __init__(self, code, index, listed, skips):
        self.kernel = kernel = Kernel("ppppppp")
        self.fn, self.code, self.index = kernel.fn, code, index
        self.has_offsets, self.skips = listed, skips
        self.out, self.table, self.places, self.offsets, self.extra = kernel.arguments[:5]
        self.bag_of, self.sizes = kernel.arguments[5:]
        _, self.bags, self.count, self.columns, *words = kernel.described(descriptions.Bags)
        self.per_chunk, self.stride, self.rows, self.padding, self.listed = words

    def bounds(self, bag):
        fn, following = self.fn, bag + 1
        if not self.has_offsets:
            return bag * self.listed, following * self.listed
        end = fn.if_else(
            following < self.listed,
            lambda: place_at(fn, self.offsets, following, self.index),
            lambda: self.count + 0,
        )
        return place_at(fn, self.offsets, bag, self.index), end

    def each(self, visit):
        """visit(bag, begin, end, size) for the bags of this chunk, if their places are right."""
        fn, kernel = self.fn, self.kernel
        low = kernel.chunk * self.per_chunk
        with fn.loop(low, fn.min(low + self.per_chunk, self.bags)) as bag:
            begin, end = self.bounds(bag)
            good = fn.var((begin >= 0) & (begin <= end) & (end <= self.count))
            size = fn.var(fn.value(0, I64))
            kernel.fail(~good.get(), BAD_OFFSETS)
            with fn.when(good.get()):
                with fn.loop(begin, end) as i:
                    row = place_at(fn, self.places, i, self.index)
                    good.set(good.get() & row.below(self.rows))
                    counted = fn.convert("zext", row != self.padding, I64) if self.skips else 1
                    size.set(size.get() + counted)
                    fn.store(bag, fn.gep(self.bag_of, i, I64))
                kernel.fail(~good.get(), OUT_OF_RANGE)
                fn.store(size.get(), fn.gep(self.sizes, bag, I64))
            with fn.when(good.get()):
                visit(bag, begin, end, size.get())

    def members(self, begin, end, visit):
        """visit(place, row) for the members of a bag that are not padding."""
        fn = self.fn
        with fn.loop(begin, end) as i:
            row = place_at(fn, self.places, i, self.index)
            if not self.skips:
                visit(i, row)
            else:
                with fn.when(row != self.padding):
                    visit(i, row)

    def load(self, row, column, width, mask):
        fn = self.fn
        base = fn.gep(self.table, row * self.stride, "i8")
        at = fn.gep(base, column, MEMORY_TYPE[self.code])
        return load_element(fn, at, self.code, width, "c", None, mask)


def build_bag_sum(code, index, listed, skips, averaged, weighted):
    """Sums of rows by bag (see _Bags); extra: a weight per place, or nothing.

    listed: are there offsets? skips: is there a row to leave out?
    """
    walk = _Bags(code, index, listed, skips)
    fn, w, type = walk.fn, lanes(code), COMPUTE_TYPE[code]
    zero = fn.value(0.0, vector(LLVM_TYPE[type], w))

    def visit(bag, begin, end, size):
        share = None
        if averaged:
            share = fn.splat(fn.convert("sitofp", fn.max(size, 1), LLVM_TYPE[type]), w)
        goal = fn.gep(walk.out, bag * walk.columns, MEMORY_TYPE[code])

        def some(column, vectors, mask):
            sums = [fn.var(zero) for _ in range(vectors)]

            def add(i, row):
                factor = None
                if weighted:
                    at = fn.gep(walk.extra, i, MEMORY_TYPE[code])
                    factor = fn.splat(load_element(fn, at, code, 1, "c"), w)
                for k, cell in enumerate(sums):
                    value = walk.load(row, column + k * w, w, mask)
                    cell.set(cell.get() + (value if factor is None else value * factor))

            walk.members(begin, end, add)
            for k, cell in enumerate(sums):
                value = cell.get() if share is None else cell.get() / share
                at = fn.gep(goal, column + k * w, MEMORY_TYPE[code])
                store_element(fn, value, at, code, w, "c", None, mask)

        each_part(fn, walk.columns, w, some)

    walk.each(visit)
    return walk.kernel.text()


def build_bag_max(code, index, listed, skips):
    """The largest of the rows of a bag, by column (see _Bags); extra: whose they are."""
    walk = _Bags(code, index, listed, skips)
    fn, w, type = walk.fn, current().vector_bytes // 8, COMPUTE_TYPE[code]
    zero = fn.value(0.0, vector(LLVM_TYPE[type], w))

    def visit(bag, begin, end, size):
        start = bag * walk.columns
        whole = (walk.columns / w) * w

        def some(column, mask):
            best, whose = fn.var(zero), fn.var(fn.value(0, vector(I64, w)))
            fresh = fn.var(fn.value(True, I1))

            def take(i, row):
                value = walk.load(row, column, w, mask)
                better = (value > best.get()) | fn.splat(fresh.get(), w)
                best.set(fn.select(better, value, best.get()))
                whose.set(fn.select(better, fn.splat(row, w), whose.get()))
                fresh.set(fn.value(False, I1))

            walk.members(begin, end, take)
            at = fn.gep(walk.out, start + column, MEMORY_TYPE[code])
            store_element(fn, best.get(), at, code, w, "c", None, mask)
            masked_store(fn, whose.get(), fn.gep(walk.extra, start + column, I64), mask)

        with fn.loop(0, whole, w) as column:
            some(column, None)
        with fn.when(whole < walk.columns):
            left = fn.splat(walk.columns - whole, w)
            some(whole, fn.pure(f"icmp slt {fn.iota(left.type)}, {left.name}", vector(I1, w)))

    walk.each(visit)
    return walk.kernel.text()


def build_bag_dots(code, index):
    """Gradients of weights per place: (out, gradient, table, index, bags).

    The product of the gradient of a place's bag with the place's row.
    """
    kernel = Kernel("ppppp")
    fn, (out, gradient, table, places, bag_of) = kernel.fn, kernel.arguments
    _, count, columns, per_chunk, stride, padding = kernel.described(descriptions.BagDots)
    type, w = COMPUTE_TYPE[code], lanes(code)
    begin = kernel.chunk * per_chunk
    with fn.loop(begin, fn.min(begin + per_chunk, count)) as i:
        row = place_at(fn, places, i, index)
        total = fn.var(fn.value(0.0, vector(LLVM_TYPE[type], w)))
        with fn.when(row != padding):
            bag = fn.load(fn.gep(bag_of, i, I64), I64)
            left = fn.gep(gradient, bag * columns, MEMORY_TYPE[code])
            right = fn.gep(table, row * stride, "i8")

            def some(column, vectors, mask):
                for k in range(vectors):
                    a, b = (
                        load_element(
                            fn,
                            fn.gep(base, column + k * w, MEMORY_TYPE[code]),
                            code,
                            w,
                            "c",
                            None,
                            mask,
                        )
                        for base in (left, right)
                    )
                    total.set(total.get() + a * b)

            each_part(fn, columns, w, some)
        store_element(
            fn, _across(fn, total.get(), w), fn.gep(out, i, MEMORY_TYPE[code]), code, 1, "c"
        )
    return kernel.text()


def _across(fn, value, width):
    """The sum of the lanes, halves onto halves."""
    while width > 1:
        width //= 2
        if width == 1:
            return fn.extract(value, 0) + fn.extract(value, 1)
        low, high = range(width), range(width, 2 * width)
        value = fn.shuffle(value, None, low) + fn.shuffle(value, None, high)
    return value
