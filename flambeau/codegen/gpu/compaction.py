"""What masks keep, on a GPU: a group of threads per chunk, running sums tell where elements go.

Arguments and descriptions are those of templates/compaction.py; starting places of chunks are added
up on the device (`build_running`).
"""

from contextlib import contextmanager

from flambeau.codegen.descriptions_places import Compaction
from flambeau.codegen.gpu.pointwise import divided
from flambeau.codegen.gpu.together import Sums, unsigned
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry
from flambeau.codegen.loops import I1, I32, I64, Module, vector
from flambeau.codegen.templates.compaction import NEGATIVE, _mask
from flambeau.codegen.templates.indexing import MOVES

THREADS = 256
I16 = "i16"
RUNNING = 8  # counts of chunks that a thread adds up
EACH, MANY = 4, 16  # elements side by side that a thread looks at; bytes


class _Part:
    """A kernel whose groups take chunks."""

    def __init__(self, kinds, type=I32):
        self.module = Module()
        self.kernel = kernel = Kernel(self.module, "p" + kinds, THREADS)
        self.fn, self.type = kernel.fn, type
        self.d = Compaction(*[kernel.word(k) for k in range(len(Compaction._fields))])
        self.arguments = [kernel.argument(1 + k) for k in range(len(kinds))]
        self.sums, self.cell = Sums(kernel, type), kernel.private(type)

    def chunks(self):
        return self.fn.loop(self.kernel.group, self.d.chunks, self.kernel.groups)

    def bounds(self, chunk):
        begin = chunk * self.d.per_chunk
        return begin, self.fn.min(begin + self.d.per_chunk, self.d.total)

    def text(self, answers=False):
        self.kernel.done()
        add_host_entry(self.module, self.kernel, lambda fn, word: word(0), answers=answers)
        return module_text(self.module)

    def keep(self, starts, mask, dtype, visit):
        """visit(i, where) for elements that are not zero, where counts those before.

        What is kept of a stretch is listed in shared memory, so neighbours in the list are visited
        by neighbours, however many elements lie between them.
        """
        fn, kernel, cell = self.fn, self.kernel, self.cell
        each = MANY if dtype == "bool" else EACH
        listed = kernel.shared(I16, THREADS * each)
        with self._stretches(starts, mask, dtype, each) as (first, _, here, flags):
            with kernel.threads() as thread:
                found, place = flags.get(thread), cell.get(thread)
                for k in range(each):
                    with fn.when((found & (1 << k)) != 0):
                        at = unsigned(fn, place + _ones(fn, found & ((1 << k) - 1)))
                        own = fn.convert("trunc", thread * each + k, I16)
                        fn.store(own, fn.gep(listed, at, I16))
            kept = unsigned(fn, self.sums.whole())
            with kernel.threads() as thread, fn.loop(thread, kept, THREADS) as n:
                at = unsigned(fn, fn.load(fn.gep(listed, n, I16), I16))
                visit(first + at, here + n)

    def number(self, starts, mask, visit):
        """visit(i, how many elements up to i are not zero) for all elements of a mask."""
        fn, kernel, cell = self.fn, self.kernel, self.cell
        with (
            self._stretches(starts, mask, "bool", EACH) as (first, end, here, flags),
            kernel.threads() as thread,
        ):
            found, i = flags.get(thread), first + thread * EACH
            where = unsigned(fn, cell.get(thread)) + here
            for k in range(EACH):
                with fn.when(i + k < end):
                    visit(i + k, where + unsigned(fn, _ones(fn, found & ((2 << k) - 1))))

    @contextmanager
    def _stretches(self, starts, mask, dtype, each):
        """(first element, end of the chunk, what was kept before, flags of threads) of stretches.

        A thread has `each` elements of a stretch; its cell says how many are kept before them.
        """
        fn, kernel, cell = self.fn, self.kernel, self.cell
        flags = kernel.private(I32)
        place = fn.pure(f"ptrtoint {mask} to i64", I64)
        words = (place & (each - 1)) == 0 if dtype == "bool" else None
        with self.chunks() as chunk:
            begin, end = self.bounds(chunk)
            at = fn.var(fn.load(fn.gep(starts, chunk, I64), I64, 8))
            with fn.loop(begin, end, THREADS * each) as first:
                with kernel.threads(last=True) as thread:
                    found = self._flags(mask, dtype, first + thread * each, end, words, each)
                    flags.set(thread, found)
                    cell.set(thread, _ones(fn, found))
                self.sums.run(cell)
                here = at.get()
                kept = unsigned(fn, self.sums.whole())
                yield first, end, here, flags
                at.set(here + kept)

    def _flags(self, mask, dtype, i, end, words, each):
        """A bit for each of a few elements that is there and is not zero."""
        fn = self.fn

        def one_by_one():
            found = fn.var(fn.value(0, I32))
            for k in range(each):
                with fn.when(i + k < end):
                    bit = unsigned(fn, _mask(fn, mask, dtype, i + k, 1), I32)
                    found.set(found.get() | (bit << k))
            return found.get()

        def together():
            # bytes that are 0 or 1; the product has their bits side by side at its top
            count, found = each // 4, fn.value(0, I32)
            loaded = fn.load(fn.gep(mask, i, "i8"), vector(I32, count), each)
            for k in range(count):
                four = (fn.extract(loaded, k) * 0x01020408) >> 24
                found = found | (four << (4 * k))
            return found

        if words is None:
            return one_by_one()
        return fn.if_else(words & (i + each <= end), together, one_by_one)

    def place(self, starts, amount, visit):
        """visit(i, where) for elements with an amount that is not 0; amounts before add up.

        amount(i): of an element. starts: where each chunk begins.
        """
        fn, kernel, cell, type = self.fn, self.kernel, self.cell, self.type
        width = THREADS * EACH
        with self.chunks() as chunk:
            begin, end = self.bounds(chunk)
            at = fn.var(fn.load(fn.gep(starts, chunk, I64), I64, 8))
            with fn.loop(begin, end, width) as first:
                with kernel.threads(last=True) as thread:
                    own = fn.var(fn.value(0, type))
                    for k in range(EACH):
                        with fn.when(first + thread * EACH + k < end):
                            own.set(own.get() + amount(first + thread * EACH + k))
                    cell.set(thread, own.get())
                self.sums.run(cell)
                here = at.get()
                with kernel.threads() as thread:
                    where = fn.var(_wide(fn, cell.get(thread)) + here)
                    for k in range(EACH):
                        i = first + thread * EACH + k
                        with fn.when(i < end):
                            many = amount(i)
                            with fn.when(many != 0):
                                visit(i, where.get())
                                where.set(where.get() + _wide(fn, many))
                at.set(here + _wide(fn, self.sums.whole()))


def _ones(fn, word):
    return fn.call("llvm.ctpop.i32", I32, word)


def _wide(fn, value):
    return value if value.type == I64 else unsigned(fn, value)


def build_count(dtype):
    """(elements, counts) of one chunk, whose count is the answer."""
    return _counting(dtype, True)


def build_counts(dtype):
    """(elements, counts) of any number of chunks."""
    return _counting(dtype, False)


def _counting(dtype, answers):
    part = _Part("pp")
    fn, kernel, (source, counts) = part.fn, part.kernel, part.arguments
    with part.chunks() as chunk:
        begin, end = part.bounds(chunk)
        with kernel.threads(last=True) as thread:
            own, rest = fn.var(fn.value(0, I32)), fn.var(begin)
            if dtype == "bool":
                rest.set(_count_words(part, source, begin, end, thread, own))
            with fn.loop(rest.get() + thread, end, THREADS) as i:
                own.set(own.get() + unsigned(fn, _mask(fn, source, dtype, i, 1), I32))
            part.cell.set(thread, own.get())
        part.sums.run(part.cell)
        with kernel.threads() as thread, fn.when(thread == 0):
            place = kernel.status if answers else fn.gep(counts, chunk, I64)
            fn.store(unsigned(fn, part.sums.whole()), place, 8)
    return part.text(answers)


def _count_words(part, source, begin, end, thread, own):
    """Eight booleans at a time, where they are aligned; gives where the rest begins."""
    fn = part.fn
    at = fn.gep(source, begin, "i8")
    aligned = (fn.pure(f"ptrtoint {at} to i64", I64) & 7) == 0
    words = fn.select(aligned, (end - begin) / 8, fn.value(0, I64))
    with fn.loop(thread, words, THREADS) as k:
        word = fn.load(fn.gep(at, k, I64), I64, 8)
        own.set(own.get() + fn.convert("trunc", fn.intrinsic("ctpop", word), I32))
    return begin + words * 8


def build_running():
    """From counts of chunks to where each begins, and the sum of all behind: (starts)."""
    part = _Part("p", I64)
    fn, kernel, (starts,) = part.fn, part.kernel, part.arguments
    before, count = fn.var(fn.value(0, I64)), part.d.chunks

    def here(first, thread, k):
        return first + thread * RUNNING + k

    with fn.loop(0, count, THREADS * RUNNING) as first:
        with kernel.threads(last=True) as thread:
            own = fn.var(fn.value(0, I64))
            for k in range(RUNNING):
                with fn.when(here(first, thread, k) < count):
                    at = fn.gep(starts, here(first, thread, k), I64)
                    own.set(own.get() + fn.load(at, I64, 8))
            part.cell.set(thread, own.get())
        part.sums.run(part.cell)
        done = before.get()
        with kernel.threads() as thread:
            sum = fn.var(part.cell.get(thread) + done)
            for k in range(RUNNING):
                with fn.when(here(first, thread, k) < count):
                    at = fn.gep(starts, here(first, thread, k), I64)
                    mine = fn.load(at, I64, 8)
                    fn.store(sum.get(), at, 8)
                    sum.set(sum.get() + mine)
        before.set(done + part.sums.whole())
    with kernel.threads(last=True) as thread, fn.when(thread == 0):
        fn.store(before.get(), fn.gep(starts, count, I64), 8)
    kernel.done()
    add_host_entry(part.module, kernel, lambda fn, word: fn.value(1, I64))
    return module_text(part.module)


def build_select(size):
    """(elements, mask, starts, result)"""
    part = _Part("ppbp")
    fn, (source, mask, starts, result) = part.fn, part.arguments
    type = MOVES[f"b{size}"]

    def visit(i, at):
        fn.store(fn.load(fn.gep(source, i, type), type), fn.gep(result, at, type))

    part.keep(starts, mask, "bool", visit)
    return part.text()


def build_scatter(size):
    """(target, mask, starts, source)"""
    part = _Part("ppbp")
    fn, (target, mask, starts, source) = part.fn, part.arguments
    type = MOVES[f"b{size}"]

    def visit(i, at):
        fn.store(fn.load(fn.gep(source, at, type), type), fn.gep(target, i, type))

    part.keep(starts, mask, "bool", visit)
    return part.text()


def build_nonzero(dtype):
    """(elements, starts, result); the description goes on with rank and sizes."""
    part = _Part("pbp")
    fn, kernel, (source, starts, result) = part.fn, part.kernel, part.arguments
    first = len(Compaction._fields)
    rank, total = kernel.word(first), fn.load(fn.gep(starts, part.d.chunks, I64), I64, 8)

    def visit(i, at):
        rest = fn.var(i)
        with fn.loop(0, rank - 1) as n:
            k = rank - 1 - n
            size = kernel.word(k + (first + 1))
            quotient = divided(fn, rest.get(), size)
            fn.store(rest.get() - quotient * size, fn.gep(result, k * total + at, I64))
            rest.set(quotient)
        with fn.when(rank > 0):
            fn.store(rest.get(), fn.gep(result, at, I64))

    part.keep(starts, source, dtype, visit)
    return part.text()


def build_sum_repeats():
    """(repeats, sums)"""
    part = _Part("pp", I64)
    fn, kernel, (repeats, sums) = part.fn, part.kernel, part.arguments
    wrong = kernel.shared(I64, 1)
    with part.chunks() as chunk:
        begin, end = part.bounds(chunk)
        with kernel.threads() as thread, fn.when(thread == 0):
            fn.store(fn.value(0, I64), wrong)
        with kernel.threads() as thread:
            own, low = fn.var(fn.value(0, I64)), fn.var(fn.value(False, I1))
            with fn.loop(begin + thread, end, THREADS) as i:
                value = fn.load(fn.gep(repeats, i, I64), I64, 8)
                own.set(own.get() + value)
                low.set(low.get() | (value < 0))
            part.cell.set(thread, own.get())
            with fn.when(low.get()):
                fn.store(fn.value(1, I64), wrong)
        part.sums.run(part.cell)
        with kernel.threads() as thread, fn.when(thread == 0):
            bad = fn.load(wrong, I64) != 0
            total = fn.select(bad, fn.value(NEGATIVE, I64), part.sums.whole())
            fn.if_else(
                part.d.chunks == 1,
                lambda: fn.store(total, kernel.status, 8),
                lambda: fn.store(total, fn.gep(sums, chunk, I64), 8),
            )
    return part.text(answers=True)


def build_repeats():
    """(repeats, starts, result)"""
    part = _Part("pbp", I64)
    fn, (repeats, starts, result) = part.fn, part.arguments

    def visit(i, at):
        many = fn.load(fn.gep(repeats, i, I64), I64, 8)
        with fn.loop(at, at + many) as j:
            fn.store(i, fn.gep(result, j, I64))

    part.place(starts, lambda i: fn.load(fn.gep(repeats, i, I64), I64, 8), visit)
    return part.text()


def build_numbers(placed):
    """The number of the last element up to each that a mask keeps: (mask, starts, places, out).

    placed: does element i go to places[i] of the result?
    """
    part = _Part("pbpp")
    fn, (mask, starts, places, out) = part.fn, part.arguments

    def visit(i, sum):
        place = fn.load(fn.gep(places, i, I64), I64) if placed else i
        fn.store(sum - 1, fn.gep(out, place, I64))

    part.number(starts, mask, visit)
    return part.text()
