"""x[...] and x[...] = value as the ops they are made of, run and recorded one by one."""

import sys
from typing import Any

import flambeau
from flambeau._tensor import Tensor
from flambeau.aten.schemas import is_int


def take(recorder: Any, tensor: Tensor, index: Any) -> Tensor:
    """x[index]; a single slice is one even if it takes all there is."""
    if isinstance(index, slice):
        return _sliced(recorder, tensor, 0, index)
    result, indices = _viewed(recorder, tensor, index)
    if indices:
        return recorder.call("index.Tensor", result, indices)
    if result is tensor:
        return recorder.call("alias.default", tensor)
    return result


def assign(recorder: Any, tensor: Tensor, index: Any, value: Any) -> None:
    """x[index] = value."""
    number = not isinstance(value, Tensor)
    if number:
        value = recorder.lift_fresh(_scalar(tensor, value), False)
    part, indices = _viewed(recorder, tensor, index)
    if indices:
        recorder.call("index_put_.default", part, indices, value)
    elif value.ndim == 0 and part.ndim:
        recorder.call("fill_.Tensor", part, value)
    else:
        recorder.call("copy_.default", part, _fitted(recorder, value, part))


def _fitted(recorder, value, part):
    """Dimensions of length one in front are dropped."""
    while value.ndim > part.ndim and value.shape[0] == 1:
        value = recorder.call("squeeze.dim", value, 0)
    return value


def _scalar(tensor, value):
    if is_int(value):
        value = int(value)
    dtype = tensor.dtype if not hasattr(value, "dtype") else None
    return flambeau.asarray(value, dtype=dtype)


def _viewed(recorder, tensor, index):
    """(what slices and numbers leave, tensors to index it with)."""
    items = list(index) if isinstance(index, tuple) else [index]
    items = [_item(item) for item in items]
    used = sum(_width(item) for item in items)
    if not any(item is ... for item in items):
        items.append(...)
    dim, indices = 0, []
    for item in items:
        if item is ...:
            dim += tensor_dims(tensor, items, used, dim)
        elif item is None:
            tensor = recorder.call("unsqueeze.default", tensor, dim)
            dim += 1
        elif isinstance(item, slice):
            if item != slice(None):
                tensor = _sliced(recorder, tensor, dim, item)
            dim += 1
        elif isinstance(item, Tensor):
            indices += [None] * (dim - len(indices)) + [_known(recorder, item)]
            dim += _width(item)
        else:
            tensor = recorder.call("select.int", tensor, dim, item)
            used -= 1
    return tensor, indices


def tensor_dims(tensor: Tensor, items: list, used: int, dim: int) -> int:
    """How many dimensions the dots stand for."""
    after, seen = 0, False
    for item in items:
        if item is ...:
            seen = True
        elif seen:
            after += _width(item)
    return tensor.dim() - dim - after if after or seen else tensor.dim() - used


def _item(item):
    """An index as a number, a slice or a tensor."""
    if isinstance(item, bool):
        return flambeau.tensor(item)
    if isinstance(item, (list, tuple)) or hasattr(item, "__array__"):
        return item if isinstance(item, Tensor) else flambeau.tensor(item)
    return item


def _width(item):
    """How many dimensions an item looks at."""
    if item is None or item is ...:
        return 0
    if isinstance(item, Tensor) and item.dtype in (flambeau.bool, flambeau.uint8):
        return item.dim()
    return 1


def _known(recorder, item):
    return item if recorder.is_known(item) else recorder.lift_fresh(item, False)


def _sliced(recorder, tensor, dim, item):
    start = 0 if item.start is None else item.start
    stop = sys.maxsize if item.stop is None else item.stop
    step = 1 if item.step is None else item.step
    rest = () if step == 1 else (step,)
    return recorder.call("slice.Tensor", tensor, dim, _number(start), _number(stop), *rest)


def _number(value):
    return value if isinstance(value, int) or is_int(value) else value.__index__()
