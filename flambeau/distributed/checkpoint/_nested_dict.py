"""Nested state dicts as flat ones: {"model": {"w": t}} is {"model.w": t}.

Dictionaries are entered; lists are where a tensor or a dictionary lies in them. What has nothing in
it but empty dictionaries is not kept.
"""

import itertools
from typing import Any

from flambeau import Tensor

__all__ = ["flatten_state_dict", "set_element", "unflatten_state_dict"]

Path = tuple[str | int, ...]


def _is_entered(value):
    if isinstance(value, dict):
        return True
    return isinstance(value, list) and any(
        isinstance(each, Tensor) or _is_entered(each) for each in value
    )


def _leaves(value, path):
    if not _is_entered(value):
        yield path, value
        return
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in pairs:
        yield from _leaves(each, (*path, key))


def flatten_state_dict(state_dict: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Path]]:
    """(values by flat name, the keys that lead to each)"""
    flat, paths = {}, {}
    for path, value in _leaves(state_dict, ()):
        name = ".".join(map(str, path))
        if name in flat:
            raise ValueError(f"duplicated flatten key {name}")
        flat[name], paths[name] = value, path
    return flat, paths


def written_paths(state_dict: dict[str, Any], paths: dict[str, Path]) -> dict[str, Path]:
    """Paths as files say them: keys of dictionaries are text, numbers are places in lists."""
    return {name: _written(state_dict, path) for name, path in paths.items()}


def _written(value, path):
    steps: list[str | int] = []
    for key in path:
        steps.append(str(key) if isinstance(value, dict) else key)
        value = value[key]
    return tuple(steps)


def set_element(root: Any, path: Path, value: Any) -> None:
    """Put a value where a path leads, making dictionaries and lists on the way."""
    for key, following in itertools.pairwise(path):
        root = _inner(root, key, [] if isinstance(following, int) else {})
    _put(root, path[-1], value)


def _put(root, key, value):
    if isinstance(root, list):
        root.extend([None] * (key + 1 - len(root)))
    root[key] = value


def _inner(root, key, fresh):
    is_there = key < len(root) if isinstance(root, list) else key in root
    if not is_there or root[key] is None:
        _put(root, key, fresh)
    return root[key]


def unflatten_state_dict(state_dict: dict[str, Any], mapping: dict[str, Path]) -> dict[str, Any]:
    """The nested dict whose flat form and paths these are."""
    nested: dict[str, Any] = {}
    for name, value in state_dict.items():
        set_element(nested, mapping[name], value)
    return nested
