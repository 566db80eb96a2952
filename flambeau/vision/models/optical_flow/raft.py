"""RAFT: all pairs of pixels are compared once, then flow is mended step by step (Teed 2020)."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import flambeau
from flambeau import Tensor, nn
from flambeau.nn import functional as F

from ...ops.misc import Conv2dNormActivation
from .._api import builder
from ..published import published
from ._utils import grid_sample, make_coords_grid, upsample_flow

__all__ = ["RAFT", "Raft_Large_Weights", "Raft_Small_Weights", "raft_large", "raft_small"]

Norm = Callable[..., nn.Module] | None


def _way(before: int, after: int, norm: Norm, stride: int) -> nn.Module:
    return Conv2dNormActivation(
        before, after, 1, stride, norm_layer=norm, bias=True, activation_layer=None
    )


class ResidualBlock(nn.Module):
    """Two convolutions, and the way around them.

    Args:
        always_project: have a convolution on the way around in any case.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        norm_layer: Norm,
        stride: int = 1,
        always_project: bool = False,
    ) -> None:
        super().__init__()
        options: dict[str, Any] = {"norm_layer": norm_layer, "bias": True}
        self.convnormrelu1 = Conv2dNormActivation(
            in_channels, out_channels, 3, stride=stride, **options
        )
        self.convnormrelu2 = Conv2dNormActivation(out_channels, out_channels, 3, **options)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or always_project:
            self.downsample = _way(in_channels, out_channels, norm_layer, stride)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        change = self.convnormrelu2(self.convnormrelu1(x))
        return self.relu(self.downsample(x) + change)


class BottleneckBlock(nn.Module):
    """Fewer channels, a convolution, more channels again, and the way around."""

    def __init__(
        self, in_channels: int, out_channels: int, *, norm_layer: Norm, stride: int = 1
    ) -> None:
        super().__init__()
        options: dict[str, Any] = {"norm_layer": norm_layer, "bias": True}
        inner = out_channels // 4
        self.convnormrelu1 = Conv2dNormActivation(in_channels, inner, 1, **options)
        self.convnormrelu2 = Conv2dNormActivation(inner, inner, 3, stride=stride, **options)
        self.convnormrelu3 = Conv2dNormActivation(inner, out_channels, 1, **options)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1:
            self.downsample = _way(in_channels, out_channels, norm_layer, stride)

    def forward(self, x: Tensor) -> Tensor:
        change = self.convnormrelu3(self.convnormrelu2(self.convnormrelu1(x)))
        return self.relu(self.downsample(x) + change)


class FeatureEncoder(nn.Module):
    """Features of an image, an eighth of its size.

    Args:
        layers: the widths of the stem, of three pairs of blocks, and of the result.
        strides: of the stem and of the pairs.
    """

    def __init__(
        self,
        *,
        block: Callable[..., nn.Module] = ResidualBlock,
        layers: Sequence[int] = (64, 64, 96, 128, 256),
        strides: Sequence[int] = (2, 1, 2, 2),
        norm_layer: Norm = nn.BatchNorm2d,
    ) -> None:
        super().__init__()
        if len(layers) != 5:
            raise ValueError(f"The expected number of layers is 5, instead got {len(layers)}")
        self.convnormrelu = Conv2dNormActivation(
            3, layers[0], 7, norm_layer=norm_layer, stride=strides[0], bias=True
        )
        for number, (before, after) in enumerate(pairwise(layers[:4]), 1):
            pair = self._make_2_blocks(block, before, after, norm_layer, strides[number])
            self.add_module(f"layer{number}", pair)
        self.conv = nn.Conv2d(layers[3], layers[4], 1)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(layer, (nn.BatchNorm2d, nn.InstanceNorm2d)) and layer.affine:
                nn.init.ones_(layer.weight)
                nn.init.zeros_(layer.bias)
        self.output_dim = layers[-1]
        self.downsample_factor = 2 ** sum(stride == 2 for stride in strides)

    def _make_2_blocks(
        self,
        block: Callable[..., nn.Module],
        in_channels: int,
        out_channels: int,
        norm_layer: Norm,
        first_stride: int,
    ) -> nn.Sequential:
        return nn.Sequential(
            block(in_channels, out_channels, norm_layer=norm_layer, stride=first_stride),
            block(out_channels, out_channels, norm_layer=norm_layer, stride=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer3(self.layer2(self.layer1(self.convnormrelu(x))))
        return self.conv(x)


class MotionEncoder(nn.Module):
    """What correlations and the flow so far say together; the flow itself is part of it."""

    def __init__(
        self,
        *,
        in_channels_corr: int,
        corr_layers: Sequence[int] = (256, 192),
        flow_layers: Sequence[int] = (128, 64),
        out_channels: int = 128,
    ) -> None:
        super().__init__()
        if len(flow_layers) != 2:
            raise ValueError(
                f"The expected number of flow_layers is 2, instead got {len(flow_layers)}"
            )
        if len(corr_layers) not in (1, 2):
            raise ValueError(
                "The number of corr_layers should be 1 or 2, instead got " + str(len(corr_layers))
            )
        plain: dict[str, Any] = {"norm_layer": None}
        self.convcorr1 = Conv2dNormActivation(in_channels_corr, corr_layers[0], 1, **plain)
        self.convcorr2: nn.Module = nn.Identity()
        if len(corr_layers) == 2:
            self.convcorr2 = Conv2dNormActivation(corr_layers[0], corr_layers[1], 3, **plain)
        self.convflow1 = Conv2dNormActivation(2, flow_layers[0], 7, **plain)
        self.convflow2 = Conv2dNormActivation(flow_layers[0], flow_layers[1], 3, **plain)
        joined = corr_layers[-1] + flow_layers[-1]
        self.conv = Conv2dNormActivation(joined, out_channels - 2, 3, **plain)
        self.out_channels = out_channels

    def forward(self, flow: Tensor, corr_features: Tensor) -> Tensor:
        seen = self.convcorr2(self.convcorr1(corr_features))
        moved = self.convflow2(self.convflow1(flow))
        both = self.conv(flambeau.cat([seen, moved], dim=1))
        return flambeau.cat([both, flow], dim=1)


class ConvGRU(nn.Module):
    """A gated recurrent unit of convolutions."""

    def __init__(
        self, *, input_size: int, hidden_size: int, kernel_size: Any, padding: Any
    ) -> None:
        super().__init__()
        for gate in ("convz", "convr", "convq"):
            layer = nn.Conv2d(hidden_size + input_size, hidden_size, kernel_size, padding=padding)
            self.add_module(gate, layer)

    def forward(self, h: Tensor, x: Tensor) -> Tensor:
        both = flambeau.cat([h, x], dim=1)
        z, r = self.convz(both).sigmoid(), self.convr(both).sigmoid()
        q = self.convq(flambeau.cat([r * h, x], dim=1)).tanh()
        return (1 - z) * h + z * q


class RecurrentBlock(nn.Module):
    """One or two recurrent units, one after the other."""

    def __init__(
        self,
        *,
        input_size: int,
        hidden_size: int,
        kernel_size: Any = ((1, 5), (5, 1)),
        padding: Any = ((0, 2), (2, 0)),
    ) -> None:
        super().__init__()
        if len(kernel_size) != len(padding):
            raise ValueError(
                "kernel_size should have the same length as padding, instead got "
                f"len(kernel_size) = {len(kernel_size)} and len(padding) = {len(padding)}"
            )
        if len(kernel_size) not in (1, 2):
            raise ValueError(f"kernel_size should either 1 or 2, instead got {len(kernel_size)}")
        for number, (kernel, rim) in enumerate(zip(kernel_size, padding, strict=True), 1):
            unit = ConvGRU(
                input_size=input_size, hidden_size=hidden_size, kernel_size=kernel, padding=rim
            )
            self.add_module(f"convgru{number}", unit)
        self.units, self.hidden_size = len(kernel_size), hidden_size

    def forward(self, h: Tensor, x: Tensor) -> Tensor:
        h = self.convgru1(h, x)
        return self.convgru2(h, x) if self.units == 2 else h


class FlowHead(nn.Module):
    """The change of the flow, from what is remembered."""

    def __init__(self, *, in_channels: int, hidden_size: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, hidden_size, 3, padding=1)
        self.conv2 = nn.Conv2d(hidden_size, 2, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv2(self.relu(self.conv1(x)))


class UpdateBlock(nn.Module):
    """One step: from what is remembered and seen to the change of the flow."""

    def __init__(
        self, *, motion_encoder: nn.Module, recurrent_block: nn.Module, flow_head: nn.Module
    ) -> None:
        super().__init__()
        self.motion_encoder = motion_encoder
        self.recurrent_block = recurrent_block
        self.flow_head = flow_head
        self.hidden_state_size = recurrent_block.hidden_size

    def forward(
        self, hidden_state: Tensor, context: Tensor, corr_features: Tensor, flow: Tensor
    ) -> tuple[Tensor, Tensor]:
        motion = self.motion_encoder(flow, corr_features)
        hidden_state = self.recurrent_block(hidden_state, flambeau.cat([context, motion], dim=1))
        return hidden_state, self.flow_head(hidden_state)


class MaskPredictor(nn.Module):
    """Weights of neighbours, for flow in full size.

    Args:
        multiplier: scales them, and so their gradients.
    """

    def __init__(self, *, in_channels: int, hidden_size: int, multiplier: float = 0.25) -> None:
        super().__init__()
        self.convrelu = Conv2dNormActivation(in_channels, hidden_size, 3, norm_layer=None)
        self.conv = nn.Conv2d(hidden_size, 8 * 8 * 9, 1, padding=0)
        self.multiplier = multiplier

    def forward(self, x: Tensor) -> Tensor:
        return self.multiplier * self.conv(self.convrelu(x))


class CorrBlock(nn.Module):
    """Products of the features of all pairs of pixels, and of coarser second images.

    Args:
        num_levels: how many sizes of the second image.
        radius: how far around a place it is looked.
    """

    def __init__(self, *, num_levels: int = 4, radius: int = 4) -> None:
        super().__init__()
        self.num_levels, self.radius = num_levels, radius
        self.corr_pyramid: list[Tensor] = []
        self.out_channels = num_levels * (2 * radius + 1) ** 2

    def build_pyramid(self, fmap1: Tensor, fmap2: Tensor) -> None:
        if fmap1.shape != fmap2.shape:
            raise ValueError(
                "Input feature maps should have the same shape, instead got "
                f"{fmap1.shape} (fmap1.shape) != {fmap2.shape} (fmap2.shape)"
            )
        least = 2 * 2 ** (self.num_levels - 1)
        if min(fmap1.shape[-2:]) < least:
            raise ValueError(
                "Feature maps are too small to be down-sampled by the correlation pyramid. "
                f"H and W of feature maps should be at least {least}; got: {fmap1.shape[-2:]}. "
                "Remember that input images to the model are downsampled by 8, so that means their "
                f"dimensions should be at least 8 * {least} = {8 * least}."
            )
        volume = self._compute_corr_volume(fmap1, fmap2)
        volume = volume.reshape(-1, *volume.shape[3:])
        self.corr_pyramid = [volume]
        for _ in range(self.num_levels - 1):
            volume = F.avg_pool2d(volume, kernel_size=2, stride=2)
            self.corr_pyramid.append(volume)

    def index_pyramid(self, centroids_coords: Tensor) -> Tensor:
        """What is around places of the second image, on all levels: (batch, channels, h, w)."""
        batch, _, h, w = centroids_coords.shape
        axis = flambeau.linspace(-self.radius, self.radius, 2 * self.radius + 1)
        around = flambeau.stack(flambeau.meshgrid(axis, axis, indexing="ij"), dim=-1)
        around = around.to(centroids_coords.device)
        places = centroids_coords.permute(0, 2, 3, 1).reshape(batch * h * w, 1, 1, 2)
        found = []
        for volume in self.corr_pyramid:
            seen = grid_sample(volume, places + around, align_corners=True, mode="bilinear")
            found.append(seen.view(batch, h, w, -1))
            places = places / 2
        features = flambeau.cat(found, dim=-1).permute(0, 3, 1, 2).contiguous()
        expected = (batch, self.out_channels, h, w)
        if tuple(features.shape) != expected:
            raise ValueError(
                f"Output shape of index pyramid is incorrect. Should be {expected}, got "
                f"{features.shape}"
            )
        return features

    def _compute_corr_volume(self, fmap1: Tensor, fmap2: Tensor) -> Tensor:
        batch, channels, h, w = fmap1.shape
        products = fmap1.flatten(2).transpose(1, 2) @ fmap2.flatten(2)
        return products.view(batch, h, w, 1, h, w) / float(channels) ** 0.5


class RAFT(nn.Module):
    """Flow between two images, better with every step.

    Args:
        feature_encoder: features that are compared; an eighth of the size.
        context_encoder: what is remembered at first, and features that never change.
        corr_block, update_block, mask_predictor: comparison, one step, weights for full size.
    """

    def __init__(
        self,
        *,
        feature_encoder: nn.Module,
        context_encoder: nn.Module,
        corr_block: nn.Module,
        update_block: nn.Module,
        mask_predictor: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.feature_encoder = feature_encoder
        self.context_encoder = context_encoder
        self.corr_block = corr_block
        self.update_block = update_block
        self.mask_predictor = mask_predictor
        if not hasattr(self.update_block, "hidden_state_size"):
            raise ValueError(
                "The update_block parameter should expose a 'hidden_state_size' attribute."
            )

    def forward(self, image1: Tensor, image2: Tensor, num_flow_updates: int = 12) -> list[Tensor]:
        """The flow after each step, in full size: (batch, 2, h, w), x first."""
        batch, _, h, w = image1.shape
        if (h, w) != tuple(image2.shape[-2:]):
            raise ValueError(
                f"input images should have the same shape, instead got ({h}, {w}) != "
                f"{image2.shape[-2:]}"
            )
        if h % 8 or w % 8:
            raise ValueError(
                f"input image H and W should be divisible by 8, instead got {h} (h) and {w} (w)"
            )
        maps = self.feature_encoder(flambeau.cat([image1, image2], dim=0))
        first, second = maps.chunk(2, dim=0)
        if tuple(first.shape[-2:]) != (h // 8, w // 8):
            raise ValueError("The feature encoder should downsample H and W by 8")
        self.corr_block.build_pyramid(first, second)
        hidden, context = self._context(image1, h, w)
        start = make_coords_grid(batch, h // 8, w // 8, first.device).to(first.device)
        now, flows = start, []
        for _ in range(num_flow_updates):
            now = now.detach()  # a step does not learn from where it began
            seen = self.corr_block.index_pyramid(centroids_coords=now)
            hidden, change = self.update_block(hidden, context, seen, now - start)
            now = now + change
            mask = None if self.mask_predictor is None else self.mask_predictor(hidden)
            flows.append(upsample_flow(flow=now - start, up_mask=mask))
        return flows

    def _context(self, image: Tensor, h: int, w: int) -> list[Tensor]:
        found = self.context_encoder(image)
        if tuple(found.shape[-2:]) != (h // 8, w // 8):
            raise ValueError("The context encoder should downsample H and W by 8")
        own = self.update_block.hidden_state_size
        rest = found.shape[1] - own
        if rest <= 0:
            raise ValueError(
                f"The context encoder outputs {found.shape[1]} channels, but it should have at "
                f"strictly more than hidden_state={own} channels"
            )
        hidden, context = found.split([own, rest], dim=1)
        return [hidden.tanh(), F.relu(context)]


Raft_Large_Weights = published("Raft_Large_Weights", __name__)
Raft_Small_Weights = published("Raft_Small_Weights", __name__)


def _encoder(kwargs: dict[str, Any], name: str, block: Any, layers: Any, norm: Norm) -> nn.Module:
    own = kwargs.pop(name, None)
    return own or FeatureEncoder(block=block, layers=layers, norm_layer=norm)


def _raft(
    kwargs: dict[str, Any],
    *,
    block: Callable[..., nn.Module],
    layers: tuple[int, ...],
    context: tuple[int, Norm],
    radius: int,
    motion: tuple[Sequence[int], Sequence[int], int],
    hidden: int,
    kernels: Any,
    rims: Any,
    head: int,
    mask: bool,
) -> RAFT:
    """A RAFT of the given widths; parts in `kwargs` take the places of ours."""
    features = _encoder(kwargs, "feature_encoder", block, layers, nn.InstanceNorm2d)
    known = _encoder(kwargs, "context_encoder", block, (*layers[:4], context[0]), context[1])
    corr = kwargs.pop("corr_block", None) or CorrBlock(num_levels=4, radius=radius)
    update = kwargs.pop("update_block", None)
    if update is None:
        corr_layers, flow_layers, after = motion
        update = UpdateBlock(
            motion_encoder=MotionEncoder(
                in_channels_corr=corr.out_channels,
                corr_layers=corr_layers,
                flow_layers=flow_layers,
                out_channels=after,
            ),
            recurrent_block=RecurrentBlock(
                input_size=after + context[0] - hidden,
                hidden_size=hidden,
                kernel_size=kernels,
                padding=rims,
            ),
            flow_head=FlowHead(in_channels=hidden, hidden_size=head),
        )
    weights = kwargs.pop("mask_predictor", None)
    if weights is None and mask:
        weights = MaskPredictor(in_channels=hidden, hidden_size=256, multiplier=0.25)
    return RAFT(
        feature_encoder=features,
        context_encoder=known,
        corr_block=corr,
        update_block=update,
        mask_predictor=weights,
        **kwargs,
    )


@builder(Raft_Large_Weights, "C_T_SKHT_V2")
def raft_large(**kwargs) -> RAFT:
    """RAFT."""
    return _raft(
        kwargs,
        block=ResidualBlock,
        layers=(64, 64, 96, 128, 256),
        context=(256, nn.BatchNorm2d),
        radius=4,
        motion=((256, 192), (128, 64), 128),
        hidden=128,
        kernels=((1, 5), (5, 1)),
        rims=((0, 2), (2, 0)),
        head=256,
        mask=True,
    )


@builder(Raft_Small_Weights, "C_T_V2")
def raft_small(**kwargs) -> RAFT:
    """RAFT with a fifth of the parameters."""
    return _raft(
        kwargs,
        block=BottleneckBlock,
        layers=(32, 32, 64, 96, 128),
        context=(160, None),
        radius=3,
        motion=((96,), (64, 32), 82),
        hidden=96,
        kernels=(3,),
        rims=(1,),
        head=128,
        mask=False,
    )
