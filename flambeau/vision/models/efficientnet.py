"""EfficientNet (Tan and Le 2019) and EfficientNet v2 (2021).

The first ones scale one network in width and depth; the second ones have fused blocks at the
start. Each model is a table of rows of blocks.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from flambeau import Tensor, nn

from ..ops.misc import Conv2dNormActivation, SqueezeExcitation
from ..ops.stochastic_depth import StochasticDepth
from ._api import builder
from ._utils import _make_divisible, fan_out, initialize
from .parts import Layer, chances, check_rows
from .published import published

__all__ = [
    "EfficientNet",
    "EfficientNet_B0_Weights",
    "EfficientNet_B1_Weights",
    "EfficientNet_B2_Weights",
    "EfficientNet_B3_Weights",
    "EfficientNet_B4_Weights",
    "EfficientNet_B5_Weights",
    "EfficientNet_B6_Weights",
    "EfficientNet_B7_Weights",
    "EfficientNet_V2_L_Weights",
    "EfficientNet_V2_M_Weights",
    "EfficientNet_V2_S_Weights",
    "efficientnet_b0",
    "efficientnet_b1",
    "efficientnet_b2",
    "efficientnet_b3",
    "efficientnet_b4",
    "efficientnet_b5",
    "efficientnet_b6",
    "efficientnet_b7",
    "efficientnet_v2_l",
    "efficientnet_v2_m",
    "efficientnet_v2_s",
]


@dataclass
class _MBConvConfig:
    """A row of blocks."""

    expand_ratio: float
    kernel: int
    stride: int
    input_channels: int
    out_channels: int
    num_layers: int
    block: Layer

    @staticmethod
    def adjust_channels(channels: int, width_mult: float, min_value: int | None = None) -> int:
        return _make_divisible(channels * width_mult, 8, min_value)


class MBConvConfig(_MBConvConfig):
    """A row of MBConv blocks, scaled."""

    def __init__(
        self,
        expand_ratio: float,
        kernel: int,
        stride: int,
        input_channels: int,
        out_channels: int,
        num_layers: int,
        width_mult: float = 1.0,
        depth_mult: float = 1.0,
        block: Layer | None = None,
    ) -> None:
        super().__init__(
            expand_ratio,
            kernel,
            stride,
            self.adjust_channels(input_channels, width_mult),
            self.adjust_channels(out_channels, width_mult),
            self.adjust_depth(num_layers, depth_mult),
            block or MBConv,
        )

    @staticmethod
    def adjust_depth(num_layers: int, depth_mult: float) -> int:
        return math.ceil(num_layers * depth_mult)


class FusedMBConvConfig(_MBConvConfig):
    """A row of FusedMBConv blocks."""

    def __init__(
        self,
        expand_ratio: float,
        kernel: int,
        stride: int,
        input_channels: int,
        out_channels: int,
        num_layers: int,
        block: Layer | None = None,
    ) -> None:
        super().__init__(
            expand_ratio,
            kernel,
            stride,
            input_channels,
            out_channels,
            num_layers,
            block or FusedMBConv,
        )


def _conv(norm: Layer) -> Layer:
    return partial(Conv2dNormActivation, norm_layer=norm, activation_layer=nn.SiLU)


class _Residual(nn.Module):
    """Layers, left out at random while learning, beside their input where shapes agree."""

    def __init__(
        self, cnf: _MBConvConfig, stochastic_depth_prob: float, layers: Sequence[nn.Module]
    ) -> None:
        if cnf.stride not in (1, 2):
            raise ValueError("illegal stride value")
        super().__init__()
        self.out_channels = after = cnf.out_channels
        self.use_res_connect = (cnf.input_channels, cnf.stride) == (after, 1)
        self.block = nn.Sequential(*layers)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")

    def forward(self, input: Tensor) -> Tensor:
        change = self.block(input)
        return self.stochastic_depth(change).add_(input) if self.use_res_connect else change


class MBConv(_Residual):
    """Expand, filter each channel, squeeze and excite, project."""

    def __init__(
        self,
        cnf: MBConvConfig,
        stochastic_depth_prob: float,
        norm_layer: Layer,
        se_layer: Layer = SqueezeExcitation,
    ) -> None:
        before, after = cnf.input_channels, cnf.out_channels
        wide = cnf.adjust_channels(before, cnf.expand_ratio)
        conv = _conv(norm_layer)
        expansion = [] if wide == before else [conv(before, wide, 1)]
        depthwise = conv(wide, wide, cnf.kernel, cnf.stride, groups=wide)
        active = partial(nn.SiLU, inplace=True)
        squeeze = se_layer(wide, before // 4 or 1, activation=active)
        projection = conv(wide, after, 1, activation_layer=None)
        layers = [*expansion, depthwise, squeeze, projection]
        super().__init__(cnf, stochastic_depth_prob, layers)


class FusedMBConv(_Residual):
    """Expand with an ordinary convolution, project."""

    def __init__(
        self, cnf: FusedMBConvConfig, stochastic_depth_prob: float, norm_layer: Layer
    ) -> None:
        before, after = cnf.input_channels, cnf.out_channels
        wide = cnf.adjust_channels(before, cnf.expand_ratio)
        conv, expands = _conv(norm_layer), wide != before
        layers = [conv(before, wide if expands else after, cnf.kernel, cnf.stride)]
        if expands:
            layers.append(conv(wide, after, 1, activation_layer=None))
        super().__init__(cnf, stochastic_depth_prob, layers)


class EfficientNet(nn.Module):
    """The network behind all functions of this file.

    Args:
        inverted_residual_setting: rows of blocks.
        dropout: before the last layer.
        stochastic_depth_prob: of the last block; it grows linearly from 0 at the first.
        last_channel: channels before the pool; four times those of the last row unless given.
    """

    def __init__(
        self,
        inverted_residual_setting: Sequence[MBConvConfig | FusedMBConvConfig],
        dropout: float,
        stochastic_depth_prob: float = 0.2,
        num_classes: int = 1000,
        norm_layer: Layer | None = None,
        last_channel: int | None = None,
    ) -> None:
        rows = inverted_residual_setting
        check_rows(rows, _MBConvConfig, "inverted_residual_setting", "MBConvConfig")
        super().__init__()
        norm = norm_layer or nn.BatchNorm2d
        conv, width = _conv(norm), rows[-1].out_channels
        last = 4 * width if last_channel is None else last_channel
        depths = [row.num_layers for row in rows]
        self.features = nn.Sequential(conv(3, rows[0].input_channels, stride=2))
        for row, odds in zip(
            rows, chances(stochastic_depth_prob, depths, sum(depths)), strict=True
        ):
            blocks = nn.Sequential()
            for chance in odds:
                one = copy.copy(row)
                if len(blocks):  # only the first block changes the shape
                    one.input_channels, one.stride = row.out_channels, 1
                blocks.append(one.block(one, chance, norm))
            self.features.append(blocks)
        self.features.append(conv(width, last, 1))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        scores = nn.Linear(last, num_classes)
        self.classifier = nn.Sequential(nn.Dropout(dropout, inplace=True), scores)
        bound = num_classes**-0.5
        initialize(self, fan_out, partial(nn.init.uniform_, a=-bound, b=bound))

    def _forward_impl(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))

    def forward(self, x: Tensor) -> Tensor:
        return self._forward_impl(x)


# expansion, kernel, stride, channels in and out, blocks
_B0 = [
    (1, 3, 1, 32, 16, 1),
    (6, 3, 2, 16, 24, 2),
    (6, 5, 2, 24, 40, 2),
    (6, 3, 2, 40, 80, 3),
    (6, 5, 1, 80, 112, 3),
    (6, 5, 2, 112, 192, 4),
    (6, 3, 1, 192, 320, 1),
]
# fused rows, then others
_V2 = {
    "s": (
        [(1, 3, 1, 24, 24, 2), (4, 3, 2, 24, 48, 4), (4, 3, 2, 48, 64, 4)],
        [(4, 3, 2, 64, 128, 6), (6, 3, 1, 128, 160, 9), (6, 3, 2, 160, 256, 15)],
    ),
    "m": (
        [(1, 3, 1, 24, 24, 3), (4, 3, 2, 24, 48, 5), (4, 3, 2, 48, 80, 5)],
        [
            (4, 3, 2, 80, 160, 7),
            (6, 3, 1, 160, 176, 14),
            (6, 3, 2, 176, 304, 18),
            (6, 3, 1, 304, 512, 5),
        ],
    ),
    "l": (
        [(1, 3, 1, 32, 32, 4), (4, 3, 2, 32, 64, 7), (4, 3, 2, 64, 96, 7)],
        [
            (4, 3, 2, 96, 192, 10),
            (6, 3, 1, 192, 224, 19),
            (6, 3, 2, 224, 384, 25),
            (6, 3, 1, 384, 640, 7),
        ],
    ),
}


def _scaled(width: float, depth: float, dropout: float, kwargs, **fixed) -> EfficientNet:
    """B0 to B7."""
    setting = [MBConvConfig(*row, width_mult=width, depth_mult=depth) for row in _B0]
    return EfficientNet(setting, kwargs.pop("dropout", dropout), **fixed, **kwargs)


def _second(size: str, dropout: float, kwargs) -> EfficientNet:
    """Version 2, which has batch normalization with another epsilon."""
    fused, plain = _V2[size]
    setting = [FusedMBConvConfig(*row) for row in fused] + [MBConvConfig(*row) for row in plain]
    return EfficientNet(
        setting,
        kwargs.pop("dropout", dropout),
        last_channel=1280,
        norm_layer=partial(nn.BatchNorm2d, eps=1e-3),
        **kwargs,
    )


# B5 to B7 were trained with TensorFlow's numbers
_TENSORFLOW_NORM = partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)

EfficientNet_B0_Weights = published("EfficientNet_B0_Weights", __name__)
EfficientNet_B1_Weights = published("EfficientNet_B1_Weights", __name__)
EfficientNet_B2_Weights = published("EfficientNet_B2_Weights", __name__)
EfficientNet_B3_Weights = published("EfficientNet_B3_Weights", __name__)
EfficientNet_B4_Weights = published("EfficientNet_B4_Weights", __name__)
EfficientNet_B5_Weights = published("EfficientNet_B5_Weights", __name__)
EfficientNet_B6_Weights = published("EfficientNet_B6_Weights", __name__)
EfficientNet_B7_Weights = published("EfficientNet_B7_Weights", __name__)
EfficientNet_V2_S_Weights = published("EfficientNet_V2_S_Weights", __name__)
EfficientNet_V2_M_Weights = published("EfficientNet_V2_M_Weights", __name__)
EfficientNet_V2_L_Weights = published("EfficientNet_V2_L_Weights", __name__)


@builder(EfficientNet_B0_Weights)
def efficientnet_b0(**kwargs) -> EfficientNet:
    """EfficientNet B0."""
    return _scaled(1.0, 1.0, 0.2, kwargs)


@builder(EfficientNet_B1_Weights)
def efficientnet_b1(**kwargs) -> EfficientNet:
    """EfficientNet B1."""
    return _scaled(1.0, 1.1, 0.2, kwargs)


@builder(EfficientNet_B2_Weights)
def efficientnet_b2(**kwargs) -> EfficientNet:
    """EfficientNet B2."""
    return _scaled(1.1, 1.2, 0.3, kwargs)


@builder(EfficientNet_B3_Weights)
def efficientnet_b3(**kwargs) -> EfficientNet:
    """EfficientNet B3."""
    return _scaled(1.2, 1.4, 0.3, kwargs)


@builder(EfficientNet_B4_Weights)
def efficientnet_b4(**kwargs) -> EfficientNet:
    """EfficientNet B4."""
    return _scaled(1.4, 1.8, 0.4, kwargs)


@builder(EfficientNet_B5_Weights)
def efficientnet_b5(**kwargs) -> EfficientNet:
    """EfficientNet B5."""
    return _scaled(1.6, 2.2, 0.4, kwargs, norm_layer=_TENSORFLOW_NORM)


@builder(EfficientNet_B6_Weights)
def efficientnet_b6(**kwargs) -> EfficientNet:
    """EfficientNet B6."""
    return _scaled(1.8, 2.6, 0.5, kwargs, norm_layer=_TENSORFLOW_NORM)


@builder(EfficientNet_B7_Weights)
def efficientnet_b7(**kwargs) -> EfficientNet:
    """EfficientNet B7."""
    return _scaled(2.0, 3.1, 0.5, kwargs, norm_layer=_TENSORFLOW_NORM)


@builder(EfficientNet_V2_S_Weights)
def efficientnet_v2_s(**kwargs) -> EfficientNet:
    """EfficientNet v2, small."""
    return _second("s", 0.2, kwargs)


@builder(EfficientNet_V2_M_Weights)
def efficientnet_v2_m(**kwargs) -> EfficientNet:
    """EfficientNet v2, medium."""
    return _second("m", 0.3, kwargs)


@builder(EfficientNet_V2_L_Weights)
def efficientnet_v2_l(**kwargs) -> EfficientNet:
    """EfficientNet v2, large."""
    return _second("l", 0.4, kwargs)
