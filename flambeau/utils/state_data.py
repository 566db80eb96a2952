"""Plain data: what a file that is read with `weights_only=True` can hold, and no more.

`plain` copies nothing that is fine already. NumPy's numbers become Python's, its arrays become
tensors; anything else that is not data is refused when a run is saved, not when it is resumed.
"""

import sys
from collections import Counter, OrderedDict, defaultdict

from flambeau import Size, device, dtype, from_numpy
from flambeau._tensor import Tensor

_DATA = (type(None), bool, int, float, complex, str, bytes, bytearray, Size, device, dtype)
MOST_DEPTH = 100


def plain(value, path, depth=0):
    """The value as plain data; `path` says in errors where it is."""
    kind = type(value)
    if kind in _DATA or isinstance(value, Tensor):
        return value
    if depth > MOST_DEPTH:
        raise ValueError(f"{path[:100]}... is nested deeper than {MOST_DEPTH}")
    if kind in (list, tuple, set):
        return kind(plain(item, f"{path}[{k}]", depth + 1) for k, item in enumerate(value))
    if kind in (dict, defaultdict, OrderedDict, Counter):
        items = {
            plain(key, path, depth + 1): plain(item, f"{path}[{key!r:.40}]", depth + 1)
            for key, item in value.items()
        }
        if kind is OrderedDict:
            return _like(value, items)
        return Counter(items) if kind is Counter else items
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        return plain(value.item(), path, depth + 1)
    if numpy is not None and isinstance(value, numpy.ndarray):
        return from_numpy(value.copy())
    raise TypeError(
        f"{path} is of type {kind.__module__}.{kind.__qualname__}, which a file of data cannot "
        "hold; keep it out of the training state, or save a state_dict of it"
    )


def _like(source, items):
    """An OrderedDict with the attributes of another one: state dictionaries carry versions."""
    out = OrderedDict(items)
    out.__dict__.update(source.__dict__)
    return out


def restored_array(value):
    """Data in which tensors stand for NumPy's arrays, with arrays again."""
    if isinstance(value, Tensor):
        return value.numpy()
    if isinstance(value, dict):
        return {name: restored_array(item) for name, item in value.items()}
    return value
