"""Fully convolutional networks on ResNets (Long et al. 2014)."""

from flambeau import nn

from ..parts import conv_norm
from ..published import published
from ..resnet import ResNet50_Weights, ResNet101_Weights, resnet50, resnet101
from ._utils import _SimpleSegmentationModel, from_resnet, segmenter

__all__ = ["FCN", "FCN_ResNet50_Weights", "FCN_ResNet101_Weights", "fcn_resnet50", "fcn_resnet101"]


class FCN(_SimpleSegmentationModel):
    """The network behind `fcn_resnet50` and `fcn_resnet101`: its forward gives a dict."""


class FCNHead(nn.Sequential):
    """Two convolutions to the scores of classes."""

    def __init__(self, in_channels: int, channels: int) -> None:
        inner = in_channels // 4
        hidden = conv_norm(in_channels, inner, 3, relu=nn.ReLU())
        super().__init__(*hidden, nn.Dropout(0.1), nn.Conv2d(inner, channels, 1))


def _fcn_resnet(backbone, num_classes: int, aux: bool | None) -> FCN:
    second = FCNHead(1024, num_classes) if aux else None
    return FCN(from_resnet(backbone, aux), FCNHead(2048, num_classes), second)


FCN_ResNet50_Weights = published("FCN_ResNet50_Weights", __name__)
FCN_ResNet101_Weights = published("FCN_ResNet101_Weights", __name__)


@segmenter(FCN_ResNet50_Weights, ResNet50_Weights)
def fcn_resnet50(weights, classes, aux) -> FCN:
    """FCN on a ResNet-50, an eighth of the size of images."""
    backbone = resnet50(weights=weights, replace_stride_with_dilation=[False, True, True])
    return _fcn_resnet(backbone, classes, aux)


@segmenter(FCN_ResNet101_Weights, ResNet101_Weights)
def fcn_resnet101(weights, classes, aux) -> FCN:
    """FCN on a ResNet-101."""
    backbone = resnet101(weights=weights, replace_stride_with_dilation=[False, True, True])
    return _fcn_resnet(backbone, classes, aux)
