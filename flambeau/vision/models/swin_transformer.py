"""Swin transformers: attention in windows that are shifted from layer to layer (Liu 2021, 2022).

Version 2 normalizes after attention, compares by angles and computes the biases of relative
positions by a small network.
"""

import math
from functools import partial
from typing import Any

import flambeau
from flambeau import Tensor, fx, nn
from flambeau.nn import functional as F

from ..ops.misc import Permute
from ..ops.stochastic_depth import StochasticDepth
from ._api import builder
from ._utils import initialize
from .parts import Layer, chances, differences, perceptron
from .published import published

__all__ = [
    "SwinTransformer",
    "Swin_B_Weights",
    "Swin_S_Weights",
    "Swin_T_Weights",
    "Swin_V2_B_Weights",
    "Swin_V2_S_Weights",
    "Swin_V2_T_Weights",
    "swin_b",
    "swin_s",
    "swin_t",
    "swin_v2_b",
    "swin_v2_s",
    "swin_v2_t",
]


class _Merging(nn.Module):
    """Squares of 2 x 2 places become one place of twice the width; odd sizes are padded."""

    norm_first: bool
    __constants__ = ("norm_first",)

    def __init__(self, dim: int, norm_layer: Layer = nn.LayerNorm) -> None:
        super().__init__()
        joined = 4 * dim
        self.dim = dim
        self.reduction = nn.Linear(joined, joined // 2, bias=False)
        self.norm = norm_layer(joined if self.norm_first else joined // 2)

    def forward(self, x: Tensor) -> Tensor:
        x = F.pad(x, [0, 0, 0, x.shape[-2] % 2, 0, x.shape[-3] % 2])
        even, odd = x[..., 0::2, :, :], x[..., 1::2, :, :]
        left, right = (
            [even[..., 0::2, :], odd[..., 0::2, :]],
            [even[..., 1::2, :], odd[..., 1::2, :]],
        )
        x = flambeau.cat(left + right, -1)
        if self.norm_first:
            return self.reduction(self.norm(x))
        return self.norm(self.reduction(x))


class PatchMerging(_Merging):
    """Four neighbours, normalized, become one place of twice the width."""

    norm_first = True


class PatchMergingV2(_Merging):
    """The same with the normalization at the end."""

    norm_first = False


def _windows(x: Tensor, size: list[int]) -> Tensor:
    """(B, H, W, C) as (B * windows, places of a window, C)."""
    x = x.unflatten(2, [-1, size[1]]).unflatten(1, [-1, size[0]]).transpose(2, 3)
    return x.flatten(3, 4).flatten(0, 2)


def _image(x: Tensor, size: list[int], batch: int, across: int) -> Tensor:
    """The way back, for images that are so many windows wide."""
    x = x.unflatten(1, size).unflatten(0, [batch, -1, across]).transpose(2, 3)
    return x.flatten(3, 4).flatten(1, 2)


def _bands(length: int, size: int, shift: int, device: flambeau.device) -> Tensor:
    """Places of one axis by number: far from the edge, before the shift, moved around the edge."""
    places = flambeau.arange(length, device=device)
    return (places >= length - size).int() + (places >= length - shift).int()


def _shift_mask(x: Tensor, full: list[int], size: list[int], shift: list[int]) -> Tensor:
    """-100 between places that met only because the shift went around the edge."""
    down = _bands(full[0], size[0], shift[0], x.device)
    right = _bands(full[1], size[1], shift[1], x.device)
    regions = _windows((3 * down.unsqueeze(1) + right)[None, ..., None], size)
    apart = regions != regions.transpose(1, 2)
    return x.new_zeros(apart.shape).masked_fill(apart, -100.0)


def _logits(q: Tensor, k: Tensor, scale: Tensor | None) -> Tensor:
    """How much places attend to each other: by products, or by angles with a scale per head."""
    if scale is None:
        return (q * float(q.shape[-1]) ** -0.5) @ k.transpose(-2, -1)
    angles = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
    return angles * scale.clamp(max=math.log(100.0)).exp()


def shifted_window_attention(
    input: Tensor,
    qkv_weight: Tensor,
    proj_weight: Tensor,
    relative_position_bias: Tensor,
    window_size: list[int],
    num_heads: int,
    shift_size: list[int],
    attention_dropout: float = 0.0,
    dropout: float = 0.0,
    qkv_bias: Tensor | None = None,
    proj_bias: Tensor | None = None,
    logit_scale: Tensor | None = None,
    training: bool = True,
) -> Tensor:
    """Attention among the places of each window, of an input (B, H, W, C).

    Args:
        relative_position_bias: added to the logits, (1, heads, places, places).
        shift_size: how far windows are shifted; not at all where one covers everything.
        logit_scale: compare directions only, and scale by this (version 2).
    """
    batch, height, width = input.shape[0], input.shape[1], input.shape[2]
    rows, columns = window_size[0], window_size[1]
    full = [(height + rows - 1) // rows * rows, (width + columns - 1) // columns * columns]
    shift = [shift_size[k] if window_size[k] < full[k] else 0 for k in range(2)]
    is_shifted = shift[0] != 0 or shift[1] != 0
    x = F.pad(input, [0, 0, 0, full[1] - width, 0, full[0] - height])
    if is_shifted:
        x = x.roll([-shift[0], -shift[1]], [1, 2])
    x = _windows(x, window_size)
    if logit_scale is not None and qkv_bias is not None:  # keys have no bias in version 2
        of_q, of_k, of_v = qkv_bias.chunk(3)
        qkv_bias = flambeau.cat([of_q, flambeau.zeros_like(of_k), of_v])
    parts = F.linear(x, qkv_weight, qkv_bias).unflatten(-1, [3, num_heads, -1])
    q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
    logits = _logits(q, k, logit_scale) + relative_position_bias
    if is_shifted:
        mask = _shift_mask(x, full, window_size, shift).unsqueeze(1)
        logits = (logits.unflatten(0, [batch, -1]) + mask).flatten(0, 1)
    weights = F.dropout(logits.softmax(-1), attention_dropout, training)
    x = F.linear((weights @ v).transpose(1, 2).flatten(2), proj_weight, proj_bias)
    x = F.dropout(x, dropout, training)
    x = _image(x, window_size, batch, full[1] // window_size[1])
    if is_shifted:
        x = x.roll(shift, [1, 2])
    return x[:, :height, :width].contiguous()


fx.wrap("shifted_window_attention")  # its branches depend on the size of the input


class ShiftedWindowAttention(nn.Module):
    """Attention within windows, with a learned bias for every relative position."""

    def __init__(
        self,
        dim: int,
        window_size: list[int],
        shift_size: list[int],
        num_heads: int,
        qkv_bias: bool = True,
        proj_bias: bool = True,
        attention_dropout: float = 0.0,
        dropout: float = 0.0,
    ) -> None:
        if {len(window_size), len(shift_size)} != {2}:
            raise ValueError("window_size and shift_size must be of length 2")
        super().__init__()
        self.num_heads = num_heads
        self.window_size, self.shift_size = window_size, shift_size
        self.dropout, self.attention_dropout = dropout, attention_dropout
        self.qkv = nn.Linear(dim, 3 * dim, qkv_bias)
        self.proj = nn.Linear(dim, dim, proj_bias)
        self.define_relative_position_bias_table()
        self.define_relative_position_index()
        self._define_scales()

    def _define_scales(self) -> None:
        """Version 2 has more parameters."""

    def define_relative_position_bias_table(self) -> None:
        rows, columns = self.window_size
        table = flambeau.zeros((2 * rows - 1) * (2 * columns - 1), self.num_heads)
        self.relative_position_bias_table = nn.Parameter(table)
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)

    def define_relative_position_index(self) -> None:
        """For each pair of places, the row of the table that belongs to their difference."""
        self.register_buffer("relative_position_index", differences(*self.window_size).flatten())

    def _bias(self, table: Tensor) -> Tensor:
        places = self.window_size[0] * self.window_size[1]
        bias = table[self.relative_position_index].view(places, places, -1)
        return bias.permute(2, 0, 1).contiguous().unsqueeze(0)

    def get_relative_position_bias(self) -> Tensor:
        return self._bias(self.relative_position_bias_table)

    def _attend(self, x: Tensor, logit_scale: Tensor | None) -> Tensor:
        return shifted_window_attention(
            x,
            self.qkv.weight,
            self.proj.weight,
            self.get_relative_position_bias(),
            self.window_size,
            self.num_heads,
            self.shift_size,
            self.attention_dropout,
            self.dropout,
            self.qkv.bias,
            self.proj.bias,
            logit_scale,
            self.training,
        )

    def forward(self, x: Tensor, logit_scale: Tensor | None = None) -> Tensor:
        return self._attend(x, logit_scale)


class ShiftedWindowAttentionV2(ShiftedWindowAttention):
    """Attention by angles; biases come from the logarithms of distances, through a network."""

    def _define_scales(self) -> None:
        heads = self.num_heads
        self.logit_scale = nn.Parameter(flambeau.full((heads, 1, 1), 10.0).log())
        layers = nn.Linear(2, 512), nn.ReLU(inplace=True), nn.Linear(512, heads, bias=False)
        self.cpb_mlp = nn.Sequential(*layers)
        if self.qkv.bias is not None:
            self.qkv.bias.data.chunk(3)[1].zero_()

    def define_relative_position_bias_table(self) -> None:
        axes = [flambeau.arange(1 - n, n).float() / (n - 1) * 8 for n in self.window_size]
        table = flambeau.stack(flambeau.meshgrid(axes, indexing="ij"), -1)[None]
        self.register_buffer("relative_coords_table", table.sign() * (table.abs() + 1).log2() / 3)

    def get_relative_position_bias(self) -> Tensor:
        table = self.cpb_mlp(self.relative_coords_table).view(-1, self.num_heads)
        return 16 * flambeau.sigmoid(self._bias(table))

    def forward(self, x: Tensor, logit_scale: Tensor | None = None) -> Tensor:
        return self._attend(x, self.logit_scale if logit_scale is None else logit_scale)


class SwinTransformerBlock(nn.Module):
    """Attention in windows and a perceptron, each after a normalization, added to its input."""

    def __init__(
        self,
        dim: int,
        num_heads: int,
        window_size: list[int],
        shift_size: list[int],
        mlp_ratio: float = 4.0,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        stochastic_depth_prob: float = 0.0,
        norm_layer: Layer = nn.LayerNorm,
        attn_layer: Layer = ShiftedWindowAttention,
    ) -> None:
        super().__init__()
        dropouts = {"dropout": dropout, "attention_dropout": attention_dropout}
        self.norm1 = norm_layer(dim)
        self.attn = attn_layer(dim, window_size, shift_size, num_heads, **dropouts)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        self.norm2 = norm_layer(dim)
        self.mlp = perceptron(dim, int(dim * mlp_ratio), dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.stochastic_depth(self.attn(self.norm1(x)))
        return x + self.stochastic_depth(self.mlp(self.norm2(x)))


class SwinTransformerBlockV2(SwinTransformerBlock):
    """The same with normalizations after what they used to precede."""

    def __init__(
        self,
        dim: int,
        num_heads: int,
        window_size: list[int],
        shift_size: list[int],
        mlp_ratio: float = 4.0,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        stochastic_depth_prob: float = 0.0,
        norm_layer: Layer = nn.LayerNorm,
        attn_layer: Layer = ShiftedWindowAttentionV2,
    ) -> None:
        sizes = dim, num_heads, window_size, shift_size, mlp_ratio
        odds = dropout, attention_dropout, stochastic_depth_prob
        super().__init__(*sizes, *odds, norm_layer, attn_layer)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.stochastic_depth(self.norm1(self.attn(x)))
        return x + self.stochastic_depth(self.norm2(self.mlp(x)))


class SwinTransformer(nn.Module):
    """The network behind all functions of this file.

    Args:
        embed_dim: the width of the first stage; every stage is twice as wide as the one before.
        depths, num_heads: layers and heads of each stage.
        stochastic_depth_prob: of the last layer; it grows linearly from 0 at the first.
    """

    def __init__(
        self,
        patch_size: list[int],
        embed_dim: int,
        depths: list[int],
        num_heads: list[int],
        window_size: list[int],
        mlp_ratio: float = 4.0,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        stochastic_depth_prob: float = 0.1,
        num_classes: int = 1000,
        norm_layer: Layer | None = None,
        block: Layer | None = None,
        downsample_layer: Layer = PatchMerging,
    ) -> None:
        super().__init__()
        norm = norm_layer or partial(nn.LayerNorm, eps=1e-5)
        layer = partial(
            block or SwinTransformerBlock,
            mlp_ratio=mlp_ratio,
            dropout=dropout,
            attention_dropout=attention_dropout,
            norm_layer=norm,
        )
        shifts = [0] * len(window_size), [side // 2 for side in window_size]
        patch = tuple(patch_size)
        patches = nn.Conv2d(3, embed_dim, patch, patch), Permute([0, 2, 3, 1]), norm(embed_dim)
        stages: list[nn.Module] = [nn.Sequential(*patches)]
        ramp = chances(stochastic_depth_prob, depths, sum(depths) - 1)
        for stage, (heads, out) in enumerate(zip(num_heads, ramp, strict=True)):
            width = embed_dim << stage
            if stage:
                stages.append(downsample_layer(width // 2, norm))
            row = [
                layer(width, heads, window_size, shifts[k % 2], stochastic_depth_prob=chance)
                for k, chance in enumerate(out)
            ]
            stages.append(nn.Sequential(*row))
        self.num_classes = num_classes
        self.features = nn.Sequential(*stages)
        self.norm = norm(width)
        self.permute = Permute([0, 3, 1, 2])
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten(1)
        self.head = nn.Linear(width, num_classes)
        initialize(self, linear=partial(nn.init.trunc_normal_, std=0.02))

    def forward(self, x: Tensor) -> Tensor:
        x = self.permute(self.norm(self.features(x)))
        return self.head(self.flatten(self.avgpool(x)))


def _swin(width: int, third: int, window: int, chance: float, kwargs) -> SwinTransformer:
    """Stages of 2, 2, `third` and 2 layers, heads of 32 channels."""
    heads = width // 32
    return SwinTransformer(
        patch_size=[4, 4],
        embed_dim=width,
        depths=[2, 2, third, 2],
        num_heads=[heads, 2 * heads, 4 * heads, 8 * heads],
        window_size=[window, window],
        stochastic_depth_prob=chance,
        **kwargs,
    )


_SECOND: dict[str, Any] = {"block": SwinTransformerBlockV2, "downsample_layer": PatchMergingV2}

Swin_T_Weights = published("Swin_T_Weights", __name__)
Swin_S_Weights = published("Swin_S_Weights", __name__)
Swin_B_Weights = published("Swin_B_Weights", __name__)
Swin_V2_T_Weights = published("Swin_V2_T_Weights", __name__)
Swin_V2_S_Weights = published("Swin_V2_S_Weights", __name__)
Swin_V2_B_Weights = published("Swin_V2_B_Weights", __name__)


@builder(Swin_T_Weights)
def swin_t(**kwargs) -> SwinTransformer:
    """Swin, tiny."""
    return _swin(96, 6, 7, 0.2, kwargs)


@builder(Swin_S_Weights)
def swin_s(**kwargs) -> SwinTransformer:
    """Swin, small."""
    return _swin(96, 18, 7, 0.3, kwargs)


@builder(Swin_B_Weights)
def swin_b(**kwargs) -> SwinTransformer:
    """Swin, base."""
    return _swin(128, 18, 7, 0.5, kwargs)


@builder(Swin_V2_T_Weights)
def swin_v2_t(**kwargs) -> SwinTransformer:
    """Swin v2, tiny."""
    return _swin(96, 6, 8, 0.2, _SECOND | kwargs)


@builder(Swin_V2_S_Weights)
def swin_v2_s(**kwargs) -> SwinTransformer:
    """Swin v2, small."""
    return _swin(96, 18, 8, 0.3, _SECOND | kwargs)


@builder(Swin_V2_B_Weights)
def swin_v2_b(**kwargs) -> SwinTransformer:
    """Swin v2, base."""
    return _swin(128, 18, 8, 0.5, _SECOND | kwargs)
