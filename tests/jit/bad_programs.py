"""Functions that are no scripts; ERRORS lists them with the kind and the start of PyTorch's error."""

# ruff: noqa

from typing import List

import torch


def tries(x):
    try:
        return x
    except Exception:
        return x


def unknown_method(x: torch.Tensor):
    return x.foo()


def unknown_name(x):
    return y


def many_arguments(x, *more):
    return x


def wrong_argument(x: torch.Tensor):
    return torch.add(x, "a")


def half_defined(x):
    if x.sum() > 0:
        z = 1
    return z


def wrong_return(x: int) -> str:
    return x


def yields(x):
    yield x


def sets(x):
    return {y for y in [1]}


def globals_inside(x):
    global q
    return x


def imports(x):
    import math

    return x


def defines_class(x):
    class A:
        pass

    return x


def loop_with_else(x):
    for i in range(3):
        x = x + 1
    else:
        x = x - 1
    return x


def two_types(x: torch.Tensor, n: int):
    if n > 0:
        return x
    else:
        return n


def recursive(x):
    return recursive(x)


def loop_changes_type(x):
    a = 1
    for i in range(3):
        a = "b"
    return a


def branch_types(x: torch.Tensor, n: int):
    if n > 0:
        y = x
    else:
        y = 3
    return y


def calls_number(n: int):
    return n(3)


def lambdas(x):
    f = lambda y: y + 1
    return f(x)


def tuple_index(x, n: int):
    t = (x, n)
    return t[n]


def keywords(x):
    return torch.sum(x, nodim=3)


def starred(x):
    options = {"dim": 0}
    return torch.sum(x, **options)


def awaits(x: List[int]):
    return x.push(1)


FUNCTIONS = [
    tries,
    unknown_method,
    unknown_name,
    many_arguments,
    wrong_argument,
    half_defined,
    wrong_return,
    yields,
    sets,
    globals_inside,
    imports,
    defines_class,
    loop_with_else,
    two_types,
    recursive,
    loop_changes_type,
    branch_types,
    calls_number,
    lambdas,
    tuple_index,
    keywords,
    starred,
    awaits,
]
