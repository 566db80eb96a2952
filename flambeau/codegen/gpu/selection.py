"""Selecting from rows on a GPU: a group of threads narrows a row down, digit by digit.

From the first digit of the keys (see templates/sorting.py) to the last it is counted how many of
the elements that share the digits known so far have which next one; so the k-th smallest key is
known after as many passes over the row as keys have bytes. Of equal keys the first come first.
"""

from flambeau.codegen.descriptions_places import BestParts, RankedRows
from flambeau.codegen.gpu.together import Sums, on_gpu, raised, raised_to, unsigned
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry
from flambeau.codegen.loops import I32, I64, Module, bytes_of
from flambeau.codegen.templates.sorting import (
    FLOAT_INFINITY,
    flip_of,
    key_type,
    order_key,
)

THREADS = 256
DIGITS, BITS = 256, 8
LATEST = (1 << 32) - 1  # places are counted down from here


class _Selecting:
    """A kernel whose groups take rows, or parts of them."""

    def __init__(self, dtype, kinds, description):
        self.dtype, self.key, self.module = dtype, key_type(dtype), Module()
        words = len(description._fields)
        self.kernel = kernel = Kernel(self.module, "p" + kinds, THREADS, words=words)
        self.fn = kernel.fn
        self.d = description(*[kernel.word(k) for k in range(words)])
        self.arguments = [kernel.argument(1 + k) for k in range(len(kinds))]
        self.counts = kernel.shared(I32, DIGITS)
        self.found = kernel.shared(I64, 2)  # the chosen digit, and how many come before it
        self.sums, self.cell = Sums(kernel), kernel.private(I32)
        self.flip = None

    def key_at(self, source, at):
        """A key as i64, so that digits and prefixes are alike for all."""
        fn = self.fn
        raw = fn.load(fn.gep(source, at, self.key), self.key)
        return unsigned(fn, order_key(fn, raw, self.dtype, self.flip))

    def narrow_down(self, source, low, high, rank):
        """(the key of a rank among elements low to high, how many equal ones come before it)."""
        fn, kernel = self.fn, self.kernel
        known, left = fn.var(fn.value(0, I64)), fn.var(rank)
        top = 8 * bytes_of(self.key) - BITS
        with fn.loop(0, top + BITS, BITS) as step:
            shift, prefix, wanted = fn.value(top, I64) - step, known.get(), left.get()
            self._count(source, low, high, shift, prefix)
            with kernel.threads(last=True) as thread:
                self.cell.set(thread, fn.load(fn.gep(self.counts, thread, I32), I32))
            self.sums.run(self.cell)
            with kernel.threads() as thread:
                before = unsigned(fn, self.cell.get(thread))
                here = unsigned(fn, fn.load(fn.gep(self.counts, thread, I32), I32))
                with fn.when((before <= wanted) & (wanted < before + here)):
                    fn.store(thread, self.found)
                    fn.store(before, fn.gep(self.found, 1, I64))
            known.set((prefix << BITS) | fn.load(self.found, I64))
            left.set(wanted - fn.load(fn.gep(self.found, 1, I64), I64))
            self.meet()
        return known.get(), left.get()

    def meet(self):
        """All threads have read what is shared."""
        if on_gpu():
            self.kernel.barrier()

    def _count(self, source, low, high, shift, prefix):
        """How often each digit occurs among keys with a prefix."""
        fn, kernel = self.fn, self.kernel
        with kernel.threads() as thread:
            fn.store(fn.value(0, I32), fn.gep(self.counts, thread, I32))
        with kernel.threads() as thread, fn.loop(low + thread, high, THREADS) as at:
            rest = self.key_at(source, at) >> shift
            # (a shift by all 64 bits has no meaning: two steps)
            with fn.when((rest >> BITS) == prefix):
                raised(fn, fn.gep(self.counts, rest & (DIGITS - 1), I32), fn.value(1, I32))

    def keep(self, source, low, high, threshold, equal, visit):
        """visit(at, number) for keys below a threshold, and for so many that equal it, in order."""
        fn, kernel = self.fn, self.kernel
        ties = kernel.private(I32)
        kept, tied = fn.var(fn.value(0, I64)), fn.var(fn.value(0, I64))
        with fn.loop(low, high, THREADS) as first:
            with kernel.threads(last=True) as thread:
                key = self.key_at(source, fn.min(first + thread, high - 1))
                inside = first + thread < high
                below, same = key.below(threshold) & inside, (key == threshold) & inside
                self.cell.set(thread, unsigned(fn, below, I32))
                ties.set(thread, unsigned(fn, same, I32))
            own, mine = kernel.private(I32), kernel.private(I32)
            with kernel.threads(last=True) as thread:
                own.set(thread, self.cell.get(thread))
                mine.set(thread, ties.get(thread))
            before, after = kept.get(), tied.get()
            self.sums.run(self.cell)
            more = unsigned(fn, self.sums.whole())
            self.meet()
            self.sums.run(ties)
            again = unsigned(fn, self.sums.whole())
            with kernel.threads() as thread:
                # places: those below in order, then those that are equal
                with fn.when(own.get(thread) != 0):
                    visit(first + thread, before + unsigned(fn, self.cell.get(thread)))
                number = after + unsigned(fn, ties.get(thread))
                with fn.when((mine.get(thread) != 0) & (number < equal)):
                    visit(first + thread, number - equal)
            kept.set(before + more)
            tied.set(after + again)

    def text(self, grid):
        self.kernel.done()
        add_host_entry(self.module, self.kernel, grid)
        return module_text(self.module)


def build_select_rows(dtype):
    """The k-th smallest of each row: (values, indices, source, nothing)."""
    s = _Selecting(dtype, "pppp", RankedRows)
    fn, kernel, d = s.fn, s.kernel, s.d
    values, indices, source, _ = s.arguments
    s.flip = flip_of(fn, fn.value(0, I64), dtype, 1)
    with fn.loop(kernel.group, d.rows, kernel.groups) as row:
        low = row * d.length
        high, rank = low + d.length, fn.var(d.rank)
        if dtype in FLOAT_INFINITY:
            _without_nans(s, source, low, high, rank)
        threshold, before = s.narrow_down(source, low, high, rank.get())

        def visit(at, number, row=row, low=low, before=before):
            with fn.when(number == -1):  # the last of those that are equal
                raw = fn.load(fn.gep(source, at, s.key), s.key)
                fn.store(raw, fn.gep(values, row, s.key))
                fn.store(at - low, fn.gep(indices, row, I64))

        s.keep(source, low, high, threshold, before + 1, visit)
    return s.text(lambda fn, word: word(1))


def _without_nans(s, source, low, high, rank):
    """Rules about nans: 1: the first one wins; 2: they play no part."""
    fn, kernel, d = s.fn, s.kernel, s.d
    nan = fn.value((1 << 8 * bytes_of(s.key)) - 1 if s.key != I64 else -1, I64)
    with fn.when(d.rule != 0):
        with kernel.threads(last=True) as thread:
            count = fn.var(fn.value(0, I32))
            with fn.loop(low + thread, high, THREADS) as at:
                count.set(count.get() + unsigned(fn, s.key_at(source, at) == nan, I32))
            s.cell.set(thread, count.get())
        s.sums.run(s.cell)
        nans = unsigned(fn, s.sums.whole())
        s.meet()
        with fn.when((d.rule == 1) & (nans > 0)):
            rank.set(d.length - nans)
        with fn.when(d.rule == 2):
            rank.set(fn.max(d.length - nans - 1, 0) / 2)


def build_best_parts(dtype):
    """The k first of each part of each row, in no order: (values, indices, source).

    Equal ones stand in the order of the row. The last part of a row has what is left of it.
    """
    s = _Selecting(dtype, "ppp", BestParts)
    fn, kernel, d = s.fn, s.kernel, s.d
    values, indices, source = s.arguments
    s.flip = flip_of(fn, d.flip, dtype, 1)
    with fn.loop(kernel.group, d.rows * d.parts, kernel.groups) as item:
        row = item / d.parts
        number, start = item - row * d.parts, row * d.length
        low = start + number * d.part
        high = fn.select(number == d.parts - 1, start + d.length, low + d.part)
        threshold, before = s.narrow_down(source, low, high, d.k - 1)

        def visit(at, place, item=item, start=start):
            to = item * d.k + fn.select(place < 0, place + d.k, place)
            raw = fn.load(fn.gep(source, at, s.key), s.key)
            fn.store(raw, fn.gep(values, to, s.key))
            fn.store(at - start, fn.gep(indices, to, I64))

        s.keep(source, low, high, threshold, before + 1, visit)
    return s.text(lambda fn, word: word(1) * word(3))


def build_pick(dtype):
    """The k-th of rows that are sorted: (values, indices, sorted values, where they were)."""
    s = _Selecting(dtype, "pppp", RankedRows)
    fn, kernel, d = s.fn, s.kernel, s.d
    values, indices, source, places = s.arguments
    s.flip = flip_of(fn, fn.value(0, I64), dtype, 1)
    first, step = kernel.group * THREADS, kernel.groups * THREADS
    with kernel.threads(last=True) as thread, fn.loop(first + thread, d.rows, step) as row:
        start, rank = row * d.length, fn.var(d.rank)
        if dtype in FLOAT_INFINITY:
            numbers = _numbers_in(s, source, start)
            with fn.when((d.rule == 1) & (numbers < d.length)):
                rank.set(numbers)
            with fn.when(d.rule == 2):
                rank.set(fn.max(numbers - 1, 0) / 2)
        at = start + rank.get()
        fn.store(fn.load(fn.gep(source, at, s.key), s.key), fn.gep(values, row, s.key))
        fn.store(fn.load(fn.gep(places, at, I64), I64), fn.gep(indices, row, I64))
    return s.text(lambda fn, word: (word(1) + (THREADS - 1)) / THREADS)


def _numbers_in(s, source, start):
    """How many elements of a sorted row are not nan."""
    fn = s.fn
    low, high = fn.var(fn.value(0, I64)), fn.var(s.d.length)
    nan = fn.value((1 << 8 * bytes_of(s.key)) - 1 if s.key != I64 else -1, I64)
    with fn.while_(lambda: low.get() < high.get()):
        middle = (low.get() + high.get()) >> 1
        is_number = s.key_at(source, start + middle) != nan
        begin, end = low.get(), high.get()
        low.set(fn.select(is_number, middle + 1, begin))
        high.set(fn.select(is_number, end, middle))
    return low.get()


def build_modes(dtype):
    """The most frequent of rows that are sorted, as build_pick; the smallest of several, and where
    it is last.
    """
    s = _Selecting(dtype, "pppp", RankedRows)
    fn, kernel, d = s.fn, s.kernel, s.d
    values, indices, source, places = s.arguments
    s.flip = flip_of(fn, fn.value(0, I64), dtype, 1)
    best = kernel.shared(I64, 1)
    with fn.loop(kernel.group, d.rows, kernel.groups) as row:
        start = row * d.length
        with kernel.threads() as thread, fn.when(thread == 0):
            fn.store(fn.value(0, I64), best)
        with kernel.threads() as thread, fn.loop(thread, d.length, THREADS) as i:
            key = s.key_at(source, start + i)
            after = s.key_at(source, start + fn.min(i + 1, d.length - 1))
            with fn.when((after != key) | (i == d.length - 1)):  # the last of a run
                length = i + 1 - _first_equal(s, source, start, key, i)
                # the longest; of several, the one that ends first
                raised_to(fn, best, (length << 32) | (fn.value(LATEST, I64) - i))
        with kernel.threads() as thread, fn.when(thread == 0):
            at = start + (fn.value(LATEST, I64) - (fn.load(best, I64) & LATEST))
            fn.store(fn.load(fn.gep(source, at, s.key), s.key), fn.gep(values, row, s.key))
            fn.store(fn.load(fn.gep(places, at, I64), I64), fn.gep(indices, row, I64))
    return s.text(lambda fn, word: word(1))


def _first_equal(s, source, start, key, last):
    """Where a key stands first in a sorted row."""
    fn = s.fn
    low, high = fn.var(fn.value(0, I64)), fn.var(last)
    with fn.while_(lambda: low.get() < high.get()):
        middle = (low.get() + high.get()) >> 1
        less = s.key_at(source, start + middle).below(key)
        begin, end = low.get(), high.get()
        low.set(fn.select(less, middle + 1, begin))
        high.set(fn.select(less, end, middle))
    return low.get()
