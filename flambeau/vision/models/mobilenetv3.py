"""MobileNet v3: inverted residuals found by search, with hard swish and squeezes (Howard 2019)."""

from collections.abc import Callable
from functools import partial
from typing import Any

from flambeau import Tensor, nn

from ..ops.misc import Conv2dNormActivation, SqueezeExcitation
from ._api import builder
from ._utils import _make_divisible, fan_out, initialize
from .parts import check_rows
from .published import published

__all__ = [
    "MobileNetV3",
    "MobileNet_V3_Large_Weights",
    "MobileNet_V3_Small_Weights",
    "mobilenet_v3_large",
    "mobilenet_v3_small",
]


_SQUEEZE = partial(SqueezeExcitation, scale_activation=nn.Hardsigmoid)


class InvertedResidualConfig:
    """One block: channels in, kernel, expanded channels, channels out, squeeze?, "RE" or "HS"..."""

    def __init__(
        self,
        input_channels: int,
        kernel: int,
        expanded_channels: int,
        out_channels: int,
        use_se: bool,
        activation: str,
        stride: int,
        dilation: int,
        width_mult: float,
    ) -> None:
        widths = input_channels, expanded_channels, out_channels
        self.input_channels, self.expanded_channels, self.out_channels = (
            self.adjust_channels(width, width_mult) for width in widths
        )
        self.kernel, self.stride, self.dilation = kernel, stride, dilation
        self.use_se, self.use_hs = use_se, activation == "HS"

    @staticmethod
    def adjust_channels(channels: int, width_mult: float) -> int:
        return _make_divisible(channels * width_mult, 8)


class InvertedResidual(nn.Module):
    """The block that a configuration describes."""

    def __init__(
        self,
        cnf: InvertedResidualConfig,
        norm_layer: Callable[..., nn.Module],
        se_layer: Callable[..., nn.Module] = _SQUEEZE,
    ) -> None:
        before, wide, after = cnf.input_channels, cnf.expanded_channels, cnf.out_channels
        if cnf.stride not in (1, 2):
            raise ValueError("illegal stride value")
        super().__init__()
        self.out_channels, self._is_cn = after, cnf.stride == 2
        self.use_res_connect = (before, 1) == (after, cnf.stride)
        active = nn.Hardswish if cnf.use_hs else nn.ReLU
        conv = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=active)
        # what looks further keeps its size
        reach = {"stride": cnf.stride if cnf.dilation == 1 else 1, "dilation": cnf.dilation}
        self.block = nn.Sequential()
        if before != wide:
            self.block.append(conv(before, wide, 1))
        self.block.append(conv(wide, wide, cnf.kernel, groups=wide, **reach))
        if cnf.use_se:
            self.block.append(se_layer(wide, _make_divisible(wide // 4, 8)))
        self.block.append(conv(wide, after, 1, activation_layer=None))

    def forward(self, input: Tensor) -> Tensor:
        change = self.block(input)
        return change.add_(input) if self.use_res_connect else change


class MobileNetV3(nn.Module):
    """The network behind `mobilenet_v3_large` and `mobilenet_v3_small`.

    Args:
        inverted_residual_setting: one configuration per block.
        last_channel: the width of the layer before the last.
    """

    def __init__(
        self,
        inverted_residual_setting: list[InvertedResidualConfig],
        last_channel: int,
        num_classes: int = 1000,
        block: Callable[..., nn.Module] | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
        dropout: float = 0.2,
        **kwargs: Any,
    ) -> None:
        setting, kind = inverted_residual_setting, InvertedResidualConfig
        check_rows(setting, kind, "inverted_residual_setting", "InvertedResidualConfig")
        super().__init__()
        norm = norm_layer or partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
        conv = partial(Conv2dNormActivation, norm_layer=norm, activation_layer=nn.Hardswish)
        narrow, wide = setting[-1].out_channels, 6 * setting[-1].out_channels
        self.features = nn.Sequential(conv(3, setting[0].input_channels, stride=2))
        self.features.extend(
            nn.Sequential(*[(block or InvertedResidual)(b, norm) for b in setting])
        )
        self.features.append(conv(narrow, wide, 1))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        hidden, scores = nn.Linear(wide, last_channel), nn.Linear(last_channel, num_classes)
        between = nn.Hardswish(inplace=True), nn.Dropout(dropout, inplace=True)
        self.classifier = nn.Sequential(hidden, *between, scores)
        initialize(self, fan_out, partial(nn.init.normal_, std=0.01))

    def _forward_impl(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))

    def forward(self, x: Tensor) -> Tensor:
        return self._forward_impl(x)


# in, kernel, expanded, out, squeeze, activation, stride; the last three blocks are the tail, which
# may be halved (reduced_tail) and look further instead of striding (dilated)
_BLOCKS = {
    "mobilenet_v3_large": (
        [
            (16, 3, 16, 16, False, "RE", 1),
            (16, 3, 64, 24, False, "RE", 2),
            (24, 3, 72, 24, False, "RE", 1),
            (24, 5, 72, 40, True, "RE", 2),
            (40, 5, 120, 40, True, "RE", 1),
            (40, 5, 120, 40, True, "RE", 1),
            (40, 3, 240, 80, False, "HS", 2),
            (80, 3, 200, 80, False, "HS", 1),
            (80, 3, 184, 80, False, "HS", 1),
            (80, 3, 184, 80, False, "HS", 1),
            (80, 3, 480, 112, True, "HS", 1),
            (112, 3, 672, 112, True, "HS", 1),
            (112, 5, 672, 160, True, "HS", 2),
            (160, 5, 960, 160, True, "HS", 1),
            (160, 5, 960, 160, True, "HS", 1),
        ],
        1280,
    ),
    "mobilenet_v3_small": (
        [
            (16, 3, 16, 16, True, "RE", 2),
            (16, 3, 72, 24, False, "RE", 2),
            (24, 3, 88, 24, False, "RE", 1),
            (24, 5, 96, 40, True, "HS", 2),
            (40, 5, 240, 40, True, "HS", 1),
            (40, 5, 240, 40, True, "HS", 1),
            (40, 5, 120, 48, True, "HS", 1),
            (48, 5, 144, 48, True, "HS", 1),
            (48, 5, 288, 96, True, "HS", 2),
            (96, 5, 576, 96, True, "HS", 1),
            (96, 5, 576, 96, True, "HS", 1),
        ],
        1024,
    ),
}


def _mobilenet_v3_conf(
    arch: str,
    width_mult: float = 1.0,
    reduced_tail: bool = False,
    dilated: bool = False,
    **kwargs: Any,
) -> tuple[list[InvertedResidualConfig], int]:
    """The blocks and the last width of a model."""
    if arch not in _BLOCKS:
        raise ValueError(f"Unsupported model type {arch}")
    rows, last = _BLOCKS[arch]
    half = 2 if reduced_tail else 1
    setting = []
    for place, (before, kernel, wide, out, squeeze, activation, stride) in enumerate(rows):
        from_end = len(rows) - place  # 3, 2, 1 in the tail
        if from_end <= 3:
            out //= half
        if from_end <= 2:
            before, wide = before // half, wide // half
        dilation = 2 if dilated and from_end <= 3 else 1
        setting.append(
            InvertedResidualConfig(
                before, kernel, wide, out, squeeze, activation, stride, dilation, width_mult
            )
        )
    return setting, InvertedResidualConfig.adjust_channels(last // half, width_mult)


MobileNet_V3_Large_Weights = published("MobileNet_V3_Large_Weights", __name__)
MobileNet_V3_Small_Weights = published("MobileNet_V3_Small_Weights", __name__)


@builder(MobileNet_V3_Large_Weights)
def mobilenet_v3_large(**kwargs) -> MobileNetV3:
    """MobileNet v3, large. Takes also width_mult, reduced_tail and dilated."""
    return MobileNetV3(*_mobilenet_v3_conf("mobilenet_v3_large", **kwargs), **kwargs)


@builder(MobileNet_V3_Small_Weights)
def mobilenet_v3_small(**kwargs) -> MobileNetV3:
    """MobileNet v3, small. Takes also width_mult, reduced_tail and dilated."""
    return MobileNetV3(*_mobilenet_v3_conf("mobilenet_v3_small", **kwargs), **kwargs)
