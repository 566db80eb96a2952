"""Faster R-CNN: regions that a network proposes, and heads for their boxes (Ren et al. 2015)."""

from collections.abc import Callable
from itertools import chain, pairwise
from math import prod
from typing import Any

from flambeau import Tensor, nn
from flambeau.nn import functional as F

from ...ops.feature_pyramid_network import LastLevelP6P7
from ...ops.misc import Conv2dNormActivation
from ...ops.poolers import MultiScaleRoIAlign
from ..mobilenetv3 import MobileNet_V3_Large_Weights, mobilenet_v3_large
from ..published import published
from ..resnet import ResNet50_Weights, resnet50
from ._utils import fan_out, start_convolutions
from .anchor_utils import AnchorGenerator
from .backbone_utils import _mobilenet_extractor, _resnet_fpn_extractor
from .building import Start, detector
from .generalized_rcnn import GeneralizedRCNN
from .roi_heads import RoIHeads
from .rpn import RegionProposalNetwork, RPNHead
from .transform import GeneralizedRCNNTransform

__all__ = [
    "FasterRCNN",
    "FasterRCNN_MobileNet_V3_Large_320_FPN_Weights",
    "FasterRCNN_MobileNet_V3_Large_FPN_Weights",
    "FasterRCNN_ResNet50_FPN_V2_Weights",
    "FasterRCNN_ResNet50_FPN_Weights",
    "fasterrcnn_mobilenet_v3_large_320_fpn",
    "fasterrcnn_mobilenet_v3_large_fpn",
    "fasterrcnn_resnet50_fpn",
    "fasterrcnn_resnet50_fpn_v2",
]

_RATIOS = (0.5, 1.0, 2.0)
_MAPS = ["0", "1", "2", "3"]  # those of a pyramid, but for the smallest
NO_CHANNELS = (
    "backbone should contain an attribute out_channels specifying the number of output channels "
    "(assumed to be the same for all the levels)"
)
IMAGENET = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def _default_anchorgen() -> AnchorGenerator:
    sizes = ((32,), (64,), (128,), (256,), (512,))
    return AnchorGenerator(sizes, (_RATIOS,) * len(sizes))


def require(name: str, value: Any, kind: type) -> None:
    """Refuse what is neither of this kind nor left out."""
    if not isinstance(value, (kind, type(None))):
        raise TypeError(
            f"{name} should be of type {kind.__name__} or None instead of {type(value)}"
        )


class FasterRCNN(GeneralizedRCNN):
    """Finds things and their boxes.

    Args:
        backbone: gives a map or a dict of maps, all with `backbone.out_channels` channels.
        num_classes: with the background, which is class 0.
        rpn_...: of the network that proposes regions.
        box_...: of the heads that look at regions.
    """

    def __init__(
        self,
        backbone: nn.Module,
        num_classes: int | None = None,
        min_size: Any = 800,
        max_size: int = 1333,
        image_mean: list[float] | None = None,
        image_std: list[float] | None = None,
        rpn_anchor_generator: AnchorGenerator | None = None,
        rpn_head: nn.Module | None = None,
        rpn_pre_nms_top_n_train: int = 2000,
        rpn_pre_nms_top_n_test: int = 1000,
        rpn_post_nms_top_n_train: int = 2000,
        rpn_post_nms_top_n_test: int = 1000,
        rpn_nms_thresh: float = 0.7,
        rpn_fg_iou_thresh: float = 0.7,
        rpn_bg_iou_thresh: float = 0.3,
        rpn_batch_size_per_image: int = 256,
        rpn_positive_fraction: float = 0.5,
        rpn_score_thresh: float = 0.0,
        box_roi_pool: MultiScaleRoIAlign | None = None,
        box_head: nn.Module | None = None,
        box_predictor: nn.Module | None = None,
        box_score_thresh: float = 0.05,
        box_nms_thresh: float = 0.5,
        box_detections_per_img: int = 100,
        box_fg_iou_thresh: float = 0.5,
        box_bg_iou_thresh: float = 0.5,
        box_batch_size_per_image: int = 512,
        box_positive_fraction: float = 0.25,
        bbox_reg_weights: tuple[float, float, float, float] | None = None,
        **kwargs: Any,
    ) -> None:
        if not hasattr(backbone, "out_channels"):
            raise ValueError(NO_CHANNELS)
        require("rpn_anchor_generator", rpn_anchor_generator, AnchorGenerator)
        require("box_roi_pool", box_roi_pool, MultiScaleRoIAlign)
        if num_classes is not None and box_predictor is not None:
            raise ValueError("num_classes should be None when box_predictor is specified")
        if num_classes is None and box_predictor is None:
            raise ValueError("num_classes should not be None when box_predictor is not specified")
        channels: Any = backbone.out_channels
        anchors = rpn_anchor_generator or _default_anchorgen()
        head = rpn_head or RPNHead(channels, anchors.num_anchors_per_location()[0])
        rpn = RegionProposalNetwork(
            anchors,
            head,
            rpn_fg_iou_thresh,
            rpn_bg_iou_thresh,
            rpn_batch_size_per_image,
            rpn_positive_fraction,
            {"training": rpn_pre_nms_top_n_train, "testing": rpn_pre_nms_top_n_test},
            {"training": rpn_post_nms_top_n_train, "testing": rpn_post_nms_top_n_test},
            rpn_nms_thresh,
            score_thresh=rpn_score_thresh,
        )
        pool = box_roi_pool or MultiScaleRoIAlign(_MAPS, output_size=7, sampling_ratio=2)
        inner = 1024
        if box_head is None:
            box_head = TwoMLPHead(channels * pool.output_size[0] ** 2, inner)
        if box_predictor is None:
            assert num_classes is not None
            box_predictor = FastRCNNPredictor(inner, num_classes)
        heads = RoIHeads(
            pool,
            box_head,
            box_predictor,
            box_fg_iou_thresh,
            box_bg_iou_thresh,
            box_batch_size_per_image,
            box_positive_fraction,
            bbox_reg_weights,
            box_score_thresh,
            box_nms_thresh,
            box_detections_per_img,
        )
        mean, std = image_mean or IMAGENET[0], image_std or IMAGENET[1]
        transform = GeneralizedRCNNTransform(min_size, max_size, mean, std, **kwargs)
        super().__init__(backbone, rpn, heads, transform)


class TwoMLPHead(nn.Module):
    """Features of a region through two linear layers."""

    def __init__(self, in_channels: int, representation_size: int) -> None:
        super().__init__()
        self.fc6 = nn.Linear(in_channels, representation_size)
        self.fc7 = nn.Linear(representation_size, representation_size)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.fc7(F.relu(self.fc6(x.flatten(1)))))


class FastRCNNConvFCHead(nn.Sequential):
    """Features of a region through convolutions, then linear layers.

    Args:
        input_size: (channels, height, width) of these features.
        conv_layers, fc_layers: the widths of both.
    """

    def __init__(
        self,
        input_size: tuple[int, int, int],
        conv_layers: list[int],
        fc_layers: list[int],
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        channels, *sides = input_size
        places = pairwise([channels, *conv_layers])
        rows = [Conv2dNormActivation(*pair, norm_layer=norm_layer) for pair in places]
        flat = [channels, *conv_layers][-1] * prod(sides)
        ends = [(nn.Linear(*pair), nn.ReLU(inplace=True)) for pair in pairwise([flat, *fc_layers])]
        super().__init__(*rows, nn.Flatten(), *chain(*ends))
        start_convolutions(fan_out, self)


class FastRCNNPredictor(nn.Module):
    """Scores of classes, and a move of the box for each."""

    def __init__(self, in_channels: int, num_classes: int) -> None:
        super().__init__()
        self.cls_score = nn.Linear(in_channels, num_classes)
        self.bbox_pred = nn.Linear(in_channels, num_classes * 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if x.dim() == 4 and list(x.shape[2:]) != [1, 1]:
            raise AssertionError(
                f"x has the wrong shape, expecting the last two dimensions to be [1,1] instead of "
                f"{list(x.shape[2:])}"
            )
        x = x.flatten(start_dim=1)
        return self.cls_score(x), self.bbox_pred(x)


FasterRCNN_ResNet50_FPN_Weights = published("FasterRCNN_ResNet50_FPN_Weights", __name__)
FasterRCNN_ResNet50_FPN_V2_Weights = published("FasterRCNN_ResNet50_FPN_V2_Weights", __name__)
FasterRCNN_MobileNet_V3_Large_FPN_Weights = published(
    "FasterRCNN_MobileNet_V3_Large_FPN_Weights", __name__
)
FasterRCNN_MobileNet_V3_Large_320_FPN_Weights = published(
    "FasterRCNN_MobileNet_V3_Large_320_FPN_Weights", __name__
)


def pyramid(start: Start, *more: int, normalized: bool = False, **options: Any) -> nn.Module:
    """The usual backbone: a ResNet-50 with a feature pyramid.

    Args:
        more: channels in and out of two further maps, for detectors without the largest one.
        normalized: that of the second versions, whose normalizations go on learning.
    """
    norm = nn.BatchNorm2d if normalized else start.norm
    backbone = resnet50(weights=start.weights, norm_layer=norm)
    if more:
        options |= {"returned_layers": [2, 3, 4], "extra_blocks": LastLevelP6P7(*more)}
    return _resnet_fpn_extractor(backbone, start.layers, **options)


def second_version(start: Start) -> tuple[nn.Module, dict[str, Any]]:
    """Backbone, and heads, of the second versions of Faster and Mask R-CNN (Li et al. 2021)."""
    backbone = pyramid(start, normalized=True, norm_layer=nn.BatchNorm2d)
    channels: Any = backbone.out_channels
    anchors = _default_anchorgen()
    head = RPNHead(channels, anchors.num_anchors_per_location()[0], conv_depth=2)
    boxes = FastRCNNConvFCHead(
        (channels, 7, 7), [256, 256, 256, 256], [1024], norm_layer=nn.BatchNorm2d
    )
    return backbone, {"rpn_anchor_generator": anchors, "rpn_head": head, "box_head": boxes}


@detector(FasterRCNN_ResNet50_FPN_Weights, ResNet50_Weights, exact=("COCO_V1",))
def fasterrcnn_resnet50_fpn(start: Start, num_classes: int, **kwargs) -> FasterRCNN:
    """Faster R-CNN on a ResNet-50 with a feature pyramid."""
    return FasterRCNN(pyramid(start), num_classes, **kwargs)


@detector(FasterRCNN_ResNet50_FPN_V2_Weights, ResNet50_Weights, backbone=None)
def fasterrcnn_resnet50_fpn_v2(start: Start, num_classes: int, **kwargs) -> FasterRCNN:
    """The same with deeper heads and more normalization."""
    backbone, heads = second_version(start)
    return FasterRCNN(backbone, num_classes, **heads, **kwargs)


def _on_mobilenet(start: Start, num_classes: int, defaults: dict, kwargs: dict) -> FasterRCNN:
    backbone = mobilenet_v3_large(weights=start.weights, norm_layer=start.norm)
    maps = _mobilenet_extractor(backbone, True, start.layers)
    anchors = AnchorGenerator(((32, 64, 128, 256, 512),) * 3, (_RATIOS,) * 3)
    options = {"rpn_score_thresh": 0.05} | defaults | kwargs
    return FasterRCNN(maps, num_classes, rpn_anchor_generator=anchors, **options)


_SMALL = {
    "min_size": 320,
    "max_size": 640,
    "rpn_pre_nms_top_n_test": 150,
    "rpn_post_nms_top_n_test": 150,
}


@detector(FasterRCNN_MobileNet_V3_Large_320_FPN_Weights, MobileNet_V3_Large_Weights, layers=(3, 6))
def fasterrcnn_mobilenet_v3_large_320_fpn(start: Start, num_classes: int, **kwargs) -> FasterRCNN:
    """Faster R-CNN on a MobileNet v3, for small images and phones."""
    return _on_mobilenet(start, num_classes, _SMALL, kwargs)


@detector(FasterRCNN_MobileNet_V3_Large_FPN_Weights, MobileNet_V3_Large_Weights, layers=(3, 6))
def fasterrcnn_mobilenet_v3_large_fpn(start: Start, num_classes: int, **kwargs) -> FasterRCNN:
    """Faster R-CNN on a MobileNet v3."""
    return _on_mobilenet(start, num_classes, {}, kwargs)
