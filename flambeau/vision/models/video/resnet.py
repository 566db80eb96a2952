"""Residual networks of films (Tran et al. 2018): kernels over time too, in three ways.

Of time and place together (R3D), of time in the first row only (MC3), of place and then of time
(R(2+1)D).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from flambeau import Tensor, nn

from .._api import builder
from .._utils import fan_out, initialize
from ..published import published

__all__ = [
    "MC3_18_Weights",
    "R2Plus1D_18_Weights",
    "R3D_18_Weights",
    "VideoResNet",
    "mc3_18",
    "r2plus1d_18",
    "r3d_18",
]

Maker = Callable[..., nn.Module]


class Conv3DSimple(nn.Conv3d):
    """3 x 3 x 3."""

    def __init__(
        self,
        in_planes: int,
        out_planes: int,
        midplanes: int | None = None,
        stride: int = 1,
        padding: int = 1,
    ) -> None:
        super().__init__(in_planes, out_planes, (3, 3, 3), stride, padding, bias=False)

    @staticmethod
    def get_downsample_stride(stride: int) -> tuple[int, int, int]:
        return stride, stride, stride


class Conv2Plus1D(nn.Sequential):
    """1 x 3 x 3, then 3 x 1 x 1, with so many channels in between."""

    def __init__(
        self, in_planes: int, out_planes: int, midplanes: int, stride: int = 1, padding: int = 1
    ) -> None:
        place = nn.Conv3d(
            in_planes, midplanes, (1, 3, 3), (1, stride, stride), (0, padding, padding), bias=False
        )
        time = nn.Conv3d(
            midplanes, out_planes, (3, 1, 1), (stride, 1, 1), (padding, 0, 0), bias=False
        )
        super().__init__(place, nn.BatchNorm3d(midplanes), nn.ReLU(inplace=True), time)

    @staticmethod
    def get_downsample_stride(stride: int) -> tuple[int, int, int]:
        return stride, stride, stride


class Conv3DNoTemporal(nn.Conv3d):
    """1 x 3 x 3: frames do not know of each other."""

    def __init__(
        self,
        in_planes: int,
        out_planes: int,
        midplanes: int | None = None,
        stride: int = 1,
        padding: int = 1,
    ) -> None:
        steps, rim = (1, stride, stride), (0, padding, padding)
        super().__init__(in_planes, out_planes, (1, 3, 3), steps, rim, bias=False)

    @staticmethod
    def get_downsample_stride(stride: int) -> tuple[int, int, int]:
        return 1, stride, stride


def _between(before: int, after: int) -> int:
    """Channels with which two kernels have as many weights as one of 3 x 3 x 3."""
    return before * after * 27 // (before * 9 + 3 * after)


class BasicBlock(nn.Module):
    """Two convolutions, and the way around them."""

    expansion = 1

    def __init__(
        self,
        inplanes: int,
        planes: int,
        conv_builder: Maker,
        stride: int = 1,
        downsample: nn.Module | None = None,
    ) -> None:
        middle = _between(inplanes, planes)
        super().__init__()
        first = conv_builder(inplanes, planes, middle, stride)
        self.conv1 = nn.Sequential(first, nn.BatchNorm3d(planes), nn.ReLU(inplace=True))
        second = conv_builder(planes, planes, middle)
        self.conv2 = nn.Sequential(second, nn.BatchNorm3d(planes))
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv2(self.conv1(x))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class Bottleneck(nn.Module):
    """Fewer channels, a convolution, more channels again."""

    expansion = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        conv_builder: Maker,
        stride: int = 1,
        downsample: nn.Module | None = None,
    ) -> None:
        super().__init__()
        wide = planes * self.expansion
        self.conv1 = nn.Sequential(
            nn.Conv3d(inplanes, planes, kernel_size=1, bias=False),
            nn.BatchNorm3d(planes),
            nn.ReLU(inplace=True),
        )
        middle = conv_builder(planes, planes, _between(inplanes, planes), stride)
        self.conv2 = nn.Sequential(middle, nn.BatchNorm3d(planes), nn.ReLU(inplace=True))
        self.conv3 = nn.Sequential(
            nn.Conv3d(planes, wide, kernel_size=1, bias=False), nn.BatchNorm3d(wide)
        )
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv3(self.conv2(self.conv1(x)))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class BasicStem(nn.Sequential):
    """Three frames and 7 x 7 places at a time."""

    def __init__(self) -> None:
        convolution = nn.Conv3d(3, 64, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False)
        super().__init__(convolution, nn.BatchNorm3d(64), nn.ReLU(inplace=True))


class R2Plus1dStem(nn.Sequential):
    """7 x 7 places, then three frames."""

    def __init__(self) -> None:
        place = nn.Conv3d(3, 45, (1, 7, 7), (1, 2, 2), (0, 3, 3), bias=False)
        time = nn.Conv3d(45, 64, (3, 1, 1), (1, 1, 1), (1, 0, 0), bias=False)
        super().__init__(
            *(place, nn.BatchNorm3d(45), nn.ReLU(inplace=True)),
            *(time, nn.BatchNorm3d(64), nn.ReLU(inplace=True)),
        )


class VideoResNet(nn.Module):
    """The network behind all functions of this file.

    Args:
        conv_makers: the kind of convolution in each of the four rows.
        layers: how many blocks in each.
        stem: makes the first layers.
        zero_init_residual: every bottleneck starts as the identity.
    """

    def __init__(
        self,
        block: type[BasicBlock | Bottleneck],
        conv_makers: Sequence[Any],
        layers: list[int],
        stem: Maker,
        num_classes: int = 400,
        zero_init_residual: bool = False,
    ) -> None:
        super().__init__()
        self.inplanes = 64
        self.stem = stem()
        for place, (maker, many) in enumerate(zip(conv_makers, layers, strict=True)):
            row = self._make_layer(block, maker, 64 << place, many, 2 if place else 1)
            self.add_module(f"layer{place + 1}", row)
        self.avgpool = nn.AdaptiveAvgPool3d((1, 1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        initialize(self, conv=fan_out, linear=partial(nn.init.normal_, mean=0, std=0.01))
        for inner in self.modules() if zero_init_residual else ():
            if isinstance(inner, Bottleneck):
                nn.init.zeros_(inner.conv3[1].weight)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))

    def _make_layer(
        self,
        block: type[BasicBlock | Bottleneck],
        conv_builder: Any,
        planes: int,
        blocks: int,
        stride: int = 1,
    ) -> nn.Sequential:
        after, way = planes * block.expansion, None
        if stride != 1 or self.inplanes != after:
            steps = conv_builder.get_downsample_stride(stride)
            convolution = nn.Conv3d(self.inplanes, after, 1, steps, bias=False)
            way = nn.Sequential(convolution, nn.BatchNorm3d(after))
        row = [block(self.inplanes, planes, conv_builder, stride, way)]
        self.inplanes = after
        row += [block(after, planes, conv_builder) for _ in range(1, blocks)]
        return nn.Sequential(*row)


R3D_18_Weights = published("R3D_18_Weights", __name__)
MC3_18_Weights = published("MC3_18_Weights", __name__)
R2Plus1D_18_Weights = published("R2Plus1D_18_Weights", __name__)


@builder(R3D_18_Weights, "KINETICS400_V1")
def r3d_18(**kwargs) -> VideoResNet:
    """ResNet-18 with kernels of time and place."""
    return VideoResNet(BasicBlock, [Conv3DSimple] * 4, [2, 2, 2, 2], BasicStem, **kwargs)


@builder(MC3_18_Weights, "KINETICS400_V1")
def mc3_18(**kwargs) -> VideoResNet:
    """ResNet-18 that looks at time in its first row."""
    makers = [Conv3DSimple, *[Conv3DNoTemporal] * 3]
    return VideoResNet(BasicBlock, makers, [2, 2, 2, 2], BasicStem, **kwargs)


@builder(R2Plus1D_18_Weights, "KINETICS400_V1")
def r2plus1d_18(**kwargs) -> VideoResNet:
    """ResNet-18 with kernels of place and kernels of time."""
    return VideoResNet(BasicBlock, [Conv2Plus1D] * 4, [2, 2, 2, 2], R2Plus1dStem, **kwargs)
