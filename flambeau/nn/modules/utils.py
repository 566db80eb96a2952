"""One number or one per dimension: how sizes of windows, strides and paddings are told.

The names are PyTorch's, since layers that people write import them from here.
"""

from collections.abc import Iterable
from typing import Any

__all__ = ["consume_prefix_in_state_dict_if_present"]


def each(value, count):
    """One number for every dimension; an iterable is taken as it is."""
    return tuple(value) if isinstance(value, Iterable) else (value,) * count


def _single(x):
    return each(x, 1)


def _pair(x):
    return each(x, 2)


def _triple(x):
    return each(x, 3)


def _quadruple(x):
    return each(x, 4)


def _ntuple(n, name="parse"):
    """each, for n dimensions."""

    def spread(x):
        return each(x, n)

    spread.__name__ = name
    return spread


def _reverse_repeat_tuple(t, n):
    """What F.pad takes: the last dimension first, each number n times."""
    return tuple(number for number in t[::-1] for _ in range(n))


def _list_with_default(out_size, defaults):
    """Sizes, with None replaced by the defaults."""
    if isinstance(out_size, int):
        return out_size
    count = len(out_size)
    if not count < len(defaults):
        raise ValueError(f"Input dimension should be at least {count + 1}")
    filled = zip(out_size, defaults[len(defaults) - count :])
    return [own if asked is None else asked for asked, own in filled]


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take a prefix such as "module." off the keys of a state_dict, in place."""
    _shorten(state_dict, prefix)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is not None:
        module = prefix.replace(".", "")  # its own entry has no dot behind it
        if module in metadata and module:
            metadata[module[len(prefix) :]] = metadata.pop(module)
        _shorten(metadata, prefix)


def _shorten(named, prefix):
    for name in [name for name in named if name and name.startswith(prefix)]:
        named[name.removeprefix(prefix)] = named.pop(name)
