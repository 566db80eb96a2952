"""Transforms of v2 on boxes and points alone: formats, clamping, dropping bad ones."""

from typing import Any

from flambeau import Tensor
from flambeau.vision import tv_tensors
from flambeau.vision.transforms.v2 import functional as F
from flambeau.vision.transforms.v2.arguments import labels_function
from flambeau.vision.transforms.v2.functional.boxes import valid_boxes, valid_points
from flambeau.vision.transforms.v2.samples import (
    flatten,
    get_bounding_boxes,
    get_keypoints,
    rebuild,
)
from flambeau.vision.transforms.v2.transform import Transform


class ConvertBoundingBoxFormat(Transform):
    """Boxes in another format."""

    _transformed_types = (tv_tensors.BoundingBoxes,)

    def __init__(self, format: str | tv_tensors.BoundingBoxFormat) -> None:
        super().__init__()
        self.format = format

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return F.convert_bounding_box_format(inpt, new_format=self.format)


class ClampBoundingBoxes(Transform):
    """Boxes cut at the edges of their canvas."""

    _transformed_types = (tv_tensors.BoundingBoxes,)

    def __init__(self, clamping_mode: str | None = "auto") -> None:
        super().__init__()
        self.clamping_mode = clamping_mode

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return F.clamp_bounding_boxes(inpt, clamping_mode=self.clamping_mode)


class ClampKeyPoints(Transform):
    """Points moved to the nearest place on their canvas."""

    _transformed_types = (tv_tensors.KeyPoints,)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return F.clamp_keypoints(inpt)


class SetClampingMode(Transform):
    """Boxes that say how later transforms are to cut them."""

    _transformed_types = (tv_tensors.BoundingBoxes,)

    def __init__(self, clamping_mode: str | None) -> None:
        super().__init__()
        self.clamping_mode = clamping_mode
        if clamping_mode not in (None, "soft", "hard"):
            raise ValueError(f"clamping_mode must be soft, hard or None, got {clamping_mode}")

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        out = inpt.clone()
        out.clamping_mode = self.clamping_mode
        return out


def _label_tensors(labels: Any) -> Any:
    if labels is None:
        return None
    said = "The labels in the input to forward() must be a tensor or None, got {} instead."
    if isinstance(labels, Tensor):
        return (labels,)
    if not isinstance(labels, (tuple, list)):
        raise ValueError(said.format(type(labels)))
    for entry in labels:
        if not isinstance(entry, Tensor):
            raise ValueError(said.format(type(entry)))
    return labels


class _Sanitize(Transform):
    """Drops what is not valid, and the labels that belong to it."""

    _labels_getter: Any

    def _find_labels_with(self, labels_getter):
        self.labels_getter = labels_getter
        self._labels_getter = labels_function(labels_getter)

    def _find(self, flat):
        """The boxes or points, which of them are valid, and what to call them."""
        raise NotImplementedError

    _dropped_too: Any = ()

    def forward(self, *inputs: Any) -> Any:
        sample = inputs if len(inputs) > 1 else inputs[0]
        labels = _label_tensors(self._labels_getter(sample))
        flat = flatten(sample)
        found, message = self._find(flat)
        for label in labels or ():
            if found.shape[0] != label.shape[0]:
                raise ValueError(
                    f"{message.format(found.shape)} match the number of labels."
                    f"Found labels with shape={label.shape})."
                )
        params = {"valid": self._valid(found), "labels": labels}
        return rebuild(sample, [self.transform(inpt, params) for inpt in flat])

    def _valid(self, found):
        raise NotImplementedError

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        labels = params["labels"]
        if labels is not None and any(inpt is label for label in labels):
            return inpt[params["valid"]]
        if not isinstance(inpt, self._dropped_too):
            return inpt
        try:
            return tv_tensors.wrap(inpt[params["valid"]], like=inpt)
        except IndexError:  # a mask of the whole image, not one for each box
            return inpt


class SanitizeBoundingBoxes(_Sanitize):
    """Drops boxes that are too small or leave the canvas, with their labels and masks.

    labels_getter: a function of the sample that gives its labels, a tensor or several, "default"
    for what has label in its name, or None.
    """

    _dropped_too = (tv_tensors.BoundingBoxes, tv_tensors.Mask)

    def __init__(
        self, min_size: float = 1.0, min_area: float = 1.0, labels_getter: Any = "default"
    ) -> None:
        super().__init__()
        for name, least in (("min_size", min_size), ("min_area", min_area)):
            if least < 1:
                raise ValueError(f"{name} must be >= 1, got {least}.")
            setattr(self, name, least)
        self._find_labels_with(labels_getter)

    def _find(self, flat):
        return get_bounding_boxes(flat), "Number of boxes (shape={}) and must"

    def _valid(self, found):
        return valid_boxes(found, found.format, found.canvas_size, self.min_size, self.min_area)


class SanitizeKeyPoints(_Sanitize):
    """Drops points that leave the canvas, with their labels."""

    _dropped_too = (tv_tensors.KeyPoints,)

    def __init__(self, labels_getter: Any = None) -> None:
        super().__init__()
        self._find_labels_with(labels_getter)

    def _find(self, flat):
        return get_keypoints(flat), "Number of kepyoints (shape={}) must"

    def _valid(self, found):
        return valid_points(found, found.canvas_size)
