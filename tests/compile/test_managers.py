"""Generators, context managers, decorators, `finally` and trees in compiled programs: one graph."""

import contextlib

import pytest

import flambeau
from flambeau._dynamo.exc import Unsupported
from flambeau.autograd.profiler import record_function
from flambeau.testing import assert_close
from flambeau.utils import _pytree as pytree


class Scaled:
    def __init__(self, k):
        self.k = k

    def __enter__(self):
        self.k += 1
        return self

    def __exit__(self, *error):
        self.k -= 1


@contextlib.contextmanager
def scaled(k):
    previous = flambeau.is_grad_enabled()
    flambeau.set_grad_enabled(False)
    try:
        yield k + 1
    finally:
        flambeau.set_grad_enabled(previous)


@contextlib.contextmanager
def twice(k):
    yield k
    yield k


def multiples(x, count=3):
    for k in range(count):
        yield x * k


def chained(x):
    yield x
    yield from multiples(x.sin())


def with_object(x):
    with Scaled(2) as s:
        y = x * s.k
    return y + s.k


def left_inside(x):
    with Scaled(2) as s:
        if x.dim() == 2:
            return x * s.k
    return x


def left_in_a_loop(x):
    s = Scaled(2)
    for _ in range(3):
        with s:
            x = x * s.k
            break
    return x * s.k


def with_generator(x):
    with scaled(3) as k, Scaled(5) as s:
        y = x * k + s.k
    return y + x.sin()


def summed(x):
    return sum(multiples(x)) + flambeau.stack(list(chained(x))).sum()


def looped(x):
    total = 0
    for y in multiples(x, 9):
        if y is x:
            continue
        total = total + y.sin()
        x = x + 1  # which the generator does not see
    else:
        total = total * 2
    return total


def left_early(x):
    total = 0
    for k, y in enumerate([1, 2]):
        for z in multiples(x):
            total = total + z * y
            if k:
                return total
    return total


def finally_(x):
    seen = []
    try:
        y = x * 2
        return y
    finally:
        seen.append(1)


def decorated(x):
    @flambeau.no_grad()
    def inner(t):
        return t * 3

    @flambeau.no_grad
    def other(t):
        return t + 1

    return inner(x) + other(x) * flambeau.enable_grad()(lambda t: t * 2)(x)


def named(x):
    with record_function("part"):
        return x * 2


def trees(x):
    found = pytree.tree_map(lambda t, k: t * k, {"a": x, "b": [x + 1, (x,)]}, HELD)
    leaves, shape = pytree.tree_flatten(found)
    again = pytree.tree_unflatten([leaf.sin() for leaf in leaves], shape)
    return again["b"][1][0] + again["a"] + sum(pytree.tree_leaves(found))


HELD = {"a": 2, "b": [3, (4.0,)]}
PROGRAMS = [
    with_object, left_inside, left_in_a_loop, with_generator, summed, looped, left_early, finally_,
    decorated, named, trees,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_they_do_what_they_do(program):
    made = flambeau.compile(program, fullgraph=True)
    for rows in (2, 3):
        found = []
        for function in (program, made):
            x = flambeau.linspace(-1, 1, rows * 3).reshape(rows, 3).requires_grad_()
            y = function(x)
            y.sum().backward()
            found.append((y, x.grad))
        assert_close(*found)


def writes_at_the_end(x):
    try:
        y = x * 2
    finally:
        x.add_(1)
    return y


def leaves_a_generator(x):
    def generator():
        try:
            yield x
        finally:
            x.sin()

    for y in generator():
        return y * 2


def yields_twice(x):
    with twice(2) as k:
        return x * k


REFUSED = {
    "on the way out": writes_at_the_end,
    "left in the middle": leaves_a_generator,
    "does not yield once": yields_twice,
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_may_go_otherwise_is_not_read(reason):
    with pytest.raises(Unsupported, match=reason):
        flambeau.compile(REFUSED[reason], fullgraph=True)(flambeau.ones(2, 3))
    if reason != "does not yield once":
        made = flambeau.compile(REFUSED[reason])
        assert_close(made(flambeau.ones(2, 3)), REFUSED[reason](flambeau.ones(2, 3)))
