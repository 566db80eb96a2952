"""`wrap_dataset_for_transforms_v2`: targets as tensors that say what they are.

Transforms of v2 treat boxes and masks along with the image if they are of the kinds in
`flambeau.vision.tv_tensors`. A wrapped dataset gives such targets, and then applies its transforms.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable, Collection
from typing import Any

import flambeau as torch
from flambeau.vision import datasets, tv_tensors

_Rule = Callable[[Any, Any, Any], tuple[Any, Any]]

_COCO_KEYS = {"segmentation", "area", "iscrowd", "image_id", "bbox", "category_id"}
_VOC_CATEGORIES = (
    "__background__ aeroplane bicycle bird boat bottle bus car cat chair cow diningtable dog horse "
    "motorbike person pottedplant sheep sofa train tvmonitor"
).split()


def wrap_dataset_for_transforms_v2(dataset: Any, target_keys: Any = None) -> Any:
    """The dataset with boxes, masks and labels as tensors of their kinds.

    Args:
        dataset: one of the datasets of this package; those for classification stay as they are.
        target_keys: for targets that are dictionaries: the keys to give, "all", or None for a
            usual choice.
    """
    if target_keys is not None and not _are_strings(target_keys):
        raise ValueError(
            "`target_keys` can be None, 'all', or a collection of strings denoting the keys to be "
            f"returned, but got {target_keys}"
        )
    kind = type(dataset)
    bases = VisionDatasetTVTensorWrapper, kind
    wrapped = type(f"Wrapped{kind.__name__}", bases, {})
    return wrapped(dataset, target_keys)


def _are_strings(keys: Any) -> bool:
    return isinstance(keys, Collection) and all(isinstance(key, str) for key in keys)


class VisionDatasetTVTensorWrapper:
    """Stands before the class of a dataset; attributes that it lacks are those of the dataset."""

    def __init__(self, dataset: Any, target_keys: Any) -> None:
        self._dataset, self._target_keys = dataset, target_keys
        self._rule = _rule_for(dataset, target_keys)
        # transforms come after the wrapping, so the dataset is relieved of them
        for name in ("transform", "target_transform", "transforms"):
            setattr(self, name, getattr(dataset, name))
            setattr(dataset, name, None)

    def __getattr__(self, name: str) -> Any:
        if name == "_dataset":
            raise AttributeError(name)
        return getattr(self._dataset, name)

    def __getitem__(self, idx: Any) -> Any:
        image, target = self._dataset[idx]
        sample = self._rule(idx, image, target)
        transforms: Any = self.__dict__["transforms"]
        return sample if transforms is None else transforms(*sample)

    def __len__(self) -> int:
        return len(self._dataset)

    def __reduce__(self) -> Any:
        dataset = copy.copy(self._dataset)
        for name in ("transform", "target_transform", "transforms"):
            setattr(dataset, name, self.__dict__[name])
        return wrap_dataset_for_transforms_v2, (dataset, self._target_keys)


def _rule_for(dataset: Any, target_keys: Any) -> _Rule:
    kind = type(dataset)
    if not isinstance(dataset, datasets.VisionDataset):
        raise TypeError(
            "This wrapper is meant for subclasses of `torchvision.datasets.VisionDataset`, but got "
            f"a '{kind.__name__}' instead."
        )
    homes = ("flambeau.", "torchvision.")
    names = [cls.__name__ for cls in kind.mro() if cls.__module__.startswith(homes)]
    name = next((name for name in names if name in _RULES), None)
    if name is None:
        raise TypeError(
            f"No wrapper exists for dataset class {kind.__name__}. Please wrap the output yourself."
        )
    if target_keys is not None and name not in ("CocoDetection", "VOCDetection"):
        raise ValueError(
            "`target_keys` is currently only supported for `CocoDetection`, `VOCDetection`, "
            f"`Kitti`, and `WIDERFace`, but got {name}."
        )
    return _RULES[name](dataset, target_keys)


def _chosen(target_keys: Any, available: set[str], default: set[str]) -> set[str]:
    if target_keys is None:
        return default
    if target_keys == "all":
        return available
    if extra := sorted(set(target_keys) - available):
        raise ValueError(f"Target keys {extra} are not available")
    return set(target_keys)


# -- the rules -------------------------------------------------------------------------------------


def _unchanged(dataset: Any, target_keys: Any) -> _Rule:
    return lambda index, image, target: (image, target)


def _segmentation(dataset: Any, target_keys: Any) -> _Rule:
    return lambda index, image, mask: (image, tv_tensors.Mask(mask))


def _pets(dataset: Any, target_keys: Any) -> _Rule:
    def rule(index: Any, image: Any, target: Any) -> tuple[Any, Any]:
        if target is None:
            return image, target
        kinds = dataset._target_types
        targets = target if len(kinds) > 1 else (target,)
        wrapped = tuple(
            tv_tensors.Mask(each) if kind == "segmentation" else each
            for kind, each in zip(kinds, targets)
        )
        return image, wrapped if len(kinds) > 1 else wrapped[0]

    return rule


def _voc_detection(dataset: Any, target_keys: Any) -> _Rule:
    keys = _chosen(target_keys, {"annotation", "boxes", "labels"}, {"boxes", "labels"})

    def rule(index: Any, image: Any, target: Any) -> tuple[Any, Any]:
        things = target["annotation"]["object"]
        result = dict(target) if "annotation" in keys else {}
        if "boxes" in keys:
            sides = ("xmin", "ymin", "xmax", "ymax")
            boxes = [[int(thing["bndbox"][side]) for side in sides] for thing in things]
            result["boxes"] = _boxes(boxes, image)
        if "labels" in keys:
            labels = [_VOC_CATEGORIES.index(thing["name"]) for thing in things]
            result["labels"] = torch.tensor(labels)
        return image, result

    return rule


def _boxes(boxes: Any, image: Any) -> Any:
    return tv_tensors.BoundingBoxes(
        boxes, format=tv_tensors.BoundingBoxFormat.XYXY, canvas_size=(image.height, image.width)
    )


def _coco_detection(dataset: Any, target_keys: Any) -> _Rule:
    added = {"boxes", "masks", "labels"}
    keys = _chosen(target_keys, _COCO_KEYS | added, {"image_id", "boxes", "labels"})

    def rule(index: Any, image: Any, target: Any) -> tuple[Any, Any]:
        number = dataset.ids[index]
        if not target:
            return image, {"image_id": number}
        result: dict[str, Any] = {"image_id": number} if "image_id" in keys else {}
        if "boxes" in keys:
            corners = torch.tensor([each["bbox"] for each in target])
            corners = torch.cat([corners[:, :2], corners[:, :2] + corners[:, 2:]], 1)
            result["boxes"] = _boxes(corners, image)
        if "masks" in keys:
            size = (image.height, image.width)
            masks = [_coco_mask(each["segmentation"], size) for each in target]
            result["masks"] = tv_tensors.Mask(torch.stack(masks))
        if "labels" in keys:
            result["labels"] = torch.tensor([each["category_id"] for each in target])
        for key in sorted(keys - added - {"image_id"}):
            result[key] = [each[key] for each in target if key in each]
        return image, result

    return rule


def _coco_mask(segmentation: Any, size: tuple[int, int]) -> Any:
    try:
        mask = importlib.import_module("pycocotools.mask")
    except ModuleNotFoundError as error:
        raise ImportError(
            "outlines of COCO become masks with the package pycocotools: pip install pycocotools"
        ) from error
    if isinstance(segmentation, list):
        segmentation = mask.merge(mask.frPyObjects(segmentation, *size))
    elif not isinstance(segmentation["counts"], str):
        segmentation = mask.frPyObjects(segmentation, *size)
    return torch.from_numpy(mask.decode(segmentation))


_RULES: dict[str, Callable[[Any, Any], _Rule]] = {
    "TensorImages": _unchanged,
    "CIFAR10": _unchanged,
    "DatasetFolder": _unchanged,
    "Imagenette": _unchanged,
    "Caltech256": _unchanged,
    "GTSRB": _unchanged,
    "CocoCaptions": _unchanged,
    "CocoDetection": _coco_detection,
    "VOCSegmentation": _segmentation,
    "VOCDetection": _voc_detection,
    "OxfordIIITPet": _pets,
}
