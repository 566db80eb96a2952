"""Residual networks (He et al. 2015), ResNeXt (Xie et al. 2016), wide ones (Zagoruyko 2016).

Four rows of blocks; a block adds what it computes to what came in. ResNeXt and wide networks are
the same blocks with groups and with wider bottlenecks.
"""

from collections.abc import Callable

import flambeau
from flambeau import Tensor, nn

from ._api import builder
from ._utils import _ovewrite_named_param, fan_out, initialize
from .published import published

__all__ = [
    "ResNeXt50_32X4D_Weights",
    "ResNeXt101_32X8D_Weights",
    "ResNeXt101_64X4D_Weights",
    "ResNet",
    "ResNet18_Weights",
    "ResNet34_Weights",
    "ResNet50_Weights",
    "ResNet101_Weights",
    "ResNet152_Weights",
    "Wide_ResNet50_2_Weights",
    "Wide_ResNet101_2_Weights",
    "resnet18",
    "resnet34",
    "resnet50",
    "resnet101",
    "resnet152",
    "resnext50_32x4d",
    "resnext101_32x8d",
    "resnext101_64x4d",
    "wide_resnet50_2",
    "wide_resnet101_2",
]

Norm = Callable[..., nn.Module]
_WIDTHS = (64, 128, 256, 512)  # of the four rows


def conv3x3(
    in_planes: int, out_planes: int, stride: int = 1, groups: int = 1, dilation: int = 1
) -> nn.Conv2d:
    """A 3 x 3 convolution that keeps sizes but for its stride."""
    padding = dilation
    return nn.Conv2d(in_planes, out_planes, 3, stride, padding, dilation, groups, bias=False)


def conv1x1(in_planes: int, out_planes: int, stride: int = 1) -> nn.Conv2d:
    """A linear map of the channels."""
    return nn.Conv2d(in_planes, out_planes, kernel_size=1, stride=stride, bias=False)


class _Residual(nn.Module):
    """conv1, bn1, conv2, bn2, ... and the way around them."""

    expansion: int
    relu_after: int  # the number of the normalization before the relu in the order of children
    last_norm: str

    def _build(self, norm: Norm, way: nn.Module | None, *convolutions: nn.Conv2d) -> None:
        for number, convolution in enumerate(convolutions, 1):
            self.add_module(f"conv{number}", convolution)
            self.add_module(f"bn{number}", norm(convolution.out_channels))
            if number == self.relu_after:
                self.relu = nn.ReLU(inplace=True)
        self.downsample = way


class BasicBlock(_Residual):
    """Two 3 x 3 convolutions, and the way around them."""

    expansion: int = 1
    relu_after = 1
    last_norm = "bn2"

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Norm | None = None,
    ) -> None:
        if (groups, base_width) != (1, 64):
            raise ValueError("BasicBlock only supports groups=1 and base_width=64")
        if dilation > 1:
            raise NotImplementedError("Dilation > 1 not supported in BasicBlock")
        super().__init__()
        self.stride = stride
        first, second = conv3x3(inplanes, planes, stride), conv3x3(planes, planes)
        self._build(norm_layer or nn.BatchNorm2d, downsample, first, second)

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class Bottleneck(_Residual):
    """Fewer channels, a 3 x 3 convolution, more channels again; the stride is in the middle."""

    expansion: int = 4
    relu_after = 3
    last_norm = "bn3"

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Norm | None = None,
    ) -> None:
        super().__init__()
        self.stride = stride
        inner = groups * int(planes * (base_width / 64))
        narrow = conv1x1(inplanes, inner)
        middle = conv3x3(inner, inner, stride, groups, dilation)
        wide = conv1x1(inner, planes * self.expansion)
        self._build(norm_layer or nn.BatchNorm2d, downsample, narrow, middle, wide)

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class ResNet(nn.Module):
    """The network behind all functions of this file.

    Args:
        block: BasicBlock or Bottleneck.
        layers: how many blocks in each of the four rows.
        zero_init_residual: every block starts as the identity.
        groups, width_per_group: of the 3 x 3 convolutions in bottlenecks.
        replace_stride_with_dilation: for the last three rows, whether they keep the size and look
            further instead.
    """

    def __init__(
        self,
        block: type[BasicBlock | Bottleneck],
        layers: list[int],
        num_classes: int = 1000,
        zero_init_residual: bool = False,
        groups: int = 1,
        width_per_group: int = 64,
        replace_stride_with_dilation: list[bool] | None = None,
        norm_layer: Norm | None = None,
    ) -> None:
        dilated = list(replace_stride_with_dilation or (False, False, False))
        if len(dilated) != 3:
            raise ValueError(
                "replace_stride_with_dilation should be None or a 3-element tuple, "
                f"got {replace_stride_with_dilation}"
            )
        super().__init__()
        self._norm_layer = norm = norm_layer or nn.BatchNorm2d
        self.inplanes, self.dilation = _WIDTHS[0], 1
        self.groups, self.base_width = groups, width_per_group
        self.conv1 = nn.Conv2d(3, _WIDTHS[0], 7, stride=2, padding=3, bias=False)
        self.bn1, self.relu = norm(_WIDTHS[0]), nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        for place, planes in enumerate(_WIDTHS):
            further = (2, dilated[place - 1]) if place else (1, False)
            row = self._make_layer(block, planes, layers[place], *further)
            self.add_module(f"layer{place + 1}", row)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(self.inplanes, num_classes)
        initialize(self, conv=fan_out)
        if zero_init_residual:
            self._start_as_identities()

    def _start_as_identities(self) -> None:
        for module in self.modules():
            if isinstance(module, _Residual):
                scale = getattr(module, module.last_norm).weight
                if scale is not None:
                    nn.init.zeros_(scale)

    def _make_layer(
        self,
        block: type[BasicBlock | Bottleneck],
        planes: int,
        blocks: int,
        stride: int = 1,
        dilate: bool = False,
    ) -> nn.Sequential:
        norm, before, after = self._norm_layer, self.inplanes, planes * block.expansion
        dilation = self.dilation  # of the first block; it has what the row before had
        if dilate:
            stride, self.dilation = 1, dilation * stride
        way = None
        if (before, 1) != (after, stride):
            way = nn.Sequential(conv1x1(before, after, stride), norm(after))
        shape = self.groups, self.base_width
        row = [block(before, planes, stride, way, *shape, dilation, norm)]
        while len(row) < blocks:
            row.append(block(after, planes, 1, None, *shape, self.dilation, norm))
        self.inplanes = after
        return nn.Sequential(*row)

    def _forward_impl(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(flambeau.flatten(self.avgpool(x), 1))

    def forward(self, x: Tensor) -> Tensor:
        return self._forward_impl(x)


def _widened(kwargs, width: int, groups: int | None = None) -> dict:
    """Arguments of ResNet with a width, and groups, that the name of the model fixes."""
    if groups is not None:
        _ovewrite_named_param(kwargs, "groups", groups)
    _ovewrite_named_param(kwargs, "width_per_group", width)
    return kwargs


ResNet18_Weights = published("ResNet18_Weights", __name__)
ResNet34_Weights = published("ResNet34_Weights", __name__)
ResNet50_Weights = published("ResNet50_Weights", __name__)
ResNet101_Weights = published("ResNet101_Weights", __name__)
ResNet152_Weights = published("ResNet152_Weights", __name__)
ResNeXt50_32X4D_Weights = published("ResNeXt50_32X4D_Weights", __name__)
ResNeXt101_32X8D_Weights = published("ResNeXt101_32X8D_Weights", __name__)
ResNeXt101_64X4D_Weights = published("ResNeXt101_64X4D_Weights", __name__)
Wide_ResNet50_2_Weights = published("Wide_ResNet50_2_Weights", __name__)
Wide_ResNet101_2_Weights = published("Wide_ResNet101_2_Weights", __name__)


@builder(ResNet18_Weights)
def resnet18(**kwargs) -> ResNet:
    """ResNet-18."""
    return ResNet(BasicBlock, [2, 2, 2, 2], **kwargs)


@builder(ResNet34_Weights)
def resnet34(**kwargs) -> ResNet:
    """ResNet-34."""
    return ResNet(BasicBlock, [3, 4, 6, 3], **kwargs)


@builder(ResNet50_Weights)
def resnet50(**kwargs) -> ResNet:
    """ResNet-50, with the stride in the 3 x 3 convolution ("v1.5")."""
    return ResNet(Bottleneck, [3, 4, 6, 3], **kwargs)


@builder(ResNet101_Weights)
def resnet101(**kwargs) -> ResNet:
    """ResNet-101."""
    return ResNet(Bottleneck, [3, 4, 23, 3], **kwargs)


@builder(ResNet152_Weights)
def resnet152(**kwargs) -> ResNet:
    """ResNet-152."""
    return ResNet(Bottleneck, [3, 8, 36, 3], **kwargs)


@builder(ResNeXt50_32X4D_Weights)
def resnext50_32x4d(**kwargs) -> ResNet:
    """ResNeXt-50 with 32 groups of 4 channels."""
    return ResNet(Bottleneck, [3, 4, 6, 3], **_widened(kwargs, 4, groups=32))


@builder(ResNeXt101_32X8D_Weights)
def resnext101_32x8d(**kwargs) -> ResNet:
    """ResNeXt-101 with 32 groups of 8 channels."""
    return ResNet(Bottleneck, [3, 4, 23, 3], **_widened(kwargs, 8, groups=32))


@builder(ResNeXt101_64X4D_Weights)
def resnext101_64x4d(**kwargs) -> ResNet:
    """ResNeXt-101 with 64 groups of 4 channels."""
    return ResNet(Bottleneck, [3, 4, 23, 3], **_widened(kwargs, 4, groups=64))


@builder(Wide_ResNet50_2_Weights)
def wide_resnet50_2(**kwargs) -> ResNet:
    """ResNet-50 with bottlenecks of twice the width."""
    return ResNet(Bottleneck, [3, 4, 6, 3], **_widened(kwargs, 128))


@builder(Wide_ResNet101_2_Weights)
def wide_resnet101_2(**kwargs) -> ResNet:
    """ResNet-101 with bottlenecks of twice the width."""
    return ResNet(Bottleneck, [3, 4, 23, 3], **_widened(kwargs, 128))
