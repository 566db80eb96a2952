"""Arithmetic of sizes: numbers and lists of numbers, so that programs can be recorded for any.

What `Shape` gives is not a tensor while only these ops work on it. Each function gets sizes and
numbers that the file holds; attributes come by name.
"""

import math
from typing import Any

import flambeau as torch
from flambeau.onnx.operators.table import size_op

Sizes = Any  # an int (or a SymInt), or a list of them


def shape_sizes(x: Any, *, start: int = 0, end: int | None = None) -> Sizes:
    """The sizes of a tensor."""
    return list(x.shape)[start:end]


def number_of_elements(x: Any) -> Sizes:
    return math.prod(x.shape)


def sizes_as_tensor(sizes: Sizes) -> Any:
    """Where sizes leave their arithmetic."""
    return torch.tensor(sizes, dtype=torch.int64)


@size_op("Identity", rank=lambda ranks, options, inputs: ranks[0])
def sizes_identity(sizes: Sizes) -> Sizes:
    return sizes


@size_op("Gather", rank=lambda ranks, options, inputs: ranks[1] if ranks[0] == 1 else None)
def gather_sizes(sizes: Sizes, indices: Sizes, *, axis: int = 0) -> Sizes:
    if isinstance(indices, list):
        return [sizes[i] for i in indices]
    return sizes[indices]


@size_op("Unsqueeze", rank=lambda ranks, options, inputs: 1 if ranks[0] == 0 else None)
def unsqueeze_sizes(sizes: Sizes, axes: Any = None) -> Sizes:
    return [sizes]


@size_op("Squeeze", rank=lambda ranks, options, inputs: 0 if ranks[0] == 1 else None)
def squeeze_sizes(sizes: Sizes, axes: Any = None) -> Sizes:
    return sizes[0]


@size_op("Concat", rank=lambda ranks, options, inputs: 1)
def concat_sizes(*parts: Sizes, axis: int = 0) -> Sizes:
    return [size for part in parts for size in part]


@size_op("Slice", rank=lambda ranks, options, inputs: 1 if len(ranks) > 2 else None)
def slice_sizes(
    sizes: Sizes, starts: Sizes, ends: Sizes, axes: Any = None, steps: Any = None
) -> Sizes:
    step = 1 if steps is None else steps[0]
    return sizes[starts[0] : ends[0] : step]


def joint(ranks: list[int], options: Any = None, inputs: Any = None) -> int:
    return max(ranks)


def each(function: Any, a: Sizes, b: Sizes) -> Sizes:
    """Number by number, with broadcasting."""
    if not isinstance(a, list) and not isinstance(b, list):
        return function(a, b)
    length = max(len(part) for part in (a, b) if isinstance(part, list))
    left = a if isinstance(a, list) else [a]
    right = b if isinstance(b, list) else [b]
    left = left * length if len(left) == 1 else left
    right = right * length if len(right) == 1 else right
    return [function(x, y) for x, y in zip(left, right, strict=True)]


@size_op("Add", rank=joint)
def add_sizes(a: Sizes, b: Sizes) -> Sizes:
    return each(lambda x, y: x + y, a, b)


@size_op("Sub", rank=joint)
def sub_sizes(a: Sizes, b: Sizes) -> Sizes:
    return each(lambda x, y: x - y, a, b)


@size_op("Mul", rank=joint)
def mul_sizes(a: Sizes, b: Sizes) -> Sizes:
    return each(lambda x, y: x * y, a, b)


@size_op("Div", rank=joint)
def div_sizes(a: Sizes, b: Sizes) -> Sizes:
    return each(lambda x, y: x // y if (x >= 0) == (y > 0) else -(-x // y), a, b)


@size_op("Mod", rank=lambda ranks, options, inputs: None if options.get("fmod") else joint(ranks))
def mod_sizes(a: Sizes, b: Sizes, *, fmod: int = 0) -> Sizes:
    return each(lambda x, y: x % y, a, b)


@size_op("ReduceProd", rank=lambda ranks, options, inputs: options.get("keepdims", 1))
def product_of_sizes(sizes: Sizes, axes: Any = None, *, keepdims: int = 1) -> Sizes:
    product = math.prod(sizes)
    return [product] if keepdims else product


@size_op("Cast", rank=lambda ranks, options, inputs: ranks[0] if options.get("to") == 7 else None)
def cast_sizes(sizes: Sizes, *, to: int) -> Sizes:
    """To integers of 64 bits, sizes stay what they are."""
    return sizes
