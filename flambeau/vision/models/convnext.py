"""ConvNeXt: a convolutional network with the habits of transformers (Liu et al. 2022)."""

from collections.abc import Callable
from functools import partial
from typing import Any

import flambeau
from flambeau import Tensor, nn

from ..ops.misc import Conv2dNormActivation, Permute
from ..ops.stochastic_depth import StochasticDepth
from ._api import builder
from ._utils import initialize
from .parts import chances, check_rows
from .published import published

__all__ = [
    "ConvNeXt",
    "ConvNeXt_Base_Weights",
    "ConvNeXt_Large_Weights",
    "ConvNeXt_Small_Weights",
    "ConvNeXt_Tiny_Weights",
    "convnext_base",
    "convnext_large",
    "convnext_small",
    "convnext_tiny",
]


class LayerNorm2d(nn.LayerNorm):
    """Layer normalization over the channels of images."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class CNBlock(nn.Module):
    """A wide filter of each channel, then a perceptron over channels, scaled and added."""

    def __init__(
        self,
        dim: int,
        layer_scale: float,
        stochastic_depth_prob: float,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        wide = nn.Conv2d(dim, dim, 7, padding=3, groups=dim)
        up, down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        normalized = nn.LayerNorm(dim, eps=1e-6) if norm_layer is None else norm_layer(dim)
        over_channels = normalized, up, nn.GELU(), down
        last, first = Permute([0, 2, 3, 1]), Permute([0, 3, 1, 2])  # where the channels are
        self.block = nn.Sequential(wide, last, *over_channels, first)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        self.layer_scale = nn.Parameter(flambeau.full((dim, 1, 1), float(layer_scale)))

    def forward(self, input: Tensor) -> Tensor:
        change = self.stochastic_depth(self.layer_scale * self.block(input))
        return change.add_(input)


class CNBlockConfig:
    """A row of blocks: its channels, those of the next row (None for the last), how many."""

    def __init__(self, input_channels: int, out_channels: int | None, num_layers: int) -> None:
        self.input_channels = input_channels
        self.out_channels = out_channels
        self.num_layers = num_layers

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value}" for name, value in vars(self).items())
        return f"{type(self).__name__}({values})"


class ConvNeXt(nn.Module):
    """The network behind all functions of this file.

    Args:
        block_setting: rows of blocks.
        stochastic_depth_prob: of the last block; it grows linearly from 0 at the first.
        layer_scale: where the scales of the blocks start.
    """

    def __init__(
        self,
        block_setting: list[CNBlockConfig],
        stochastic_depth_prob: float = 0.0,
        layer_scale: float = 1e-6,
        num_classes: int = 1000,
        block: Callable[..., nn.Module] | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
        **kwargs: Any,
    ) -> None:
        check_rows(block_setting, CNBlockConfig, "block_setting", "CNBlockConfig")
        super().__init__()
        norm = norm_layer or partial(LayerNorm2d, eps=1e-6)
        depths = [row.num_layers for row in block_setting]
        width = block_setting[0].input_channels
        plain = {"norm_layer": norm, "activation_layer": None, "bias": True}
        self.features = nn.Sequential(Conv2dNormActivation(3, width, 4, 4, 0, **plain))
        ramp = chances(stochastic_depth_prob, depths, sum(depths) - 1)
        for row, odds in zip(block_setting, ramp, strict=True):
            width, after = row.input_channels, row.out_channels
            blocks = [(block or CNBlock)(width, layer_scale, chance) for chance in odds]
            self.features.append(nn.Sequential(*blocks))
            if after is not None:
                halves = norm(width), nn.Conv2d(width, after, 2, stride=2)
                self.features.append(nn.Sequential(*halves))
                width = after
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(norm(width), nn.Flatten(1), nn.Linear(width, num_classes))
        draw = partial(nn.init.trunc_normal_, std=0.02)
        initialize(self, draw, draw)

    def _forward_impl(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)))

    def forward(self, x: Tensor) -> Tensor:
        return self._forward_impl(x)


def _convnext(width: int, third: int, chance: float, kwargs) -> ConvNeXt:
    """Rows of 3, 3, `third` and 3 blocks, each twice as wide as the one before."""
    widths = [width, 2 * width, 4 * width, 8 * width, None]
    setting = [
        CNBlockConfig(before, after, blocks)  # type: ignore[arg-type]
        for before, after, blocks in zip(widths, widths[1:], (3, 3, third, 3), strict=False)
    ]
    return ConvNeXt(setting, kwargs.pop("stochastic_depth_prob", chance), **kwargs)


ConvNeXt_Tiny_Weights = published("ConvNeXt_Tiny_Weights", __name__)
ConvNeXt_Small_Weights = published("ConvNeXt_Small_Weights", __name__)
ConvNeXt_Base_Weights = published("ConvNeXt_Base_Weights", __name__)
ConvNeXt_Large_Weights = published("ConvNeXt_Large_Weights", __name__)


@builder(ConvNeXt_Tiny_Weights)
def convnext_tiny(**kwargs) -> ConvNeXt:
    """ConvNeXt, tiny."""
    return _convnext(96, 9, 0.1, kwargs)


@builder(ConvNeXt_Small_Weights)
def convnext_small(**kwargs) -> ConvNeXt:
    """ConvNeXt, small."""
    return _convnext(96, 27, 0.4, kwargs)


@builder(ConvNeXt_Base_Weights)
def convnext_base(**kwargs) -> ConvNeXt:
    """ConvNeXt, base."""
    return _convnext(128, 27, 0.5, kwargs)


@builder(ConvNeXt_Large_Weights)
def convnext_large(**kwargs) -> ConvNeXt:
    """ConvNeXt, large."""
    return _convnext(192, 27, 0.5, kwargs)
