"""Sums of exponentials in one pass on a GPU.

A thread keeps the largest number so far, and the sum of exponentials scaled by it; such pairs are
joined in a team. Nothing is read twice, and nothing overflows.
"""

import math

from flambeau.codegen import scalar as m
from flambeau.codegen.llvm import Emitter
from flambeau.codegen.loops import width_of
from flambeau.codegen.templates.rows import widened


class Online:
    """What a thread knows of the numbers that it has seen.

    top: the largest; total: of exp(number - top), or of exp(number) where top is -inf, or (plain)
    any infinity. wide: the total is kept in double.
    """

    def __init__(self, fn, type, plain=False, wide=False):
        self.fn, self.plain = fn, plain
        self.top = fn.var(fn.value(-math.inf, type))
        self.total = fn.var(fn.value(0.0, "double" if wide else type))

    def take(self, vectors):
        """Numbers of a few vectors (or single ones)."""
        fn, highest = self.fn, vectors
        while len(highest) > 1:
            half = (len(highest) + 1) // 2
            pairs = [larger(fn, a, b) for a, b in zip(highest[:half], highest[half:])]
            highest = pairs + highest[len(pairs) : half]
        old = self.top.get()
        self.take_top(highest[0])
        shift = shifted(fn, self.top.get(), self.plain)
        # (a sum is 0 while the top is -inf)
        self.total.set(self.total.get() * self._widened(_power(fn, old, shift)))
        self.add(*vectors)

    def take_top(self, vector):
        """Numbers that count for the largest only; `add` must follow, when all have been seen."""
        top = self.top.get()
        for number in lanes(self.fn, vector):
            top = larger(self.fn, top, number)
        self.top.set(top)

    def add(self, *vectors):
        """The exponentials of numbers, none of which is above the top."""
        fn, powers = self.fn, None
        shift = shifted(fn, self.top.get(), self.plain)
        wide = fn.splat(shift, width_of(vectors[0].type))
        for v in vectors:
            power = _power(fn, v, wide)
            powers = power if powers is None else powers + power
        total = self.total.get()
        for number in lanes(fn, powers):
            total = total + self._widened(number)
        self.total.set(total)

    def _widened(self, value):
        return widened(self.fn, value, "f64") if self.total.type == "double" else value


def larger(fn, a, b):
    """The larger one; nan does not count."""
    return fn.intrinsic("maxnum", a, b)


def lanes(fn, value):
    return [fn.extract(value, k) for k in range(width_of(value.type))]


def shifted(fn, top, plain):
    """What is taken off before numbers become powers."""
    zero = fn.value(0.0, top.type)
    found = fn.select(top == -math.inf, zero, top)
    return fn.select(top == math.inf, zero, found) if plain else found


def _power(fn, a, b):
    type = "f64" if "double" in a.type else "f32"
    symbols = [m.argument(k, type) for k in range(2)]
    return Emitter(fn, width_of(a.type), [a, b]).emit(m.exp(symbols[0] - symbols[1]))


def joining(fn, plain=False):
    """A function that joins two pairs of (largest number, sum in double)."""

    def join(a, b):
        top = larger(fn, a[0], b[0])
        shift = shifted(fn, top, plain)
        sums = [total * widened(fn, _power(fn, old, shift), "f64") for old, total in (a, b)]
        return top, sums[0] + sums[1]

    return join
