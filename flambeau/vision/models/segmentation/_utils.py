"""A backbone, a classifier of its places, and perhaps a second one: what segmenters share.

`segmenter` is to these models what `builder` is to classifiers: it adds `weights=`,
`weights_backbone=` and the rest of their arguments to a function that only builds.
"""

import functools
import inspect
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Optional

from flambeau import Tensor, nn
from flambeau.nn import functional as F

from .._api import WeightsEnum, accept_positions, accept_pretrained, register_model
from .._utils import IntermediateLayerGetter

_MEMBER = "COCO_WITH_VOC_LABELS_V1"


class _SimpleSegmentationModel(nn.Module):
    """Scores of classes for every pixel, under "out"; of the second classifier under "aux"."""

    def __init__(
        self, backbone: nn.Module, classifier: nn.Module, aux_classifier: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.classifier = classifier
        self.aux_classifier = aux_classifier

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        size = x.shape[-2:]
        features = self.backbone(x)
        result = OrderedDict(out=resized(self.classifier(features["out"]), size))
        if self.aux_classifier is not None:
            result["aux"] = resized(self.aux_classifier(features["aux"]), size)
        return result


def resized(x: Tensor, size: Any) -> Tensor:
    return F.interpolate(x, size=size, mode="bilinear", align_corners=False)


def from_resnet(backbone: nn.Module, aux: bool | None) -> IntermediateLayerGetter:
    """The last row of a ResNet, and the one before it."""
    layers = {"layer4": "out"} | ({"layer3": "aux"} if aux else {})
    return IntermediateLayerGetter(backbone, return_layers=layers)


def stages(features: nn.Sequential) -> tuple[list[int], list[int]]:
    """Places in a MobileNet after which the size is halved, first and last; their channels."""
    places = [k for k, block in enumerate(features) if getattr(block, "_is_cn", False)]
    places = [0, *places, len(features) - 1]
    return places, [features[place].out_channels for place in places]


def segmenter(
    weights: type[WeightsEnum], weights_backbone: type[WeightsEnum], aux: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Turn `function(backbone weights, classes, aux)` into a model function of torchvision.

    Args:
        weights, weights_backbone: the classes of weights of the whole and of its backbone.
        aux: whether the model may have a second classifier.
    """
    names = ("weights", "progress", "num_classes", *(("aux_loss",) if aux else ()))
    names += ("weights_backbone",)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def build(*args: Any, **kwargs: Any) -> Any:
            accept_positions(args, kwargs, names)
            accept_pretrained(function.__name__, weights, _MEMBER, kwargs)
            accept_pretrained(
                function.__name__,
                weights_backbone,
                "IMAGENET1K_V1",
                kwargs,
                "weights_backbone",
                "pretrained_backbone",
            )
            if not aux and kwargs.get("aux_loss"):
                raise NotImplementedError("This model does not use auxiliary loss")
            chosen = weights.verify(kwargs.get("weights"))
            below = weights_backbone.verify(kwargs.get("weights_backbone", "IMAGENET1K_V1"))
            classes, second = kwargs.get("num_classes"), kwargs.get("aux_loss")
            if chosen is None:
                return function(below, 21 if classes is None else classes, second)
            classes = _decided("num_classes", classes, len(chosen.meta["categories"]))
            model = function(None, classes, _decided("aux_loss", second, True) if aux else None)
            state = chosen.get_state_dict(progress=kwargs.get("progress", True), check_hash=True)
            model.load_state_dict(state)
            return model

        build.__signature__ = _signature(function, names, weights, weights_backbone)  # type: ignore[attr-defined]
        return register_model()(build)

    return decorate


def _decided(param: str, actual: Any, expected: Any) -> Any:
    if actual is not None and actual != expected:
        raise ValueError(
            f"The parameter '{param}' expected value {expected} but got {actual} instead."
        )
    return expected


def _signature(
    function: Callable[..., Any],
    names: tuple[str, ...],
    weights: type[WeightsEnum],
    weights_backbone: type[WeightsEnum],
) -> inspect.Signature:
    known = {
        "weights": (None, Optional[weights]),  # noqa: UP045
        "progress": (True, bool),
        "num_classes": (None, int | None),
        "aux_loss": (None, bool | None),
        "weights_backbone": (weights_backbone["IMAGENET1K_V1"], Optional[weights_backbone]),  # noqa: UP045
    }
    parameters = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=known[name][0], annotation=known[name][1]
        )
        for name in names
    ]
    parameters.append(inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD, annotation=Any))
    return inspect.Signature(
        parameters, return_annotation=inspect.signature(function).return_annotation
    )
