"""Sorting rows on a GPU, by the digits of their keys from the least significant to the first.

Keys are those of templates/sorting.py; what travels with a key is its position (32 bits). A group
of threads ranks a tile of a row in shared memory: a warp counts its digits in order, so equal keys
keep theirs. Rows of at most a tile are sorted there and then (`build_tiles`), very short ones by
rank (`build_ranks`). Longer rows take a launch per digit (`build_pass`): each tile adds up the
counts of the tiles before it, which these publish as soon as they know them, so keys are read and
written once per digit. Digits that are the same for all of a row are passed over; whether they are
is known on the GPU only, so every launch works out for itself where its keys lie.
"""

from flambeau.codegen.descriptions_places import RadixRows, SortedRows
from flambeau.codegen.gpu.pointwise import divided
from flambeau.codegen.gpu.teams import WARP
from flambeau.codegen.gpu.together import Sums, counted_up, on_gpu, raised, told, unsigned, watched
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry
from flambeau.codegen.loops import I1, I32, I64, Module, bytes_of
from flambeau.codegen.templates.sorting import flip_of, key_type, key_value, order_key

THREADS = 256
DIGITS = 256
BITS = 8
KNOWN, SUMMED = 1 << 30, 2 << 30  # marks of published counts: of a tile, of all up to it
WARPS = THREADS // WARP
RING = 3  # passes whose counts have a place; each clears that of the next
RESIDENT = 2  # groups on a multiprocessor; for more, too many registers would be kept in memory


def _index_type(narrow):
    """None: nobody asks for indices."""
    return None if narrow is None else I32 if narrow else I64


class _Sorting:
    """A kernel that reads keys of rows and writes values and indices."""

    def __init__(self, dtype, kinds, description, narrow=False, resident=None):
        self.dtype, self.key, self.module = dtype, key_type(dtype), Module()
        words = len(description._fields)
        self.kernel = kernel = Kernel(
            self.module, "p" + kinds, THREADS, words=words, resident=resident
        )
        self.fn = kernel.fn
        self.d = description(*[kernel.word(k) for k in range(words)])
        self.flip = flip_of(self.fn, self.d.flip, dtype, 1)
        self.index = _index_type(narrow)

    def key_of(self, source, at):
        fn = self.fn
        raw = fn.load(fn.gep(source, at, self.key), self.key)
        return order_key(fn, raw, self.dtype, self.flip)

    def missing(self):
        """The key of what fills up a tile: it goes to its end."""
        return self.fn.value(-1, self.key)

    def digit(self, key, shift):
        """A digit of a key as i32; shift: bits below it."""
        fn = self.fn
        wide = key if self.key == I64 else unsigned(fn, key)
        return fn.convert("trunc", (wide >> shift) & (DIGITS - 1), I32)

    def put(self, values, indices, at, key, place, source, start):
        """Write a key as the value it was, and its position."""
        fn = self.fn
        raw, lost = key_value(fn, key, self.dtype, self.flip)
        if lost is not None:  # zeros and nans are looked up

            def look_up():
                return fn.load(fn.gep(source, start + unsigned(fn, place), self.key), self.key)

            raw = fn.if_else(lost, look_up, lambda: raw)
        fn.store(raw, fn.gep(values, at, self.key))
        if self.index is None:
            return
        index = place if self.index == I32 else unsigned(fn, place)
        fn.store(index, fn.gep(indices, at, self.index))

    def text(self, grid):
        self.kernel.done()
        add_host_entry(self.module, self.kernel, grid)
        return module_text(self.module)


# -- very short rows -------------------------------------------------------------------------------


def build_ranks(dtype, narrow):
    """Each element goes to its rank: (values, indices, source)."""
    s = _Sorting(dtype, "ppp", SortedRows, narrow)
    fn, kernel, d = s.fn, s.kernel, s.d
    values, indices, source = (kernel.argument(1 + k) for k in range(3))
    first = kernel.group * THREADS
    with (
        kernel.threads(last=True) as thread,
        fn.loop(first + thread, d.rows * d.length, kernel.groups * THREADS) as at,
    ):
        row = divided(fn, at, d.length)
        start = row * d.length
        place = at - start
        mine, rank = s.key_of(source, at), fn.var(fn.value(0, I64))
        with fn.loop(0, d.length) as k:
            other = s.key_of(source, start + k)
            less = other.below(mine) | ((other == mine) & (k < place))
            rank.set(rank.get() + unsigned(fn, less))
        with fn.when(rank.get() < d.per_chunk):
            to = row * d.per_chunk + rank.get()
            s.put(values, indices, to, mine, fn.convert("trunc", place, I32), source, start)
    return s.text(lambda fn, word: (word(1) * word(2) + (THREADS - 1)) / THREADS)


# -- rows in shared memory -------------------------------------------------------------------------


class _Tile:
    """What a group ranks: `items` keys of each thread, side by side by warps."""

    def __init__(self, sorting, items):
        self.s, self.kernel, self.fn, self.items = sorting, sorting.kernel, sorting.fn, items
        kernel = self.kernel
        self.keys = kernel.private(sorting.key, items)
        self.places = kernel.private(I32, items)
        self.ranks = kernel.private(I32, items)
        self.own = kernel.private(I32)  # count of a digit, then what lies before it in the tile
        self.counts = kernel.shared(I32, WARPS * DIGITS)
        self.starts = kernel.shared(I32, DIGITS)
        self.room = kernel.shared(sorting.key, THREADS * items)
        self.moved = kernel.shared(I32, THREADS * items) if bytes_of(sorting.key) < 4 else self.room
        self.sums = Sums(kernel)

    def at(self, thread, k):
        """Where item k of a thread lies in the tile."""
        return (thread / WARP) * (WARP * self.items) + k * WARP + thread % WARP

    def clear(self):
        fn = self.fn
        with self.kernel.threads() as thread:
            for w in range(WARPS):
                fn.store(fn.value(0, I32), fn.gep(self.counts, thread + w * DIGITS, I32))

    def rank(self, shift):
        """Count digits; ranks are those among the keys of the same warp and digit."""
        fn = self.fn
        for k in range(self.items):
            with self.kernel.threads(last=True) as thread:
                table = fn.gep(self.counts, (thread / WARP) * DIGITS, I32)
                digit = self.s.digit(self.keys.get(thread, k), shift)
                self.ranks.set(thread, counted_up(fn, table, digit, BITS), k)
        if on_gpu():
            self.kernel.barrier()

    def add_up(self):
        """Counts of warps become what lies before them; the thread of a digit knows its count."""
        fn = self.fn
        with self.kernel.threads(last=True) as thread:
            total = fn.value(0, I32)
            for w in range(WARPS):
                slot = fn.gep(self.counts, thread + w * DIGITS, I32)
                here = fn.load(slot, I32)
                fn.store(total, slot)
                total = total + here
            self.own.set(thread, total)

    def find_starts(self):
        """Where digits start in the tile."""
        fn = self.fn
        self.sums.run(self.own)
        with self.kernel.threads() as thread:
            fn.store(self.own.get(thread), fn.gep(self.starts, thread, I32))

    def settle(self, shift):
        """Ranks in the tile."""
        fn = self.fn
        with self.kernel.threads(last=True) as thread:
            for k in range(self.items):
                digit = unsigned(fn, self.s.digit(self.keys.get(thread, k), shift))
                warp = fn.gep(self.counts, (thread / WARP) * DIGITS + digit, I32)
                start = fn.load(fn.gep(self.starts, digit, I32), I32)
                self.ranks.set(thread, self.ranks.get(thread, k) + fn.load(warp, I32) + start, k)

    def exchange(self, cells, room, type, at):
        """Send what threads have to its rank, and take what lies at their places."""
        fn, kernel = self.fn, self.kernel
        with kernel.threads() as thread:
            for k in range(self.items):
                rank = unsigned(fn, self.ranks.get(thread, k))
                fn.store(cells.get(thread, k), fn.gep(room, rank, type))
        with kernel.threads() as thread:
            for k in range(self.items):
                cells.set(thread, fn.load(fn.gep(room, at(thread, k), type), type), k)


def build_tiles(dtype, items, passes, narrow):
    """Rows of at most a tile: (values, indices, source); per_chunk: how many of each are kept."""
    s = _Sorting(dtype, "ppp", SortedRows, narrow, RESIDENT)
    fn, kernel, d = s.fn, s.kernel, s.d
    values, indices, source = (kernel.argument(1 + k) for k in range(3))
    tile, uneven = _Tile(s, items), kernel.shared(I32, 1)
    extra = fn.convert("trunc", fn.value(THREADS * items, I64) - d.length, I32)
    with fn.loop(kernel.group, d.rows, kernel.groups) as row:
        start = row * d.length
        with kernel.threads() as thread:
            for k in range(items):
                at = tile.at(thread, k)
                key = fn.if_else(
                    at < d.length, lambda at=at: s.key_of(source, start + at), s.missing
                )
                tile.keys.set(thread, key, k)
                tile.places.set(thread, fn.convert("trunc", at, I32), k)
        with fn.loop(0, passes * BITS, BITS) as shift:
            tile.clear()
            tile.rank(shift)
            with kernel.threads() as thread, fn.when(thread == 0):
                fn.store(fn.value(1, I32), uneven)
            tile.add_up()
            with kernel.threads() as thread:
                # (what fills up the tile has the last digit, and lies at its end)
                over = fn.select(thread == DIGITS - 1, extra, fn.value(0, I32))
                held = unsigned(fn, tile.own.get(thread) - over)
                with fn.when(held == d.length):
                    fn.store(fn.value(0, I32), uneven)
            with fn.when(fn.load(uneven, I32) != 0):
                tile.find_starts()
                tile.settle(shift)
                if on_gpu():
                    kernel.barrier()
                tile.exchange(tile.keys, tile.room, s.key, tile.at)
                tile.exchange(tile.places, tile.moved, I32, tile.at)
        with kernel.threads() as thread:
            for k in range(items):
                at = tile.at(thread, k)
                with fn.when(at < d.per_chunk):
                    key, place = tile.keys.get(thread, k), tile.places.get(thread, k)
                    s.put(values, indices, row * d.per_chunk + at, key, place, source, start)
    return s.text(lambda fn, word: word(1))


# -- long rows -------------------------------------------------------------------------------------


def build_counts(dtype, passes):
    """How often each digit occurs in each row: (counts, source)."""
    s = _Sorting(dtype, "pp", RadixRows)
    fn, kernel, d = s.fn, s.kernel, s.d
    counts, source = kernel.argument(1), kernel.argument(2)
    table = kernel.shared(I32, passes * DIGITS)
    parts = (d.length + d.share - 1) / d.share
    with fn.loop(kernel.group, d.rows * parts, kernel.groups) as item:
        row = divided(fn, item, parts)
        low = (item - row * parts) * d.share
        high, start = fn.min(low + d.share, d.length), row * d.length
        with kernel.threads() as thread:
            for p in range(passes):
                fn.store(fn.value(0, I32), fn.gep(table, thread + p * DIGITS, I32))
        with kernel.threads() as thread, fn.loop(low + thread, high, THREADS) as at:
            key = s.key_of(source, start + at)
            for p in range(passes):
                digit = unsigned(fn, s.digit(key, p * BITS)) + p * DIGITS
                raised(fn, fn.gep(table, digit, I32), fn.value(1, I32))
        with kernel.threads() as thread:
            for p in range(passes):
                at = thread + p * DIGITS
                found = fn.load(fn.gep(table, at, I32), I32)
                with fn.when(found != 0):
                    raised(fn, fn.gep(counts, row * (passes * DIGITS) + at, I32), found)

    def grid(fn, word):
        d = RadixRows(*[word(k) for k in range(len(RadixRows._fields))])
        return d.rows * ((d.length + d.share - 1) / d.share)

    return s.text(grid)


def build_starts():
    """From counts to where digits start; which passes leave all as it is: (counts, idle).

    A group per row and pass.
    """
    module = Module()
    kernel = Kernel(module, "ppp", THREADS, words=len(RadixRows._fields))
    fn, d = kernel.fn, RadixRows(*[kernel.word(k) for k in range(len(RadixRows._fields))])
    counts, idle = kernel.argument(1), kernel.argument(2)
    sums, cell = Sums(kernel), kernel.private(I32)
    with fn.loop(kernel.group, d.rows * d.passes, kernel.groups) as item:
        with kernel.threads() as thread:
            count = fn.load(fn.gep(counts, item * DIGITS + thread, I32), I32)
            cell.set(thread, count)
            with fn.when(unsigned(fn, count) == d.length):
                fn.store(fn.value(1, I32), fn.gep(idle, item, I32))
        sums.run(cell)
        with kernel.threads() as thread:
            fn.store(cell.get(thread), fn.gep(counts, item * DIGITS + thread, I32))
    kernel.done()
    add_host_entry(module, kernel, lambda fn, word: word(1) * word(5))
    return module_text(module)


def build_pass(dtype, items, narrow):
    """One digit: (values, indices, source, keys, places, counts, idle, published, tickets).

    keys and places are pairs of buffers, one after the other. items: keys of a thread. narrow:
    None if nobody asks for indices; then keys are one buffer, values the other, and no places.
    """
    return _Pass(dtype, items, narrow).write()


class _Pass(_Sorting):
    def __init__(self, dtype, items, narrow):
        super().__init__(dtype, "p" * 9, RadixRows, narrow, RESIDENT)
        names = "values indices source buffer positions counts idle published tickets"
        for k, name in enumerate(names.split()):
            setattr(self, name, self.kernel.argument(1 + k))
        self.tile = _Tile(self, items)
        self.base = self.kernel.shared(I32, DIGITS)  # from ranks in the tile to those in the row
        self.ticket = self.kernel.shared(I64, 1)
        self.shift = self.d.turn * BITS

    def write(self):
        fn, kernel, d = self.fn, self.kernel, self.d
        with kernel.threads() as thread, fn.when(thread == 0):
            # tiles are numbered in the order in which groups start: those before run already
            mine = raised(fn, fn.gep(self.tickets, d.turn, I32), fn.value(1, I32))
            fn.store(unsigned(fn, mine), self.ticket)
        number = fn.load(self.ticket, I64)
        row = divided(fn, number, d.tiles)
        self.clear_next(row, number - row * d.tiles)
        self.find_turn(row)
        with fn.when(self.runs.get()):
            self.sort_tile(row, number - row * d.tiles)
        return self.text(lambda fn, word: word(1) * word(3))

    def find_turn(self, row):
        """Does this pass have anything to do, which comes before it, is there one after it?"""
        fn, d = self.fn, self.d
        before, after = fn.var(fn.value(0, I64)), fn.var(fn.value(0, I64))
        self.runs = runs = fn.var(fn.value(False, I1))
        with fn.loop(0, d.passes) as p:
            works = fn.load(fn.gep(self.idle, row * d.passes + p, I32), I32) == 0
            one = unsigned(fn, works)
            before.set(before.get() + fn.select(p < d.turn, one, fn.value(0, I64)))
            after.set(after.get() + fn.select(p > d.turn, one, fn.value(0, I64)))
            runs.set(runs.get() | (works & (p == d.turn)))
        none = (before.get() + after.get() == 0) & (d.turn == d.passes - 1)
        runs.set(runs.get() | none)
        self.first, self.last = before.get() == 0, after.get() == 0
        whole = d.rows * d.length
        if self.index is None:  # the last but one writes to the buffer, so that none is overwritten
            aside = (after.get() & 1) != 0
            keys = fn.select(aside, self.buffer, self.values)
            self.keys_to, self.keys_from = keys, fn.select(aside, self.values, self.buffer)
            return
        here = before.get() & 1  # the first writes to the first buffer
        self.to, self.from_ = here * whole, (1 - here) * whole
        self.keys_to = fn.gep(self.buffer, self.to, self.key)
        self.keys_from = fn.gep(self.buffer, self.from_, self.key)

    def sort_tile(self, row, number):
        fn, kernel, d, tile = self.fn, self.kernel, self.d, self.tile
        size = THREADS * tile.items
        start, base = row * d.length, number * size
        count = fn.min(d.length - base, size)
        tile.clear()
        self.load_keys(start + base, count)
        tile.rank(self.shift)
        tile.add_up()
        total = kernel.private(I32)
        with kernel.threads(last=True) as thread:
            total.set(thread, tile.own.get(thread))
            mark = fn.select(number == 0, fn.value(0, I32), fn.value(KNOWN, I32))
            with fn.when(number != 0):
                told(fn, total.get(thread) | mark, self.slot(row, number, thread))
        tile.find_starts()
        tile.settle(self.shift)
        with kernel.threads() as thread:
            before = self.look_back(row, number, thread)
            told(fn, (before + total.get(thread)) | SUMMED_WORD, self.slot(row, number, thread))
            table = fn.gep(self.counts, (row * d.passes + d.turn) * DIGITS, I32)
            first = fn.load(fn.gep(table, thread, I32), I32)
            fn.store(first + before - tile.own.get(thread), fn.gep(self.base, thread, I32))
        self.send(start, start + base, base, count)

    def slot(self, row, number, digit, turn=0):
        """Where a tile publishes a digit's count: of this pass, or of a later one."""
        d = self.d
        turn = (d.turn + turn) % self.fn.min(d.passes, RING)
        place = ((turn * d.rows + row) * d.tiles + number) * DIGITS + digit
        return self.fn.gep(self.published, place, I32)

    def clear_next(self, row, number):
        """What the next pass publishes lies where an earlier one published."""
        fn = self.fn
        with self.kernel.threads(last=True) as thread, fn.when(self.d.passes > RING):
            fn.store(fn.value(0, I32), self.slot(row, number, thread, 1))

    def load_keys(self, base, count):
        fn, tile = self.fn, self.tile

        def load(read):
            def write():
                with self.kernel.threads(last=True) as thread:
                    for k in range(self.tile.items):
                        at = tile.at(thread, k)
                        key = fn.if_else(at < count, lambda at=at: read(base + at), self.missing)
                        tile.keys.set(thread, key, k)

            return write

        def held(at):
            return fn.load(fn.gep(self.keys_from, at, self.key), self.key)

        fn.if_else(self.first, load(lambda at: self.key_of(self.source, at)), load(held))

    def look_back(self, row, number, digit):
        """How often a digit occurs in the tiles of the row before this one."""
        fn = self.fn
        total, at = fn.var(fn.value(0, I32)), fn.var(number - 1)
        with fn.while_(lambda: at.get() >= 0):
            found = watched(fn, self.slot(row, at.get(), digit), I32)
            with fn.when(found != 0):  # else it is not known yet
                total.set(total.get() + (found & (KNOWN - 1)))
                is_sum = found < 0
                at.set(fn.select(is_sum, fn.value(-1, I64), at.get() - 1))
        return total.get()

    def send(self, start, from_, base, count):
        """Keys and positions to where they belong, neighbours in a digit side by side."""
        fn, kernel, tile = self.fn, self.kernel, self.tile

        def at(thread, k):
            return thread + k * THREADS

        if self.index is not None:
            self.load_places(from_, base, count)
        tile.exchange(tile.keys, tile.room, self.key, at)
        if self.index is not None:
            tile.exchange(tile.places, tile.moved, I32, at)
        with kernel.threads(last=True) as thread:
            for k in range(self.tile.items):
                with fn.when(at(thread, k) < count):
                    self.put_one(thread, k, at(thread, k), start)

    def load_places(self, from_, base, count):
        fn, tile = self.fn, self.tile
        with self.kernel.threads(last=True) as thread:
            for k in range(self.tile.items):
                place = tile.at(thread, k)

                def held(place=place):
                    where = self.from_ + from_ + fn.min(place, count - 1)
                    return fn.load(fn.gep(self.positions, where, I32), I32)

                def own(place=place):
                    return fn.convert("trunc", base + place, I32)

                tile.places.set(thread, fn.if_else(self.first, own, held), k)

    def put_one(self, thread, k, rank, start):
        fn, tile = self.fn, self.tile
        key = tile.keys.get(thread, k)
        place = None if self.index is None else tile.places.get(thread, k)
        digit = unsigned(fn, self.digit(key, self.shift))
        shift = fn.load(fn.gep(self.base, digit, I32), I32)
        to = start + unsigned(fn, shift + fn.convert("trunc", rank, I32))

        def on():
            fn.store(key, fn.gep(self.keys_to, to, self.key))
            if place is not None:
                fn.store(place, fn.gep(self.positions, self.to + to, I32))

        def out():
            self.put(self.values, self.indices, to, key, place, self.source, start)

        fn.if_else(self.last, out, on)


SUMMED_WORD = SUMMED - (1 << 32)  # as a signed word
