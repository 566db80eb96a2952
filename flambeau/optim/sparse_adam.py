"""SparseAdam: Adam for gradients that are zero in most rows.

Sparse tensors do not exist here yet, so that the class can be built and saved, and a step with a
gradient is refused in PyTorch's words.
"""

from collections.abc import Iterable
from typing import Any

from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import enable_grad
from flambeau.optim.optimizer import Optimizer
from flambeau.optim.ruled import check_betas, check_tensor_lr, number


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
        pairs = [
            [place, k]
            for place, group in enumerate(self.param_groups)
            for k, p in enumerate(group["params"])
            if p.is_complex()
        ]
        if pairs:
            raise ValueError(
                f"Complex params at indices {pairs}: SparseAdam does not support complex parameters"
            )

    def step(self, closure=None):
        """Refuses dense gradients."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        if any(p.grad is not None for group in self.param_groups for p in group["params"]):
            raise RuntimeError(
                "SparseAdam does not support dense gradients, please consider Adam instead"
            )
        return loss
