"""MaxViT: convolutions, attention within windows, attention across them (Tu et al. 2022).

Attention over a grid is attention over windows with the two axes exchanged, so one layer does both.
"""

import math
from collections import OrderedDict
from functools import partial
from typing import Any

import flambeau
from flambeau import Tensor, nn
from flambeau.nn import functional as F

from ..ops.misc import Conv2dNormActivation, SqueezeExcitation
from ..ops.stochastic_depth import StochasticDepth
from ._api import builder
from ._utils import _ovewrite_named_param, initialize
from .parts import Layer, differences, row_of_blocks
from .published import published

__all__ = ["MaxVit", "MaxVit_T_Weights", "maxvit_t"]

Sizes = tuple[int, int]


def _halved(size: Sizes) -> Sizes:
    """The size after a 3 x 3 convolution with stride 2 and padding 1."""
    return (size[0] - 1) // 2 + 1, (size[1] - 1) // 2 + 1


class MBConv(nn.Module):
    """Expand, filter each channel, squeeze and excite, project; beside a projected input."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        expansion_ratio: float,
        squeeze_ratio: float,
        stride: int,
        activation_layer: Layer,
        norm_layer: Layer,
        p_stochastic_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.proj: nn.Module = nn.Identity()
        if stride != 1 or in_channels != out_channels:
            beside: list[nn.Module] = [nn.Conv2d(in_channels, out_channels, 1, bias=True)]
            if stride == 2:
                beside.insert(0, nn.AvgPool2d(kernel_size=3, stride=stride, padding=1))
            self.proj = nn.Sequential(*beside)
        wide, squeezed = int(out_channels * expansion_ratio), int(out_channels * squeeze_ratio)
        self.stochastic_depth: nn.Module = nn.Identity()
        if p_stochastic_dropout:
            self.stochastic_depth = StochasticDepth(p_stochastic_dropout, mode="row")
        conv = partial(
            Conv2dNormActivation,
            norm_layer=norm_layer,
            activation_layer=activation_layer,
            inplace=None,
        )
        self.layers = nn.Sequential(
            OrderedDict(
                pre_norm=norm_layer(in_channels),
                conv_a=conv(in_channels, wide, kernel_size=1),
                conv_b=conv(wide, wide, kernel_size=3, stride=stride, groups=wide),
                squeeze_excitation=SqueezeExcitation(wide, squeezed, activation=nn.SiLU),
                conv_c=nn.Conv2d(wide, out_channels, kernel_size=1, bias=True),
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x) + self.stochastic_depth(self.layers(x))


class RelativePositionalMultiHeadAttention(nn.Module):
    """Attention among the places of each part of (B, parts, places, D), with learned biases."""

    def __init__(self, feat_dim: int, head_dim: int, max_seq_len: int) -> None:
        heads, left = divmod(feat_dim, head_dim)
        if left:
            raise ValueError(f"feat_dim: {feat_dim} must be divisible by head_dim: {head_dim}")
        super().__init__()
        self.n_heads, self.head_dim = heads, head_dim
        self.max_seq_len, self.size = max_seq_len, int(math.sqrt(max_seq_len))
        self.scale_factor = feat_dim**-0.5
        self.to_qkv = nn.Linear(feat_dim, 3 * feat_dim)
        self.merge = nn.Linear(feat_dim, feat_dim)
        table = flambeau.empty((2 * self.size - 1) ** 2, self.n_heads, dtype=flambeau.float32)
        self.relative_position_bias_table = nn.Parameter(nn.init.trunc_normal_(table, std=0.02))
        self.register_buffer("relative_position_index", differences(self.size, self.size))

    def get_relative_positional_bias(self) -> Tensor:
        places = self.max_seq_len
        bias = self.relative_position_bias_table[self.relative_position_index.view(-1)]
        return bias.view(places, places, -1).permute(2, 0, 1).contiguous().unsqueeze(0)

    def forward(self, x: Tensor) -> Tensor:
        batch, groups, places, _ = x.shape
        shape = [batch, groups, places, self.n_heads, self.head_dim]
        parts = flambeau.chunk(self.to_qkv(x), 3, dim=-1)
        q, k, v = parts
        q = q.reshape(shape).permute(0, 1, 3, 2, 4)
        k = k.reshape(shape).permute(0, 1, 3, 2, 4)
        v = v.reshape(shape).permute(0, 1, 3, 2, 4)
        logits = q @ (k * self.scale_factor).transpose(-2, -1)
        out = F.softmax(logits + self.get_relative_positional_bias(), dim=-1) @ v
        return self.merge(out.permute(0, 1, 3, 2, 4).reshape(x.shape))


class SwapAxes(nn.Module):
    """`torch.swapaxes` as a layer."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__()
        self.a, self.b = a, b

    def forward(self, x: Tensor) -> Tensor:
        return x.swapaxes(self.a, self.b)


# what happens to windows and the places in them before attention, and after it
_SWAPS: dict[str, Layer] = {"window": nn.Identity, "grid": partial(SwapAxes, -2, -3)}


class WindowPartition(nn.Module):
    """(B, C, H, W) as (B, windows, places of a window, C)."""

    def forward(self, x: Tensor, p: int) -> Tensor:
        x = x.unflatten(3, [-1, p]).unflatten(2, [-1, p])
        return x.permute(0, 2, 4, 3, 5, 1).flatten(3, 4).flatten(1, 2)


class WindowDepartition(nn.Module):
    """The way back."""

    def forward(self, x: Tensor, p: int, h_partitions: int, w_partitions: int) -> Tensor:
        x = x.unflatten(2, [p, p]).unflatten(1, [h_partitions, w_partitions])
        return x.permute(0, 5, 1, 3, 2, 4).flatten(4, 5).flatten(2, 3)


class PartitionAttentionLayer(nn.Module):
    """Attention and a perceptron over windows, or over the same place of all windows ("grid")."""

    def __init__(
        self,
        in_channels: int,
        head_dim: int,
        partition_size: int,
        partition_type: str,
        grid_size: Sizes,
        mlp_ratio: int,
        activation_layer: Layer,
        norm_layer: Layer,
        attention_dropout: float,
        mlp_dropout: float,
        p_stochastic_dropout: float,
    ) -> None:
        if partition_type not in _SWAPS:
            raise ValueError("partition_type must be either 'grid' or 'window'")
        super().__init__()
        many = grid_size[0] // partition_size
        self.partition_type, self.grid_size, self.n_partitions = partition_type, grid_size, many
        self.head_dim, self.n_heads = head_dim, in_channels // head_dim
        within = partition_type == "window"  # or from window to window
        self.p, self.g = (partition_size, many) if within else (many, partition_size)
        swap = _SWAPS[partition_type]
        self.partition_op, self.departition_op = WindowPartition(), WindowDepartition()
        self.partition_swap, self.departition_swap = swap(), swap()
        attention = RelativePositionalMultiHeadAttention(in_channels, head_dim, partition_size**2)
        layers = norm_layer(in_channels), attention, nn.Dropout(attention_dropout)
        self.attn_layer = nn.Sequential(*layers)
        wide = mlp_ratio * in_channels
        up, down = nn.Linear(in_channels, wide), nn.Linear(wide, in_channels)
        perceptron = up, activation_layer(), down, nn.Dropout(mlp_dropout)
        self.mlp_layer = nn.Sequential(nn.LayerNorm(in_channels), *perceptron)
        self.stochastic_dropout = StochasticDepth(p_stochastic_dropout, "row")

    def forward(self, x: Tensor) -> Tensor:
        height, width = self.grid_size[0], self.grid_size[1]
        if height % self.p or width % self.p:
            raise AssertionError(
                "Grid size must be divisible by partition size. Got grid size of "
                f"{self.grid_size} and partition size of {self.p}"
            )
        x = self.partition_swap(self.partition_op(x, self.p))
        x = x + self.stochastic_dropout(self.attn_layer(x))
        x = x + self.stochastic_dropout(self.mlp_layer(x))
        return self.departition_op(
            self.departition_swap(x), self.p, height // self.p, width // self.p
        )


class MaxVitLayer(nn.Module):
    """A convolution, attention in windows, attention over the grid."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        squeeze_ratio: float,
        expansion_ratio: float,
        stride: int,
        norm_layer: Layer,
        activation_layer: Layer,
        head_dim: int,
        mlp_ratio: int,
        mlp_dropout: float,
        attention_dropout: float,
        p_stochastic_dropout: float,
        partition_size: int,
        grid_size: Sizes,
    ) -> None:
        super().__init__()
        ratios = expansion_ratio, squeeze_ratio
        kinds = activation_layer, norm_layer
        convolution = MBConv(
            in_channels, out_channels, *ratios, stride, *kinds, p_stochastic_dropout
        )
        layers: OrderedDict[str, nn.Module] = OrderedDict(MBconv=convolution)
        chances = attention_dropout, mlp_dropout, p_stochastic_dropout
        rest = grid_size, mlp_ratio, activation_layer, nn.LayerNorm, *chances
        for kind in ("window", "grid"):
            attention = PartitionAttentionLayer(out_channels, head_dim, partition_size, kind, *rest)
            layers[f"{kind}_attention"] = attention
        self.layers = nn.Sequential(layers)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class MaxVitBlock(nn.Module):
    """Layers of one width; the first one halves the size."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        squeeze_ratio: float,
        expansion_ratio: float,
        norm_layer: Layer,
        activation_layer: Layer,
        head_dim: int,
        mlp_ratio: int,
        mlp_dropout: float,
        attention_dropout: float,
        partition_size: int,
        input_grid_size: Sizes,
        n_layers: int,
        p_stochastic: list[float],
    ) -> None:
        if n_layers != len(p_stochastic):
            raise ValueError(
                f"p_stochastic must have length n_layers={n_layers}, got "
                f"p_stochastic={p_stochastic}."
            )
        super().__init__()
        self.grid_size = _halved(input_grid_size)
        chances = iter(p_stochastic)

        def layer(before: int, after: int, stride: int) -> MaxVitLayer:
            return MaxVitLayer(
                *(before, after, squeeze_ratio, expansion_ratio, stride),
                *(norm_layer, activation_layer, head_dim, mlp_ratio),
                *(mlp_dropout, attention_dropout, next(chances)),
                *(partition_size, self.grid_size),
            )

        self.layers = nn.ModuleList(row_of_blocks(layer, in_channels, out_channels, 2, n_layers))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class MaxVit(nn.Module):
    """The network behind `maxvit_t`.

    Args:
        input_size: of images, which have this very size.
        partition_size: the side of a window, and of the grid.
        block_channels, block_layers: of each block.
        stochastic_depth_prob: of the last layer; it grows linearly from 0 at the first.
    """

    def __init__(
        self,
        input_size: Sizes,
        stem_channels: int,
        partition_size: int,
        block_channels: list[int],
        block_layers: list[int],
        head_dim: int,
        stochastic_depth_prob: float,
        norm_layer: Layer | None = None,
        activation_layer: Layer = nn.GELU,
        squeeze_ratio: float = 0.25,
        expansion_ratio: float = 4,
        mlp_ratio: int = 4,
        mlp_dropout: float = 0.0,
        attention_dropout: float = 0.0,
        num_classes: int = 1000,
    ) -> None:
        super().__init__()
        norm = norm_layer or partial(nn.BatchNorm2d, eps=1e-3, momentum=0.01)
        size = _halved(input_size)
        self._check_sizes(size, partition_size, len(block_channels))
        first = {"norm_layer": norm, "activation_layer": activation_layer, "inplace": None}
        plain = {"norm_layer": None, "activation_layer": None}
        self.stem = nn.Sequential(
            Conv2dNormActivation(3, stem_channels, stride=2, **first),
            Conv2dNormActivation(stem_channels, stem_channels, **plain),
        )
        self.partition_size = partition_size
        self.blocks = nn.ModuleList()
        total = sum(block_layers)
        step = stochastic_depth_prob / max(total - 1, 1)
        chances = [k * step for k in range(total)]
        chances[1:] = chances[1:-1] + [stochastic_depth_prob] * (total > 1)
        before = stem_channels
        for after, layers in zip(block_channels, block_layers, strict=True):
            block = MaxVitBlock(
                *(before, after, squeeze_ratio, expansion_ratio, norm, activation_layer),
                *(head_dim, mlp_ratio, mlp_dropout, attention_dropout),
                *(partition_size, size, layers, chances[:layers]),
            )
            self.blocks.append(block)
            before, size, chances = after, block.grid_size, chances[layers:]
        hidden, last = nn.Linear(before, before), nn.Linear(before, num_classes, bias=False)
        mean = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(before)
        self.classifier = nn.Sequential(*mean, hidden, nn.Tanh(), last)
        draw = partial(nn.init.normal_, std=0.02)
        initialize(self, draw, draw)

    @staticmethod
    def _check_sizes(size: Sizes, partition_size: int, blocks: int) -> None:
        sizes = [size := _halved(size) for _ in range(blocks)]
        for place, (height, width) in enumerate(sizes):
            if height % partition_size or width % partition_size:
                raise ValueError(
                    f"Input size {(height, width)} of block {place} is not divisible by partition "
                    f"size {partition_size}. Consider changing the partition size or the input "
                    "size.\nCurrent configuration yields the following block input sizes: "
                    f"{sizes}."
                )

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.classifier(x)


def _decide(weights: Any, kwargs: dict[str, Any]) -> None:
    _ovewrite_named_param(kwargs, "input_size", weights.meta["min_size"])


MaxVit_T_Weights = published("MaxVit_T_Weights", __name__)


@builder(MaxVit_T_Weights, decide=_decide)
def maxvit_t(**kwargs) -> MaxVit:
    """MaxViT, tiny. Takes also input_size ((224, 224))."""
    size, widths, layers = kwargs.pop("input_size", (224, 224)), [64, 128, 256, 512], [2, 2, 5, 2]
    return MaxVit(size, 64, 7, widths, layers, head_dim=32, stochastic_depth_prob=0.2, **kwargs)
