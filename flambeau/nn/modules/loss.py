"""Losses: one number (or one per sample) that tells how far predictions are from targets.

Each class keeps the options of a function of nn.functional and calls it, as declaring.py explains.
Those with margins are in loss_margin.py, what all share in loss_reduction.py.
"""

import math
import warnings
from typing import Any

from flambeau._tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.declaring import layer, told
from flambeau.nn.modules.linear import Linear
from flambeau.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions
from flambeau.nn.modules.loss_margin import (
    CosineEmbeddingLoss,
    HingeEmbeddingLoss,
    MarginRankingLoss,
    MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss,
    MultiMarginLoss,
    SoftMarginLoss,
    TripletMarginLoss,
    TripletMarginWithDistanceLoss,
)
from flambeau.nn.modules.loss_reduction import _Loss, _WeightedLoss

__all__ = [
    "L1Loss", "NLLLoss", "NLLLoss2d", "PoissonNLLLoss", "GaussianNLLLoss", "KLDivLoss", "MSELoss",
    "BCELoss", "BCEWithLogitsLoss", "HingeEmbeddingLoss", "MultiLabelMarginLoss", "SmoothL1Loss",
    "HuberLoss", "SoftMarginLoss", "CrossEntropyLoss", "LinearCrossEntropyLoss",
    "MultiLabelSoftMarginLoss", "CosineEmbeddingLoss", "MarginRankingLoss", "MultiMarginLoss",
    "TripletMarginLoss", "TripletMarginWithDistanceLoss", "CTCLoss",
]  # fmt: skip

# -- of two tensors of one shape -----------------------------------------------------------------


@layer("l1_loss(input, target, reduction=reduction)")
class L1Loss(_Loss):
    """|x - y|."""

    __constants__ = ["reduction"]


@layer("mse_loss(input, target, reduction=reduction)")
class MSELoss(_Loss):
    """(x - y)^2."""

    __constants__ = ["reduction"]


@layer("smooth_l1_loss(input, target, reduction=reduction, beta=beta)", constants="reduction")
class SmoothL1Loss(_Loss):
    """(x - y)^2 / (2 beta) where |x - y| < beta, else |x - y| - beta / 2."""

    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"
    beta: float = 1.0


@layer("huber_loss(input, target, reduction=reduction, delta=delta)")
class HuberLoss(_Loss):
    """(x - y)^2 / 2 where |x - y| < delta, else delta (|x - y| - delta / 2)."""

    reduction: str = "mean"
    delta: float = 1.0

    def _settle(self):
        if not isinstance(self.delta, (float, int)):
            raise TypeError(f"delta must be a float or int, got: {type(self.delta)}")


@layer()
class PoissonNLLLoss(_Loss):
    """exp(x) - y x: target y is distributed as Poisson's law says, with logarithm of the rate x."""

    log_input: bool = True
    full: bool = False
    size_average: Any = None
    eps: float = 1e-8
    reduce: Any = None
    reduction: str = "mean"

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        eps, reduction = self.eps, self.reduction
        return F.poisson_nll_loss(
            log_input, target, self.log_input, self.full, eps=eps, reduction=reduction
        )


@layer(
    "gaussian_nll_loss(input, target, var, full=full, eps=eps, reduction=reduction)",
    takes="input: Tensor, target: Tensor, var: Tensor | float",
    kw_only=True,
)
class GaussianNLLLoss(_Loss):
    """(log(var) + (x - y)^2 / var) / 2: target y is normal around x."""

    full: bool = False
    eps: float = 1e-6
    reduction: str = "mean"


@layer("kl_div(input, target, reduction=reduction, log_target=log_target)", constants="reduction")
class KLDivLoss(_Loss):
    """y (log(y) - x), from logarithms x of probabilities to probabilities y."""

    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"
    log_target: bool = False


@layer("binary_cross_entropy(input, target, weight, reduction=reduction)")
class BCELoss(_WeightedLoss):
    """-(y log(x) + (1 - y) log(1 - x)), for probabilities x."""

    __constants__ = ["reduction"]


@layer(
    "binary_cross_entropy_with_logits(input, target, weight, reduction=reduction,"
    " pos_weight=pos_weight)"
)
class BCEWithLogitsLoss(_Loss):
    """BCELoss of sigmoid(x), without overflow; pos_weight multiplies what positive targets add."""

    _kept = ("reduction", "weight", "pos_weight")

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        for name, tensor in (("weight", weight), ("pos_weight", pos_weight)):
            self.register_buffer(name, tensor)


# -- of classes ----------------------------------------------------------------------------------


@layer("nll_loss(input, target, weight, ignore_index=ignore_index, reduction=reduction)")
class NLLLoss(_WeightedLoss):
    """-weight[y] x[y], for logarithms of probabilities x (N, C, ...) and classes y (N, ...)."""

    weight: Tensor | None = None
    size_average: Any = None
    ignore_index: int = -100
    reduce: Any = None
    reduction: str = "mean"


class NLLLoss2d(NLLLoss):
    """The old name of NLLLoss for images."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: Any = None,
        ignore_index: int = -100,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        warnings.warn(
            "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in replacement"
            " and see https://pytorch.org/docs/main/nn.html#torch.nn.NLLLoss for more details.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


@layer(
    "cross_entropy(input, target, weight, ignore_index=ignore_index, reduction=reduction,"
    " label_smoothing=label_smoothing)"
)
class CrossEntropyLoss(_WeightedLoss):
    """-log of the share that softmax gives to the target; logits (N, C, ...), target (N, ...).

    A target of floating-point numbers holds a probability for each class, shaped like the logits.
    """

    weight: Tensor | None = None
    size_average: Any = None
    ignore_index: int = -100
    reduce: Any = None
    reduction: str = "mean"
    label_smoothing: float = 0.0


class LinearCrossEntropyLoss(_WeightedLoss):
    """CrossEntropyLoss of the logits of a linear layer, which belongs to the loss.

    input (N, in_features) or (in_features,), target (N, *out_features).
    """

    __constants__ = ["num_classes", "out_features", "reduction", "ignore_index", "label_smoothing"]

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            shape = tuple(weight.shape)
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {shape}")
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(
                f"expected label_smoothing to be in range [0, 1], got {label_smoothing}"
            )
        super().__init__(weight, reduction=reduction)
        rows = math.prod((num_classes, *out_features))
        self.linear = Linear(in_features, rows, bias, device, dtype)
        self.num_classes, self.out_features = num_classes, out_features
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        linear, shape = self.linear, (self.num_classes, *self.out_features)
        return F.linear_cross_entropy(
            input,
            linear.weight.reshape(*shape, linear.in_features),
            target,
            linear_bias=None if linear.bias is None else linear.bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        linear = self.linear
        rest = told(self, "ignore_index", "label_smoothing", "options")
        return (
            f"in_features={linear.in_features}, {told(self, 'num_classes', 'out_features')}, "
            f"bias={linear.bias is not None}, reduction={self.reduction}, {rest}"
        )


@layer(
    "ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)",
    takes="log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any",
    constants="blank reduction",
)
class CTCLoss(_Loss):
    """-log of the probability of a label sequence, summed over all its alignments with the input.

    log_probs (T, N, C), targets (N, S) or all labels in a row.
    """

    blank: int = 0
    reduction: str = "mean"
    zero_infinity: bool = False
