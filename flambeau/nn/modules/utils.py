"""One number or one per dimension: how sizes of windows, strides and paddings are told.

The names are PyTorch's, since layers that people write import them from here.
"""

from collections.abc import Iterable
from typing import Any

__all__ = ["consume_prefix_in_state_dict_if_present"]


def each(value, count):
    """One number for every dimension; an iterable is taken as it is."""
    return tuple(value) if isinstance(value, Iterable) else (value,) * count


def _ntuple(n, name="parse"):
    """each, for n dimensions."""

    def parse(x):
        return each(x, n)

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t, n):
    """What F.pad takes: the last dimension first, each number n times."""
    return tuple(x for x in reversed(t) for _ in range(n))


def _list_with_default(out_size, defaults):
    """Sizes, with None replaced by the defaults."""
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    last = defaults[-len(out_size) :]
    return [d if v is None else v for v, d in zip(out_size, last)]


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take a prefix such as "module." off the keys of a state_dict, in place."""
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is None:
        return
    for key in list(metadata):
        if key == "":
            continue
        if key == prefix.replace(".", "") or key.startswith(prefix):
            metadata[key[len(prefix) :]] = metadata.pop(key)
