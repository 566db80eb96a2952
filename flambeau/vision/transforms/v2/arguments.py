"""What constructors of v2 make of fills, paddings and ranges, and where labels are in a sample."""

import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flambeau.vision.transforms.v2.functional.dispatch import is_pure_tensor


def two_floats(value: Any, name: str) -> list[float]:
    """A range or a pair, from one number or two."""
    is_number = isinstance(value, (int, float))
    if not is_number and not isinstance(value, Sequence):
        raise TypeError(f"{name} should be a number or a sequence of numbers. Got {type(value)}")
    given = [value] if is_number else value
    if not 1 <= len(given) <= 2:
        raise ValueError(f"If {name} is a sequence its length should be 1 or 2. Got {len(given)}")
    strange = [type(element) for element in given if not isinstance(element, (int, float))]
    if strange:
        raise ValueError(f"{name} should be a sequence of numbers. Got {strange[0]}")
    return [float(given[0]), float(given[-1])]


def _converted(fill: Any) -> Any:
    return fill if fill is None or isinstance(fill, (int, float)) else [float(v) for v in fill]


def _check_fill(fill: Any) -> None:
    if isinstance(fill, dict):
        for value in fill.values():
            _check_fill(value)
    elif not isinstance(fill, (tuple, list, numbers.Number, type(None))):
        raise TypeError(
            "Got inappropriate fill arg, only Numbers, tuples, lists and dicts are allowed."
        )


def fills_by_type(fill: Any) -> dict[Any, Any]:
    """The fill of each type of input; "others" for those that are not named."""
    _check_fill(fill)
    if not isinstance(fill, dict):
        return {"others": _converted(fill)}
    for key, value in fill.items():
        fill[key] = _converted(value)
    return fill


def fill_for(fills: dict[Any, Any], kind: type) -> Any:
    """The fill for an input of this type."""
    return fills[kind] if kind in fills else fills.get("others")


def check_padding(padding: Any) -> None:
    numbers_of = padding if isinstance(padding, (tuple, list)) else [padding]
    is_fine = all(isinstance(p, int) for p in numbers_of)
    if not is_fine or (isinstance(padding, (tuple, list)) and len(padding) not in (1, 2, 4)):
        raise ValueError(
            f"Padding must be an int or a 1, 2, or 4 element of tuple or list, got {padding}."
        )


# -- labels ----------------------------------------------------------------------------------------


def _usual_labels(inputs: Any) -> Any:
    """The second of a pair; in a dict, what is called labels, or has a name with label in it."""
    found = inputs[1] if isinstance(inputs, (tuple, list)) else inputs
    if isinstance(found, Mapping):
        return found[_labels_key(found)]
    if not is_pure_tensor(found):
        raise ValueError(
            "When using the default labels_getter, the input passed to forward must be a "
            "dictionary or a two-tuple whose second item is a dictionary or a tensor, "
            f"but got {found} instead."
        )
    return found


def _labels_key(sample: Mapping[str, Any]) -> str:
    names = [key for key in sample if key.lower() == "labels"]
    names += [key for key in sample if "label" in key.lower()]
    if not names:
        raise ValueError(
            "Could not infer where the labels are in the sample. Try passing a callable as the "
            "labels_getter parameter?"
            "If there are no labels in the sample by design, pass labels_getter=None."
        )
    return names[0]


def _no_labels(inputs: Any) -> None:
    return None


def labels_function(labels_getter: Any) -> Callable[[Any], Any]:
    """What finds the labels of a sample."""
    if labels_getter == "default":
        return _usual_labels
    if callable(labels_getter):
        return labels_getter
    if labels_getter is None:
        return _no_labels
    raise ValueError(
        f"labels_getter should either be 'default', a callable, or None, but got {labels_getter}."
    )
