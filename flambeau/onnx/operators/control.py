"""Branches and loops. Bodies are modules that give a tuple; `captured` is read from outside."""

from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.onnx.operators.table import op
from flambeau.onnx.operators.values import number


@op("If")
def if_(
    condition: Tensor, *captured: Any, then_branch: Any, else_branch: Any, n_outputs: int
) -> Any:
    if torch.compiler.is_exporting():
        return only(tuple(torch.cond(condition, then_branch, else_branch, captured)), n_outputs)
    branch = then_branch if bool(number(condition)) else else_branch
    return only(branch(*captured), n_outputs)


def only(results: tuple[Any, ...], count: int) -> Any:
    return results if count > 1 else results[0]


@op("Loop")
def loop(most: Any, condition: Any, *values: Any, body: Any, n_carried: int, n_outputs: int) -> Any:
    """Until the count or the condition ends it; what is not carried on is collected."""
    carried, captured = list(values[:n_carried]), values[n_carried:]
    limit = None if most is None else int(number(most))
    going = True if condition is None else bool(number(condition))
    collected: list[list[Any]] = [[] for _ in range(n_outputs - n_carried)]
    step = 0
    while going and (limit is None or step < limit):
        count = torch.tensor(step, dtype=torch.int64)
        results = body(count, torch.tensor(going), *carried, *captured)
        going = bool(number(results[0]))
        carried = list(results[1 : 1 + n_carried])
        for column, value in zip(collected, results[1 + n_carried :]):
            column.append(value)
        step += 1
    return only((*carried, *map(stacked, collected)), n_outputs)


def stacked(values: list[Any], axis: int = 0) -> Tensor:
    """What was collected, along a new dimension."""
    return torch.stack(values, axis) if values else torch.zeros([0])


@op("Scan", 9)
def scan(
    *values: Any,
    body: Any,
    num_scan_inputs: int,
    n_carried: int,
    scan_input_axes: list[int] | None = None,
    scan_input_directions: list[int] | None = None,
    scan_output_axes: list[int] | None = None,
    scan_output_directions: list[int] | None = None,
    n_outputs: int,
) -> Any:
    """States are carried through slices of inputs; the other outputs are collected."""
    states = list(values[:n_carried])
    sources = values[n_carried : n_carried + num_scan_inputs]
    captured = values[n_carried + num_scan_inputs :]
    axes = scan_input_axes or [0] * num_scan_inputs
    turned = scan_input_directions or [0] * num_scan_inputs
    length = sources[0].shape[axes[0]]
    count = n_outputs - n_carried
    collected: list[list[Any]] = [[] for _ in range(count)]
    for step in range(length):
        slices = [
            source.select(axis, length - 1 - step if back else step)
            for source, axis, back in zip(sources, axes, turned)
        ]
        results = body(*states, *slices, *captured)
        states = list(results[:n_carried])
        for column, value in zip(collected, results[n_carried:]):
            column.append(value)
    out_axes = scan_output_axes or [0] * count
    back = scan_output_directions or [0] * count
    stacks = [
        stacked(column[::-1] if turn else column, axis)
        for column, axis, turn in zip(collected, out_axes, back)
    ]
    return only((*states, *stacks), n_outputs)


@op("Scan", 8)
def scan_batched(
    lengths: Any,
    *values: Any,
    body: Any,
    num_scan_inputs: int,
    n_carried: int,
    directions: list[int] | None = None,
    n_outputs: int,
) -> Any:
    """The first Scan had a batch in front of everything."""
    batch = values[0].shape[0]
    given = n_carried + num_scan_inputs
    entries = []
    for entry in range(batch):
        own = [value[entry] for value in values[:given]] + list(values[given:])
        result = scan(
            *own,
            body=body,
            num_scan_inputs=num_scan_inputs,
            n_carried=n_carried,
            scan_input_directions=directions,
            n_outputs=n_outputs,
        )
        entries.append(result if n_outputs > 1 else (result,))
    return only(tuple(torch.stack(list(column)) for column in zip(*entries)), n_outputs)
