"""Pieces that several families of models are put together from.

Convolutions with what follows them, perceptrons of transformers, how often blocks are left out,
positions of places to each other. The families themselves are tables over these.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, repeat
from typing import Any

import flambeau
from flambeau import Tensor, nn

from ..ops.misc import MLP

__all__ = [
    "Layer",
    "chances",
    "check_rows",
    "conv_norm",
    "differences",
    "perceptron",
    "row_of_blocks",
    "start_perceptron",
]

Layer = Callable[..., nn.Module]


def conv_norm(
    before: int,
    after: int,
    kernel: int = 1,
    *,
    relu: nn.Module | None = None,
    momentum: float = 0.1,
    **options: Any,
) -> list[nn.Module]:
    """A convolution without biases and its batch normalization, then perhaps a relu.

    Args:
        options: of the convolution; it keeps sizes unless they say otherwise.
    """
    reach = options.get("dilation", 1) * (kernel // 2)
    convolution = nn.Conv2d(before, after, kernel, padding=reach, bias=False, **options)
    pair = [convolution, nn.BatchNorm2d(after, momentum=momentum)]
    return pair if relu is None else [*pair, relu]


def row_of_blocks(make: Layer, before: int, after: int, stride: int, many: int) -> list[nn.Module]:
    """`make(channels in, channels out, stride)` so many times; only the first changes the shape."""
    shapes = [(before, after, stride), *repeat((after, after, 1), many - 1)]
    return [make(*shape) for shape in shapes[:many]]


def chances(most: float, depths: Sequence[int], end: int) -> Iterator[list[float]]:
    """How likely each block is left out, row by row: `most * k / end` for block number k."""
    for last, depth in zip(accumulate(depths), depths, strict=True):
        yield [most * number / end for number in range(last - depth, last)]


def check_rows(rows: Any, kind: type, argument: str, called: str) -> None:
    """Refuse what is not a sequence of descriptions of rows."""
    if not rows:
        raise ValueError(f"The {argument} should not be empty")
    if not (isinstance(rows, Sequence) and all(isinstance(row, kind) for row in rows)):
        raise TypeError(f"The {argument} should be List[{called}]")


def start_perceptron(layers: Iterable[nn.Module]) -> None:
    """Start values of the linear layers among these."""
    for layer in layers:
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.normal_(layer.bias, std=1e-6)


def perceptron(width: int, inner: int, dropout: float) -> MLP:
    """Two linear layers with a gelu between them, as in every layer of a transformer."""
    layers = MLP(width, [inner, width], activation_layer=nn.GELU, dropout=dropout)
    start_perceptron(layers)
    return layers


def differences(rows: int, columns: int) -> Tensor:
    """For each pair of places in a window, a number that only depends on how far they are apart."""
    down, right = (
        flambeau.arange(n).unsqueeze(1) - flambeau.arange(n) + n - 1 for n in (rows, columns)
    )
    pairs = down[:, None, :, None] * (2 * columns - 1) + right[None, :, None, :]
    return pairs.reshape(rows * columns, -1)
