"""SSDlite: SSD of depthwise convolutions, on a MobileNet (Howard 2019, Sandler 2018)."""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

from flambeau import Tensor, nn

from ...ops.misc import Conv2dNormActivation
from ..mobilenetv3 import MobileNet_V3_Large_Weights, mobilenet_v3_large
from ..published import published
from ..segmentation._utils import stages
from . import _utils
from ._utils import start_convolutions
from .anchor_utils import DefaultBoxGenerator
from .backbone_utils import freeze_before
from .building import Start, detector
from .ssd import SSD, SSDScoringHead, warn_of_size

__all__ = ["SSDLite320_MobileNet_V3_Large_Weights", "ssdlite320_mobilenet_v3_large"]

Norm = Callable[..., nn.Module]


def _prediction_block(
    in_channels: int, out_channels: int, kernel_size: int, norm_layer: Norm
) -> nn.Sequential:
    """A depthwise convolution, then a linear map of channels."""
    return nn.Sequential(
        Conv2dNormActivation(
            in_channels,
            in_channels,
            kernel_size,
            groups=in_channels,
            norm_layer=norm_layer,
            activation_layer=nn.ReLU6,
        ),
        nn.Conv2d(in_channels, out_channels, 1),
    )


def _extra_block(in_channels: int, out_channels: int, norm_layer: Norm) -> nn.Sequential:
    """Half of the size, through half of the channels."""
    inner = out_channels // 2
    conv = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.ReLU6)
    return nn.Sequential(
        conv(in_channels, inner, 1),
        conv(inner, inner, 3, stride=2, groups=inner),
        conv(inner, out_channels, 1),
    )


_normal_init = partial(start_convolutions, partial(nn.init.normal_, std=0.03))


def _blocks(channels: list[int], anchors: list[int], values: int, norm: Norm) -> nn.ModuleList:
    pairs = zip(channels, anchors, strict=True)
    layers = nn.ModuleList([_prediction_block(c, values * many, 3, norm) for c, many in pairs])
    _normal_init(layers)
    return layers


class SSDLiteClassificationHead(SSDScoringHead):
    """Scores of classes for each box."""

    def __init__(
        self,
        in_channels: list[int],
        num_anchors: list[int],
        num_classes: int,
        norm_layer: Norm,
    ) -> None:
        super().__init__(_blocks(in_channels, num_anchors, num_classes, norm_layer), num_classes)


class SSDLiteRegressionHead(SSDScoringHead):
    """A move for each box."""

    def __init__(self, in_channels: list[int], num_anchors: list[int], norm_layer: Norm) -> None:
        super().__init__(_blocks(in_channels, num_anchors, 4, norm_layer), 4)


class SSDLiteHead(nn.Module):
    """Scores and moves for all boxes of all maps."""

    def __init__(
        self,
        in_channels: list[int],
        num_anchors: list[int],
        num_classes: int,
        norm_layer: Norm,
    ) -> None:
        super().__init__()
        self.classification_head = SSDLiteClassificationHead(
            in_channels, num_anchors, num_classes, norm_layer
        )
        self.regression_head = SSDLiteRegressionHead(in_channels, num_anchors, norm_layer)

    def forward(self, x: list[Tensor]) -> dict[str, Tensor]:
        return {
            "bbox_regression": self.regression_head(x),
            "cls_logits": self.classification_head(x),
        }


class SSDLiteFeatureExtractorMobileNet(nn.Module):
    """Two maps of a MobileNet, and four of convolutions after it.

    Args:
        c4_pos: the block in whose middle the first map is taken.
        width_mult, min_depth: of the channels of the last four.
    """

    def __init__(
        self,
        backbone: nn.Module,
        c4_pos: int,
        norm_layer: Norm,
        width_mult: float = 1.0,
        min_depth: int = 16,
    ) -> None:
        super().__init__()
        blocks: Any = backbone
        middle = blocks[c4_pos]
        if middle.use_res_connect:
            raise ValueError("backbone[c4_pos].use_res_connect should be False")
        self.features = nn.Sequential(
            nn.Sequential(*blocks[:c4_pos], middle.block[0]),
            nn.Sequential(middle.block[1:], *blocks[c4_pos + 1 :]),
        )
        before, rows = blocks[-1].out_channels, []
        for width in (512, 256, 256, 128):
            after = max(min_depth, int(width * width_mult))
            rows.append(_extra_block(before, after, norm_layer))
            before = after
        self.extra = nn.ModuleList(rows)
        _normal_init(self.extra)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        maps = []
        for row in (*self.features, *self.extra):
            x = row(x)
            maps.append(x)
        return OrderedDict((str(number), each) for number, each in enumerate(maps))


def _mobilenet_extractor(backbone: Any, trainable_layers: int, norm_layer: Norm) -> nn.Module:
    features = backbone.features
    places, _ = stages(features)
    if not 0 <= trainable_layers <= len(places):
        raise ValueError(
            "trainable_layers should be in the range [0, num_stages], instead got "
            f"{trainable_layers}"
        )
    freeze_before(features, places, trainable_layers)
    return SSDLiteFeatureExtractorMobileNet(features, places[-2], norm_layer)


SSDLite320_MobileNet_V3_Large_Weights = published("SSDLite320_MobileNet_V3_Large_Weights", __name__)


@detector(
    SSDLite320_MobileNet_V3_Large_Weights,
    MobileNet_V3_Large_Weights,
    layers=(6, 6),
    more=("norm_layer",),
)
def ssdlite320_mobilenet_v3_large(
    start: Start, num_classes: int, norm_layer: Norm | None = None, **kwargs
) -> SSD:
    """SSDlite on a MobileNet v3, for images of 320 x 320 pixels."""
    warn_of_size(kwargs)
    norm = norm_layer or partial(nn.BatchNorm2d, eps=0.001, momentum=0.03)
    # what was learned before has its full width at the end
    backbone = mobilenet_v3_large(
        weights=start.weights, norm_layer=norm, reduced_tail=start.weights is None
    )
    if start.weights is None:
        _normal_init(backbone)
    maps = _mobilenet_extractor(backbone, start.layers, norm)
    size = (320, 320)
    boxes = DefaultBoxGenerator([[2, 3] for _ in range(6)], min_ratio=0.2, max_ratio=0.95)
    channels = _utils.retrieve_out_channels(maps, size)
    anchors = boxes.num_anchors_per_location()
    defaults: dict[str, Any] = {
        "score_thresh": 0.001,
        "nms_thresh": 0.55,
        "detections_per_img": 300,
        "topk_candidates": 300,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
    }
    head = SSDLiteHead(channels, anchors, num_classes, norm)
    return SSD(maps, boxes, size, num_classes, head=head, **(defaults | kwargs))
