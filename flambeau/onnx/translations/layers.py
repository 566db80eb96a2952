"""Pooling and what rearranges channels."""

import math
from typing import Any

from flambeau.onnx.building import Value
from flambeau.onnx.translations.products import spread
from flambeau.onnx.translations.table import translates


def batched(g: Any, x: Value, rank: int, write: Any) -> Any:
    """Pooling ops of ONNX want a batch."""
    if x.rank == rank + 2:
        return write(x)
    made = write(g.unsqueeze(x, [0]))
    if isinstance(made, tuple):
        return tuple(g.squeeze(part, [0]) for part in made)
    return g.squeeze(made, [0])


def max_pool(rank: int, indices: bool) -> Any:
    def write(
        g: Any,
        x: Value,
        kernel: Any,
        stride: Any = (),
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        *,
        out: Any,
    ) -> Any:
        sizes = spread(kernel, rank)
        options = dict(
            kernel_shape=sizes,
            strides=spread(stride, rank) if stride or stride == 0 else sizes,
            pads=spread(padding, rank) * 2,
            dilations=spread(dilation, rank),
            ceil_mode=int(ceil_mode),
        )
        if not indices:
            return batched(g, x, rank, lambda x: g.op("MaxPool", x, **options))
        return batched(g, x, rank, lambda x: with_places(g, x, rank, options))

    return write


def with_places(g: Any, x: Value, rank: int, options: dict[str, Any]) -> tuple[Value, Value]:
    """Maxima, and where they are in their channel; ONNX counts through the whole tensor."""
    made, places = g.op("MaxPool", x, outputs=2, **options)
    size = g.op("ReduceProd", g.ints(g.sizes(x)[-rank:]), keepdims=0)
    return made, g.op("Mod", places, size)


for _rank in (1, 2, 3):
    translates(f"max_pool{_rank}d")(max_pool(_rank, False))
    translates(f"max_pool{_rank}d_with_indices")(max_pool(_rank, True))


def avg_pool(rank: int) -> Any:
    def write(
        g: Any,
        x: Value,
        kernel: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
        *,
        out: Any,
    ) -> Value:
        sizes = spread(kernel, rank)
        made = batched(
            g,
            x,
            rank,
            lambda x: g.op(
                "AveragePool",
                x,
                kernel_shape=sizes,
                strides=spread(stride, rank) if stride else sizes,
                pads=spread(padding, rank) * 2,
                ceil_mode=int(ceil_mode),
                count_include_pad=int(count_include_pad or divisor_override is not None),
            ),
        )
        if divisor_override is None:
            return made
        return g.op("Mul", made, math.prod(sizes) / divisor_override)

    return write


def adaptive_pool(rank: int, whole: str, windows: str, reduce: str) -> Any:
    """To sizes that divide the input's; one is the whole of it."""

    def write(g: Any, x: Value, sizes: Any, *, out: Any) -> Any:
        wanted = spread(sizes, rank)
        if all(size == 1 for size in wanted):
            return batched(g, x, rank, lambda x: g.op(whole, x))
        have = [x.size(x.rank - rank + axis) for axis in range(rank)]
        if any(n % size for n, size in zip(have, wanted)):
            return uneven(g, x, have, wanted, reduce)
        kernel = [n // size for n, size in zip(have, wanted)]
        return batched(g, x, rank, lambda x: g.op(windows, x, kernel_shape=kernel, strides=kernel))

    return write


def uneven(g: Any, x: Value, have: list[int], wanted: list[int], reduce: str) -> Value:
    """Windows of different sizes: one dimension after the other, window by window."""
    for place, (n, count) in enumerate(zip(have, wanted)):
        axis = x.rank - len(have) + place
        shape = x.shape
        parts = [
            g.reduce(
                reduce, g.slice(x, axis, i * n // count, -(-(i + 1) * n // count)), [axis], True
            )
            for i in range(count)
        ]
        x = g.op("Concat", *parts, axis=axis) if count > 1 else parts[0]
        x.shape = (*shape[:axis], count, *shape[axis + 1 :])
    return x


for _rank in (1, 2, 3):
    translates(f"avg_pool{_rank}d")(avg_pool(_rank))
    translates(f"adaptive_avg_pool{_rank}d", f"_adaptive_avg_pool{_rank}d")(
        adaptive_pool(_rank, "GlobalAveragePool", "AveragePool", "ReduceMean")
    )


def adaptive_max(rank: int) -> Any:
    write = adaptive_pool(rank, "GlobalMaxPool", "MaxPool", "ReduceMax")

    def both(g: Any, x: Value, sizes: Any, *, out: Any) -> Any:
        return write(g, x, sizes, out=out), None

    return both


for _rank in (1, 2, 3):
    translates(f"adaptive_max_pool{_rank}d")(adaptive_max(_rank))


@translates("pixel_shuffle")
def pixel_shuffle(g: Any, x: Value, factor: int, *, out: Any) -> Value:
    return g.op("DepthToSpace", x, blocksize=factor, mode="CRD")


@translates("pixel_unshuffle")
def pixel_unshuffle(g: Any, x: Value, factor: int, *, out: Any) -> Value:
    batch, channels, _height, _width = g.sizes(x)
    r = factor
    split = [batch, channels, x.size(2) // r, r, x.size(3) // r, r]
    moved = g.transpose(g.reshape(x, split), [0, 1, 3, 5, 2, 4])
    return g.reshape(moved, [batch, x.size(1) * r * r, x.size(2) // r, x.size(3) // r])


@translates("channel_shuffle")
def channel_shuffle(g: Any, x: Value, groups: int, *, out: Any) -> Value:
    batch, channels, *inner = g.sizes(x)
    wide = g.reshape(x, [batch, groups, x.size(1) // groups, *inner])
    return g.reshape(g.swap(wide, x.rank + 1, 1, 2), [batch, channels, *inner])


@translates("glu")
def glu(g: Any, x: Value, dim: int = -1, *, out: Any) -> Value:
    half = x.size(dim) // 2
    a, b = g.op("Split", x, g.ints([half, half]), axis=dim, outputs=2)
    return g.op("Mul", a, g.op("Sigmoid", b))
