"""Muon: momentum whose steps are made orthogonal by a Newton-Schulz iteration (Jordan, 2024)."""

import math
from collections.abc import Iterable
from typing import Any

from flambeau.autograd.grad_mode import enable_grad, no_grad
from flambeau.eager.methods import function
from flambeau.optim.optimizer import Optimizer
from flambeau.optim.ruled import check_tensor_lr, number, zeros_like


def _orthogonal(matrix, coefficients, steps, eps):
    """About U V^T of the singular value decomposition, in bfloat16.

    An odd polynomial, applied again and again, moves all singular values towards one. The
    coefficients trade accuracy for speed: values end between 0.7 and 1.2 or so.
    """
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if matrix.dim() != 2:
        raise ValueError("Input tensor gradient must be a 2D matrix")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    addmm = function("addmm")
    x = matrix.bfloat16()
    tall = matrix.size(0) > matrix.size(1)
    if tall:
        x = x.t()
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.t()
        x = addmm(x, addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.t() if tall else x


def _length(lr, adjust_lr_fn, shape):
    rows, columns = shape[:2]
    if adjust_lr_fn == "match_rms_adamw":
        return lr * (0.2 * math.sqrt(max(rows, columns)))
    return lr * math.sqrt(max(1, rows / columns))


class Muon(Optimizer):
    """Muon, for the matrices in the hidden layers of a network; it takes no other parameters.

    Args:
        ns_coefficients: of the polynomial of the Newton-Schulz iteration.
        adjust_lr_fn: how steps depend on shapes: "original" or "match_rms_adamw", which makes
            them as long as those of AdamW.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_tensor_lr(lr)
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not momentum >= 0.0:
            raise ValueError(f"momentum should be >= 0 but is: {momentum}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight decay should be >= 0 but is: {weight_decay}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        defaults = dict(
            lr=lr,
            weight_decay=weight_decay,
            momentum=momentum,
            nesterov=nesterov,
            ns_coefficients=ns_coefficients,
            eps=eps,
            ns_steps=ns_steps,
            adjust_lr_fn=adjust_lr_fn,
        )
        super().__init__(params, defaults)
        for shape in (p.shape for group in self.param_groups for p in group["params"]):
            if len(shape) != 2:
                raise ValueError(
                    "Muon only supports 2D parameters whereas we found a parameter with size: "
                    f"{shape}"
                )

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
                        raise RuntimeError("Muon does not support complex parameters")
                    if "momentum_buffer" not in self.state[p]:
                        self.state[p]["momentum_buffer"] = zeros_like(p.grad)
                for p in given:
                    self._update(group, p, self.state[p]["momentum_buffer"])
        return loss

    def _update(self, group, param, buffer):
        grad, momentum, lr = param.grad, group["momentum"], number(group["lr"])
        buffer.lerp_(grad, 1 - momentum)
        step = grad.lerp(buffer, momentum) if group["nesterov"] else buffer
        step = _orthogonal(step, group["ns_coefficients"], group["ns_steps"], group["eps"])
        param.mul_(1 - lr * group["weight_decay"])
        param.add_(step, alpha=-_length(lr, group["adjust_lr_fn"], param.shape))
