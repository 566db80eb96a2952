"""Distances and angles between vectors: PairwiseDistance and CosineSimilarity."""

from flambeau._tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.declaring import layer
from flambeau.nn.modules.module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class PairwiseDistance(Module):
    """The p-norm of x1 - x2 + eps over the last dimension: (N, D) and (N, D) give (N)."""

    __constants__ = ["norm", "eps", "keepdim"]

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


@layer("cosine_similarity(x1, x2, dim, eps)", shows="")
class CosineSimilarity(Module):
    """The cosine of the angle between x1 and x2, along one dimension."""

    dim: int = 1
    eps: float = 1e-8
