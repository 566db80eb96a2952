"""Sequences (lists) and optionals (a value or None)."""

from typing import Any

import numpy as np

import flambeau as torch
from flambeau import Tensor
from flambeau.onnx.operators.shapes import concat
from flambeau.onnx.operators.table import op
from flambeau.onnx.operators.values import ints, number


@op("SequenceEmpty", 11)
def sequence_empty(*, dtype: int = 1) -> list[Any]:
    return []


@op("SequenceConstruct", 11)
def sequence_construct(*values: Any) -> list[Any]:
    return list(values)


@op("SequenceInsert", 11, static=(2,))
def sequence_insert(sequence: list[Any], value: Any, position: Any = None) -> list[Any]:
    place = len(sequence) if position is None else int(number(position))
    longer = list(sequence)
    longer.insert(place, value)
    return longer


@op("SequenceErase", 11, static=(1,))
def sequence_erase(sequence: list[Any], position: Any = None) -> list[Any]:
    shorter = list(sequence)
    del shorter[-1 if position is None else int(number(position))]
    return shorter


@op("SequenceAt", 11, static=(1,))
def sequence_at(sequence: list[Any], position: Any) -> Any:
    return sequence[int(number(position))]


@op("SequenceLength", 11)
def sequence_length(sequence: list[Any]) -> Tensor:
    return torch.tensor(len(sequence), dtype=torch.int64)


@op("SplitToSequence", 11, static=(1,))
def split_to_sequence(
    x: Tensor, split: Any = None, *, axis: int = 0, keepdims: int = 1
) -> list[Any]:
    """Pieces of one length each; without any, slices, which may lose the dimension."""
    if split is None:
        pieces = torch.split(x, 1, axis)
        return list(pieces) if keepdims else [piece.squeeze(axis) for piece in pieces]
    scalar = isinstance(split, int) or (isinstance(split, torch.Tensor) and split.dim() == 0)
    return list(torch.split(x, number(split) if scalar else ints(split), axis))


@op("ConcatFromSequence", 11)
def concat_from_sequence(sequence: list[Any], *, axis: int, new_axis: int = 0) -> Any:
    if not new_axis:
        return concat(*sequence, axis=axis)
    stack = np.stack if isinstance(sequence[0], np.ndarray) else torch.stack
    return stack(sequence, axis)


@op("SequenceMap", 17)
def sequence_map(sequence: list[Any], *others: Any, body: Any, n_outputs: int) -> Any:
    """The body on each element; other sequences go along, tensors are the same each time."""
    columns: list[list[Any]] = [[] for _ in range(n_outputs)]
    for place, value in enumerate(sequence):
        rest = [other[place] if isinstance(other, list) else other for other in others]
        results = body(value, *rest)
        for column, result in zip(columns, results):
            column.append(result)
    return tuple(columns) if n_outputs > 1 else columns[0]


@op("Optional", 15)
def optional(value: Any = None, *, type: Any = None) -> Any:
    return value


@op("OptionalHasElement", 15)
def optional_has_element(value: Any = None) -> Tensor:
    return torch.tensor(value is not None)


@op("OptionalGetElement", 15)
def optional_get_element(value: Any) -> Any:
    if value is None:
        raise ValueError("OptionalGetElement: the optional is empty")
    return value
