"""Mask R-CNN: boxes, and which pixels in them are of the thing (He et al. 2017)."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from flambeau import nn

from ...ops.misc import Conv2dNormActivation
from ...ops.poolers import MultiScaleRoIAlign
from ..published import published
from ..resnet import ResNet50_Weights
from ._utils import fan_out, start_convolutions
from .building import Start, detector
from .faster_rcnn import _MAPS, FasterRCNN, pyramid, require, second_version

__all__ = [
    "MaskRCNN",
    "MaskRCNN_ResNet50_FPN_V2_Weights",
    "MaskRCNN_ResNet50_FPN_Weights",
    "maskrcnn_resnet50_fpn",
    "maskrcnn_resnet50_fpn_v2",
]


class MaskRCNN(FasterRCNN):
    """Faster R-CNN with a mask for each thing; see there for the other arguments.

    Args:
        mask_roi_pool, mask_head, mask_predictor: from maps and boxes to features, to features,
            to scores of pixels for each class.
    """

    def __init__(
        self,
        backbone: nn.Module,
        num_classes: int | None = None,
        *args: Any,
        mask_roi_pool: MultiScaleRoIAlign | None = None,
        mask_head: nn.Module | None = None,
        mask_predictor: nn.Module | None = None,
        **kwargs: Any,
    ) -> None:
        require("mask_roi_pool", mask_roi_pool, MultiScaleRoIAlign)
        if num_classes is not None and mask_predictor is not None:
            raise ValueError("num_classes should be None when mask_predictor is specified")
        channels: Any = backbone.out_channels
        if mask_roi_pool is None:
            mask_roi_pool = MultiScaleRoIAlign(_MAPS, output_size=14, sampling_ratio=2)
        if mask_head is None:
            mask_head = MaskRCNNHeads(channels, (256, 256, 256, 256), dilation=1)
        if mask_predictor is None:
            mask_predictor = MaskRCNNPredictor(256, 256, num_classes)
        super().__init__(backbone, num_classes, *args, **kwargs)
        self.roi_heads.mask_roi_pool = mask_roi_pool
        self.roi_heads.mask_head = mask_head
        self.roi_heads.mask_predictor = mask_predictor


class MaskRCNNHeads(nn.Sequential):
    """Convolutions in a row.

    Args:
        layers: their widths.
    """

    _version = 2

    def __init__(
        self,
        in_channels: int,
        layers: Any,
        dilation: int,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        widths = [in_channels, *layers]
        super().__init__(
            *(
                Conv2dNormActivation(
                    before, after, 3, padding=dilation, dilation=dilation, norm_layer=norm_layer
                )
                for before, after in zip(widths, layers, strict=False)
            )
        )
        start_convolutions(fan_out, self)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        if local_metadata.get("version", 1) < 2:  # they used to be called mask_fcn1 and so on
            for number in range(len(self)):
                for kind in ("weight", "bias"):
                    old = f"{prefix}mask_fcn{number + 1}.{kind}"
                    if old in state_dict:
                        state_dict[f"{prefix}{number}.0.{kind}"] = state_dict.pop(old)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class MaskRCNNPredictor(nn.Sequential):
    """Twice the size, then scores of pixels for each class."""

    def __init__(self, in_channels: int, dim_reduced: int, num_classes: Any) -> None:
        super().__init__(
            OrderedDict(
                conv5_mask=nn.ConvTranspose2d(in_channels, dim_reduced, 2, 2, 0),
                relu=nn.ReLU(inplace=True),
                mask_fcn_logits=nn.Conv2d(dim_reduced, num_classes, 1, 1, 0),
            )
        )
        for layer in (self.conv5_mask, self.mask_fcn_logits):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")


MaskRCNN_ResNet50_FPN_Weights = published("MaskRCNN_ResNet50_FPN_Weights", __name__)
MaskRCNN_ResNet50_FPN_V2_Weights = published("MaskRCNN_ResNet50_FPN_V2_Weights", __name__)


@detector(MaskRCNN_ResNet50_FPN_Weights, ResNet50_Weights, exact=("COCO_V1",))
def maskrcnn_resnet50_fpn(start: Start, num_classes: int, **kwargs) -> MaskRCNN:
    """Mask R-CNN on a ResNet-50 with a feature pyramid."""
    return MaskRCNN(pyramid(start), num_classes=num_classes, **kwargs)


@detector(MaskRCNN_ResNet50_FPN_V2_Weights, ResNet50_Weights, backbone=None)
def maskrcnn_resnet50_fpn_v2(start: Start, num_classes: int, **kwargs) -> MaskRCNN:
    """The same with deeper heads and more normalization."""
    backbone, heads = second_version(start)
    channels: Any = backbone.out_channels
    masks = MaskRCNNHeads(channels, [256, 256, 256, 256], 1, norm_layer=nn.BatchNorm2d)
    return MaskRCNN(backbone, num_classes=num_classes, **heads, mask_head=masks, **kwargs)
