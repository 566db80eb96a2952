"""Adafactor: the squares of gradients are kept as one row and one column per matrix.

Shazeer and Stern, Adafactor: Adaptive Learning Rates with Sublinear Memory Cost, 2018.
"""

import math
from collections.abc import Iterable
from typing import Any

from flambeau._dtype import finfo
from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import enable_grad, no_grad
from flambeau.optim.optimizer import Optimizer
from flambeau.optim.ruled import check_tensor_lr, counter, number


def _root_mean_square(t):
    return t.norm(2).item() / math.sqrt(t.numel())


class Adafactor(Optimizer):
    """Adafactor, without momentum.

    Args:
        beta2_decay: step ** beta2_decay is the weight of the newest squares.
        eps: the least square (None: the precision of the dtype) and the least scale of a parameter.
        d: updates are scaled down to this root mean square.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_tensor_lr(lr)
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not eps[0] >= 0.0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not eps[1] >= 0.0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        defaults = dict(
            lr=lr,
            beta2_decay=beta2_decay,
            eps=eps,
            d=d,
            weight_decay=weight_decay,
            foreach=foreach,
            maximize=maximize,
        )
        super().__init__(params, defaults)

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("foreach", None)
            for p in group["params"]:
                kept = self.state.get(p)
                if kept and not isinstance(kept["step"], Tensor):
                    kept["step"] = counter(float(kept["step"]))

    def step(self, closure=None):
        """One step; closure, where given, computes the loss once more first."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            for group in self.param_groups:
                given = [p for p in group["params"] if p.grad is not None]
                for p in given:
                    if p.is_complex():
                        raise RuntimeError("Adafactor does not support complex parameters")
                    if not self.state[p]:
                        self.state[p] = self._fresh(p.grad)
                for p in given:
                    self._update(group, p, self.state[p])
        return loss

    def _fresh(self, grad):
        state = {"step": counter()}
        if grad.dim() > 1:
            state["row_var"] = grad.new_zeros((*grad.shape[:-1], 1))
            state["col_var"] = grad.new_zeros((*grad.shape[:-2], 1, grad.shape[-1]))
        else:
            state["variance"] = grad.new_zeros(grad.shape)
        return state

    def _update(self, group, param, state):
        grad = -param.grad if group["maximize"] else param.grad
        lr, (least_square, least_scale) = number(group["lr"]), group["eps"]
        if least_square is None:
            least_square = finfo(param.dtype).eps
        state["step"] += 1
        step = state["step"].item()
        newest = step ** group["beta2_decay"]
        length = max(least_scale, _root_mean_square(param)) * min(lr, 1 / math.sqrt(step))
        if group["weight_decay"] != 0:
            param.mul_(1 - lr * group["weight_decay"])
        if grad.dim() > 1:
            row, column = state["row_var"], state["col_var"]
            # mean squares by way of norms: no matrix of squares is ever in memory
            row.lerp_(grad.norm(dim=-1, keepdim=True).square_().div_(grad.size(-1)), newest)
            column.lerp_(grad.norm(dim=-2, keepdim=True).square_().div_(grad.size(-2)), newest)
            square = row @ column
            square.div_(row.mean(dim=-2, keepdim=True).clamp_(min=least_square))
        else:
            state["variance"].lerp_(grad * grad, newest)
            square = state["variance"].clone()
        update = square.clamp_(min=least_square * least_square).rsqrt_().mul_(grad)
        shrink = max(1.0, _root_mean_square(update) / group["d"])
        param.add_(update, alpha=-length / shrink)
