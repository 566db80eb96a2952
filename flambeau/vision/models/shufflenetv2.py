"""ShuffleNet v2: half of the channels pass by, then channels are shuffled (Ma et al. 2018)."""

from collections.abc import Callable

import flambeau
from flambeau import Tensor, nn

from ._api import builder
from .parts import conv_norm, row_of_blocks
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


def _conv(before: int, after: int, kernel: int = 1, stride: int = 1) -> list[nn.Module]:
    return conv_norm(before, after, kernel, stride=stride, relu=nn.ReLU(inplace=True))


class InvertedResidual(nn.Module):
    """One half of the channels through a small network; with a stride, both halves."""

    def __init__(self, inp: int, oup: int, stride: int) -> None:
        half = oup // 2
        if stride not in (1, 2, 3):
            raise ValueError("illegal stride value")
        if stride == 1 and inp != 2 * half:
            raise ValueError(
                f"Invalid combination of stride {stride}, inp {inp} and oup {oup} values. If "
                "stride == 1 then inp should be equal to oup // 2 << 1."
            )
        super().__init__()
        self.stride = stride
        seen = half  # by the second branch
        self.branch1 = nn.Sequential()
        if stride > 1:
            seen = inp
            self.branch1 = nn.Sequential(*self._spread(inp), *_conv(inp, half))
        self.branch2 = nn.Sequential(*_conv(seen, half), *self._spread(half), *_conv(half, half))

    def _spread(self, channels: int) -> list[nn.Module]:
        """A filter for each channel, normalized."""
        filters = self.depthwise_conv(channels, channels, 3, self.stride, padding=1)
        return [filters, nn.BatchNorm2d(channels)]

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
        wanted = {
            "stages_repeats": (stages_repeats, 3),
            "stages_out_channels": (stages_out_channels, 5),
        }
        for name, (numbers, many) in wanted.items():
            if len(numbers) != many:
                raise ValueError(f"expected {name} as list of {many} positive ints")
        super().__init__()
        self._stage_out_channels = stages_out_channels
        *widths, last = stages_out_channels
        self.conv1 = nn.Sequential(*_conv(3, widths[0], 3, stride=2))
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        for place, many in enumerate(stages_repeats):
            shapes = (*widths[place : place + 2], 2, max(many, 1))
            row = row_of_blocks(inverted_residual, *shapes)
            self.add_module(f"stage{place + 2}", nn.Sequential(*row))
        self.conv5 = nn.Sequential(*_conv(widths[-1], last))
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
