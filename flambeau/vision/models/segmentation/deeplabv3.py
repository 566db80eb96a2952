"""DeepLab v3: dilated convolutions of several widths side by side (Chen et al. 2017)."""

from collections.abc import Sequence

import flambeau
from flambeau import Tensor, nn

from .._utils import IntermediateLayerGetter
from ..mobilenetv3 import MobileNet_V3_Large_Weights, mobilenet_v3_large
from ..parts import conv_norm
from ..published import published
from ..resnet import ResNet50_Weights, ResNet101_Weights, resnet50, resnet101
from ._utils import _SimpleSegmentationModel, from_resnet, resized, segmenter, stages
from .fcn import FCNHead

__all__ = [
    "DeepLabV3",
    "DeepLabV3_MobileNet_V3_Large_Weights",
    "DeepLabV3_ResNet50_Weights",
    "DeepLabV3_ResNet101_Weights",
    "deeplabv3_mobilenet_v3_large",
    "deeplabv3_resnet50",
    "deeplabv3_resnet101",
]


class DeepLabV3(_SimpleSegmentationModel):
    """The network behind all functions of this file: its forward gives a dict."""


def _conv(before: int, after: int, kernel: int = 1, dilation: int = 1) -> list[nn.Module]:
    return conv_norm(before, after, kernel, relu=nn.ReLU(), dilation=dilation)


class ASPPConv(nn.Sequential):
    """A dilated convolution."""

    def __init__(self, in_channels: int, out_channels: int, dilation: int) -> None:
        super().__init__(*_conv(in_channels, out_channels, 3, dilation))


class ASPPPooling(nn.Sequential):
    """The mean of the whole image, at every place."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(nn.AdaptiveAvgPool2d(1), *_conv(in_channels, out_channels))

    def forward(self, x: Tensor) -> Tensor:
        return resized(super().forward(x), x.shape[-2:])


class ASPP(nn.Module):
    """A pyramid of dilated convolutions, projected together."""

    def __init__(
        self, in_channels: int, atrous_rates: Sequence[int], out_channels: int = 256
    ) -> None:
        super().__init__()
        ends = in_channels, out_channels
        self.convs = nn.ModuleList([nn.Sequential(*_conv(*ends))])
        self.convs.extend(ASPPConv(*ends, rate) for rate in atrous_rates)
        self.convs.append(ASPPPooling(*ends))
        together = _conv(out_channels * len(self.convs), out_channels)
        self.project = nn.Sequential(*together, nn.Dropout(0.5))

    def forward(self, x: Tensor) -> Tensor:
        return self.project(flambeau.cat([conv(x) for conv in self.convs], dim=1))


class DeepLabHead(nn.Sequential):
    """The pyramid, and two convolutions to the scores of classes."""

    def __init__(
        self, in_channels: int, num_classes: int, atrous_rates: Sequence[int] = (12, 24, 36)
    ) -> None:
        width = 256
        pyramid = ASPP(in_channels, atrous_rates, width)
        super().__init__(pyramid, *_conv(width, width, 3), nn.Conv2d(width, num_classes, 1))


def _deeplabv3_resnet(backbone, num_classes: int, aux: bool | None) -> DeepLabV3:
    second = FCNHead(1024, num_classes) if aux else None
    return DeepLabV3(from_resnet(backbone, aux), DeepLabHead(2048, num_classes), second)


def _deeplabv3_mobilenetv3(backbone, num_classes: int, aux: bool | None) -> DeepLabV3:
    features = backbone.features
    places, channels = stages(features)
    layers = {str(places[-1]): "out"} | ({str(places[-4]): "aux"} if aux else {})
    second = FCNHead(channels[-4], num_classes) if aux else None
    getter = IntermediateLayerGetter(features, return_layers=layers)
    return DeepLabV3(getter, DeepLabHead(channels[-1], num_classes), second)


DeepLabV3_ResNet50_Weights = published("DeepLabV3_ResNet50_Weights", __name__)
DeepLabV3_ResNet101_Weights = published("DeepLabV3_ResNet101_Weights", __name__)
DeepLabV3_MobileNet_V3_Large_Weights = published("DeepLabV3_MobileNet_V3_Large_Weights", __name__)


@segmenter(DeepLabV3_ResNet50_Weights, ResNet50_Weights)
def deeplabv3_resnet50(weights, classes, aux) -> DeepLabV3:
    """DeepLab v3 on a ResNet-50."""
    backbone = resnet50(weights=weights, replace_stride_with_dilation=[False, True, True])
    return _deeplabv3_resnet(backbone, classes, aux)


@segmenter(DeepLabV3_ResNet101_Weights, ResNet101_Weights)
def deeplabv3_resnet101(weights, classes, aux) -> DeepLabV3:
    """DeepLab v3 on a ResNet-101."""
    backbone = resnet101(weights=weights, replace_stride_with_dilation=[False, True, True])
    return _deeplabv3_resnet(backbone, classes, aux)


@segmenter(DeepLabV3_MobileNet_V3_Large_Weights, MobileNet_V3_Large_Weights)
def deeplabv3_mobilenet_v3_large(weights, classes, aux) -> DeepLabV3:
    """DeepLab v3 on a MobileNet v3."""
    backbone = mobilenet_v3_large(weights=weights, dilated=True)
    return _deeplabv3_mobilenetv3(backbone, classes, aux)
