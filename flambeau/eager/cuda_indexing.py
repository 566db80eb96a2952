"""Walks that write through indices on GPUs: who writes what, so that results never depend on luck.

Where no element can be written twice, and where the order makes no difference, threads go their
ways. Else a thread takes a column, if there are many short ones; or places are sorted first, and
everything that goes to one place is left to one thread; many single elements claim their place
before one is written. Many single floats are the exception: they are added in any order, unless
`use_deterministic_algorithms` asks for the same bits in every run, which takes 2.6 times as long.
Then they are added as integers.
"""

from math import prod

from flambeau import _dtype as d
from flambeau._tensor import empty_like_layout
from flambeau.codegen.descriptions_places import Counted
from flambeau.eager.copying import filled
from flambeau.eager.index_plans import describe, facts_of
from flambeau.eager.rows import address, vector_layout
from flambeau.runtime.cpu import packed
from flambeau.runtime.switches import switches

COLUMNS, SHORT = 8192, 64  # so many columns, no longer than this, are a thread's each
MANY, MOST = 1 << 15, 1 << 31  # terms that are added as integers
SORTED = 1 << 30  # places cannot be sorted
CLAIMED, NEAR = 1 << 12, 1 << 22  # elements that claim their places; claims that caches hold
SIZE, FRACTION = 4, 24  # bytes of a float, bits of its fraction
ANY_ORDER = ("max", "min")
LOOSE = (d.float32, d.float64)  # whose additions GPUs have an instruction for


def _extent(layout):
    """Elements from the first of a layout to its last."""
    return 1 + sum([(n - 1) * s for n, s in zip(layout.sizes, layout.strides)])


def _are_many(layout, lengths, strides, least):
    """Are there so many elements, with an index each, that they should not be sorted?"""
    points, one_each = prod(lengths), any(s[-1] for s in strides[2:])
    return one_each and least <= points < MOST and _extent(layout) <= 4 * points


def _can_claim(layout, lengths, strides):
    return _are_many(layout, lengths, strides, CLAIMED) and _extent(layout) <= NEAR


class Walks:
    """What a GPU does for walks that write."""

    def __init__(self, runtime):
        self.runtime = runtime

    def plan(self, mode, layout, lengths, strides, safe, sizes, steps, wraps):
        """(kernel, description); arguments as in eager/index_plans.py, dimensions merged."""
        again = prod([n for n, s in zip(lengths, safe) if not s])
        name, dtype = "walk", layout.dtype
        alike = mode == "set" and not any(strides[1])
        exact = mode in ANY_ORDER or (mode != "set" and dtype.category < d.FLOATING)
        if again > 1 and not alike:
            if exact:
                name = "shared_walk"
            elif safe.count(False) == 1 and again <= SHORT and prod(lengths) >= COLUMNS * again:
                name, k = "columns", safe.index(False)
                order = [*range(k), *range(k + 1, len(lengths)), k]
                lengths = [lengths[n] for n in order]
                strides = [[s[n] for n in order] for s in strides]
            elif mode == "set" and _can_claim(layout, lengths, strides):
                return self._claimed(layout, lengths, strides, sizes, steps, wraps)
            elif mode == "add" and dtype in LOOSE and _are_many(layout, lengths, strides, MANY):
                return self._loose(layout, lengths, strides, sizes, steps, wraps)
            else:
                return self._sorted(mode, layout, lengths, strides, sizes, steps, wraps)
        facts = facts_of(mode, layout, strides, wraps)
        kernel = self.runtime.kernel("indexed_" + mode, f"indexing:build_{name}", *facts)
        return kernel, describe(lengths, strides, safe, layout.itemsize, sizes, steps)

    def _loose(self, *given):
        """Sums in any order, or in a way that does not depend on it, as switches say."""
        layout, lengths, strides, sizes, steps, wraps = given
        facts, safe = facts_of("add", layout, strides, wraps), [True] * len(lengths)
        quick = self.runtime.kernel("indexed_add", "indexing:build_shared_walk", *facts)
        words = describe(lengths, strides, safe, layout.itemsize, sizes, steps)
        careful = self._exact if layout.dtype is d.float32 else self._in_order
        exact, others = careful(*given)

        def walk(words, *addresses):
            if switches.exact:
                exact(others, *addresses)
            else:
                quick(words, *addresses)

        return walk, words

    def _in_order(self, *given):
        return self._sorted("add", *given)

    def _exact(self, layout, lengths, strides, sizes, steps, wraps):
        """Sums of integers, in any order (see codegen/gpu/exact.py)."""
        facts, extent = facts_of("add", layout, strides, wraps), _extent(layout)
        words = describe(lengths, strides, [True] * len(lengths), SIZE, sizes, steps)
        tops, sums = (
            self.runtime.kernel("indexed_add", f"exact:build_{n}", *facts) for n in ("tops", "sums")
        )
        done = self.runtime.kernel("indexed_add", "exact:build_done")
        room, last = vector_layout(3 * extent, d.int32, layout.device), packed(Counted(1, extent))
        spare = 62 - FRACTION - prod(lengths).bit_length()

        def walk(words, table, items, *indices):
            memory = filled(room, 0)
            sum = address(memory)
            top = sum + 8 * extent
            tops(words, top, items, *indices)
            sums(words, sum, items, *indices, top, spare)
            done(last, table, top, sum, spare)

        return walk, words

    def _claimed(self, layout, lengths, strides, sizes, steps, wraps):
        """Elements claim their places first; the last one gets it."""
        facts, extent = facts_of("set", layout, strides, wraps), _extent(layout)
        words = describe(lengths, strides, [True] * len(lengths), layout.itemsize, sizes, steps)
        kernel, room = self.runtime.kernel, vector_layout(extent, d.int32, layout.device)
        claim = kernel("indexed_set", "indexing:build_claims", *facts)
        move = kernel("indexed_set", "indexing:build_claimed", *facts)

        def walk(words, table, items, *indices):
            claims = filled(room, 0)
            claim(words, table, items, *indices, address(claims))
            move(words, table, items, *indices, address(claims))

        return walk, words

    def _sorted(self, mode, layout, lengths, strides, sizes, steps, wraps):
        """Places first, then a sort of them, then what goes to each."""
        if any(s[-1] for s in strides[2:]):  # an index for every element
            lengths, strides = [*lengths, 1], [[*s, 0] for s in strides]
        item, count, code = layout.itemsize, len(strides) - 2, layout.dtype.code
        points = prod(lengths[:-1])
        if points >= SORTED:
            raise RuntimeError("there are too many indices that may name the same place")
        extent = _extent(layout)
        wide = extent >= 1 << 31
        kind = d.int64 if wide else d.int32
        words = describe(lengths, strides, [True] * len(lengths), item, sizes, steps)
        code = f"b{item}" if mode == "set" else code
        kernel, device, sorts = self.runtime.kernel, layout.device, self.runtime.sorts
        name = "indexed_" + mode
        find = kernel(name, "indexing:build_places", mode, count, wraps, wide, item)
        rows = "c" if strides[0][-1] == strides[1][-1] == item else "n"
        run = kernel(name, "indexing:build_runs", mode, code, count, wide, rows)
        keys, order = (
            vector_layout(2 * points, kind, device),
            vector_layout(points, d.int32, device),
        )
        bits = extent.bit_length()

        def walk(words, table, items, *indices):
            held, sorted_ = empty_like_layout(keys), empty_like_layout(order)
            first, places = address(held), address(sorted_)
            second = first + points * kind.itemsize
            find(words, first, 0, *indices, extent)
            sorts.run(second, places, first, 1, points, kind, device, bits=bits, narrow=True)
            run(words, table, items, second, places, extent)

        return walk, words
