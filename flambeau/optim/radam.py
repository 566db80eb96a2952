"""RAdam."""

from collections.abc import Iterable
from typing import Any

from flambeau._tensor import Tensor
from flambeau.optim.ruled import (
    RuleOptimizer,
    check_betas,
    check_range,
    check_tensor_lr,
    counter,
    number,
    zeros_like,
)


class RAdam(RuleOptimizer):
    """Adam that waits with its scaling until the scale can be trusted."""

    rule = "radam"
    late_options = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
        "capturable": False,
    }

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_tensor_lr(lr)
        check_range(lr, "learning rate")
        check_range(eps, "epsilon value")
        check_betas(betas)
        check_range(weight_decay, "weight_decay value")
        defaults = dict(
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            maximize=maximize,
            foreach=foreach,
            capturable=capturable,
            decoupled_weight_decay=decoupled_weight_decay,
            differentiable=differentiable,
        )
        super().__init__(params, defaults)

    def _fresh(self, group, param):
        return {"step": counter(), "exp_avg": zeros_like(param), "exp_avg_sq": zeros_like(param)}

    def _facts(self, group, step):
        beta1, beta2 = group["betas"]
        lr, decay = group["lr"], group["weight_decay"]
        lr = lr if group["differentiable"] else number(lr)
        second = 1 - beta2**step
        limit = 2 / (1 - beta2) - 1  # of the length of the running mean
        length = limit - 2 * step * beta2**step / second
        rectified = length > 5.0
        rectification = 1.0
        if rectified:
            rectification = (
                (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
            ) ** 0.5
        return {
            "lr": lr,
            "rest1": 1 - beta1,
            "beta2": beta2,
            "rest2": 1 - beta2,
            "eps": group["eps"],
            "weight_decay": decay,
            "kept": 1 - lr * decay,
            "correction": 1 - beta1**step,
            "root": second**0.5,
            "rectification": rectification,
            "maximize": group["maximize"],
            "decays": decay != 0,
            "decoupled": group["decoupled_weight_decay"],
            "rectified": rectified,
        }
