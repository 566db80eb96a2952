"""Lite R-ASPP: segmentation with the last features of a MobileNet, scaled (Howard et al. 2019)."""

from collections import OrderedDict
from typing import Any

from flambeau import Tensor, nn

from .._utils import IntermediateLayerGetter
from ..mobilenetv3 import MobileNet_V3_Large_Weights, mobilenet_v3_large
from ..parts import conv_norm
from ..published import published
from ._utils import resized, segmenter, stages

__all__ = ["LRASPP", "LRASPP_MobileNet_V3_Large_Weights", "lraspp_mobilenet_v3_large"]


class LRASPPHead(nn.Module):
    """Scores from high features, weighted by their means, and from low ones."""

    def __init__(
        self, low_channels: int, high_channels: int, num_classes: int, inter_channels: int
    ) -> None:
        super().__init__()
        hidden = conv_norm(high_channels, inter_channels, relu=nn.ReLU(inplace=True))
        self.cbr = nn.Sequential(*hidden)
        means = nn.Conv2d(high_channels, inter_channels, 1, bias=False)
        self.scale = nn.Sequential(nn.AdaptiveAvgPool2d(1), means, nn.Sigmoid())
        for name, width in (("low", low_channels), ("high", inter_channels)):
            self.add_module(f"{name}_classifier", nn.Conv2d(width, num_classes, 1))

    def forward(self, input: dict[str, Tensor]) -> Tensor:
        low, high = input["low"], input["high"]
        x = resized(self.cbr(high) * self.scale(high), low.shape[-2:])
        return self.low_classifier(low) + self.high_classifier(x)


class LRASPP(nn.Module):
    """The network behind `lraspp_mobilenet_v3_large`; the backbone gives "low" and "high"."""

    def __init__(
        self,
        backbone: nn.Module,
        low_channels: int,
        high_channels: int,
        num_classes: int,
        inter_channels: int = 128,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.classifier = LRASPPHead(low_channels, high_channels, num_classes, inter_channels)

    def forward(self, input: Tensor) -> dict[str, Tensor]:
        scores = self.classifier(self.backbone(input))
        return OrderedDict(out=resized(scores, input.shape[-2:]))


def _lraspp_mobilenetv3(backbone: Any, num_classes: int) -> LRASPP:
    features = backbone.features
    places, channels = stages(features)
    layers = {str(places[-4]): "low", str(places[-1]): "high"}
    getter = IntermediateLayerGetter(features, return_layers=layers)
    return LRASPP(getter, channels[-4], channels[-1], num_classes)


LRASPP_MobileNet_V3_Large_Weights = published("LRASPP_MobileNet_V3_Large_Weights", __name__)


@segmenter(LRASPP_MobileNet_V3_Large_Weights, MobileNet_V3_Large_Weights, aux=False)
def lraspp_mobilenet_v3_large(weights, classes, aux) -> LRASPP:
    """Lite R-ASPP on a MobileNet v3."""
    return _lraspp_mobilenetv3(mobilenet_v3_large(weights=weights, dilated=True), classes)
