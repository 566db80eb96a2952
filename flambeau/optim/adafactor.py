"""Adafactor: the squares of gradients are kept as one row and one column per matrix.

Shazeer and Stern, Adafactor: Adaptive Learning Rates with Sublinear Memory Cost, 2018.
"""

import math
from collections.abc import Iterable
from typing import Any

from flambeau._dtype import finfo
from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import enable_grad, no_grad
from flambeau.eager.updating import total_norm, update
from flambeau.optim.optimizer import Optimizer
from flambeau.optim.ruled import check_tensor_lr, complete, counter, number


def _root_mean_square(t):
    return total_norm([t], 2) / math.sqrt(t.numel())


def _mean_square(grad, dim):
    # by way of a norm: no matrix of squares is ever in memory
    return grad.norm(dim=dim, keepdim=True).square_().div_(grad.size(dim))


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
        if not number(lr) >= 0.0:
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
        complete(self, {"foreach": None})

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
                bundles: dict = {}
                for p in given:
                    if p.numel():
                        key = self.state[p]["step"].item(), p.dtype, p.grad.dtype
                        bundles.setdefault(key, []).append(p)
                for key, params in bundles.items():
                    self._update(group, key[0] + 1, params)
        return loss

    def _fresh(self, grad):
        state = {"step": counter()}
        if grad.dim() > 1:
            state["row_var"] = grad.new_zeros((*grad.shape[:-1], 1))
            state["col_var"] = grad.new_zeros((*grad.shape[:-2], 1, grad.shape[-1]))
        else:
            state["variance"] = grad.new_zeros(grad.shape)
        return state

    def _update(self, group, step, params):
        """Parameters of one dtype that take their step-th step."""
        lr, (least_square, least_scale) = number(group["lr"]), group["eps"]
        if least_square is None:
            least_square = finfo(params[0].dtype).eps
        states = [self.state[p] for p in params]
        update("counted", [[state["step"] for state in states]])
        squares = self._squares(states, [p.grad for p in params], step ** group["beta2_decay"])
        whitened = [
            square if scale is None else square.div_(scale.clamp(min=least_square))
            for square, scale in squares
        ]
        rate = min(lr, 1 / math.sqrt(step))
        kept = 1 - lr * group["weight_decay"]
        sign = -1.0 if group["maximize"] else 1.0
        update(
            "whitened", [whitened, [p.grad for p in params]], [least_square * least_square, sign]
        )
        for p, direction in zip(params, whitened):
            length = max(least_scale, _root_mean_square(p)) * rate
            shrink = max(1.0, _root_mean_square(direction) / group["d"])
            update("moved", [[p], [direction]], [kept, -length / shrink])

    def _squares(self, states, grads, newest):
        """Estimates of squares, each with what it is to be divided by."""
        means, values = [], []
        for state, grad in zip(states, grads):
            if "variance" in state:
                means.append(state["variance"])
                values.append(grad * grad)
            else:
                means += (state["row_var"], state["col_var"])
                values += (_mean_square(grad, -1), _mean_square(grad, -2))
        update("averaged", [means, values], [newest])
        found = []
        for state in states:
            if "variance" in state:
                found.append((state["variance"].clone(), None))
            else:
                row = state["row_var"]
                found.append((row * state["col_var"], row.mean(dim=-2, keepdim=True)))
        return found
