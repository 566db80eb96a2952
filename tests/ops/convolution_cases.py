"""Convolutions to test: shapes chosen so that every kernel and every edge of it is met."""

from typing import NamedTuple

import numpy as np


class Case(NamedTuple):
    """Shapes without batch and channels of the result: (input, weight, keywords)."""

    x: tuple
    w: tuple
    options: dict = {}
    transposed: bool = False

    @property
    def name(self):
        return f"conv{'_transpose' if self.transposed else ''}{len(self.x) - 2}d"

    @property
    def bias(self):
        groups = self.options.get("groups", 1)
        return self.w[1] * groups if self.transposed else self.w[0]


def T(x, w, **options):
    return Case(x, w, options, True)


def C(x, w, **options):
    return Case(x, w, options)


CASES = [
    # one dimension
    C((2, 3, 17), (5, 3, 4)),
    C((2, 4, 40), (6, 2, 5), stride=3, padding=2, dilation=2, groups=2),
    C((1, 1, 1), (1, 1, 1)),
    # two: odd sizes, one-sized dimensions, every option
    C((2, 3, 9, 11), (5, 3, 3, 3), padding=1),
    C((2, 4, 9, 11), (6, 2, 3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2),
    C((3, 5, 1, 7), (9, 5, 1, 3), stride=(1, 2)),
    C((2, 3, 30, 22), (3, 3, 7, 7), stride=2, padding=3),
    C((2, 6, 12, 12), (4, 6, 1, 1)),
    C((2, 6, 12, 12), (4, 6, 1, 1), stride=3),
    C((1, 2, 40, 41), (2, 2, 26, 25)),
    C((2, 40, 5, 5), (20, 40, 4, 4), padding=2),
    C((2, 12, 8, 8), (8, 3, 3, 3), groups=4, padding=1),
    C((2, 3, 5, 6), (4, 3, 2, 2), padding=(3, 1)),
    C((2, 4, 7, 7), (4, 4, 3, 3), stride=5, padding=1),
    # by squares of four results: borders that cut squares, all paddings
    C((2, 17, 22, 23), (19, 17, 3, 3)),
    C((3, 16, 13, 35), (24, 16, 3, 3), padding=1),
    C((2, 20, 16, 17), (16, 20, 3, 3), padding=2),
    C((1, 33, 40, 9), (17, 33, 3, 3), padding=(0, 1)),
    # depthwise
    C((2, 5, 13, 21), (5, 1, 3, 3), groups=5, padding=1),
    C((2, 5, 13, 21), (5, 1, 3, 4), groups=5, padding=(2, 1), stride=2, dilation=(2, 1)),
    C((2, 4, 9, 8), (4, 1, 2, 3), groups=4, stride=(1, 3)),
    C((2, 3, 50), (3, 1, 5), groups=3, padding=2),
    C((2, 4, 9, 8), (8, 1, 3, 3), groups=4),
    # three
    C((2, 3, 5, 6, 7), (4, 3, 3, 2, 3), padding=1, stride=(1, 2, 1)),
    C((1, 4, 5, 6, 7), (4, 2, 1, 2, 3), groups=2, dilation=(1, 2, 3)),
    C((1, 4, 5, 6, 7), (4, 1, 3, 2, 3), groups=4, padding=1, stride=(2, 1, 2)),
    # transposed
    T((2, 3, 9), (3, 4, 4), stride=2, padding=1, output_padding=1),
    T((2, 4, 6, 5), (4, 3, 3, 3)),
    T((2, 4, 6, 5), (4, 3, 4, 4), stride=2, padding=1),
    T((2, 4, 6, 5), (4, 2, 3, 2), stride=(3, 2), groups=2, output_padding=(2, 0), dilation=(2, 1)),
    T((2, 4, 6, 5), (4, 2, 1, 1), stride=2),
    T((2, 4, 6, 5), (4, 2, 3, 2), stride=(1, 2), dilation=3, output_padding=2),
    T((2, 17, 12, 13), (17, 16, 3, 3), padding=1),
    T((1, 2, 3, 4, 3), (2, 3, 2, 3, 2), stride=(1, 2, 3), padding=(0, 1, 0)),
]


def names(case):
    options = ",".join(f"{k}={v}" for k, v in case.options.items())
    return f"{case.name}-{case.x}-{case.w}-{options}".replace(" ", "")


def spread(value, dims):
    return (value,) * dims if isinstance(value, int) else tuple(value)


def reference(case, x, w, b=None):
    """A convolution by its definition, tap by tap, in NumPy."""
    dims = len(case.x) - 2
    o = case.options
    stride, padding, dilation, extra = (
        spread(o.get(n, d), dims)
        for n, d in (("stride", 1), ("padding", 0), ("dilation", 1), ("output_padding", 0))
    )
    groups = o.get("groups", 1)
    kernel = w.shape[2:]
    reach = [d * (k - 1) for d, k in zip(dilation, kernel)]
    if case.transposed:
        full = [(n - 1) * s + r + 1 + e for n, s, r, e in zip(x.shape[2:], stride, reach, extra)]
        out = np.zeros((x.shape[0], groups, w.shape[1], *full), x.dtype)
    else:
        x = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in padding]])
        sizes = [(n - r - 1) // s + 1 for n, s, r in zip(x.shape[2:], stride, reach)]
        out = np.zeros((x.shape[0], groups, w.shape[0] // groups, *sizes), x.dtype)
    x = x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    for tap in np.ndindex(*kernel):
        weights = w[(slice(None),) * 3 + tap]
        first = [t * d for t, d in zip(tap, dilation)]
        if case.transposed:
            there = tuple(slice(f, f + n * s, s) for f, n, s in zip(first, x.shape[3:], stride))
            out[(slice(None),) * 3 + there] += np.einsum("ngc...,gcm->ngm...", x, weights)
        else:
            there = tuple(slice(f, f + n * s, s) for f, n, s in zip(first, sizes, stride))
            patch = x[(slice(None),) * 3 + there]
            out += np.einsum("ngc...,gmc->ngm...", patch, weights)
    out = out.reshape(out.shape[0], -1, *out.shape[3:])
    if case.transposed:
        cut = tuple(slice(p, n - p) for p, n in zip(padding, out.shape[2:]))
        out = out[(slice(None),) * 2 + cut]
    return out if b is None else out + b.reshape(-1, *(1,) * dims)
