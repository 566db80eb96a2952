"""Backbones of detectors: a classifier without its end, frozen up to some depth, with a pyramid."""

import warnings
from collections.abc import Callable, Iterable
from typing import Any

from flambeau import Tensor, nn

from ...ops.feature_pyramid_network import ExtraFPNBlock, FeaturePyramidNetwork, LastLevelMaxPool
from ...ops.misc import FrozenBatchNorm2d
from .. import mobilenet, resnet
from .._api import WeightsEnum
from .._utils import IntermediateLayerGetter
from ..segmentation._utils import stages

Norm = Callable[..., nn.Module]


class BackboneWithFPN(nn.Module):
    """Maps of some children of a model, through a feature pyramid.

    Args:
        return_layers: names of children, and the names of their maps.
        in_channels_list: channels of these maps.
        out_channels: channels of all maps of the pyramid.
        extra_blocks: what follows the smallest map; one more map of half its size by default.
    """

    def __init__(
        self,
        backbone: nn.Module,
        return_layers: dict[str, str],
        in_channels_list: list[int],
        out_channels: int,
        extra_blocks: ExtraFPNBlock | None = None,
        norm_layer: Norm | None = None,
    ) -> None:
        super().__init__()
        self.body = IntermediateLayerGetter(backbone, return_layers=return_layers)
        last = LastLevelMaxPool() if extra_blocks is None else extra_blocks
        self.fpn = FeaturePyramidNetwork(in_channels_list, out_channels, last, norm_layer)
        self.out_channels = out_channels

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return self.fpn(self.body(x))


def resnet_fpn_backbone(
    *,
    backbone_name: str,
    weights: WeightsEnum | None,
    norm_layer: Norm = FrozenBatchNorm2d,
    trainable_layers: int = 3,
    returned_layers: list[int] | None = None,
    extra_blocks: ExtraFPNBlock | None = None,
) -> BackboneWithFPN:
    """A ResNet with a feature pyramid, all of 256 channels.

    Args:
        trainable_layers: how many of its five parts learn, counted from the end.
        returned_layers: which of its four rows the pyramid reads.
    """
    backbone = getattr(resnet, backbone_name)(weights=weights, norm_layer=norm_layer)
    return _resnet_fpn_extractor(backbone, trainable_layers, returned_layers, extra_blocks)


def _resnet_fpn_extractor(
    backbone: resnet.ResNet,
    trainable_layers: int,
    returned_layers: list[int] | None = None,
    extra_blocks: ExtraFPNBlock | None = None,
    norm_layer: Norm | None = None,
) -> BackboneWithFPN:
    if not 0 <= trainable_layers <= 5:
        raise ValueError(f"Trainable layers should be in the range [0,5], got {trainable_layers}")
    parts = ("layer4", "layer3", "layer2", "layer1", "conv1", "bn1")
    learning = parts[: trainable_layers + (trainable_layers == 5)]
    for name, parameter in backbone.named_parameters():
        if not name.startswith(learning):
            parameter.requires_grad_(False)
    rows = [1, 2, 3, 4] if returned_layers is None else returned_layers
    if min(rows) <= 0 or max(rows) >= 5:
        raise ValueError(f"Each returned layer should be in the range [1,4]. Got {rows}")
    named = {f"layer{row}": str(number) for number, row in enumerate(rows)}
    first = backbone.inplanes // 8  # channels of the first row; they double from row to row
    channels = [first * 2 ** (row - 1) for row in rows]
    return BackboneWithFPN(backbone, named, channels, 256, extra_blocks, norm_layer)


def mobilenet_backbone(
    *,
    backbone_name: str,
    weights: WeightsEnum | None,
    fpn: bool,
    norm_layer: Norm = FrozenBatchNorm2d,
    trainable_layers: int = 2,
    returned_layers: list[int] | None = None,
    extra_blocks: ExtraFPNBlock | None = None,
) -> nn.Module:
    """A MobileNet with a feature pyramid, or with one map of 256 channels."""
    backbone = getattr(mobilenet, backbone_name)(weights=weights, norm_layer=norm_layer)
    return _mobilenet_extractor(backbone, fpn, trainable_layers, returned_layers, extra_blocks)


def _mobilenet_extractor(
    backbone: Any,
    fpn: bool,
    trainable_layers: int,
    returned_layers: list[int] | None = None,
    extra_blocks: ExtraFPNBlock | None = None,
    norm_layer: Norm | None = None,
) -> nn.Module:
    features = backbone.features
    places, channels = stages(features)
    many = len(places)
    if not 0 <= trainable_layers <= many:
        raise ValueError(
            f"Trainable layers should be in the range [0,{many}], got {trainable_layers} "
        )
    freeze_before(features, places, trainable_layers)
    if not fpn:
        plain = nn.Sequential(features, nn.Conv2d(channels[-1], 256, 1))
        plain.out_channels = 256
        return plain
    rows = [many - 2, many - 1] if returned_layers is None else returned_layers
    if min(rows) < 0 or max(rows) >= many:
        raise ValueError(f"Each returned layer should be in the range [0,{many - 1}], got {rows} ")
    named = {str(places[row]): str(number) for number, row in enumerate(rows)}
    own = [channels[row] for row in rows]
    return BackboneWithFPN(features, named, own, 256, extra_blocks, norm_layer)


def freeze_before(features: Any, places: list[int], trainable: int) -> None:
    """Stop learning before the last `trainable` of the stages that begin at these places."""
    end = places[len(places) - trainable] if trainable else len(features)
    freeze(features[number] for number in range(end))


def freeze(modules: Iterable[nn.Module]) -> None:
    for module in modules:
        for parameter in module.parameters():
            parameter.requires_grad_(False)


def _validate_trainable_layers(
    is_trained: bool, trainable_backbone_layers: int | None, max_value: int, default_value: int
) -> int:
    """How many parts of a backbone learn; all of them, where nothing was learned before."""
    wanted = trainable_backbone_layers
    if not is_trained:
        if wanted is not None:
            warnings.warn(
                "Changing trainable_backbone_layers has no effect if neither pretrained nor "
                "pretrained_backbone have been set to True, falling back to "
                f"trainable_backbone_layers={max_value} so that all layers are trainable",
                stacklevel=3,
            )
        wanted = max_value
    if wanted is None:
        wanted = default_value
    if not 0 <= wanted <= max_value:
        raise ValueError(
            f"Trainable backbone layers should be in the range [0,{max_value}], got {wanted} "
        )
    return wanted
