"""Sorts of rows on GPUs: which kernels of codegen/gpu/radix.py, and the memory between them.

Gradients of tables are sums over places that were sorted by the row they name.
"""

from flambeau import _dtype as d
from flambeau._layout import dense_layout
from flambeau._tensor import alias, empty_like_layout
from flambeau.codegen.descriptions import Links, SortedSums
from flambeau.codegen.descriptions_places import BestParts, RadixRows, SortedRows
from flambeau.eager.copying import copy_into, filled
from flambeau.eager.rows import address, vector_layout
from flambeau.runtime.cpu import packed

RANKED = 64  # elements of rows whose elements are sent to their rank
# facts of codegen/gpu/radix.py
THREADS, DIGITS, TILE, RING = 256, 256, 4096, 3
ITEMS = (2, 4, 8, 16)  # of a thread, for rows that fit into a tile
PART, GROUPS = 1 << 14, 2048  # elements of a row that are selected from at once, and by how many
FEW = 32  # rows that do not keep a GPU busy, a group of threads each
BUSY, SHARE = 1 << 21, 1 << 15  # elements that keep all of a GPU busy; that a group counts then
MOST = 1 << 30  # elements of a row, whose counts are published


class Sorts:
    """What a GPU does to sort rows that lie side by side."""

    def __init__(self, runtime):
        self.runtime = runtime

    def _kernel(self, name, *facts):
        return self.runtime.kernel(f"sort_{name}", f"radix:build_{name}", *facts)

    def sort(self, values, indices, source, rows, n, descending):
        """Sort rows of one tensor into others; False if that is for others to do."""
        dtype, device = source._layout.dtype, source._layout.device
        places = address(values), address(indices), address(source)
        return self.run(*places, rows, n, dtype, device, descending)

    def best(self, values, indices, source, rows, n, k, largest):
        """The k first of each row, in order; False where that is for a sort of all."""
        dtype, device = source._layout.dtype, source._layout.device
        if n <= TILE:
            places = address(values), address(indices), address(source)
            return self.run(*places, rows, n, dtype, device, largest, kept=k)
        if k > TILE or k * 8 > n:
            return False
        parts = max(1, min(n // max(PART, 4 * k), GROUPS // rows))
        found = self._best_parts(source, rows, n, parts, k, dtype, largest)
        if parts > 1:  # the best of the best
            again = [empty_like_layout(t._layout) for t in (values, indices)]
            whole = alias(found[0], dense_layout((rows, parts * k), dtype, device), 0)
            self.best(*again, whole, rows, parts * k, k, largest)
            copy_into(values, again[0])
        else:
            again = values, empty_like_layout(indices._layout)
            places = map(address, (*again, found[0]))
            self.run(*places, rows, k, dtype, device, largest)
        each = dense_layout((rows, parts * k), d.int64, device)
        chosen = alias(again[1], dense_layout((rows, k), d.int64, device), 0)
        copy_into(indices, alias(found[1], each, 0).gather(1, chosen).reshape(indices.shape))
        return True

    def _best_parts(self, source, rows, n, parts, k, dtype, largest):
        """(values, indices) of the k first of each part of each row, in no order."""
        device = source._layout.device
        found = [
            empty_like_layout(vector_layout(rows * parts * k, t, device)) for t in (dtype, d.int64)
        ]
        words = packed(BestParts(1, rows, n, parts, n // parts, k, -1 if largest else 0))
        kernel = self.runtime.kernel("topk", "selection:build_best_parts", dtype.code)
        kernel(words, *map(address, (*found, source)))
        return found

    def keys_alone(self, n, dtype):
        """Can rows be sorted without indices? Keys of floats do not tell all zeros and NaNs."""
        return n > TILE and dtype.category < 2

    def run(
        self, values, indices, source, rows, n, dtype, device, descending=False, bits=None,
        narrow=False, kept=None,
    ):  # fmt: skip
        """Sort rows at addresses. bits: keys have no more; narrow: are indices 32 bits?

        None: nobody asks for them (of rows that `keys_alone` says so).
        """
        code, flip = dtype.code, -1 if descending else 0
        passes = -(-(bits or 8 * dtype.itemsize) // 8)
        if n <= TILE:
            words = packed(SortedRows(1, rows, n, n if kept is None else kept, flip))
            if n <= RANKED:
                kernel = self._kernel("ranks", code, narrow)
            else:
                items = next(i for i in ITEMS if i * THREADS >= n)
                kernel = self._kernel("tiles", code, items, passes, narrow)
            kernel(words, values, indices, source)
            return True
        items = ITEMS[-1] if rows * n > BUSY else ITEMS[1]
        tiles = -(-n // (items * THREADS))
        if n >= MOST or rows * tiles >= 1 << 20 or rows * n >= 1 << 31:
            return False
        self._long(values, indices, source, rows, n, dtype, device, flip, passes, narrow, items)
        return True

    def _long(self, values, indices, source, rows, n, dtype, device, flip, passes, narrow, items):
        code, size, tiles = dtype.code, dtype.itemsize, -(-n // (items * THREADS))
        share = SHARE if rows * n > BUSY else TILE
        whole, counted = rows * n, rows * passes * DIGITS
        keys, others = -(-2 * whole * size // 16) * 16, 8 * whole
        if narrow is None:
            keys, others = whole * size, 0
        memory = empty_like_layout(vector_layout(keys + others, d.uint8, device))
        idle = rows * passes
        cleared = counted + idle + passes + min(passes, RING) * rows * tiles * DIGITS
        table = filled(vector_layout(cleared, d.int32, device), 0)
        counts, buffer = address(table), address(memory)
        flags = counts + 4 * counted
        tickets = flags + 4 * idle
        published = tickets + 4 * passes

        def words(turn):
            return packed(RadixRows(1, rows, n, tiles, flip, passes, turn, share))

        self._kernel("counts", code, passes)(words(0), counts, source)
        self._kernel("starts")(words(0), counts, flags)
        turn = self._kernel("pass", code, items, narrow)
        between = source, buffer, buffer + keys, counts, flags, published, tickets
        for p in range(passes):
            turn(words(p), values, indices, *between)

    # -- one of each row ---------------------------------------------------------------------------

    def pick(self, name, layout, words):
        """A kernel for one element of each row of a layout, by sorting them; None if rows are short
        or many: a group of threads each does it.
        """
        _, rows, n, *_ = words
        if name == "select_rows" and (n < PART or rows > FEW):
            return None
        dtype, device = layout.dtype, layout.device
        build = "selection:build_pick" if name == "select_rows" else "selection:build_modes"
        pick = self.runtime.kernel(name, build, dtype.code)

        def run(words, values, indices, source, room):
            found = [
                empty_like_layout(vector_layout(rows * n, t, device)) for t in (dtype, d.int64)
            ]
            places = [address(t) for t in found]
            self.run(*places, source, rows, n, dtype, device)
            pick(words, values, indices, *places)

        return run

    # -- gradients of tables -----------------------------------------------------------------------

    def table_sums(self, dtype, padding, facts, words):
        """A function of (device, addresses) that sums what belongs to each row of a table.

        facts: those of codegen/gpu/embedding.py:build_sorted_sum; words: of a SortedSums.
        """
        rows, _, places, *_ = words
        mark = self.runtime.kernel("embedding_gradient", "embedding:build_firsts", dtype.code)
        add = self.runtime.kernel("embedding_gradient", "embedding:build_sorted_sum", *facts)
        links, sums = packed(Links(1, places, rows, padding)), packed(SortedSums(1, *words))
        bits = rows.bit_length()

        def run(device, out, grad, indices, bags, factors, room):
            firsts = filled(vector_layout(rows, d.int32, device), -1)
            keys = empty_like_layout(vector_layout(places, dtype, device))
            order = empty_like_layout(vector_layout(places, d.int32, device))
            first, key, place = address(firsts), address(keys), address(order)
            if places:
                given = 1, places, dtype, device
                self.run(key, place, indices, *given, bits=bits, narrow=True)
                mark(links, first, key)
            add(sums, out, grad, first, key, place, bags, factors)

        return run

    def taken(self, layout, facts, taps, words):
        """A kernel for the gradient of an image that was sampled (codegen/gpu/grid_sampling.py)."""
        device, kernel, name = layout.device, self.runtime.kernel, "grid_image_gradient"
        find, take = (kernel(name, f"grid_sampling:build_{n}", *facts) for n in ("taps", "taken"))
        mark = kernel(name, "embedding:build_firsts", "i32")
        pixels = layout.sizes[0] * words.width * words.height * words.depth
        count = layout.sizes[0] * words.places * taps
        if max(pixels, count) >= MOST:
            raise RuntimeError("grid_sampler_backward: there are too many pixels or places")
        links, weight = packed(Links(1, count, pixels + 1, pixels)), layout.dtype

        def run(words, target, grad, grid):
            firsts = filled(vector_layout(pixels + 1, d.int32, device), -1)
            lists = [
                empty_like_layout(vector_layout(count, t, device))
                for t in (d.int32, d.int32, d.int32, weight)
            ]
            first, keys, sorted_keys, order, weights = map(address, (firsts, *lists))
            find(words, keys, weights, grid)
            bits = pixels.bit_length()
            self.run(sorted_keys, order, keys, 1, count, d.int32, device, bits=bits, narrow=True)
            mark(links, first, sorted_keys)
            take(words, target, grad, first, sorted_keys, order, weights)

        return run
