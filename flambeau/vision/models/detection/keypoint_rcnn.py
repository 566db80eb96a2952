"""Keypoint R-CNN: boxes of people, and where their joints are (He et al. 2017)."""

from itertools import pairwise
from typing import Any

from flambeau import Tensor, nn
from flambeau.nn import functional as F

from ...ops.poolers import MultiScaleRoIAlign
from ..published import published
from ..resnet import ResNet50_Weights
from ._utils import fan_out, start_convolutions
from .building import Start, detector
from .faster_rcnn import _MAPS, FasterRCNN, pyramid, require

__all__ = ["KeypointRCNN", "KeypointRCNN_ResNet50_FPN_Weights", "keypointrcnn_resnet50_fpn"]

_SIZES = (640, 672, 704, 736, 768, 800)  # of the shorter side, while learning


class KeypointRCNN(FasterRCNN):
    """Faster R-CNN with keypoints for each thing; see there for the other arguments.

    Args:
        keypoint_roi_pool, keypoint_head, keypoint_predictor: from maps and boxes to features, to
            features, to a heat map for each point.
        num_keypoints: 17 unless given.
    """

    def __init__(
        self,
        backbone: nn.Module,
        num_classes: int | None = None,
        min_size: Any = None,
        *args: Any,
        keypoint_roi_pool: MultiScaleRoIAlign | None = None,
        keypoint_head: nn.Module | None = None,
        keypoint_predictor: nn.Module | None = None,
        num_keypoints: int | None = None,
        **kwargs: Any,
    ) -> None:
        require("keypoint_roi_pool", keypoint_roi_pool, MultiScaleRoIAlign)
        if num_keypoints is not None and keypoint_predictor is not None:
            raise ValueError("num_keypoints should be None when keypoint_predictor is specified")
        if num_keypoints is None:
            num_keypoints = 17
        channels: Any = backbone.out_channels
        if keypoint_roi_pool is None:
            keypoint_roi_pool = MultiScaleRoIAlign(_MAPS, output_size=14, sampling_ratio=2)
        if keypoint_head is None:
            keypoint_head = KeypointRCNNHeads(channels, (512,) * 8)
        if keypoint_predictor is None:
            keypoint_predictor = KeypointRCNNPredictor(512, num_keypoints)
        super().__init__(backbone, num_classes, min_size or _SIZES, *args, **kwargs)
        self.roi_heads.keypoint_roi_pool = keypoint_roi_pool
        self.roi_heads.keypoint_head = keypoint_head
        self.roi_heads.keypoint_predictor = keypoint_predictor


class KeypointRCNNHeads(nn.Sequential):
    """Convolutions in a row, of these widths."""

    def __init__(self, in_channels: int, layers: Any) -> None:
        rows: list[nn.Module] = []
        for before, after in pairwise([in_channels, *layers]):
            rows += [nn.Conv2d(before, after, 3, stride=1, padding=1), nn.ReLU(inplace=True)]
        super().__init__(*rows)
        start_convolutions(fan_out, self)


class KeypointRCNNPredictor(nn.Module):
    """A heat map for each point, four times as large as what it is made from."""

    def __init__(self, in_channels: int, num_keypoints: int) -> None:
        super().__init__()
        self.kps_score_lowres = nn.ConvTranspose2d(
            in_channels, num_keypoints, 4, stride=2, padding=1
        )
        nn.init.kaiming_normal_(self.kps_score_lowres.weight, mode="fan_out", nonlinearity="relu")
        nn.init.zeros_(self.kps_score_lowres.bias)
        self.up_scale, self.out_channels = 2, num_keypoints

    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(
            self.kps_score_lowres(x),
            scale_factor=float(self.up_scale),
            mode="bilinear",
            align_corners=False,
            recompute_scale_factor=False,
        )


KeypointRCNN_ResNet50_FPN_Weights = published("KeypointRCNN_ResNet50_FPN_Weights", __name__)


@detector(
    KeypointRCNN_ResNet50_FPN_Weights,
    ResNet50_Weights,
    exact=("COCO_V1",),
    counts={"num_classes": ("categories", 2), "num_keypoints": ("keypoint_names", 17)},
)
def keypointrcnn_resnet50_fpn(
    start: Start, num_classes: int, num_keypoints: int, **kwargs
) -> KeypointRCNN:
    """Keypoint R-CNN on a ResNet-50 with a feature pyramid."""
    backbone = pyramid(start)
    return KeypointRCNN(backbone, num_classes, num_keypoints=num_keypoints, **kwargs)
