"""Inputs cut over devices and outputs joined again, in any nesting of tuples, lists and dicts."""

from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import Tensor

__all__ = ["gather", "scatter", "scatter_kwargs"]


def _device(given):
    return flambeau.device("cuda", given) if isinstance(given, int) else flambeau.device(given)


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """One of everything for every device: tensors are cut along dim, other things repeated."""
    count = len(target_gpus)
    if isinstance(inputs, Tensor):
        parts = inputs.chunk(count, dim)
        return tuple(part.to(_device(device)) for part, device in zip(parts, target_gpus))
    if isinstance(inputs, tuple) and hasattr(inputs, "_fields"):
        return [type(inputs)(*row) for row in zip(*(scatter(x, target_gpus, dim) for x in inputs))]
    if isinstance(inputs, (tuple, list)) and inputs:
        rows = zip(*(scatter(x, target_gpus, dim) for x in inputs))
        return [type(inputs)(row) for row in rows]
    if isinstance(inputs, dict) and inputs:
        rows = zip(*(scatter(value, target_gpus, dim) for value in inputs.values()))
        return [type(inputs)(zip(inputs, row)) for row in rows]
    return [inputs for _ in target_gpus]


def scatter_kwargs(
    inputs: tuple, kwargs: dict[str, Any] | None, target_gpus: Sequence[Any], dim: int = 0
) -> tuple[tuple, tuple]:
    """Arguments and keywords for every device, as many of the one as of the other."""
    places = list(scatter(inputs, target_gpus, dim)) if inputs else []
    words = list(scatter(kwargs, target_gpus, dim)) if kwargs else []
    places += [()] * (len(words) - len(places))
    words += [{}] * (len(places) - len(words))
    return tuple(places), tuple(words)


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """What `scatter` cut, joined on one device."""
    first = outputs[0]
    if isinstance(first, Tensor):
        device = _device(target_device)
        if all(t.dim() == 0 for t in outputs) and dim == 0:
            return flambeau.stack([t.to(device) for t in outputs])
        return flambeau.cat([t.to(device) for t in outputs], dim)
    if first is None:
        return None
    if isinstance(first, dict):
        return type(first)(
            (key, gather([out[key] for out in outputs], target_device, dim)) for key in first
        )
    parts = [gather(row, target_device, dim) for row in zip(*outputs)]
    return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
