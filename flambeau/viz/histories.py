"""Histories of training, in the forms they come in: lists, dictionaries, files.

`read_history` gives series: a name, and pairs of step and value. Files may be CSV, JSON, JSON lines
or logs of TensorBoard (through its package).
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

_STEPS = ("step", "global_step", "iteration", "iter", "epoch", "x")
_NOT_SERIES = {*_STEPS, "time", "wall_time", "timestamp", "date"}


class Series(NamedTuple):
    """A curve: its name, and the places and values of its points."""

    name: str
    x: list[float]
    y: list[float]


def read_history(history: Any, keys: Iterable[str] | None = None) -> tuple[list[Series], str]:
    """Series of a history in any form, and what their steps are called."""
    step = "step"
    if isinstance(history, (str, os.PathLike)):
        history = _from_path(Path(history))
    history = getattr(history, "history", history)
    if isinstance(history, Mapping):
        found, step = _from_mapping(history)
    else:
        items = _plain(history)
        if not isinstance(items, list):
            raise TypeError(
                "plot_losses: a history is a list of numbers, a list of dictionaries, a dictionary "
                f"of lists or a path, not {type(history).__name__}"
            )
        if items and all(isinstance(item, Mapping) for item in items):
            found, step = _from_records(items)
        else:
            found = [_one("loss", items)]
    if keys is not None:
        by_name = {series.name: series for series in found}
        missing = [key for key in keys if key not in by_name]
        if missing:
            raise KeyError(
                f"plot_losses: there is no {missing[0]!r} in the history, only {sorted(by_name)}"
            )
        found = [by_name[key] for key in keys]
    found = [series for series in found if series.x]
    if not found:
        raise ValueError("plot_losses: the history holds no numbers")
    return found, step


def _plain(values):
    """Lists of numbers, out of tensors and arrays too."""
    if hasattr(values, "tolist"):
        return values.tolist()
    return list(values) if isinstance(values, (list, tuple, range)) else values


def _number(value):
    if value is None or value == "":
        return None
    if hasattr(value, "item"):
        value = value.item()
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _one(name, values):
    """A series of numbers, or of (step, value) pairs."""
    x, y = [], []
    for k, value in enumerate(values):
        is_pair = isinstance(value, (list, tuple)) and len(value) == 2
        at, number = (_number(value[0]), _number(value[1])) if is_pair else (k, _number(value))
        if at is not None and number is not None:
            x.append(float(at))
            y.append(number)
    return Series(name, x, y)


def _from_mapping(history):
    """name -> values; a key such as "epoch" gives the steps of all."""
    columns = {str(k): _plain(v) for k, v in history.items()}
    columns = {k: v for k, v in columns.items() if isinstance(v, list)}
    step = next((k for k in _STEPS if k in columns), None)
    if step is None:
        return [_one(k, v) for k, v in columns.items()], "step"
    places = columns[step]
    found = []
    for name, values in columns.items():
        if name in _NOT_SERIES:
            continue
        if len(values) == len(places) and not any(isinstance(v, (list, tuple)) for v in values):
            values = list(zip(places, values))
        found.append(_one(name, values))
    return found, step


def _from_records(records):
    """One dictionary per step; not every key need be in every one."""
    names = dict.fromkeys(str(k) for record in records for k in record)
    step = next((k for k in _STEPS if k in names), None)
    found = []
    for name in names:
        if name in _NOT_SERIES:
            continue
        pairs = [(record.get(step, k) if step else k, record[name])
                 for k, record in enumerate(records) if name in record]  # fmt: skip
        found.append(_one(name, pairs))
    return [series for series in found if series.x], step or "step"


# -- files -----------------------------------------------------------------------------------------


def _from_path(path):
    if not path.exists():
        raise FileNotFoundError(f"plot_losses: there is no file {str(path)!r}")
    if path.is_dir() or "tfevents" in path.name:
        return _from_tensorboard(path)
    if path.suffix == ".json":
        return json.loads(path.read_text(encoding="utf-8"))
    if path.suffix in (".jsonl", ".ndjson"):
        text = path.read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    if path.suffix in (".csv", ".tsv", ".txt"):
        with open(path, newline="", encoding="utf-8") as file:
            separator = "\t" if path.suffix == ".tsv" else ","
            lines = [line for line in csv.reader(file, delimiter=separator) if line]
        if not lines:
            raise ValueError(f"plot_losses: {str(path)!r} is empty")
        if all(_number(cell) is not None for cell in lines[0]):  # no names
            lines.insert(0, ["loss", *(f"column {k}" for k in range(2, len(lines[0]) + 1))])
        return [dict(zip(lines[0], line)) for line in lines[1:]]
    raise ValueError(
        f"plot_losses: cannot read {str(path)!r}: it should be .csv, .json, .jsonl or a folder "
        "that TensorBoard writes to"
    )


def _from_tensorboard(path):
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError as error:
        raise ImportError(
            "reading a log of TensorBoard needs the tensorboard package: "
            "pip install flambeau[tensorboard]"
        ) from error
    events = EventAccumulator(str(path), size_guidance={"scalars": 0})
    events.Reload()
    scalars = events.Tags()["scalars"]
    if scalars:
        return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in scalars}
    found = {}
    for tag in events.Tags()["tensors"]:  # newer writers put scalars here
        values = [(e.step, e.tensor_proto) for e in events.Tensors(tag)]
        pairs = [(s, p.float_val[0]) for s, p in values if len(p.float_val) == 1]
        if pairs:
            found[tag] = pairs
    return found
