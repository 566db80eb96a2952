"""Focal loss: what is classified well already counts less (Lin et al. 2017)."""

from flambeau import Tensor
from flambeau.nn import functional as F

from ._utils import reduced


def sigmoid_focal_loss(
    inputs: Tensor,
    targets: Tensor,
    alpha: float = 0.25,
    gamma: float = 2,
    reduction: str = "none",
) -> Tensor:
    """binary_cross_entropy_with_logits times (1 - p of the right answer) ** gamma.

    Args:
        alpha: the weight of ones, zeros having 1 - alpha; -1 for no weights.
    """
    if not 0 <= alpha <= 1 and alpha != -1:
        raise ValueError(
            f"Invalid alpha value: {alpha}. alpha must be in the range [0,1] or -1 for ignore."
        )
    plain = F.binary_cross_entropy_with_logits(inputs, targets, reduction="none")
    loss = plain * (1 - _for_targets(inputs.sigmoid(), targets)) ** gamma
    if alpha >= 0:
        loss = _for_targets(alpha, targets) * loss
    return reduced(loss, reduction)


def _for_targets(ones: Tensor | float, targets: Tensor) -> Tensor:
    """`ones` where the target is 1, what is missing to 1 where it is 0."""
    return ones * targets + (1 - ones) * (1 - targets)
