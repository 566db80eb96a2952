"""Detectors in two steps: regions that may hold something, then what is in them."""

from collections import OrderedDict
from typing import Any

from flambeau import Tensor, nn

from ._utils import checked_targets, original_sizes, refuse_empty_boxes

Target = dict[str, Tensor]


class GeneralizedRCNN(nn.Module):
    """Images through a backbone, proposals of regions, and heads that look at these.

    Args:
        rpn: gives proposals and losses from images, maps and targets.
        roi_heads: gives findings and losses from maps, proposals, sizes and targets.
        transform: makes a batch of images, and puts findings into their coordinates.
    """

    def __init__(
        self, backbone: nn.Module, rpn: nn.Module, roi_heads: nn.Module, transform: nn.Module
    ) -> None:
        super().__init__()
        self.transform = transform
        self.backbone = backbone
        self.rpn = rpn
        self.roi_heads = roi_heads
        self._has_warned = False

    def eager_outputs(self, losses: dict[str, Tensor], detections: list[Target]) -> Any:
        return losses if self.training else detections

    def forward(self, images: list[Tensor], targets: list[Target] | None = None) -> Any:
        """Losses by name while learning, otherwise a dict of findings per image."""
        if self.training:
            targets = checked_targets(targets)
        sizes = original_sizes(images)
        batch, targets = self.transform(images, targets)
        refuse_empty_boxes(targets)
        features = self.backbone(batch.tensors)
        if isinstance(features, Tensor):
            features = OrderedDict([("0", features)])
        proposals, proposal_losses = self.rpn(batch, features, targets)
        found, losses = self.roi_heads(features, proposals, batch.image_sizes, targets)
        found = self.transform.postprocess(found, batch.image_sizes, sizes)
        return self.eager_outputs({**losses, **proposal_losses}, found)
