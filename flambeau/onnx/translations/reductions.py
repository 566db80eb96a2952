"""Reductions, orders and cumulative sums."""

from typing import Any

import numpy as np

import flambeau as torch
from flambeau.onnx.building import Value
from flambeau.onnx.translations.table import translates


def axes_of(dim: Any) -> list[int] | None:
    if dim is None:
        return None
    return [dim] if isinstance(dim, int) else list(dim) or None


@translates("sum")
def total(
    g: Any, x: Value, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any
) -> Value:
    return g.reduce("ReduceSum", g.cast(x, out.dtype), axes_of(dim), keepdim)


@translates("mean")
def mean(
    g: Any, x: Value, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any
) -> Value:
    return g.reduce("ReduceMean", g.cast(x, out.dtype), axes_of(dim), keepdim)


@translates("prod")
def product(
    g: Any, x: Value, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any
) -> Value:
    return g.reduce("ReduceProd", g.cast(x, out.dtype), axes_of(dim), keepdim)


@translates("amax")
def amax(g: Any, x: Value, dim: Any = (), keepdim: bool = False, *, out: Any) -> Value:
    return g.reduce("ReduceMax", x, axes_of(dim), keepdim)


@translates("amin")
def amin(g: Any, x: Value, dim: Any = (), keepdim: bool = False, *, out: Any) -> Value:
    return g.reduce("ReduceMin", x, axes_of(dim), keepdim)


def extreme(reduce: str, place: str, other: str) -> Any:
    def write(g: Any, x: Value, dim: Any = None, keepdim: bool = False, *, out: Any) -> Any:
        if isinstance(dim, Value):
            return g.op(other, x, dim)
        if dim is None:
            return g.reduce(reduce, x, None, False)
        values = g.reduce(reduce, x, [dim], keepdim)
        places = g.op(place, x, axis=dim, keepdims=int(keepdim), dtype=torch.int64)
        return values, places

    return write


translates("max")(extreme("ReduceMax", "ArgMax", "Max"))
translates("min")(extreme("ReduceMin", "ArgMin", "Min"))


def place(kind: str) -> Any:
    def write(g: Any, x: Value, dim: Any = None, keepdim: bool = False, *, out: Any) -> Value:
        if dim is None:
            x, dim, keepdim = g.reshape(x, [-1]), 0, False
        return g.op(kind, x, axis=dim, keepdims=int(keepdim), dtype=torch.int64)

    return write


translates("argmax")(place("ArgMax"))
translates("argmin")(place("ArgMin"))


def boolean(kind: str) -> Any:
    def write(g: Any, x: Value, dim: Any = None, keepdim: bool = False, *, out: Any) -> Value:
        numbers = g.cast(g.cast(x, torch.bool), torch.int32)
        return g.cast(g.reduce(kind, numbers, axes_of(dim), keepdim), torch.bool)

    return write


translates("any")(boolean("ReduceMax"))
translates("all")(boolean("ReduceMin"))


def centred(g: Any, x: Value, dim: Any, correction: Any, keepdim: bool) -> Value:
    """The variance: squares about the mean, over their number less the correction."""
    axes = axes_of(dim)
    gap = g.op("Sub", x, g.reduce("ReduceMean", x, axes, True))
    squares = g.op("Mul", gap, gap)
    if correction == 0:
        return g.reduce("ReduceMean", squares, axes, keepdim)
    count = 1
    for axis in axes if axes is not None else range(x.rank):
        count *= x.size(axis)
    return g.op("Div", g.reduce("ReduceSum", squares, axes, keepdim), float(count - correction))


def correction_of(unbiased: Any, correction: Any) -> Any:
    if correction is not None:
        return correction
    return 1 if unbiased is None else int(unbiased)


@translates("var")
def var(
    g: Any,
    x: Value,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: bool = False,
    *,
    out: Any,
    **named: Any,
) -> Value:
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    return centred(g, x, dim, correction_of(unbiased, named.get("correction")), keepdim)


@translates("std")
def std(
    g: Any,
    x: Value,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: bool = False,
    *,
    out: Any,
    **named: Any,
) -> Value:
    return g.op("Sqrt", var(g, x, dim, unbiased, keepdim, out=out, **named))


@translates("logsumexp")
def logsumexp(g: Any, x: Value, dim: Any, keepdim: bool = False, *, out: Any) -> Value:
    return g.reduce("ReduceLogSumExp", x, axes_of(dim), keepdim)


@translates("cumsum")
def cumsum(g: Any, x: Value, dim: int, *, dtype: Any = None, out: Any) -> Value:
    return g.op("CumSum", g.cast(x, out.dtype), np.array(dim, dtype=np.int64))


@translates("topk")
def topk(
    g: Any, x: Value, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True, *, out: Any
) -> Any:
    values, places = g.op(
        "TopK", x, g.ints([k]), axis=dim, largest=int(largest), sorted=int(sorted), outputs=2
    )
    places.dtype = torch.int64
    return values, places


@translates("sort")
def sort(
    g: Any, x: Value, dim: int = -1, descending: bool = False, *, out: Any, **named: Any
) -> Any:
    size = g.sizes(x)[dim]
    values, places = g.op("TopK", x, g.ints([size]), axis=dim, largest=int(descending), outputs=2)
    places.dtype = torch.int64
    return values, places


@translates("argsort")
def argsort(
    g: Any, x: Value, dim: int = -1, descending: bool = False, *, out: Any, **named: Any
) -> Any:
    return sort(g, x, dim, descending, out=out)[1]


@translates("nonzero")
def nonzero(g: Any, x: Value, *, out: Any) -> Value:
    return g.transpose(g.op("NonZero", x, dtype=torch.int64), [1, 0])
