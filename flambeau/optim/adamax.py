"""Adamax."""

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


class Adamax(RuleOptimizer):
    """Adam with the largest gradient of late in place of the mean of squares."""

    rule = "adamax"
    late_options = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
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
            foreach=foreach,
            maximize=maximize,
            differentiable=differentiable,
            capturable=capturable,
        )
        super().__init__(params, defaults)

    def _fresh(self, group, param):
        return {"step": counter(), "exp_avg": zeros_like(param), "exp_inf": zeros_like(param)}

    def _facts(self, group, step):
        beta1, beta2 = group["betas"]
        lr = group["lr"]
        lr = lr if group["differentiable"] else number(lr)
        return {
            "step_size": lr / (1 - beta1**step),
            "rest1": 1 - beta1,
            "beta2": beta2,
            "eps": group["eps"],
            "weight_decay": group["weight_decay"],
            "maximize": group["maximize"],
            "decays": group["weight_decay"] != 0,
        }
