"""Samples: nested lists, tuples and dicts with images and what belongs to them.

`flatten` lists what is in a sample, `rebuild` puts other things in the same places. The rest asks
what is in such a list.
"""

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.vision import tv_tensors
from flambeau.vision.transforms.conversion import is_pil_image
from flambeau.vision.transforms.v2.functional.dispatch import is_pure_tensor
from flambeau.vision.transforms.v2.functional.sizes import get_dimensions, get_size

Check = type | Callable[[Any], bool]


def flatten(sample: Any) -> list[Any]:
    """What is in a sample, depth first."""
    kind = type(sample)
    if kind in (dict, OrderedDict, defaultdict):
        return [leaf for value in sample.values() for leaf in flatten(value)]
    if kind in (list, tuple, deque) or (isinstance(sample, tuple) and hasattr(kind, "_fields")):
        return [leaf for value in sample for leaf in flatten(value)]
    return [sample]


def rebuild(sample: Any, leaves: list[Any]) -> Any:
    """A sample of the same form with other things in it."""
    rest = iter(leaves)

    def again(part):
        kind = type(part)
        if kind is defaultdict:
            return defaultdict(part.default_factory, {k: again(v) for k, v in part.items()})
        if kind in (dict, OrderedDict):
            return kind((key, again(value)) for key, value in part.items())
        if kind is deque:
            return deque([again(value) for value in part], maxlen=part.maxlen)
        if kind in (list, tuple):
            return kind([again(value) for value in part])
        if isinstance(part, tuple) and hasattr(kind, "_fields"):
            return kind(*[again(value) for value in part])
        return next(rest)

    return again(sample)


def check_type(obj: Any, types_or_checks: Sequence[Check]) -> bool:
    """Whether a thing is of one of these types, or passes one of these checks."""
    for check in types_or_checks:
        if isinstance(obj, check) if isinstance(check, type) else check(obj):
            return True
    return False


def has_any(flat_inputs: list[Any], *types_or_checks: Check) -> bool:
    """Whether one of these is in a sample."""
    return any(check_type(inpt, types_or_checks) for inpt in flat_inputs)


def has_all(flat_inputs: list[Any], *types_or_checks: Check) -> bool:
    """Whether all of these are in a sample."""
    return all(has_any(flat_inputs, check) for check in types_or_checks)


def get_bounding_boxes(flat_inputs: list[Any]) -> tv_tensors.BoundingBoxes:
    """The first boxes of a sample."""
    for inpt in flat_inputs:
        if isinstance(inpt, tv_tensors.BoundingBoxes):
            return inpt
    raise ValueError("No bounding boxes were found in the sample")


def get_keypoints(flat_inputs: list[Any]) -> tv_tensors.KeyPoints:
    """The first points of a sample."""
    for inpt in flat_inputs:
        if isinstance(inpt, tv_tensors.KeyPoints):
            return inpt
    raise ValueError("No keypoints were found in the sample")


_PICTURES: tuple[Check, ...] = (is_pure_tensor, is_pil_image, tv_tensors.Image, tv_tensors.Video)
_SIZED: tuple[Check, ...] = (
    *_PICTURES,
    tv_tensors.Mask,
    tv_tensors.BoundingBoxes,
    tv_tensors.KeyPoints,
)


def _listed(values: set) -> str:
    return ", ".join(f"'{value}'" for value in sorted(values))


def query_chw(flat_inputs: list[Any]) -> tuple[int, int, int]:
    """Channels, height and width of the pictures of a sample, which must agree."""
    found = {tuple(get_dimensions(i)) for i in flat_inputs if check_type(i, _PICTURES)}
    if not found:
        raise TypeError("No image or video was found in the sample")
    if len(found) > 1:
        raise ValueError(f"Found multiple CxHxW dimensions in the sample: {_listed(found)}")
    return found.pop()


def query_size(flat_inputs: list[Any]) -> tuple[int, int]:
    """Height and width of everything in a sample, which must agree."""
    found = {tuple(get_size(i)) for i in flat_inputs if check_type(i, _SIZED)}
    if not found:
        raise TypeError("No image, video, mask, bounding box of keypoint was found in the sample")
    if len(found) > 1:
        raise ValueError(f"Found multiple HxW dimensions in the sample: {_listed(found)}")
    return found.pop()
