"""MobileNet v2: inverted residuals, thin ends and a wide depthwise middle (Sandler et al. 2018)."""

from collections.abc import Callable
from functools import partial

from flambeau import Tensor, nn
from flambeau.nn import functional as F

from ..ops.misc import Conv2dNormActivation
from ._api import builder
from ._utils import _make_divisible, initialize
from .published import published

__all__ = ["MobileNetV2", "MobileNet_V2_Weights", "mobilenet_v2"]

# expansion, channels, blocks, stride of the first block
_SETTING = [
    [1, 16, 1, 1],
    [6, 24, 2, 2],
    [6, 32, 3, 2],
    [6, 64, 4, 2],
    [6, 96, 3, 1],
    [6, 160, 3, 2],
    [6, 320, 1, 1],
]


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
        super().__init__()
        if stride not in (1, 2):
            raise ValueError(f"stride should be 1 or 2 instead of {stride}")
        self.stride = stride
        norm = norm_layer or nn.BatchNorm2d
        conv = partial(Conv2dNormActivation, norm_layer=norm, activation_layer=nn.ReLU6)
        hidden = round(inp * expand_ratio)
        self.use_res_connect = stride == 1 and inp == oup
        layers: list[nn.Module] = []
        if expand_ratio != 1:
            layers.append(conv(inp, hidden, kernel_size=1))
        layers += [
            conv(hidden, hidden, stride=stride, groups=hidden),
            nn.Conv2d(hidden, oup, 1, 1, 0, bias=False),
            norm(oup),
        ]
        self.conv = nn.Sequential(*layers)
        self.out_channels = oup
        self._is_cn = stride > 1

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
        super().__init__()
        block = block or InvertedResidual
        norm = norm_layer or nn.BatchNorm2d
        setting = _SETTING if inverted_residual_setting is None else inverted_residual_setting
        if len(setting) == 0 or len(setting[0]) != 4:
            raise ValueError(
                "inverted_residual_setting should be non-empty or a 4-element list, "
                f"got {inverted_residual_setting}"
            )
        conv = partial(Conv2dNormActivation, norm_layer=norm, activation_layer=nn.ReLU6)
        channels = _make_divisible(32 * width_mult, round_nearest)
        self.last_channel = _make_divisible(1280 * max(1.0, width_mult), round_nearest)
        features: list[nn.Module] = [conv(3, channels, stride=2)]
        for expansion, width, blocks, stride in setting:
            out = _make_divisible(width * width_mult, round_nearest)
            for place in range(blocks):
                step = stride if place == 0 else 1
                features.append(block(channels, out, step, expand_ratio=expansion, norm_layer=norm))
                channels = out
        features.append(conv(channels, self.last_channel, kernel_size=1))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(
            nn.Dropout(p=dropout), nn.Linear(self.last_channel, num_classes)
        )
        initialize(
            self,
            lambda weight: nn.init.kaiming_normal_(weight, mode="fan_out"),
            lambda weight: nn.init.normal_(weight, 0, 0.01),
        )

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
