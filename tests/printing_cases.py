"""Tensors worth printing, as plain data: what to build, under which options.

`cases(count)` gives the same list everywhere and needs no tensor library, so that the texts
recorded from PyTorch and the live comparison look at the same tensors.
"""

from __future__ import annotations

import math
import random
from typing import Any, NamedTuple

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTS = ("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64")
COMPLEXES = ("complex64", "complex128")

SHAPES = [
    (), (1,), (2,), (7,), (13,), (40,), (1, 1), (3, 4), (2, 17), (30, 2), (2, 3, 4), (1, 2, 1, 3),
    (2, 1, 2, 1, 2), (0,), (0, 3), (2, 0, 4), (1001,), (40, 30), (5, 300), (300, 5), (11, 12, 13),
    (2, 3, 200), (1, 8, 1, 9, 16),
]  # fmt: skip

OPTIONS: list[dict[str, Any]] = [
    {}, {}, {}, {"precision": 2}, {"precision": 8}, {"precision": 0}, {"linewidth": 40},
    {"linewidth": 200}, {"linewidth": 5}, {"threshold": 5}, {"threshold": 5, "edgeitems": 1},
    {"threshold": 2, "edgeitems": 0}, {"threshold": 0}, {"profile": "short"}, {"profile": "full"},
    {"sci_mode": True}, {"sci_mode": False}, {"sci_mode": False, "precision": 10},
    {"edgeitems": 0}, {"edgeitems": 5, "threshold": 30},
]  # fmt: skip


def _nested(values, shape):
    """Flat values as nested lists of the given shape."""
    if not shape:
        return values[0]
    step = len(values) // shape[0]
    return [_nested(values[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]


class Case(NamedTuple):
    """One tensor (flat values, shape, dtype name, whether it requires grad) and the options."""

    values: list
    shape: tuple[int, ...]
    dtype: str
    requires_grad: bool
    options: dict[str, Any]

    def build(self, torch):
        """The tensor, made with `torch` or with a package that speaks its API."""
        dtype = getattr(torch, self.dtype)
        if self.values:
            t = torch.tensor(_nested(self.values, self.shape), dtype=dtype)
        else:
            t = torch.zeros(self.shape, dtype=dtype)
        return t.requires_grad_() if self.requires_grad else t


def _real(rng, flavour):
    specials = [math.nan, math.inf, -math.inf, 0.0, -0.0]
    if flavour == "special" or (flavour == "mixed" and rng.random() < 0.2):
        return rng.choice(specials)
    if flavour == "whole":
        return float(rng.randint(-30, 30))
    if flavour == "large":
        return float(rng.randint(-60000, 60000))
    if flavour == "huge":
        return rng.uniform(-1, 1) * 10.0 ** rng.randint(5, 12)
    if flavour == "wide":
        return rng.uniform(-1, 1) * 10.0 ** rng.randint(-6, 4)
    if flavour == "tiny":
        return rng.uniform(-1, 1) * 1e-5
    return rng.gauss(0, 1)


_FLAVOURS = ("normal", "normal", "whole", "mixed", "special", "large", "huge", "wide", "tiny")
_RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535)}


def _values(rng, dtype, count):
    if dtype == "bool":
        return [rng.random() < 0.5 for _ in range(count)]
    if dtype in INTS:
        low, high = _RANGES.get(dtype, (0, 2**31 - 1) if dtype[0] == "u" else (-(2**31), 2**31 - 1))
        scale = rng.choice((1, 10, 1000, high))
        return [min(max(rng.randint(-scale, scale), low), high) for _ in range(count)]
    flavour, other = rng.choice(_FLAVOURS), rng.choice(_FLAVOURS)
    if dtype in COMPLEXES:
        return [complex(_real(rng, flavour), _real(rng, other)) for _ in range(count)]
    limit = 65504 if dtype == "float16" else math.inf
    values = (_real(rng, flavour) for _ in range(count))
    return [v if not math.isfinite(v) else min(max(v, -limit), limit) for v in values]


def cases(count: int, seed: int = 0) -> list[Case]:
    """The first `count` cases of an endless, fixed list."""
    rng = random.Random(seed)
    dtypes = FLOATS * 3 + INTS + ("bool",) + COMPLEXES * 2
    made = []
    for _ in range(count):
        dtype = rng.choice(dtypes)
        shape = rng.choice(SHAPES)
        if math.prod(shape) > 50 and rng.random() < 0.6:
            shape = rng.choice(SHAPES[:15])
        values = _values(rng, dtype, math.prod(shape))
        differentiable = dtype in FLOATS + COMPLEXES and rng.random() < 0.2
        made.append(Case(values, shape, dtype, differentiable, rng.choice(OPTIONS)))
    return made
