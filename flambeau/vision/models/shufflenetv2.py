"""ShuffleNet v2: half of the channels pass by, then channels are shuffled (Ma et al. 2018)."""

from collections.abc import Callable

import flambeau
from flambeau import Tensor, nn

from ._api import builder
from .published import published

__all__ = [
    "ShuffleNetV2",
    "ShuffleNet_V2_X0_5_Weights",
    "ShuffleNet_V2_X1_0_Weights",
    "ShuffleNet_V2_X1_5_Weights",
    "ShuffleNet_V2_X2_0_Weights",
    "shufflenet_v2_x0_5",
    "shufflenet_v2_x1_0",
    "shufflenet_v2_x1_5",
    "shufflenet_v2_x2_0",
]


def channel_shuffle(x: Tensor, groups: int) -> Tensor:
    """Channels of all groups in turn."""
    return flambeau.channel_shuffle(x, groups)


def _conv1x1(before: int, after: int) -> list[nn.Module]:
    conv = nn.Conv2d(before, after, kernel_size=1, stride=1, padding=0, bias=False)
    return [conv, nn.BatchNorm2d(after), nn.ReLU(inplace=True)]


class InvertedResidual(nn.Module):
    """One half of the channels through a small network; with a stride, both halves."""

    def __init__(self, inp: int, oup: int, stride: int) -> None:
        super().__init__()
        if not 1 <= stride <= 3:
            raise ValueError("illegal stride value")
        self.stride = stride
        half = oup // 2
        if stride == 1 and inp != half << 1:
            raise ValueError(
                f"Invalid combination of stride {stride}, inp {inp} and oup {oup} values. If "
                "stride == 1 then inp should be equal to oup // 2 << 1."
            )
        self.branch1 = nn.Sequential()
        if stride > 1:
            self.branch1 = nn.Sequential(
                self.depthwise_conv(inp, inp, kernel_size=3, stride=stride, padding=1),
                nn.BatchNorm2d(inp),
                *_conv1x1(inp, half),
            )
        self.branch2 = nn.Sequential(
            *_conv1x1(inp if stride > 1 else half, half),
            self.depthwise_conv(half, half, kernel_size=3, stride=stride, padding=1),
            nn.BatchNorm2d(half),
            *_conv1x1(half, half),
        )

    @staticmethod
    def depthwise_conv(
        i: int, o: int, kernel_size: int, stride: int = 1, padding: int = 0, bias: bool = False
    ) -> nn.Conv2d:
        return nn.Conv2d(i, o, kernel_size, stride, padding, bias=bias, groups=i)

    def forward(self, x: Tensor) -> Tensor:
        if self.stride == 1:
            kept, changed = x.chunk(2, dim=1)
        else:
            kept, changed = self.branch1(x), x
        return channel_shuffle(flambeau.cat((kept, self.branch2(changed)), dim=1), 2)


class ShuffleNetV2(nn.Module):
    """The network behind all functions of this file.

    Args:
        stages_repeats: blocks in each of the three stages.
        stages_out_channels: channels after the first layer, the stages and the last convolution.
    """

    def __init__(
        self,
        stages_repeats: list[int],
        stages_out_channels: list[int],
        num_classes: int = 1000,
        inverted_residual: Callable[..., nn.Module] = InvertedResidual,
    ) -> None:
        super().__init__()
        if len(stages_repeats) != 3:
            raise ValueError("expected stages_repeats as list of 3 positive ints")
        if len(stages_out_channels) != 5:
            raise ValueError("expected stages_out_channels as list of 5 positive ints")
        self._stage_out_channels = stages_out_channels
        first, *stages, last = stages_out_channels
        self.conv1 = nn.Sequential(
            nn.Conv2d(3, first, 3, 2, 1, bias=False), nn.BatchNorm2d(first), nn.ReLU(inplace=True)
        )
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        channels = first
        for number, blocks, width in zip((2, 3, 4), stages_repeats, stages, strict=True):
            row = [inverted_residual(channels, width, 2)]
            row += [inverted_residual(width, width, 1) for _ in range(blocks - 1)]
            setattr(self, f"stage{number}", nn.Sequential(*row))
            channels = width
        self.conv5 = nn.Sequential(*_conv1x1(channels, last))
        self.fc = nn.Linear(last, num_classes)

    def _forward_impl(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.conv1(x))
        x = self.conv5(self.stage4(self.stage3(self.stage2(x))))
        return self.fc(x.mean([2, 3]))

    def forward(self, x: Tensor) -> Tensor:
        return self._forward_impl(x)


ShuffleNet_V2_X0_5_Weights = published("ShuffleNet_V2_X0_5_Weights", __name__)
ShuffleNet_V2_X1_0_Weights = published("ShuffleNet_V2_X1_0_Weights", __name__)
ShuffleNet_V2_X1_5_Weights = published("ShuffleNet_V2_X1_5_Weights", __name__)
ShuffleNet_V2_X2_0_Weights = published("ShuffleNet_V2_X2_0_Weights", __name__)


@builder(ShuffleNet_V2_X0_5_Weights)
def shufflenet_v2_x0_5(**kwargs) -> ShuffleNetV2:
    """ShuffleNet v2, half width."""
    return ShuffleNetV2([4, 8, 4], [24, 48, 96, 192, 1024], **kwargs)


@builder(ShuffleNet_V2_X1_0_Weights)
def shufflenet_v2_x1_0(**kwargs) -> ShuffleNetV2:
    """ShuffleNet v2."""
    return ShuffleNetV2([4, 8, 4], [24, 116, 232, 464, 1024], **kwargs)


@builder(ShuffleNet_V2_X1_5_Weights)
def shufflenet_v2_x1_5(**kwargs) -> ShuffleNetV2:
    """ShuffleNet v2, one and a half times as wide."""
    return ShuffleNetV2([4, 8, 4], [24, 176, 352, 704, 1024], **kwargs)


@builder(ShuffleNet_V2_X2_0_Weights)
def shufflenet_v2_x2_0(**kwargs) -> ShuffleNetV2:
    """ShuffleNet v2, twice as wide."""
    return ShuffleNetV2([4, 8, 4], [24, 244, 488, 976, 2048], **kwargs)
