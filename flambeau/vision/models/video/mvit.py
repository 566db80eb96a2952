"""Multiscale vision transformers: fewer places and more channels from stage to stage (Fan 2021).

The second version adds biases of relative positions and adds pooled queries to what they found (Li
2021). Places are in one row behind a class token; `thw` says how many there are along each axis.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import flambeau
from flambeau import Tensor, nn
from flambeau.nn import functional as F

from ...ops.misc import MLP
from ...ops.stochastic_depth import StochasticDepth
from .._api import builder, overwrite_named_param
from .._utils import initialize
from ..published import published

__all__ = ["MViT", "MViT_V1_B_Weights", "MViT_V2_S_Weights", "mvit_v1_b", "mvit_v2_s"]

Layer = Callable[..., nn.Module]
Sizes = tuple[int, int, int]


@dataclass
class MSBlockConfig:
    """One block: heads, channels in and out, kernels and strides of pooled queries and keys."""

    num_heads: int
    input_channels: int
    output_channels: int
    kernel_q: list[int]
    kernel_kv: list[int]
    stride_q: list[int]
    stride_kv: list[int]


class Pool(nn.Module):
    """Pools places by a layer for films; the class token stays."""

    def __init__(
        self,
        pool: nn.Module,
        norm: nn.Module | None,
        activation: nn.Module | None = None,
        norm_before_pool: bool = False,
    ) -> None:
        super().__init__()
        self.pool = pool
        after = [layer for layer in (norm, activation) if layer is not None]
        self.norm_act = nn.Sequential(*after) if after else None
        self.norm_before_pool = norm_before_pool

    def forward(self, x: Tensor, thw: Sizes) -> tuple[Tensor, Sizes]:
        heads = x.dim() == 4
        if not heads:
            x = x.unsqueeze(1)
        token, x = x[:, :, :1], x[:, :, 1:]
        if self.norm_before_pool and self.norm_act is not None:
            x = self.norm_act(x)
        batch, many, _, channels = x.shape
        film = x.transpose(2, 3).reshape(batch * many, channels, *thw).contiguous()
        film = self.pool(film)
        sizes = film.shape[2], film.shape[3], film.shape[4]
        x = film.reshape(batch, many, channels, -1).transpose(2, 3)
        x = flambeau.cat((token, x), dim=2)
        if not self.norm_before_pool and self.norm_act is not None:
            x = self.norm_act(x)
        return (x if heads else x.squeeze(1)), sizes


def _interpolate(embedding: Tensor, d: int) -> Tensor:
    """Rows of a table for another number of relative positions."""
    if embedding.shape[0] == d:
        return embedding
    return F.interpolate(embedding.t().unsqueeze(0), size=d, mode="linear").squeeze(0).t()


def _distances(table: Tensor, queries: int, keys: int) -> Tensor:
    """A row of the table for each pair of places of one axis: (queries, keys, channels)."""
    coarse, fine = max(keys / queries, 1.0), max(queries / keys, 1.0)
    q = flambeau.arange(queries, device=table.device).unsqueeze(1) * coarse
    k = flambeau.arange(keys, device=table.device).unsqueeze(0) * fine
    places = (q - k + (keys - 1) * fine).long()
    return _interpolate(table, 2 * max(queries, keys) - 1)[places]


def _add_rel_pos(
    attn: Tensor,
    q: Tensor,
    q_thw: Sizes,
    k_thw: Sizes,
    rel_pos_h: Tensor,
    rel_pos_w: Tensor,
    rel_pos_t: Tensor,
) -> Tensor:
    """Adds to logits what queries make of how far away keys are along each axis."""
    batch, heads, _, channels = q.shape
    places = q[:, :, 1:].reshape(batch, heads, *q_thw, channels)
    tables = (rel_pos_t, rel_pos_h, rel_pos_w)
    t, h, w = (_distances(*each) for each in zip(tables, q_thw, k_thw, strict=True))
    time = flambeau.einsum("bythwc,tkc->bythwk", places, t)
    down = flambeau.einsum("bythwc,hkc->bythwk", places, h)
    right = flambeau.einsum("bythwc,wkc->bythwk", places, w)
    bias = (
        time[..., :, None, None] + down[..., None, :, None] + right[..., None, None, :]
    ).reshape(batch, heads, prod(q_thw), prod(k_thw))
    attn[:, :, 1:, 1:] += bias
    return attn


class MultiscaleAttention(nn.Module):
    """Attention whose queries, keys and values are pooled first.

    Args:
        input_size: places along each axis.
        residual_pool: add queries to the result; with that of the class token, if
            `residual_with_cls_embed`.
        rel_pos_embed: logits have biases by relative position.
    """

    def __init__(
        self,
        input_size: list[int],
        embed_dim: int,
        output_dim: int,
        num_heads: int,
        kernel_q: list[int],
        kernel_kv: list[int],
        stride_q: list[int],
        stride_kv: list[int],
        residual_pool: bool,
        residual_with_cls_embed: bool,
        rel_pos_embed: bool,
        dropout: float = 0.0,
        norm_layer: Layer = nn.LayerNorm,
    ) -> None:
        super().__init__()
        self.embed_dim, self.output_dim, self.num_heads = embed_dim, output_dim, num_heads
        self.head_dim = output_dim // num_heads
        self.scaler = self.head_dim**-0.5
        self.residual_pool = residual_pool
        self.residual_with_cls_embed = residual_with_cls_embed
        self.qkv = nn.Linear(embed_dim, 3 * output_dim)
        layers: list[nn.Module] = [nn.Linear(output_dim, output_dim)]
        if dropout > 0.0:
            layers.append(nn.Dropout(dropout, inplace=True))
        self.project = nn.Sequential(*layers)
        self.pool_q = self._pool(kernel_q, stride_q, norm_layer)
        self.pool_k = self._pool(kernel_kv, stride_kv, norm_layer)
        self.pool_v = self._pool(kernel_kv, stride_kv, norm_layer)
        self.rel_pos_h: Any = None
        self.rel_pos_w: Any = None
        self.rel_pos_t: Any = None
        if rel_pos_embed:
            self._add_tables(input_size, stride_q, stride_kv)

    def _pool(self, kernel: list[int], stride: list[int], norm_layer: Layer) -> Pool | None:
        if prod(kernel) <= 1 and prod(stride) <= 1:
            return None
        own = self.head_dim
        rim = [side // 2 for side in kernel]
        film = nn.Conv3d(own, own, kernel, stride=stride, padding=rim, groups=own, bias=False)
        return Pool(film, norm_layer(own))

    def _add_tables(self, input_size: list[int], stride_q: list[int], stride_kv: list[int]) -> None:
        side = max(input_size[1:])
        sides = [side // stride[1] if stride else side for stride in (stride_q, stride_kv)]
        many = 2 * max(sides) - 1
        for name, rows in (("h", many), ("w", many), ("t", 2 * input_size[0] - 1)):
            table = nn.Parameter(flambeau.zeros(rows, self.head_dim))
            setattr(self, f"rel_pos_{name}", table)
            nn.init.trunc_normal_(table, std=0.02)

    def forward(self, x: Tensor, thw: Sizes) -> tuple[Tensor, Sizes]:
        batch, many, _ = x.shape
        parts = self.qkv(x).reshape(batch, many, 3, self.num_heads, self.head_dim)
        q, k, v = parts.transpose(1, 3).unbind(dim=2)
        q_thw = k_thw = thw
        if self.pool_k is not None:
            k, k_thw = self.pool_k(k, thw)
        if self.pool_v is not None:
            v = self.pool_v(v, thw)[0]
        if self.pool_q is not None:
            q, q_thw = self.pool_q(q, thw)
        logits = (self.scaler * q) @ k.transpose(2, 3)
        if self.rel_pos_h is not None:
            tables = self.rel_pos_h, self.rel_pos_w, self.rel_pos_t
            logits = _add_rel_pos(logits, q, q_thw, k_thw, *tables)
        x = logits.softmax(dim=-1) @ v
        if self.residual_pool and self.residual_with_cls_embed:
            x = x + q
        elif self.residual_pool:
            x = flambeau.cat([x[:, :, :1], x[:, :, 1:] + q[:, :, 1:]], dim=2)
        x = x.transpose(1, 2).reshape(batch, -1, self.output_dim)
        return self.project(x), q_thw


class MultiscaleBlock(nn.Module):
    """Attention and a perceptron; one of them changes the width."""

    def __init__(
        self,
        input_size: list[int],
        cnf: MSBlockConfig,
        residual_pool: bool,
        residual_with_cls_embed: bool,
        rel_pos_embed: bool,
        proj_after_attn: bool,
        dropout: float = 0.0,
        stochastic_depth_prob: float = 0.0,
        norm_layer: Layer = nn.LayerNorm,
    ) -> None:
        super().__init__()
        self.proj_after_attn = proj_after_attn
        self.pool_skip: Pool | None = None
        if prod(cnf.stride_q) > 1:
            kernel = [step + 1 if step > 1 else step for step in cnf.stride_q]
            rim = [side // 2 for side in kernel]
            self.pool_skip = Pool(nn.MaxPool3d(kernel, stride=cnf.stride_q, padding=rim), None)
        before, after = cnf.input_channels, cnf.output_channels
        middle = after if proj_after_attn else before
        self.norm1, self.norm2 = norm_layer(before), norm_layer(middle)
        self.attn = MultiscaleAttention(
            input_size,
            before,
            middle,
            cnf.num_heads,
            cnf.kernel_q,
            cnf.kernel_kv,
            cnf.stride_q,
            cnf.stride_kv,
            residual_pool,
            residual_with_cls_embed,
            rel_pos_embed,
            dropout,
            norm_layer,
        )
        self.mlp = MLP(middle, [4 * middle, after], activation_layer=nn.GELU, dropout=dropout)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        self.project = nn.Linear(before, after) if before != after else None

    def forward(self, x: Tensor, thw: Sizes) -> tuple[Tensor, Sizes]:
        normal = self.norm1(x)
        change, sizes = self.attn(normal, thw)
        if self.project is not None and self.proj_after_attn:
            x = self.project(normal)
        if self.pool_skip is not None:
            x = self.pool_skip(x, thw)[0]
        x = x + self.stochastic_depth(change)
        normal = self.norm2(x)
        if self.project is not None and not self.proj_after_attn:
            x = self.project(normal)
        return x + self.stochastic_depth(self.mlp(normal)), sizes


class PositionalEncoding(nn.Module):
    """Adds a class token, and, unless positions are relative, learned positions."""

    def __init__(
        self,
        embed_size: int,
        spatial_size: tuple[int, int],
        temporal_size: int,
        rel_pos_embed: bool,
    ) -> None:
        super().__init__()
        self.spatial_size, self.temporal_size = spatial_size, temporal_size
        self.class_token = nn.Parameter(flambeau.zeros(embed_size))
        self.spatial_pos = self.temporal_pos = self.class_pos = None
        if not rel_pos_embed:
            rows, columns = spatial_size
            self.spatial_pos = nn.Parameter(flambeau.zeros(rows * columns, embed_size))
            self.temporal_pos = nn.Parameter(flambeau.zeros(temporal_size, embed_size))
            self.class_pos = nn.Parameter(flambeau.zeros(embed_size))

    def forward(self, x: Tensor) -> Tensor:
        token = self.class_token.expand(x.shape[0], -1).unsqueeze(1)
        x = flambeau.cat((token, x), dim=1)
        if self.spatial_pos is None or self.temporal_pos is None or self.class_pos is None:
            return x
        places = (self.temporal_pos[:, None] + self.spatial_pos).flatten(0, 1)
        return x + flambeau.cat((self.class_pos.unsqueeze(0), places))


class MViT(nn.Module):
    """The network behind all functions of this file.

    Args:
        spatial_size, temporal_size: of the films it is for.
        block_setting: one configuration per block.
        residual_pool, residual_with_cls_embed, rel_pos_embed: see MultiscaleAttention.
        proj_after_attn: attention changes the width, not the perceptron.
    """

    def __init__(
        self,
        spatial_size: tuple[int, int],
        temporal_size: int,
        block_setting: Sequence[MSBlockConfig],
        residual_pool: bool,
        residual_with_cls_embed: bool,
        rel_pos_embed: bool,
        proj_after_attn: bool,
        dropout: float = 0.5,
        attention_dropout: float = 0.0,
        stochastic_depth_prob: float = 0.0,
        num_classes: int = 400,
        block: Layer | None = None,
        norm_layer: Layer | None = None,
        patch_embed_kernel: Sizes = (3, 7, 7),
        patch_embed_stride: Sizes = (2, 4, 4),
        patch_embed_padding: Sizes = (1, 3, 3),
    ) -> None:
        super().__init__()
        total = len(block_setting)
        if total == 0:
            raise ValueError("The configuration parameter can't be empty.")
        norm = norm_layer or partial(nn.LayerNorm, eps=1e-6)
        first, last = block_setting[0].input_channels, block_setting[-1].output_channels
        self.conv_proj = nn.Conv3d(
            3, first, patch_embed_kernel, stride=patch_embed_stride, padding=patch_embed_padding
        )
        film = (temporal_size, *spatial_size)
        size = [n // step for n, step in zip(film, patch_embed_stride, strict=True)]
        self.pos_encoding = PositionalEncoding(first, (size[1], size[2]), size[0], rel_pos_embed)
        self.blocks = nn.ModuleList()
        for number, settings in enumerate(block_setting):
            self.blocks.append(
                (block or MultiscaleBlock)(
                    input_size=size,
                    cnf=settings,
                    residual_pool=residual_pool,
                    residual_with_cls_embed=residual_with_cls_embed,
                    rel_pos_embed=rel_pos_embed,
                    proj_after_attn=proj_after_attn,
                    dropout=attention_dropout,
                    stochastic_depth_prob=stochastic_depth_prob * number / (total - 1.0),
                    norm_layer=norm,
                )
            )
            if settings.stride_q:
                size = [n // step for n, step in zip(size, settings.stride_q, strict=True)]
        self.norm = norm(last)
        self.head = nn.Sequential(nn.Dropout(dropout, inplace=True), nn.Linear(last, num_classes))
        draw = partial(nn.init.trunc_normal_, std=0.02)
        for parameter in self.pos_encoding.parameters():
            draw(parameter)
        initialize(self, linear=draw)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() == 4:  # images are films of one frame
            x = x.unsqueeze(2)
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        x = self.pos_encoding(x)
        thw: Sizes = (self.pos_encoding.temporal_size, *self.pos_encoding.spatial_size)
        for block in self.blocks:
            x, thw = block(x, thw)
        return self.head(self.norm(x)[:, 0])


def _settings(rows: str) -> list[MSBlockConfig]:
    """Blocks as "heads in out stride_q stride_kv xN", with strides of both places; - for none."""
    found = []
    for row in rows.split(","):
        heads, before, after, q, kv, many = row.split()
        kernel_q, stride_q = ([3, 3, 3], [1, int(q), int(q)]) if q != "-" else ([], [])
        settings = MSBlockConfig(
            int(heads),
            int(before),
            int(after),
            kernel_q,
            [3, 3, 3],
            stride_q,
            [1, int(kv), int(kv)],
        )
        found += [settings] * int(many)
    return found


_FIRST = """1 96 192 - 8 1, 2 192 192 2 4 1, 2 192 384 - 4 1, 4 384 384 2 2 1, 4 384 384 - 2 9,
    4 384 768 - 2 1, 8 768 768 2 1 1, 8 768 768 - 1 1"""
_SECOND = """1 96 96 1 8 1, 2 96 192 2 4 1, 2 192 192 1 4 1, 4 192 384 2 2 1, 4 384 384 1 2 10,
    8 384 768 2 1 1, 8 768 768 1 1 1"""

MViT_V1_B_Weights = published("MViT_V1_B_Weights", __name__)
MViT_V2_S_Weights = published("MViT_V2_S_Weights", __name__)


def _decide(weights: Any, kwargs: dict[str, Any]) -> None:
    """Learned positions are for one size."""
    overwrite_named_param(kwargs, "spatial_size", weights.meta["min_size"])
    overwrite_named_param(kwargs, "temporal_size", weights.meta["min_temporal_size"])


def _mvit(rows: str, second: bool, kwargs) -> MViT:
    defaults = {"spatial_size": (224, 224), "temporal_size": 16, "stochastic_depth_prob": 0.2}
    return MViT(
        block_setting=_settings(rows),
        residual_pool=second,
        residual_with_cls_embed=False,
        rel_pos_embed=kwargs.pop("rel_pos_embed", second),
        proj_after_attn=kwargs.pop("proj_after_attn", second),
        **(defaults | kwargs),
    )


@builder(MViT_V1_B_Weights, "KINETICS400_V1", decide=_decide)
def mvit_v1_b(**kwargs) -> MViT:
    """MViT, base, first version."""
    return _mvit(_FIRST, False, kwargs)


@builder(MViT_V2_S_Weights, "KINETICS400_V1", decide=_decide)
def mvit_v2_s(**kwargs) -> MViT:
    """MViT, small, second version."""
    return _mvit(_SECOND, True, kwargs)
