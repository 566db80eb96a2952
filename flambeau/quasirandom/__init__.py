"""`torch.quasirandom`: Sobol points, which fill a cube more evenly than random ones.

A point is the sum without carry of direction numbers, one for each bit of its number in Gray code.
The numbers of a dimension follow from a primitive polynomial over two elements and its first few
numbers (`direction_numbers.py`); the polynomials are found here, smallest first.
"""

from functools import cache
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.quasirandom.direction_numbers import DIMENSIONS, numbers

__all__ = ["SobolEngine"]

BITS = 30


def _times_x(value, polynomial, degree):
    value <<= 1
    return value ^ polynomial if value >> degree else value


def _is_primitive(polynomial, degree):
    """Do the powers of x run through everything but zero?"""
    order, value, count = (1 << degree) - 1, 1, 0
    while True:
        value, count = _times_x(value, polynomial, degree), count + 1
        if value == 1:
            return count == order


@cache
def _polynomials(degree: int) -> tuple[int, ...]:
    odd = range((1 << degree) + 1, 2 << degree, 2)
    return tuple(p for p in odd if _is_primitive(p, degree))


def _directions(first, polynomial, degree):
    """Numbers of one dimension, in the upper of 30 bits; the first `degree` are given."""
    found = list(first)
    for _ in range(degree, BITS):
        value = found[-degree] ^ (found[-degree] << degree)
        for k in range(1, degree):
            if polynomial >> (degree - k) & 1:
                value ^= found[-k] << k
        found.append(value)
    return [value << (BITS - 1 - j) for j, value in enumerate(found[:BITS])]


@cache
def _table(dimension: int) -> Tensor:
    """The direction numbers of so many dimensions."""
    rows = [[1 << (BITS - 1 - j) for j in range(BITS)]]
    given, place, degree = numbers(), 0, 1
    while len(rows) < dimension:
        for polynomial in _polynomials(degree):
            first = [1, *(2 * m + 1 for m in given[place : place + degree - 1])]
            rows.append(_directions(first, polynomial, degree))
            place += degree - 1
        degree += 1
    return flambeau.tensor(rows[:dimension], dtype=flambeau.int64)


def _xor_rows(bits, rows):
    """For each row of zeros and ones: the sum without carry of the chosen rows."""
    total = flambeau.zeros((bits.shape[0], rows.shape[1]), dtype=flambeau.int64)
    for k in range(rows.shape[0]):
        total.bitwise_xor_(bits[:, k : k + 1] * rows[k])
    return total


class SobolEngine:
    """Sobol points of a cube of up to 1,111 dimensions.

    Args:
        dimension: how many numbers a point has.
        scramble: mix the bits at random, so that runs differ and stay even.
        seed: of the mixing; else the usual generator gives it.

    Example:
        >>> from flambeau.quasirandom import SobolEngine
        >>> SobolEngine(2).draw(3)
        tensor([[0.0000, 0.0000],
                [0.5000, 0.5000],
                [0.7500, 0.2500]])
    """

    MAXBIT = BITS
    MAXDIM = DIMENSIONS

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]"
            )
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self.sobolstate = _table(dimension).clone()
        self.shift = flambeau.zeros(dimension, dtype=flambeau.int64)
        if scramble:
            self._scramble()
        self.quasi = self.shift.clone()
        self.num_generated = 0

    def _scramble(self):
        """Bits of direction numbers by a random triangle of ones, points shifted."""
        generator = None
        if self.seed is not None:
            generator = flambeau.Generator().manual_seed(self.seed)
        shape = (self.dimension, BITS)
        shift = flambeau.randint(2, shape, generator=generator)
        self.shift = (shift << flambeau.arange(BITS)).sum(1)
        mixing = flambeau.randint(2, (*shape, BITS), generator=generator).tril()
        mixing.diagonal(dim1=1, dim2=2).fill_(1)
        places = flambeau.arange(BITS - 1, -1, -1)
        bits = (self.sobolstate.unsqueeze(1) >> places[:, None]) & 1  # dimension, bit, number
        mixed = (mixing.unsqueeze(3) & bits.unsqueeze(1)).sum(2) & 1
        self.sobolstate = (mixed << places[:, None]).sum(1)

    def _points(self, begin, count):
        """Points as integers, from the begin-th on."""
        index = flambeau.arange(begin, begin + count)
        gray = index ^ (index >> 1)
        width = max((begin + count - 1).bit_length(), 1)
        if width > BITS:
            raise ValueError(f"there are no more than 2**{BITS} points")
        chosen = (gray.unsqueeze(1) >> flambeau.arange(width)) & 1
        return _xor_rows(chosen, self.sobolstate.t()[:width]) ^ self.shift

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next n points, as rows."""
        if (self.num_generated == 0 and n < 1) or n < 0:
            size = n - (self.num_generated == 0)
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {size}: "
                f"[{size}, {self.dimension}]"
            )
        if dtype is None:
            dtype = flambeau.get_default_dtype() if out is None else out.dtype
        integers = self._points(self.num_generated, n)
        self.num_generated += n
        if n:
            self.quasi = integers[-1].clone()
        result = integers.to(dtype) / 2**BITS
        if out is None:
            return result
        out.resize_as_(result).copy_(result)
        return out

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next 2**m points, if that makes a power of two in all."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. If you still want to do this, please use "
                "'SobolEngine.draw()' instead."
            )
        return self.draw(n, out=out, dtype=dtype)

    def reset(self) -> "SobolEngine":
        """Start again from the first point."""
        self.quasi, self.num_generated = self.shift.clone(), 0
        return self

    def fast_forward(self, n: int) -> "SobolEngine":
        """Leave out n points."""
        self.num_generated += n
        if self.num_generated:
            self.quasi = self._points(self.num_generated - 1, 1)[0]
        return self

    def __repr__(self) -> str:
        words = [f"dimension={self.dimension}"]
        if self.scramble:
            words.append("scramble=True")
        if self.seed is not None:
            words.append(f"seed={self.seed}")
        return f"SobolEngine({', '.join(words)})"
