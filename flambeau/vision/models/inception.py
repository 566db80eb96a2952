"""Inception v3: factored convolutions side by side (Szegedy et al. 2015).

Names of layers are those of the published weights. One auxiliary classifier helps while learning.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import flambeau
from flambeau import Tensor, nn
from flambeau.nn import functional as F

from ._api import builder
from ._utils import initialize
from .googlenet import BasicConv2d, decide, renormalized, warn_of_slow_start
from .published import published

__all__ = [
    "Inception3",
    "InceptionOutputs",
    "Inception_V3_Weights",
    "_InceptionOutputs",
    "inception_v3",
]

Block = Callable[..., nn.Module]


class InceptionOutputs(NamedTuple):
    """What an Inception v3 with an auxiliary classifier returns while learning."""

    logits: Tensor
    aux_logits: Tensor | None


_InceptionOutputs = InceptionOutputs


class _Joined(nn.Module):
    """Branches of convolutions over one input; subclasses say which."""

    def __init__(self, conv_block: Block | None, **layers: tuple[Any, ...]) -> None:
        """Layers by name, as (channels in, channels out, kernel, padding, stride)."""
        super().__init__()
        conv = conv_block or BasicConv2d
        for name, (before, after, kernel, padding, stride) in layers.items():
            layer = conv(before, after, kernel_size=kernel, padding=padding, stride=stride)
            self.add_module(name, layer)

    def _forward(self, x: Tensor) -> list[Tensor]:
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        return flambeau.cat(self._forward(x), 1)


def _pooled(x: Tensor) -> Tensor:
    return F.avg_pool2d(x, kernel_size=3, stride=1, padding=1)


class InceptionA(_Joined):
    """1 x 1, 5 x 5, two 3 x 3, pool."""

    def __init__(
        self, in_channels: int, pool_features: int, conv_block: Block | None = None
    ) -> None:
        super().__init__(
            conv_block,
            branch1x1=(in_channels, 64, 1, 0, 1),
            branch5x5_1=(in_channels, 48, 1, 0, 1),
            branch5x5_2=(48, 64, 5, 2, 1),
            branch3x3dbl_1=(in_channels, 64, 1, 0, 1),
            branch3x3dbl_2=(64, 96, 3, 1, 1),
            branch3x3dbl_3=(96, 96, 3, 1, 1),
            branch_pool=(in_channels, pool_features, 1, 0, 1),
        )

    def _forward(self, x: Tensor) -> list[Tensor]:
        return [
            self.branch1x1(x),
            self.branch5x5_2(self.branch5x5_1(x)),
            self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x))),
            self.branch_pool(_pooled(x)),
        ]


class InceptionB(_Joined):
    """Half the size: 3 x 3, two 3 x 3, pool."""

    def __init__(self, in_channels: int, conv_block: Block | None = None) -> None:
        super().__init__(
            conv_block,
            branch3x3=(in_channels, 384, 3, 0, 2),
            branch3x3dbl_1=(in_channels, 64, 1, 0, 1),
            branch3x3dbl_2=(64, 96, 3, 1, 1),
            branch3x3dbl_3=(96, 96, 3, 0, 2),
        )

    def _forward(self, x: Tensor) -> list[Tensor]:
        return [
            self.branch3x3(x),
            self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x))),
            F.max_pool2d(x, kernel_size=3, stride=2),
        ]


class InceptionC(_Joined):
    """1 x 1, then 7 x 7 once and twice, each as a row and a column."""

    def __init__(
        self, in_channels: int, channels_7x7: int, conv_block: Block | None = None
    ) -> None:
        mid, row, column = channels_7x7, ((1, 7), (0, 3), 1), ((7, 1), (3, 0), 1)
        super().__init__(
            conv_block,
            branch1x1=(in_channels, 192, 1, 0, 1),
            branch7x7_1=(in_channels, mid, 1, 0, 1),
            branch7x7_2=(mid, mid, *row),
            branch7x7_3=(mid, 192, *column),
            branch7x7dbl_1=(in_channels, mid, 1, 0, 1),
            branch7x7dbl_2=(mid, mid, *column),
            branch7x7dbl_3=(mid, mid, *row),
            branch7x7dbl_4=(mid, mid, *column),
            branch7x7dbl_5=(mid, 192, *row),
            branch_pool=(in_channels, 192, 1, 0, 1),
        )

    def _forward(self, x: Tensor) -> list[Tensor]:
        narrow = self.branch7x7dbl_3(self.branch7x7dbl_2(self.branch7x7dbl_1(x)))
        return [
            self.branch1x1(x),
            self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(x))),
            self.branch7x7dbl_5(self.branch7x7dbl_4(narrow)),
            self.branch_pool(_pooled(x)),
        ]


class InceptionD(_Joined):
    """Half the size: 3 x 3, 7 x 7 and 3 x 3, pool."""

    def __init__(self, in_channels: int, conv_block: Block | None = None) -> None:
        super().__init__(
            conv_block,
            branch3x3_1=(in_channels, 192, 1, 0, 1),
            branch3x3_2=(192, 320, 3, 0, 2),
            branch7x7x3_1=(in_channels, 192, 1, 0, 1),
            branch7x7x3_2=(192, 192, (1, 7), (0, 3), 1),
            branch7x7x3_3=(192, 192, (7, 1), (3, 0), 1),
            branch7x7x3_4=(192, 192, 3, 0, 2),
        )

    def _forward(self, x: Tensor) -> list[Tensor]:
        return [
            self.branch3x3_2(self.branch3x3_1(x)),
            self.branch7x7x3_4(self.branch7x7x3_3(self.branch7x7x3_2(self.branch7x7x3_1(x)))),
            F.max_pool2d(x, kernel_size=3, stride=2),
        ]


class InceptionE(_Joined):
    """1 x 1, then 3 x 3 as a row beside a column, after one and after two layers."""

    def __init__(self, in_channels: int, conv_block: Block | None = None) -> None:
        row, column = ((1, 3), (0, 1), 1), ((3, 1), (1, 0), 1)
        super().__init__(
            conv_block,
            branch1x1=(in_channels, 320, 1, 0, 1),
            branch3x3_1=(in_channels, 384, 1, 0, 1),
            branch3x3_2a=(384, 384, *row),
            branch3x3_2b=(384, 384, *column),
            branch3x3dbl_1=(in_channels, 448, 1, 0, 1),
            branch3x3dbl_2=(448, 384, 3, 1, 1),
            branch3x3dbl_3a=(384, 384, *row),
            branch3x3dbl_3b=(384, 384, *column),
            branch_pool=(in_channels, 192, 1, 0, 1),
        )

    def _forward(self, x: Tensor) -> list[Tensor]:
        once = self.branch3x3_1(x)
        twice = self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        return [
            self.branch1x1(x),
            flambeau.cat([self.branch3x3_2a(once), self.branch3x3_2b(once)], 1),
            flambeau.cat([self.branch3x3dbl_3a(twice), self.branch3x3dbl_3b(twice)], 1),
            self.branch_pool(_pooled(x)),
        ]


class InceptionAux(nn.Module):
    """A small classifier in the middle of the network."""

    def __init__(self, in_channels: int, num_classes: int, conv_block: Block | None = None) -> None:
        super().__init__()
        narrow, wide = 128, 768
        conv = conv_block or BasicConv2d
        self.conv0 = conv(in_channels, narrow, kernel_size=1)
        self.conv1, self.fc = conv(narrow, wide, kernel_size=5), nn.Linear(wide, num_classes)
        self.conv1.stddev, self.fc.stddev = 0.01, 0.001

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(self.conv0(F.avg_pool2d(x, kernel_size=5, stride=3)))
        return self.fc(F.adaptive_avg_pool2d(x, (1, 1)).flatten(1))


# channels in and out, kernel, padding, stride
_STEM = {
    "Conv2d_1a_3x3": (3, 32, 3, 0, 2),
    "Conv2d_2a_3x3": (32, 32, 3),
    "Conv2d_2b_3x3": (32, 64, 3, 1),
    "Conv2d_3b_1x1": (64, 80, 1),
    "Conv2d_4a_3x3": (80, 192, 3),
}
_OPTIONS = "kernel_size", "padding", "stride"
_POOLS = {"Conv2d_2b_3x3": "maxpool1", "Conv2d_4a_3x3": "maxpool2"}  # after which layer
# kind, channels in, what else its constructor wants
_MIXED: dict[str, tuple[str, int, dict[str, int]]] = {
    "5b": ("A", 192, {"pool_features": 32}),
    "5c": ("A", 256, {"pool_features": 64}),
    "5d": ("A", 288, {"pool_features": 64}),
    "6a": ("B", 288, {}),
    "6b": ("C", 768, {"channels_7x7": 128}),
    "6c": ("C", 768, {"channels_7x7": 160}),
    "6d": ("C", 768, {"channels_7x7": 160}),
    "6e": ("C", 768, {"channels_7x7": 192}),
    "7a": ("D", 768, {}),
    "7b": ("E", 1280, {}),
    "7c": ("E", 2048, {}),
}


class Inception3(nn.Module):
    """The network behind `inception_v3`, for images of 299 x 299.

    Args:
        aux_logits: with the auxiliary classifier.
        transform_input: images are normalized for ImageNet; undo that.
        inception_blocks: classes to use for BasicConv2d, InceptionA to E and InceptionAux.
        init_weights: draw from truncated normal distributions.
    """

    def __init__(
        self,
        num_classes: int = 1000,
        aux_logits: bool = True,
        transform_input: bool = False,
        inception_blocks: list[Block] | None = None,
        init_weights: bool | None = None,
        dropout: float = 0.5,
    ) -> None:
        if init_weights is None:
            warn_of_slow_start("inception_v3")
        if inception_blocks is None:
            mixtures = InceptionA, InceptionB, InceptionC, InceptionD, InceptionE
            inception_blocks = [BasicConv2d, *mixtures, InceptionAux]
        elif len(inception_blocks) != 7:
            raise ValueError(
                f"length of inception_blocks should be 7 instead of {len(inception_blocks)}"
            )
        super().__init__()
        self.transform_input, self.aux_logits = transform_input, aux_logits
        conv, *mixed, auxiliary = inception_blocks
        for name, (before, after, *sizes) in _STEM.items():
            self.add_module(name, conv(before, after, **dict(zip(_OPTIONS, sizes, strict=False))))
            if name in _POOLS:
                self.add_module(_POOLS[name], nn.MaxPool2d(3, stride=2))
        for name, (kind, channels, options) in _MIXED.items():
            self.add_module(f"Mixed_{name}", mixed["ABCDE".index(kind)](channels, **options))
            if name == "6e":
                self.AuxLogits = auxiliary(channels, num_classes) if aux_logits else None
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(2048, num_classes)
        if init_weights is not False:
            self._draw()

    def _draw(self) -> None:
        spread = {
            id(layer.weight): float(getattr(layer, "stddev", 0.1))
            for layer in self.modules()
            if isinstance(layer, (nn.Conv2d, nn.Linear))
        }

        def draw(weight: Tensor) -> None:
            nn.init.trunc_normal_(weight, std=spread[id(weight)], a=-2, b=2)

        initialize(self, draw, draw, biases=())

    def _transform_input(self, x: Tensor) -> Tensor:
        return renormalized(x) if self.transform_input else x

    def _forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        x = self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x)))
        x = self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(self.maxpool1(x)))
        x = self.Mixed_5d(self.Mixed_5c(self.Mixed_5b(self.maxpool2(x))))
        x = self.Mixed_6c(self.Mixed_6b(self.Mixed_6a(x)))
        x = self.Mixed_6e(self.Mixed_6d(x))
        aux: Tensor | None = None
        if self.AuxLogits is not None and self.training:
            aux = self.AuxLogits(x)
        x = self.Mixed_7c(self.Mixed_7b(self.Mixed_7a(x)))
        return self.fc(self.dropout(self.avgpool(x)).flatten(1)), aux

    @flambeau.jit.unused
    def eager_outputs(self, x: Tensor, aux: Tensor | None) -> InceptionOutputs | Tensor:
        return InceptionOutputs(x, aux) if self.training and self.aux_logits else x

    def forward(self, x: Tensor) -> InceptionOutputs | Tensor:
        x, aux = self._forward(self._transform_input(x))
        if flambeau.jit.is_scripting():  # one type, whatever the mode
            return InceptionOutputs(x, aux)
        return self.eager_outputs(x, aux)


Inception_V3_Weights = published("Inception_V3_Weights", __name__)


def _finish(model: Any, asked: dict[str, Any]) -> None:
    if not asked.get("aux_logits", True):
        model.aux_logits, model.AuxLogits = False, None


@builder(Inception_V3_Weights, decide=decide, finish=_finish)
def inception_v3(**kwargs) -> Inception3:
    """Inception v3."""
    return Inception3(**kwargs)
