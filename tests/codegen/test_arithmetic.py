"""Functions on integers as native code: the same answers as Python's, or Python's own."""

import random
from typing import NamedTuple

import pytest

import flambeau as torch
from flambeau import _natively
from flambeau._natively import natively
from flambeau.codegen import arithmetic
from flambeau.runtime.cpu import packed

LIMIT = 40


class Words(NamedTuple):
    first: int
    second: int
    third: int = 7


@natively
def sorted_pair(a, b):
    if a > b:
        return a, b
    return b, a


@natively
def expressions(a, b, c):
    """Operators, comparisons, branches."""
    x, y = sorted_pair(a, b)
    z = -(-x // c) if c != 0 or a == 3 else 5
    if x > LIMIT and not (y < 3 or z == 2):
        z += a * b
        w = 3
    elif z % 7 == 3:
        w = z >> 3
    else:
        w = abs(y)
    if a in (1, 2, 3):
        raise ValueError
    return z, w, min(a, b, c), max(a, b), a <= b < c, a and b, a or c, ~a & b ^ c | 1


@natively
def merged(sizes: tuple, x: tuple, y: tuple):
    """Lists that grow and change."""
    out: list[int] = []
    first = []
    second = []
    for k in range(len(sizes) - 1, -1, -1):
        if sizes[k] == 1:
            continue
        if out and first[-1] * out[-1] == x[k] and second[-1] * out[-1] == y[k]:
            out[-1] *= sizes[k]
        else:
            out.append(sizes[k])
            first.append(x[k])
            second.append(y[k])
    return tuple(out[::-1]), tuple(first[::-1]), packed([*second[::-1], 3])


@natively
def loops(items: tuple, n):
    total = 0
    for x in items:
        if x == 4:
            break
        total += x
    k = 0
    while k * k < n:
        k += 1
    kept = [x * 2 for x in items if x > 1]
    return total, k, tuple(kept), items[n]


@natively
def words(a, b, more: tuple):
    return packed([*Words(first=a, second=b << 3), *more, a - 1])


@natively
def factorial(n):
    found = 1
    for k in range(1, n + 1):
        found *= k
    return found


def _number(r):
    return r.choice([r.randint(-100, 100), r.randint(0, 10), r.randint(-(2**62), 2**62)])


def _items(r, count):
    return tuple(r.randint(0, 5) for _ in range(count))


CASES = {
    "expressions": lambda r: [_number(r) for _ in range(3)],
    "merged": lambda r: [_items(r, n) for n in [r.randint(0, 5)] for _ in range(3)],
    "loops": lambda r: (_items(r, r.randint(0, 6)), r.randint(-3, 9)),
    "words": lambda r: (_number(r), r.randint(0, 9), _items(r, r.randint(0, 80))),
    "factorial": lambda r: [r.randint(0, 40)],
}


def _outcome(function, args):
    try:
        return function(*args)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("name", CASES)
def test_same_as_python(name):
    torch.ones(2) + 1  # there is native code from the first kernel on
    plain, r = _natively._functions[__name__, name], random.Random(name)
    for _ in range(500):
        args = CASES[name](r)
        assert _outcome(globals()[name], args) == _outcome(plain, args), args
    assert type(globals()[name]).__name__ == "builtin_function_or_method"


def test_arguments_that_are_no_integers():
    """The Python function complains, or does what it does."""
    assert factorial(True) == 1
    with pytest.raises(TypeError):
        factorial(2.5)
    with pytest.raises(TypeError):
        factorial(1, 2)
    assert words(2**70 - 2**70, 1, ()) == packed([0, 8, 7, -1])


@natively
def unclear(a):
    return a.real


def test_what_cannot_be_compiled_is_refused_when_met():
    torch.ones(2) + 1
    with pytest.raises(arithmetic.Unsupported, match="Attribute in unclear"):
        for _ in range(_natively.PATIENCE):
            unclear(1)
