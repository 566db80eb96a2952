"""RegNet: widths of blocks from a line, rounded to powers (Radosavovic et al. 2020).

Y networks have squeeze-and-excitation, X networks have not. The names tell the work for one image.
"""

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import flambeau
from flambeau import Tensor, nn

from ..ops.misc import Conv2dNormActivation, SqueezeExcitation
from ._api import builder
from ._utils import _make_divisible, initialize
from .published import published

__all__ = [
    "RegNet",
    "RegNet_X_1_6GF_Weights",
    "RegNet_X_3_2GF_Weights",
    "RegNet_X_8GF_Weights",
    "RegNet_X_16GF_Weights",
    "RegNet_X_32GF_Weights",
    "RegNet_X_400MF_Weights",
    "RegNet_X_800MF_Weights",
    "RegNet_Y_1_6GF_Weights",
    "RegNet_Y_3_2GF_Weights",
    "RegNet_Y_8GF_Weights",
    "RegNet_Y_16GF_Weights",
    "RegNet_Y_32GF_Weights",
    "RegNet_Y_128GF_Weights",
    "RegNet_Y_400MF_Weights",
    "RegNet_Y_800MF_Weights",
    "regnet_x_1_6gf",
    "regnet_x_3_2gf",
    "regnet_x_8gf",
    "regnet_x_16gf",
    "regnet_x_32gf",
    "regnet_x_400mf",
    "regnet_x_800mf",
    "regnet_y_1_6gf",
    "regnet_y_3_2gf",
    "regnet_y_8gf",
    "regnet_y_16gf",
    "regnet_y_32gf",
    "regnet_y_128gf",
    "regnet_y_400mf",
    "regnet_y_800mf",
]

Layer = Callable[..., nn.Module]


class SimpleStemIN(Conv2dNormActivation):
    """One convolution with stride 2."""

    def __init__(
        self, width_in: int, width_out: int, norm_layer: Layer, activation_layer: Layer
    ) -> None:
        kinds = {"norm_layer": norm_layer, "activation_layer": activation_layer}
        super().__init__(width_in, width_out, 3, stride=2, **kinds)


class BottleneckTransform(nn.Sequential):
    """1 x 1, grouped 3 x 3, squeeze and excite, 1 x 1."""

    def __init__(
        self,
        width_in: int,
        width_out: int,
        stride: int,
        norm_layer: Layer,
        activation_layer: Layer,
        group_width: int,
        bottleneck_multiplier: float,
        se_ratio: float | None,
    ) -> None:
        kinds = {"norm_layer": norm_layer, "activation_layer": activation_layer}
        inner = round(bottleneck_multiplier * width_out)
        grouped = {"stride": stride, "groups": inner // group_width}
        super().__init__()
        self.add_module("a", Conv2dNormActivation(width_in, inner, 1, **kinds))
        self.add_module("b", Conv2dNormActivation(inner, inner, 3, **grouped, **kinds))
        if se_ratio:
            few = round(width_in * se_ratio)
            self.add_module("se", SqueezeExcitation(inner, few, activation_layer))
        last = Conv2dNormActivation(
            inner, width_out, 1, norm_layer=norm_layer, activation_layer=None
        )
        self.add_module("c", last)


class ResBottleneckBlock(nn.Module):
    """A bottleneck beside its input, which is projected where shapes differ."""

    def __init__(
        self,
        width_in: int,
        width_out: int,
        stride: int,
        norm_layer: Layer,
        activation_layer: Layer,
        group_width: int = 1,
        bottleneck_multiplier: float = 1.0,
        se_ratio: float | None = None,
    ) -> None:
        super().__init__()
        self.proj = None
        if (width_in, 1) != (width_out, stride):
            self.proj = Conv2dNormActivation(
                *(width_in, width_out, 1, stride), norm_layer=norm_layer, activation_layer=None
            )
        rest = norm_layer, activation_layer, group_width, bottleneck_multiplier, se_ratio
        self.f = BottleneckTransform(width_in, width_out, stride, *rest)
        self.activation = activation_layer(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        beside = x if self.proj is None else self.proj(x)
        return self.activation(beside + self.f(x))


class AnyStage(nn.Sequential):
    """Blocks of one width; the first one has the stride."""

    def __init__(
        self,
        width_in: int,
        width_out: int,
        stride: int,
        depth: int,
        block_constructor: Layer,
        norm_layer: Layer,
        activation_layer: Layer,
        group_width: int,
        bottleneck_multiplier: float,
        se_ratio: float | None = None,
        stage_index: int = 0,
    ) -> None:
        super().__init__()
        rest = norm_layer, activation_layer, group_width, bottleneck_multiplier, se_ratio
        for place in range(depth):
            first = (width_out, width_out, 1) if place else (width_in, width_out, stride)
            self.add_module(f"block{stage_index}-{place}", block_constructor(*first, *rest))


@dataclass(eq=False, repr=False)
class BlockParams:
    """Depths, widths, group widths, bottlenecks and strides of the stages."""

    depths: list[int]
    widths: list[int]
    group_widths: list[int]
    bottleneck_multipliers: list[float]
    strides: list[int]
    se_ratio: float | None = None

    @classmethod
    def from_init_params(
        cls,
        depth: int,
        w_0: int,
        w_a: float,
        w_m: float,
        group_width: int,
        bottleneck_multiplier: float = 1.0,
        se_ratio: float | None = None,
        **kwargs: Any,
    ) -> "BlockParams":
        """Stages from the line w_0 + w_a * i, rounded to w_0 times a power of w_m, then to 8."""
        if w_a < 0 or w_0 <= 0 or w_m <= 1 or w_0 % 8 != 0:
            raise ValueError("Invalid RegNet settings")
        # float32 throughout: which power is nearest depends on it
        line = flambeau.arange(depth, device="cpu") * w_a + w_0
        power = flambeau.round(flambeau.log(line / w_0) / math.log(w_m))
        widths = (flambeau.round(w_0 * flambeau.pow(w_m, power) / 8) * 8).int().tolist()
        stages = {width: len(list(same)) for width, same in groupby(widths)}
        group_widths, stage_widths = [], []
        for width in stages:
            inside = int(width * bottleneck_multiplier)
            group_widths.append(min(group_width, inside))
            # whole groups fit into the bottleneck
            inside = _make_divisible(inside, group_widths[-1])
            stage_widths.append(int(inside / bottleneck_multiplier))
        multipliers, strides = [bottleneck_multiplier] * len(stages), [2] * len(stages)
        depths = list(stages.values())
        return cls(depths, stage_widths, group_widths, multipliers, strides, se_ratio)


def _draw_convolution(weight: Tensor) -> None:
    out, _, *kernel = weight.shape  # groups are not counted, unlike in kaiming_normal_
    nn.init.normal_(weight, std=math.sqrt(2.0 / (out * math.prod(kernel))))


class RegNet(nn.Module):
    """The network behind all functions of this file."""

    def __init__(
        self,
        block_params: BlockParams,
        num_classes: int = 1000,
        stem_width: int = 32,
        stem_type: Layer | None = None,
        block_type: Layer | None = None,
        norm_layer: Layer | None = None,
        activation: Layer | None = None,
    ) -> None:
        super().__init__()
        norm, active = norm_layer or nn.BatchNorm2d, activation or nn.ReLU
        self.stem = (stem_type or SimpleStemIN)(3, stem_width, norm, active)
        stages, width = OrderedDict(), stem_width
        for place, after in enumerate(block_params.widths):
            stages[f"block{place + 1}"] = AnyStage(
                *(width, after, block_params.strides[place], block_params.depths[place]),
                *(block_type or ResBottleneckBlock, norm, active),
                block_params.group_widths[place],
                block_params.bottleneck_multipliers[place],
                block_params.se_ratio,
                stage_index=place + 1,
            )
            width = after
        self.trunk_output = nn.Sequential(stages)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(in_features=width, out_features=num_classes)
        normal = partial(nn.init.normal_, std=0.01)
        initialize(self, conv=_draw_convolution, linear=normal, biases=(nn.Linear,))

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.avgpool(self.trunk_output(self.stem(x))).flatten(start_dim=1))


def _regnet(depth: int, w_0: int, w_a: float, w_m: float, groups: int, se, kwargs) -> RegNet:
    params = BlockParams.from_init_params(depth, w_0, w_a, w_m, groups, se_ratio=se, **kwargs)
    norm = kwargs.pop("norm_layer", partial(nn.BatchNorm2d, eps=1e-05, momentum=0.1))
    return RegNet(params, norm_layer=norm, **kwargs)


RegNet_Y_400MF_Weights = published("RegNet_Y_400MF_Weights", __name__)
RegNet_Y_800MF_Weights = published("RegNet_Y_800MF_Weights", __name__)
RegNet_Y_1_6GF_Weights = published("RegNet_Y_1_6GF_Weights", __name__)
RegNet_Y_3_2GF_Weights = published("RegNet_Y_3_2GF_Weights", __name__)
RegNet_Y_8GF_Weights = published("RegNet_Y_8GF_Weights", __name__)
RegNet_Y_16GF_Weights = published("RegNet_Y_16GF_Weights", __name__)
RegNet_Y_32GF_Weights = published("RegNet_Y_32GF_Weights", __name__)
RegNet_Y_128GF_Weights = published("RegNet_Y_128GF_Weights", __name__)
RegNet_X_400MF_Weights = published("RegNet_X_400MF_Weights", __name__)
RegNet_X_800MF_Weights = published("RegNet_X_800MF_Weights", __name__)
RegNet_X_1_6GF_Weights = published("RegNet_X_1_6GF_Weights", __name__)
RegNet_X_3_2GF_Weights = published("RegNet_X_3_2GF_Weights", __name__)
RegNet_X_8GF_Weights = published("RegNet_X_8GF_Weights", __name__)
RegNet_X_16GF_Weights = published("RegNet_X_16GF_Weights", __name__)
RegNet_X_32GF_Weights = published("RegNet_X_32GF_Weights", __name__)


@builder(RegNet_Y_400MF_Weights)
def regnet_y_400mf(**kwargs) -> RegNet:
    """RegNet Y, 400 MFLOPs."""
    return _regnet(16, 48, 27.89, 2.09, 8, 0.25, kwargs)


@builder(RegNet_Y_800MF_Weights)
def regnet_y_800mf(**kwargs) -> RegNet:
    """RegNet Y, 800 MFLOPs."""
    return _regnet(14, 56, 38.84, 2.4, 16, 0.25, kwargs)


@builder(RegNet_Y_1_6GF_Weights)
def regnet_y_1_6gf(**kwargs) -> RegNet:
    """RegNet Y, 1.6 GFLOPs."""
    return _regnet(27, 48, 20.71, 2.65, 24, 0.25, kwargs)


@builder(RegNet_Y_3_2GF_Weights)
def regnet_y_3_2gf(**kwargs) -> RegNet:
    """RegNet Y, 3.2 GFLOPs."""
    return _regnet(21, 80, 42.63, 2.66, 24, 0.25, kwargs)


@builder(RegNet_Y_8GF_Weights)
def regnet_y_8gf(**kwargs) -> RegNet:
    """RegNet Y, 8 GFLOPs."""
    return _regnet(17, 192, 76.82, 2.19, 56, 0.25, kwargs)


@builder(RegNet_Y_16GF_Weights)
def regnet_y_16gf(**kwargs) -> RegNet:
    """RegNet Y, 16 GFLOPs."""
    return _regnet(18, 200, 106.23, 2.48, 112, 0.25, kwargs)


@builder(RegNet_Y_32GF_Weights)
def regnet_y_32gf(**kwargs) -> RegNet:
    """RegNet Y, 32 GFLOPs."""
    return _regnet(20, 232, 115.89, 2.53, 232, 0.25, kwargs)


@builder(RegNet_Y_128GF_Weights, pretrained=None)
def regnet_y_128gf(**kwargs) -> RegNet:
    """RegNet Y, 128 GFLOPs."""
    return _regnet(27, 456, 160.83, 2.52, 264, 0.25, kwargs)


@builder(RegNet_X_400MF_Weights)
def regnet_x_400mf(**kwargs) -> RegNet:
    """RegNet X, 400 MFLOPs."""
    return _regnet(22, 24, 24.48, 2.54, 16, None, kwargs)


@builder(RegNet_X_800MF_Weights)
def regnet_x_800mf(**kwargs) -> RegNet:
    """RegNet X, 800 MFLOPs."""
    return _regnet(16, 56, 35.73, 2.28, 16, None, kwargs)


@builder(RegNet_X_1_6GF_Weights)
def regnet_x_1_6gf(**kwargs) -> RegNet:
    """RegNet X, 1.6 GFLOPs."""
    return _regnet(18, 80, 34.01, 2.25, 24, None, kwargs)


@builder(RegNet_X_3_2GF_Weights)
def regnet_x_3_2gf(**kwargs) -> RegNet:
    """RegNet X, 3.2 GFLOPs."""
    return _regnet(25, 88, 26.31, 2.25, 48, None, kwargs)


@builder(RegNet_X_8GF_Weights)
def regnet_x_8gf(**kwargs) -> RegNet:
    """RegNet X, 8 GFLOPs."""
    return _regnet(23, 80, 49.56, 2.88, 120, None, kwargs)


@builder(RegNet_X_16GF_Weights)
def regnet_x_16gf(**kwargs) -> RegNet:
    """RegNet X, 16 GFLOPs."""
    return _regnet(22, 216, 55.59, 2.1, 128, None, kwargs)


@builder(RegNet_X_32GF_Weights)
def regnet_x_32gf(**kwargs) -> RegNet:
    """RegNet X, 32 GFLOPs."""
    return _regnet(23, 320, 69.86, 2.0, 168, None, kwargs)
