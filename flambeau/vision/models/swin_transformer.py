"""Swin transformers: attention in windows that are shifted from layer to layer (Liu 2021, 2022).

Version 2 normalizes after attention, compares by angles and computes the biases of relative
positions by a small network.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import flambeau
from flambeau import Tensor, nn
from flambeau.nn import functional as F

from ..ops.misc import MLP, Permute
from ..ops.stochastic_depth import StochasticDepth
from ._api import builder
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

Layer = Callable[..., nn.Module]


class PatchMerging(nn.Module):
    """Four neighbours become one place of twice the width."""

    def __init__(self, dim: int, norm_layer: Layer = nn.LayerNorm) -> None:
        super().__init__()
        self.dim = dim
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)
        self.norm = norm_layer(4 * dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.reduction(self.norm(_neighbours(x)))


class PatchMergingV2(nn.Module):
    """The same with the normalization at the end."""

    def __init__(self, dim: int, norm_layer: Layer = nn.LayerNorm) -> None:
        super().__init__()
        self.dim = dim
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)
        self.norm = norm_layer(2 * dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.reduction(_neighbours(x)))


def _neighbours(x: Tensor) -> Tensor:
    """Squares of 2 x 2 places side by side in the channels; odd sizes are padded."""
    height, width = x.shape[-3:-1]
    x = F.pad(x, (0, 0, 0, width % 2, 0, height % 2))
    corners = [x[..., i::2, j::2, :] for j in (0, 1) for i in (0, 1)]
    return flambeau.cat(corners, -1)


def _windows(x: Tensor, size: list[int]) -> Tensor:
    """(B, H, W, C) as (B * windows, places of a window, C)."""
    batch, height, width, channels = x.shape
    x = x.view(batch, height // size[0], size[0], width // size[1], size[1], channels)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, size[0] * size[1], channels)


def _shift_mask(x: Tensor, height: int, width: int, size: list[int], shift: list[int]) -> Tensor:
    """-100 between places that met only because the shift went around the edge."""
    region = x.new_zeros((height, width))
    bands = [
        (slice(0, -s), slice(-s, -d), slice(-d, None)) for s, d in zip(size, shift, strict=True)
    ]
    for count, (rows, columns) in enumerate((r, c) for r in bands[0] for c in bands[1]):
        region[rows, columns] = count
    places = _windows(region.view(1, height, width, 1), size).squeeze(-1)
    differs = places.unsqueeze(1) - places.unsqueeze(2)
    return differs.masked_fill(differs != 0, -100.0)


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
    batch, height, width, channels = input.shape
    missing = [(-n) % size for n, size in zip((height, width), window_size, strict=True)]
    x = F.pad(input, (0, 0, 0, missing[1], 0, missing[0]))
    full = height + missing[0], width + missing[1]
    shift = [
        0 if size >= n else s for size, n, s in zip(window_size, full, shift_size, strict=True)
    ]
    shifted = sum(shift) > 0
    if shifted:
        x = flambeau.roll(x, shifts=(-shift[0], -shift[1]), dims=(1, 2))
    x = _windows(x, window_size)
    many, places, _ = x.shape
    if logit_scale is not None and qkv_bias is not None:
        length = qkv_bias.numel() // 3
        qkv_bias = qkv_bias.clone()
        qkv_bias[length : 2 * length].zero_()
    qkv = F.linear(x, qkv_weight, qkv_bias)
    qkv = qkv.reshape(many, places, 3, num_heads, channels // num_heads).permute(2, 0, 3, 1, 4)
    q, k, v = qkv[0], qkv[1], qkv[2]
    if logit_scale is not None:
        attention = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        attention = attention * flambeau.clamp(logit_scale, max=math.log(100.0)).exp()
    else:
        attention = (q * (channels // num_heads) ** -0.5).matmul(k.transpose(-2, -1))
    attention = attention + relative_position_bias
    if shifted:
        mask = _shift_mask(x, *full, window_size, shift)
        attention = attention.view(batch, -1, num_heads, places, places)
        attention = attention + mask.unsqueeze(1).unsqueeze(0)
        attention = attention.view(-1, num_heads, places, places)
    attention = F.dropout(F.softmax(attention, dim=-1), p=attention_dropout, training=training)
    x = attention.matmul(v).transpose(1, 2).reshape(many, places, channels)
    x = F.dropout(F.linear(x, proj_weight, proj_bias), p=dropout, training=training)
    rows, columns = window_size
    x = x.view(batch, full[0] // rows, full[1] // columns, rows, columns, channels)
    x = x.permute(0, 1, 3, 2, 4, 5).reshape(batch, *full, channels)
    if shifted:
        x = flambeau.roll(x, shifts=(shift[0], shift[1]), dims=(1, 2))
    return x[:, :height, :width, :].contiguous()


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
        super().__init__()
        if len(window_size) != 2 or len(shift_size) != 2:
            raise ValueError("window_size and shift_size must be of length 2")
        self.window_size = window_size
        self.shift_size = shift_size
        self.num_heads = num_heads
        self.attention_dropout = attention_dropout
        self.dropout = dropout
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim, bias=proj_bias)
        self.define_relative_position_bias_table()
        self.define_relative_position_index()

    def define_relative_position_bias_table(self) -> None:
        rows, columns = self.window_size
        table = flambeau.zeros((2 * rows - 1) * (2 * columns - 1), self.num_heads)
        self.relative_position_bias_table = nn.Parameter(table)
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)

    def define_relative_position_index(self) -> None:
        """For each pair of places, the row of the table that belongs to their difference."""
        rows, columns = self.window_size
        i = flambeau.arange(rows).repeat_interleave(columns)
        j = flambeau.arange(columns).repeat(rows)
        down = i[:, None] - i[None, :] + rows - 1
        right = j[:, None] - j[None, :] + columns - 1
        index = (down * (2 * columns - 1) + right).flatten()
        self.register_buffer("relative_position_index", index)

    def _bias(self, table: Tensor) -> Tensor:
        places = self.window_size[0] * self.window_size[1]
        bias = table[self.relative_position_index].view(places, places, -1)
        return bias.permute(2, 0, 1).contiguous().unsqueeze(0)

    def get_relative_position_bias(self) -> Tensor:
        return self._bias(self.relative_position_bias_table)

    def forward(self, x: Tensor, logit_scale: Tensor | None = None) -> Tensor:
        return shifted_window_attention(
            x,
            self.qkv.weight,
            self.proj.weight,
            self.get_relative_position_bias(),
            self.window_size,
            self.num_heads,
            shift_size=self.shift_size,
            attention_dropout=self.attention_dropout,
            dropout=self.dropout,
            qkv_bias=self.qkv.bias,
            proj_bias=self.proj.bias,
            logit_scale=logit_scale,
            training=self.training,
        )


class ShiftedWindowAttentionV2(ShiftedWindowAttention):
    """Attention by angles; biases come from the logarithms of distances, through a network."""

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
        super().__init__(
            dim,
            window_size,
            shift_size,
            num_heads,
            qkv_bias=qkv_bias,
            proj_bias=proj_bias,
            attention_dropout=attention_dropout,
            dropout=dropout,
        )
        self.logit_scale = nn.Parameter(flambeau.log(10 * flambeau.ones((num_heads, 1, 1))))
        self.cpb_mlp = nn.Sequential(
            nn.Linear(2, 512, bias=True),
            nn.ReLU(inplace=True),
            nn.Linear(512, num_heads, bias=False),
        )
        if qkv_bias:
            length = self.qkv.bias.numel() // 3
            self.qkv.bias[length : 2 * length].data.zero_()

    def define_relative_position_bias_table(self) -> None:
        steps = [
            flambeau.arange(-(n - 1), n, dtype=flambeau.float32) / (n - 1) * 8
            for n in self.window_size
        ]
        table = flambeau.stack(flambeau.meshgrid(steps, indexing="ij"), -1).unsqueeze(0)
        table = flambeau.sign(table) * flambeau.log2(flambeau.abs(table) + 1.0) / 3.0
        self.register_buffer("relative_coords_table", table)

    def get_relative_position_bias(self) -> Tensor:
        table = self.cpb_mlp(self.relative_coords_table).view(-1, self.num_heads)
        return 16 * flambeau.sigmoid(self._bias(table))

    def forward(self, x: Tensor, logit_scale: Tensor | None = None) -> Tensor:
        return super().forward(x, self.logit_scale if logit_scale is None else logit_scale)


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
        self.norm1 = norm_layer(dim)
        self.attn = attn_layer(
            dim,
            window_size,
            shift_size,
            num_heads,
            attention_dropout=attention_dropout,
            dropout=dropout,
        )
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        self.norm2 = norm_layer(dim)
        self.mlp = MLP(dim, [int(dim * mlp_ratio), dim], activation_layer=nn.GELU, dropout=dropout)
        for layer in (self.mlp[0], self.mlp[3]):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.normal_(layer.bias, std=1e-6)

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
        super().__init__(
            dim,
            num_heads,
            window_size,
            shift_size,
            mlp_ratio,
            dropout,
            attention_dropout,
            stochastic_depth_prob,
            norm_layer,
            attn_layer,
        )

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
        self.num_classes = num_classes
        block = block or SwinTransformerBlock
        norm = norm_layer or partial(nn.LayerNorm, eps=1e-5)
        patches = nn.Conv2d(3, embed_dim, kernel_size=tuple(patch_size), stride=tuple(patch_size))
        layers: list[nn.Module] = [nn.Sequential(patches, Permute([0, 2, 3, 1]), norm(embed_dim))]
        total, count, width = sum(depths), 0, embed_dim
        for stage, (depth, heads) in enumerate(zip(depths, num_heads, strict=True)):
            blocks: list[nn.Module] = []
            for place in range(depth):
                blocks.append(
                    block(
                        width,
                        heads,
                        window_size=window_size,
                        shift_size=[0 if place % 2 == 0 else w // 2 for w in window_size],
                        mlp_ratio=mlp_ratio,
                        dropout=dropout,
                        attention_dropout=attention_dropout,
                        stochastic_depth_prob=stochastic_depth_prob * float(count) / (total - 1),
                        norm_layer=norm,
                    )
                )
                count += 1
            layers.append(nn.Sequential(*blocks))
            if stage < len(depths) - 1:
                layers.append(downsample_layer(width, norm))
                width *= 2
        self.features = nn.Sequential(*layers)
        self.norm = norm(width)
        self.permute = Permute([0, 3, 1, 2])
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten(1)
        self.head = nn.Linear(width, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

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
