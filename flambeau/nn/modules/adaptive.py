"""AdaptiveLogSoftmaxWithLoss: softmax over very many classes, most of them rare.

Frequent classes have logits of their own in the head; each cluster of rare ones has one logit
there and a small network for what happens inside (Grave et al., "Efficient softmax approximation
for GPUs").
"""

from collections import namedtuple
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from flambeau._tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.container import ModuleList, Sequential
from flambeau.nn.modules.linear import Linear
from flambeau.nn.modules.module import Module
from flambeau.ops.table import public

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


def _check_cutoffs(cutoffs, n_classes):
    if not cutoffs:
        raise ValueError("cutoffs should be a sequence of length larger than 0")
    whole = all(int(c) == c for c in cutoffs)
    rising = all(a < b for a, b in pairwise([0, *cutoffs, n_classes]))
    if not (whole and rising):
        raise ValueError(
            "cutoffs should be a sequence of unique, positive integers sorted in an increasing "
            "order, where each value is between 1 and n_classes-1"
        )


class AdaptiveLogSoftmaxWithLoss(Module):
    """Logarithms of the probabilities of target classes, and the mean of their negatives.

    Classes below cutoffs[0] are in the head; each further cutoff ends a cluster, whose network has
    in_features / div_value^(number of the cluster) hidden units.

    Shape: input (N, in_features) or (in_features,), target (N) or (), output shaped like target.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        _check_cutoffs(cutoffs, n_classes)
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = cutoffs[0]
        self.n_clusters = len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for k, (first, end) in enumerate(pairwise(self.cutoffs), start=1):
            hidden = int(in_features // div_value**k)
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, False, device, dtype),
                    Linear(hidden, end - first, False, device, dtype),
                )
            )

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        self.head.reset_parameters()
        for inner, outer in self.tail:
            inner.reset_parameters()
            outer.reset_parameters()

    def _check(self, input, target):
        rank = target.ndim
        if rank > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if rank == 1 and input.shape[0] != target.shape[0]:
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if input.ndim != rank + 1:
            raise RuntimeError(
                f"{rank}D target tensor expects {rank + 1}D input tensors, but found inputs with "
                f"size torch.Size({list(input.shape)})"
            )

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """(log-probability of each target, loss)."""
        self._check(input_, target_)
        if target_.ndim == 0:
            output, loss = self.forward(input_.unsqueeze(0), target_.unsqueeze(0))
            return _ASMoutput(output.squeeze(0), loss)
        in_range = (target_ >= 0) & (target_ < self.n_classes)
        if not in_range.all().item():
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target_.min().item()}, {target_.max().item()}] were found. "
            )
        in_head, inside = target_, input_.new_zeros(target_.shape)
        for k, (first, end) in enumerate(pairwise(self.cutoffs)):
            rows = ((target_ >= first) & (target_ < end)).nonzero().squeeze(1)
            if not rows.numel():
                continue
            logprob = F.log_softmax(self.tail[k](input_.index_select(0, rows)), 1)
            own = target_.index_select(0, rows) - first
            inside = inside.index_copy(0, rows, logprob.gather(1, own.unsqueeze(1)).squeeze(1))
            in_head = in_head.index_fill(0, rows, self.shortlist_size + k)
        head = F.log_softmax(self.head(input_), 1)
        output = inside + head.gather(1, in_head.unsqueeze(1)).squeeze(1)
        return _ASMoutput(output, (-output).mean())

    def _get_full_log_prob(self, input, head_output):
        """Log-probabilities of all classes, from the logits of the head."""
        shortlist, clusters = head_output.log_softmax(1).tensor_split([self.shortlist_size], 1)
        inside = [
            network(input).log_softmax(1) + cluster
            for network, cluster in zip(self.tail, clusters.split(1, 1))
        ]
        return public("cat")([shortlist, *inside], 1)

    def log_prob(self, input: Tensor) -> Tensor:
        """Log-probabilities of all classes: (N, n_classes)."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of each row; clusters are computed only where one may win."""
        head = self.head(input)
        output = head.argmax(1)
        rare = (output >= self.shortlist_size).nonzero().squeeze(1)
        if rare.numel():
            full = self._get_full_log_prob(input.index_select(0, rare), head.index_select(0, rare))
            output.index_copy_(0, rare, full.argmax(1))
        return output
