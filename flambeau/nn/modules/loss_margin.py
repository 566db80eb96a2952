"""Losses with margins: what is far enough on the right side costs nothing.

loss.py has all others, and the names of these.
"""

from collections.abc import Callable
from typing import Any

from flambeau._tensor import Tensor
from flambeau.nn.modules.declaring import layer
from flambeau.nn.modules.distance import PairwiseDistance
from flambeau.nn.modules.loss_reduction import _Loss, _WeightedLoss


@layer("hinge_embedding_loss(input, target, margin, reduction=reduction)")
class HingeEmbeddingLoss(_Loss):
    """x where y is 1, max(0, margin - x) where y is -1."""

    margin: float = 1.0
    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"


@layer("soft_margin_loss(input, target, reduction=reduction)")
class SoftMarginLoss(_Loss):
    """log(1 + exp(-y x)), for y of 1 or -1."""

    __constants__ = ["reduction"]


@layer("multilabel_margin_loss(input, target, reduction=reduction)")
class MultiLabelMarginLoss(_Loss):
    """Hinges between every class that is a target and every class that is none."""

    __constants__ = ["reduction"]


@layer("multilabel_soft_margin_loss(input, target, weight, reduction=reduction)")
class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The mean over classes of BCEWithLogitsLoss."""

    __constants__ = ["reduction"]


@layer("multi_margin_loss(input, target, p, margin, weight, reduction=reduction)")
class MultiMarginLoss(_WeightedLoss):
    """The mean over other classes i of max(0, margin - x[y] + x[i])^p."""

    p: int = 1
    margin: float = 1.0
    weight: Tensor | None = None
    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"

    def _settle(self):
        if self.p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        rank = 1 if self.weight is None else self.weight.ndim
        if rank != 1:
            raise ValueError(
                f"MultiMarginLoss: expected weight to be None or 1D tensor, got {rank}D instead"
            )


@layer("cosine_embedding_loss(input1, input2, target, margin, reduction=reduction)")
class CosineEmbeddingLoss(_Loss):
    """1 - cos(x1, x2) where y is 1, max(0, cos(x1, x2) - margin) where y is -1."""

    margin: float = 0.0
    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"


@layer("margin_ranking_loss(input1, input2, target, margin, reduction=reduction)")
class MarginRankingLoss(_Loss):
    """max(0, margin - y (x1 - x2)): y is 1 where x1 should be the larger one, else -1."""

    margin: float = 0.0
    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"


class _TripletLoss(_Loss):
    margin: float

    def _settle(self):
        if self.margin <= 0:
            raise ValueError(
                f"{type(self).__name__}: expected margin to be greater than 0, got {self.margin} "
                "instead"
            )


@layer(
    "triplet_margin_loss(anchor, positive, negative, margin=margin, p=p, eps=eps, swap=swap,"
    " reduction=reduction)"
)
class TripletMarginLoss(_TripletLoss):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin), with the p-norm as distance d.

    swap: take d(positive, negative) where it is smaller than d(anchor, negative).
    """

    margin: float = 1.0
    p: float = 2.0
    eps: float = 1e-6
    swap: bool = False
    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"


@layer(
    "triplet_margin_with_distance_loss(anchor, positive, negative,"
    " distance_function=distance_function, margin=margin, swap=swap, reduction=reduction)",
    constants="margin swap reduction",
    kw_only=True,
)
class TripletMarginWithDistanceLoss(_TripletLoss):
    """TripletMarginLoss with any distance of two tensors."""

    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None
    margin: float = 1.0
    swap: bool = False
    reduction: str = "mean"

    def _settle(self):
        super()._settle()
        if self.distance_function is None:
            self.distance_function = PairwiseDistance()
