"""SparseAdam: Adam for gradients that are zero in most rows.

Averages move only in the rows that a gradient has; the others stay as they are, without decay.
"""

import math
from collections.abc import Iterable
from typing import Any

from flambeau._memory_format import strided
from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import enable_grad, no_grad
from flambeau.optim.optimizer import Optimizer
from flambeau.optim.ruled import check_betas, check_tensor_lr, number, rebuilt, zeros_like


class SparseAdam(Optimizer):
    """Adam that touches only the rows in which a sparse gradient has values."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check_tensor_lr(lr)
        if not number(lr) > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        defaults = dict(lr=lr, betas=betas, eps=eps, maximize=maximize)
        super().__init__(params, defaults)
        for kind, advice in (("Sparse", "requires dense"), ("Complex", "does not support complex")):
            pairs = [
                [place, k]
                for place, group in enumerate(self.param_groups)
                for k, p in enumerate(group["params"])
                if (p.layout is not strided if kind == "Sparse" else p.is_complex())
            ]
            if pairs:
                what = "parameter tensors" if kind == "Sparse" else "parameters"
                raise ValueError(f"{kind} params at indices {pairs}: SparseAdam {advice} {what}")

    def step(self, closure=None):
        """One step; closure, where given, computes the loss once more first."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            given = [p for p in group["params"] if p.grad is not None]
            if any(not p.grad.is_sparse for p in given):
                raise RuntimeError(
                    "SparseAdam does not support dense gradients, please consider Adam instead"
                )
            with no_grad():
                for p in given:
                    self._update(group, p)
        return loss

    def _update(self, group, p):
        state = self.state[p]
        if not state:
            state.update(step=0, exp_avg=zeros_like(p), exp_avg_sq=zeros_like(p))
        state["step"] += 1
        grad = p.grad.coalesce()
        if not grad._nnz():
            return
        grad = -grad if group["maximize"] else grad
        (first, second), count, values = group["betas"], state["step"], grad._values()
        mean = self._moved(state["exp_avg"], grad, values, first)
        square = self._moved(state["exp_avg_sq"], grad, values.pow(2), second)
        root = square.sqrt().add_(group["eps"])
        rate = number(group["lr"]) * math.sqrt(1 - second**count) / (1 - first**count)
        p.add_(rebuilt(grad, mean.div_(root).mul_(-rate)))

    def _moved(self, average, grad, values, beta):
        """An average moves towards new values in the rows of a gradient; those rows of it."""
        old = average.sparse_mask(grad)._values()
        change = (values - old).mul_(1 - beta)
        average.add_(rebuilt(grad, change))
        return change.add_(old)
