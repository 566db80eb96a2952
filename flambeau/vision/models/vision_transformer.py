"""Vision transformers: patches of an image as words (Dosovitskiy et al. 2020)."""

import math
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import flambeau
from flambeau import Tensor, nn
from flambeau.nn import functional as F

from ..ops.misc import MLP, Conv2dNormActivation
from ._api import builder
from ._utils import _ovewrite_named_param
from .parts import Layer, start_perceptron
from .published import published

__all__ = [
    "ViT_B_16_Weights",
    "ViT_B_32_Weights",
    "ViT_H_14_Weights",
    "ViT_L_16_Weights",
    "ViT_L_32_Weights",
    "VisionTransformer",
    "vit_b_16",
    "vit_b_32",
    "vit_h_14",
    "vit_l_16",
    "vit_l_32",
]

_NORM = partial(nn.LayerNorm, eps=1e-6)


class ConvStemConfig(NamedTuple):
    """One convolution of a stem that takes the place of patches (Xiao et al. 2021)."""

    out_channels: int
    kernel_size: int
    stride: int
    norm_layer: Layer = nn.BatchNorm2d
    activation_layer: Layer = nn.ReLU


def _normal(layer: Any, spread: float, draw: Callable[..., Any] = nn.init.trunc_normal_) -> None:
    draw(layer.weight, std=spread)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


class MLPBlock(MLP):
    """The perceptron of a transformer layer."""

    _version = 2

    def __init__(self, in_dim: int, mlp_dim: int, dropout: float) -> None:
        widths = [mlp_dim, in_dim]
        super().__init__(in_dim, widths, activation_layer=nn.GELU, dropout=dropout)
        start_perceptron(self)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        if local_metadata.get("version", 1) < 2:  # the layers used to have names
            for old, new in (("linear_1", "0"), ("linear_2", "3")):
                for kind in ("weight", "bias"):
                    if f"{prefix}{old}.{kind}" in state_dict:
                        value = state_dict.pop(f"{prefix}{old}.{kind}")
                        state_dict[f"{prefix}{new}.{kind}"] = value
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


def _check_words(input: Tensor) -> None:
    if input.dim() != 3:
        raise AssertionError(f"Expected (batch_size, seq_length, hidden_dim) got {input.shape}")


class EncoderBlock(nn.Module):
    """Attention and a perceptron, each after a normalization and added to its input."""

    def __init__(
        self,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
        norm_layer: Layer = _NORM,
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        attention = nn.MultiheadAttention(
            hidden_dim, num_heads, attention_dropout, batch_first=True
        )
        layers = {
            "ln_1": norm_layer(hidden_dim),
            "self_attention": attention,
            "dropout": nn.Dropout(dropout),
            "ln_2": norm_layer(hidden_dim),
            "mlp": MLPBlock(hidden_dim, mlp_dim, dropout),
        }
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, input: Tensor) -> Tensor:
        _check_words(input)
        words = self.ln_1(input)
        seen, _ = self.self_attention(words, words, words, need_weights=False)
        x = input + self.dropout(seen)
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    """Positions, and the layers of a transformer."""

    def __init__(
        self,
        seq_length: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
        norm_layer: Layer = _NORM,
    ) -> None:
        super().__init__()
        positions = nn.init.normal_(flambeau.empty(1, seq_length, hidden_dim), std=0.02)
        self.pos_embedding = nn.Parameter(positions)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.Sequential()
        settings = num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer
        for number in range(num_layers):
            self.layers.add_module(f"encoder_layer_{number}", EncoderBlock(*settings))
        self.ln = norm_layer(hidden_dim)

    def forward(self, input: Tensor) -> Tensor:
        _check_words(input)
        return self.ln(self.layers(self.dropout(input + self.pos_embedding)))


class VisionTransformer(nn.Module):
    """The network behind all functions of this file.

    Args:
        image_size, patch_size: in pixels; images have this very size.
        representation_size: the width of a layer before the last one, if there is to be one.
        conv_stem_configs: convolutions that make words from images, instead of plain patches.
    """

    def __init__(
        self,
        image_size: int,
        patch_size: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        num_classes: int = 1000,
        representation_size: int | None = None,
        norm_layer: Layer = _NORM,
        conv_stem_configs: list[ConvStemConfig] | None = None,
    ) -> None:
        side, rest = divmod(image_size, patch_size)
        if rest:
            raise AssertionError("Input shape indivisible by patch size!")
        super().__init__()
        self.image_size, self.patch_size, self.seq_length = image_size, patch_size, side * side + 1
        self.hidden_dim, self.mlp_dim, self.norm_layer = hidden_dim, mlp_dim, norm_layer
        self.dropout, self.attention_dropout = dropout, attention_dropout
        self.num_classes, self.representation_size = num_classes, representation_size
        self.conv_proj: nn.Module
        if conv_stem_configs is not None:
            self.conv_proj = self._stem(conv_stem_configs)
        else:
            self.conv_proj = nn.Conv2d(3, hidden_dim, patch_size, patch_size)
        self.class_token = nn.Parameter(flambeau.zeros(1, 1, hidden_dim))
        sizes = num_layers, num_heads, hidden_dim, mlp_dim
        odds = dropout, attention_dropout
        self.encoder = Encoder(self.seq_length, *sizes, *odds, norm_layer)
        self.heads = nn.Sequential()
        if representation_size is not None:
            self.heads.add_module("pre_logits", nn.Linear(hidden_dim, representation_size))
            self.heads.add_module("act", nn.Tanh())
        last = nn.Linear(representation_size or hidden_dim, num_classes)
        self.heads.add_module("head", last)
        self._initialize()

    def _stem(self, configs: list[ConvStemConfig]) -> nn.Sequential:
        stem, channels = nn.Sequential(), 3
        for place, config in enumerate(configs):
            layer = Conv2dNormActivation(
                channels,
                config.out_channels,
                kernel_size=config.kernel_size,
                stride=config.stride,
                norm_layer=config.norm_layer,
                activation_layer=config.activation_layer,
            )
            stem.add_module(f"conv_bn_relu_{place}", layer)
            channels = config.out_channels
        stem.add_module("conv_last", nn.Conv2d(channels, self.hidden_dim, kernel_size=1))
        return stem

    def _initialize(self) -> None:
        if isinstance(self.conv_proj, nn.Conv2d):
            _normal(self.conv_proj, math.sqrt(1 / (3 * self.patch_size**2)))
        else:
            last = self.conv_proj.conv_last
            _normal(last, math.sqrt(2.0 / self.hidden_dim), partial(nn.init.normal_, mean=0.0))
        if self.representation_size is not None:
            _normal(self.heads.pre_logits, math.sqrt(1 / self.hidden_dim))
        for parameter in self.heads.head.parameters():
            nn.init.zeros_(parameter)

    def _process_input(self, x: Tensor) -> Tensor:
        for name, size in (("height", x.shape[2]), ("width", x.shape[3])):
            if size != self.image_size:
                raise AssertionError(
                    f"Wrong image {name}! Expected {self.image_size} but got {size}!"
                )
        return self.conv_proj(x).reshape(x.shape[0], self.hidden_dim, -1).permute(0, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self._process_input(x)
        token = self.class_token.expand(x.shape[0], -1, -1)
        return self.heads(self.encoder(flambeau.cat([token, x], dim=1))[:, 0])


def _vision_transformer(
    patch_size: int, num_layers: int, num_heads: int, hidden_dim: int, mlp_dim: int, kwargs
) -> VisionTransformer:
    size = kwargs.pop("image_size", 224)
    return VisionTransformer(size, patch_size, num_layers, num_heads, hidden_dim, mlp_dim, **kwargs)


def _decide(weights: Any, kwargs: dict[str, Any]) -> None:
    _ovewrite_named_param(kwargs, "num_classes", len(weights.meta["categories"]))
    _ovewrite_named_param(kwargs, "image_size", weights.meta["min_size"][0])


ViT_B_16_Weights = published("ViT_B_16_Weights", __name__)
ViT_B_32_Weights = published("ViT_B_32_Weights", __name__)
ViT_L_16_Weights = published("ViT_L_16_Weights", __name__)
ViT_L_32_Weights = published("ViT_L_32_Weights", __name__)
ViT_H_14_Weights = published("ViT_H_14_Weights", __name__)


@builder(ViT_B_16_Weights, decide=_decide)
def vit_b_16(**kwargs) -> VisionTransformer:
    """Base vision transformer, patches of 16 x 16. Takes also image_size (224)."""
    return _vision_transformer(16, 12, 12, 768, 3072, kwargs)


@builder(ViT_B_32_Weights, decide=_decide)
def vit_b_32(**kwargs) -> VisionTransformer:
    """Base vision transformer, patches of 32 x 32."""
    return _vision_transformer(32, 12, 12, 768, 3072, kwargs)


@builder(ViT_L_16_Weights, decide=_decide)
def vit_l_16(**kwargs) -> VisionTransformer:
    """Large vision transformer, patches of 16 x 16."""
    return _vision_transformer(16, 24, 16, 1024, 4096, kwargs)


@builder(ViT_L_32_Weights, decide=_decide)
def vit_l_32(**kwargs) -> VisionTransformer:
    """Large vision transformer, patches of 32 x 32."""
    return _vision_transformer(32, 24, 16, 1024, 4096, kwargs)


@builder(ViT_H_14_Weights, pretrained=None, decide=_decide)
def vit_h_14(**kwargs) -> VisionTransformer:
    """Huge vision transformer, patches of 14 x 14."""
    return _vision_transformer(14, 32, 16, 1280, 5120, kwargs)


def _resampled(places: Tensor, side: int, mode: str) -> Tensor:
    """Embeddings (1, places, width) of a square, for a square of another side."""
    count = places.shape[1]
    old = int(math.sqrt(count))
    if old**2 != count:
        raise ValueError(
            "seq_length is not a perfect square! Instead got seq_length_1d * seq_length_1d = "
            f"{old**2} and seq_length = {count}"
        )
    square = places.transpose(1, 2).unflatten(2, (old, old))
    square = F.interpolate(square, size=side, mode=mode, align_corners=True)
    return square.flatten(2).transpose(1, 2)


def interpolate_embeddings(
    image_size: int,
    patch_size: int,
    model_state: "OrderedDict[str, Tensor]",
    interpolation_mode: str = "bicubic",
    reset_heads: bool = False,
) -> "OrderedDict[str, Tensor]":
    """A state dict for images of another size: its positions are resampled.

    Args:
        reset_heads: leave the last layers out, for a new task.
    """
    name = "encoder.pos_embedding"
    positions = model_state[name]
    if positions.shape[0] != 1:
        raise ValueError(f"Unexpected position embedding shape: {positions.shape}")
    side = image_size // patch_size
    token, places = positions.split([1, positions.shape[1] - 1], dim=1)
    if side * side == places.shape[1]:
        return model_state
    model_state[name] = flambeau.cat([token, _resampled(places, side, interpolation_mode)], dim=1)
    if reset_heads:
        kept = ((key, value) for key, value in model_state.items() if not key.startswith("heads"))
        model_state = OrderedDict(kept)
    return model_state
