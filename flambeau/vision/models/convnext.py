"""ConvNeXt: a convolutional network with the habits of transformers (Liu et al. 2022)."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import flambeau
from flambeau import Tensor, nn
from flambeau.nn import functional as F

from ..ops.misc import Conv2dNormActivation, Permute
from ..ops.stochastic_depth import StochasticDepth
from ._api import builder
from ._utils import initialize
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
        x = x.permute(0, 2, 3, 1)
        x = F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


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
        norm = norm_layer or partial(nn.LayerNorm, eps=1e-6)
        self.block = nn.Sequential(
            nn.Conv2d(dim, dim, kernel_size=7, padding=3, groups=dim, bias=True),
            Permute([0, 2, 3, 1]),
            norm(dim),
            nn.Linear(in_features=dim, out_features=4 * dim, bias=True),
            nn.GELU(),
            nn.Linear(in_features=4 * dim, out_features=dim, bias=True),
            Permute([0, 3, 1, 2]),
        )
        self.layer_scale = nn.Parameter(flambeau.ones(dim, 1, 1) * layer_scale)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")

    def forward(self, input: Tensor) -> Tensor:
        result = self.stochastic_depth(self.layer_scale * self.block(input))
        result += input
        return result


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
        super().__init__()
        if not block_setting:
            raise ValueError("The block_setting should not be empty")
        if not isinstance(block_setting, Sequence) or not all(
            isinstance(row, CNBlockConfig) for row in block_setting
        ):
            raise TypeError("The block_setting should be List[CNBlockConfig]")
        block = block or CNBlock
        norm = norm_layer or partial(LayerNorm2d, eps=1e-6)
        layers: list[nn.Module] = [
            Conv2dNormActivation(
                3,
                block_setting[0].input_channels,
                kernel_size=4,
                stride=4,
                padding=0,
                norm_layer=norm,
                activation_layer=None,
                bias=True,
            )
        ]
        total, count = sum(row.num_layers for row in block_setting), 0
        for row in block_setting:
            blocks = []
            for _ in range(row.num_layers):
                chance = stochastic_depth_prob * count / (total - 1.0)
                blocks.append(block(row.input_channels, layer_scale, chance))
                count += 1
            layers.append(nn.Sequential(*blocks))
            if row.out_channels is not None:
                half = nn.Conv2d(row.input_channels, row.out_channels, kernel_size=2, stride=2)
                layers.append(nn.Sequential(norm(row.input_channels), half))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        last = block_setting[-1].out_channels or block_setting[-1].input_channels
        self.classifier = nn.Sequential(norm(last), nn.Flatten(1), nn.Linear(last, num_classes))
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
