"""What all losses share: `reduction`, and weights as a buffer.

`reduction` is "mean", "sum" or "none"; `size_average` and `reduce` are its old spelling.
"""

from typing import Any

from flambeau._tensor import Tensor
from flambeau.nn.modules.module import Module
from flambeau.ops.losses import old_reduction


class _Loss(Module):
    """A loss with a reduction."""

    reduction: str
    _kept: tuple[str, ...] = ("reduction",)

    def __init__(
        self, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        if size_average is not None or reduce is not None:
            reduction = old_reduction(size_average, reduce)
        self.reduction = reduction

    def extra_repr(self) -> str:
        return ""  # options of losses are not shown


class _WeightedLoss(_Loss):
    """A loss with a weight for each class or element, kept as a buffer."""

    weight: Tensor | None
    _kept = ("reduction", "weight")

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
