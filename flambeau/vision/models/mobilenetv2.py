"""MobileNet v2: inverted residuals, thin ends and a wide depthwise middle (Sandler et al. 2018)."""

from collections.abc import Callable, Sequence
from functools import partial

from flambeau import Tensor, nn
from flambeau.nn import functional as F

from ..ops.misc import Conv2dNormActivation
from ._api import builder
from ._utils import _make_divisible, fan_out, initialize
from .parts import Layer, row_of_blocks
from .published import published

__all__ = ["MobileNetV2", "MobileNet_V2_Weights", "mobilenet_v2"]

# expansion, channels, blocks, stride of the first block
_SETTING: list[Sequence[int]] = [
    (1, 16, 1, 1),
    *[(6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)],
    *[(6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)],
]


def _conv(norm: Layer | None) -> Layer:
    """Convolutions with this normalization, and activations between 0 and 6."""
    norm = norm or nn.BatchNorm2d
    return partial(Conv2dNormActivation, norm_layer=norm, activation_layer=nn.ReLU6)


class InvertedResidual(nn.Module):
    """Expand, filter each channel, project; added to the input where shapes agree."""

    def __init__(
        self,
        inp: int,
        oup: int,
        stride: int,
        expand_ratio: int,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        if stride not in (1, 2):
            raise ValueError(f"stride should be 1 or 2 instead of {stride}")
        super().__init__()
        self.stride, self.out_channels, self._is_cn = stride, oup, stride > 1
        self.use_res_connect = (inp, 1) == (oup, stride)
        conv, wide = _conv(norm_layer), round(inp * expand_ratio)
        expansion = [] if expand_ratio == 1 else [conv(inp, wide, 1)]
        depthwise = conv(wide, wide, stride=stride, groups=wide)
        projection = conv(wide, oup, 1, activation_layer=None)
        self.conv = nn.Sequential(*expansion, depthwise, *projection)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


class MobileNetV2(nn.Module):
    """The network behind `mobilenet_v2`.

    Args:
        width_mult: multiplies the channels everywhere.
        inverted_residual_setting: rows of expansion, channels, blocks and stride.
        round_nearest: channels are multiples of this.
    """

    def __init__(
        self,
        num_classes: int = 1000,
        width_mult: float = 1.0,
        inverted_residual_setting: list[list[int]] | None = None,
        round_nearest: int = 8,
        block: Callable[..., nn.Module] | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
        dropout: float = 0.2,
    ) -> None:
        setting = _SETTING if inverted_residual_setting is None else inverted_residual_setting
        if len(setting) == 0 or len(setting[0]) != 4:
            raise ValueError(
                "inverted_residual_setting should be non-empty or a 4-element list, "
                f"got {inverted_residual_setting}"
            )
        super().__init__()
        conv, norm = _conv(norm_layer), norm_layer or nn.BatchNorm2d

        def rounded(channels: int, factor: float = width_mult) -> int:
            return _make_divisible(channels * factor, round_nearest)

        width = rounded(32)
        self.last_channel = last = rounded(1280, max(1.0, width_mult))
        self.features = nn.Sequential(conv(3, width, stride=2))
        for expansion, channels, many, stride in setting:
            make = partial(block or InvertedResidual, expand_ratio=expansion, norm_layer=norm)
            row = row_of_blocks(make, width, rounded(channels), stride, many)
            self.features.extend(nn.Sequential(*row))
            width = rounded(channels) if row else width
        self.features.append(conv(width, last, 1))
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(last, num_classes))
        initialize(self, fan_out, partial(nn.init.normal_, std=0.01))

    def _forward_impl(self, x: Tensor) -> Tensor:
        x = F.adaptive_avg_pool2d(self.features(x), (1, 1))
        return self.classifier(x.flatten(1))

    def forward(self, x: Tensor) -> Tensor:
        return self._forward_impl(x)


MobileNet_V2_Weights = published("MobileNet_V2_Weights", __name__)


@builder(MobileNet_V2_Weights)
def mobilenet_v2(**kwargs) -> MobileNetV2:
    """MobileNet v2."""
    return MobileNetV2(**kwargs)
