"""Swin transformers of films: attention in shifted windows of places and time (Liu 2021)."""

from functools import partial
from itertools import pairwise
from math import prod

import flambeau
from flambeau import Tensor, fx, nn
from flambeau.nn import functional as F

from .._api import builder
from ..parts import Layer, chances
from ..published import published
from ..swin_transformer import PatchMerging, SwinTransformerBlock, _bands

__all__ = [
    "Swin3D_B_Weights",
    "Swin3D_S_Weights",
    "Swin3D_T_Weights",
    "SwinTransformer3d",
    "swin3d_b",
    "swin3d_s",
    "swin3d_t",
]


def _get_window_and_shift_size(
    shift_size: list[int], size_dhw: list[int], window_size: list[int]
) -> tuple[list[int], list[int]]:
    """Windows are not larger than the film; what one covers is not shifted."""
    fits = [side <= window for side, window in zip(size_dhw, window_size, strict=True)]
    windows = [min(pair) for pair in zip(size_dhw, window_size, strict=True)]
    return windows, [0 if fit else s for fit, s in zip(fits, shift_size, strict=True)]


def _windows(x: Tensor, window: list[int]) -> Tensor:
    """(B, D, H, W, C) as (B * windows, places of a window, C)."""
    d, h, w = window
    x = x.unflatten(3, [-1, w]).unflatten(2, [-1, h]).unflatten(1, [-1, d])
    return x.permute(0, 1, 3, 5, 2, 4, 6, 7).flatten(4, 6).flatten(0, 3)


def _film(x: Tensor, window: list[int], batch: int, full: list[int]) -> Tensor:
    """The way back, for films of this size."""
    many = [side // part for side, part in zip(full, window, strict=True)]
    x = x.reshape(batch, *many, *window, -1).permute(0, 1, 4, 2, 5, 3, 6, 7)
    return x.reshape(batch, *full, -1)


def _compute_attention_mask_3d(
    x: Tensor, size_dhw: list[int], window_size: list[int], shift_size: list[int]
) -> Tensor:
    """-100 between places that met only because the shift went around an edge."""
    time, down, right = (
        _bands(*axis, x.device) for axis in zip(size_dhw, window_size, shift_size, strict=True)
    )
    numbers = 9 * time[:, None, None] + 3 * down[:, None] + right
    regions = _windows(numbers[None, ..., None], window_size)
    apart = regions != regions.transpose(1, 2)
    return x.new_zeros(apart.shape).masked_fill(apart, -100.0)


def shifted_window_attention_3d(
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
    training: bool = True,
) -> Tensor:
    """Attention among the places of each window, of an input (B, D, H, W, C).

    Args:
        relative_position_bias: added to the logits, (1, heads, places, places).
        shift_size: how far windows are shifted along each axis.
    """
    batch, *size, _ = input.shape
    full = [-(-side // part) * part for side, part in zip(size, window_size, strict=True)]
    more = [whole - side for whole, side in zip(full, size, strict=True)]
    x = F.pad(input, [0, 0, 0, more[2], 0, more[1], 0, more[0]])
    is_shifted = any(shift_size)
    if is_shifted:
        x = x.roll([-shift for shift in shift_size], [1, 2, 3])
    x = _windows(x, window_size)
    parts = F.linear(x, qkv_weight, qkv_bias).unflatten(-1, [3, num_heads, -1])
    q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
    logits = (q * float(q.shape[-1]) ** -0.5) @ k.transpose(-2, -1) + relative_position_bias
    if is_shifted:
        mask = _compute_attention_mask_3d(x, full, window_size, shift_size).unsqueeze(1)
        logits = (logits.unflatten(0, [batch, -1]) + mask).flatten(0, 1)
    weights = F.dropout(logits.softmax(-1), attention_dropout, training)
    x = F.linear((weights @ v).transpose(1, 2).flatten(2), proj_weight, proj_bias)
    x = _film(F.dropout(x, dropout, training), window_size, batch, full)
    if is_shifted:
        x = x.roll(list(shift_size), [1, 2, 3])
    return x[:, : size[0], : size[1], : size[2]].contiguous()


fx.wrap("_get_window_and_shift_size")
fx.wrap("shifted_window_attention_3d")  # its branches depend on the size of the input


class ShiftedWindowAttention3d(nn.Module):
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
        if {len(window_size), len(shift_size)} != {3}:
            raise ValueError("window_size and shift_size must be of length 2")
        self.window_size, self.shift_size, self.num_heads = window_size, shift_size, num_heads
        self.attention_dropout, self.dropout = attention_dropout, dropout
        self.qkv = nn.Linear(dim, 3 * dim, qkv_bias)
        self.proj = nn.Linear(dim, dim, proj_bias)
        self.define_relative_position_bias_table()
        self.define_relative_position_index()

    def define_relative_position_bias_table(self) -> None:
        rows = prod(2 * side - 1 for side in self.window_size)
        self.relative_position_bias_table = nn.Parameter(flambeau.zeros(rows, self.num_heads))
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)

    def define_relative_position_index(self) -> None:
        """For each pair of places, the row of the table that belongs to their difference."""
        axes = [flambeau.arange(side) for side in self.window_size]
        number = flambeau.zeros(1, dtype=flambeau.int64)
        for axis, side in zip(
            flambeau.meshgrid(axes, indexing="ij"), self.window_size, strict=True
        ):
            places = axis.flatten()
            number = number * (2 * side - 1) + (places[:, None] - places + side - 1)
        self.register_buffer("relative_position_index", number)

    def get_relative_position_bias(self, window_size: list[int]) -> Tensor:
        places = prod(window_size)
        rows = self.relative_position_index[:places, :places].flatten()
        bias = self.relative_position_bias_table[rows].view(places, places, -1)
        return bias.permute(2, 0, 1).contiguous().unsqueeze(0)

    def forward(self, x: Tensor) -> Tensor:
        size = [x.shape[1], x.shape[2], x.shape[3]]
        window, shift = _get_window_and_shift_size(self.shift_size.copy(), size, self.window_size)
        return shifted_window_attention_3d(
            x,
            self.qkv.weight,
            self.proj.weight,
            self.get_relative_position_bias(window),
            window,
            self.num_heads,
            shift,
            self.attention_dropout,
            self.dropout,
            self.qkv.bias,
            self.proj.bias,
            self.training,
        )


class PatchEmbed3d(nn.Module):
    """Cuboids of a film as vectors, (B, D, H, W, C); odd sizes are padded."""

    def __init__(
        self,
        patch_size: list[int],
        in_channels: int = 3,
        embed_dim: int = 96,
        norm_layer: Layer | None = None,
    ) -> None:
        super().__init__()
        self.tuple_patch_size = tuple(patch_size)
        self.proj = nn.Conv3d(in_channels, embed_dim, self.tuple_patch_size, self.tuple_patch_size)
        self.norm = norm_layer(embed_dim) if norm_layer is not None else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        d, h, w = (
            -side % part for side, part in zip(x.shape[2:], self.tuple_patch_size, strict=True)
        )
        x = self.proj(F.pad(x, (0, w, 0, h, 0, d)))
        return self.norm(x.permute(0, 2, 3, 4, 1))


class SwinTransformer3d(nn.Module):
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
        num_classes: int = 400,
        norm_layer: Layer | None = None,
        block: Layer | None = None,
        downsample_layer: Layer = PatchMerging,
        patch_embed: Layer | None = None,
    ) -> None:
        super().__init__()
        norm = norm_layer or partial(nn.LayerNorm, eps=1e-5)
        layer = partial(
            block or partial(SwinTransformerBlock, attn_layer=ShiftedWindowAttention3d),
            mlp_ratio=mlp_ratio,
            dropout=dropout,
            attention_dropout=attention_dropout,
            norm_layer=norm,
        )
        self.num_classes = num_classes
        self.patch_embed = (patch_embed or PatchEmbed3d)(
            patch_size=patch_size, embed_dim=embed_dim, norm_layer=norm
        )
        self.pos_drop = nn.Dropout(p=dropout)
        shifts = [0] * len(window_size), [side // 2 for side in window_size]
        widths = [embed_dim << stage for stage in range(len(depths) + 1)]
        stages: list[nn.Module] = []
        ramp = chances(stochastic_depth_prob, depths, sum(depths) - 1)
        for (width, _), heads, out in zip(pairwise(widths), num_heads, ramp, strict=True):
            if stages:
                stages.append(downsample_layer(width // 2, norm))
            row = [
                layer(width, heads, window_size, list(shifts[k % 2]), stochastic_depth_prob=chance)
                for k, chance in enumerate(out)
            ]
            stages.append(nn.Sequential(*row))
        self.features = nn.Sequential(*stages)
        self.num_features = widths[-2]
        self.norm = norm(self.num_features)
        self.avgpool = nn.AdaptiveAvgPool3d(1)
        self.head = nn.Linear(self.num_features, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(self.pos_drop(self.patch_embed(x)))
        x = self.avgpool(self.norm(x).permute(0, 4, 1, 2, 3))
        return self.head(flambeau.flatten(x, 1))


def _swin(width: int, third: int, kwargs) -> SwinTransformer3d:
    heads = width // 32
    return SwinTransformer3d(
        patch_size=[2, 4, 4],
        embed_dim=width,
        depths=[2, 2, third, 2],
        num_heads=[heads, 2 * heads, 4 * heads, 8 * heads],
        window_size=[8, 7, 7],
        stochastic_depth_prob=0.1,
        **kwargs,
    )


Swin3D_T_Weights = published("Swin3D_T_Weights", __name__)
Swin3D_S_Weights = published("Swin3D_S_Weights", __name__)
Swin3D_B_Weights = published("Swin3D_B_Weights", __name__)


@builder(Swin3D_T_Weights, "KINETICS400_V1")
def swin3d_t(**kwargs) -> SwinTransformer3d:
    """Swin for films, tiny."""
    return _swin(96, 6, kwargs)


@builder(Swin3D_S_Weights, "KINETICS400_V1")
def swin3d_s(**kwargs) -> SwinTransformer3d:
    """Swin for films, small."""
    return _swin(96, 18, kwargs)


@builder(Swin3D_B_Weights, "KINETICS400_V1")
def swin3d_b(**kwargs) -> SwinTransformer3d:
    """Swin for films, base."""
    return _swin(128, 18, kwargs)
