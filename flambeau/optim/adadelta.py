"""Adadelta."""

from collections.abc import Iterable
from typing import Any

from flambeau._tensor import Tensor
from flambeau.optim.ruled import (
    RuleOptimizer,
    check_range,
    check_tensor_lr,
    counter,
    number,
    zeros_like,
)


class Adadelta(RuleOptimizer):
    """Steps have the size of former steps, so that no learning rate has to be found."""

    rule = "adadelta"
    late_options = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_tensor_lr(lr)
        check_range(lr, "learning rate")
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_range(eps, "epsilon value")
        check_range(weight_decay, "weight_decay value")
        defaults = dict(
            lr=lr,
            rho=rho,
            eps=eps,
            weight_decay=weight_decay,
            maximize=maximize,
            capturable=capturable,
            foreach=foreach,
            differentiable=differentiable,
        )
        super().__init__(params, defaults)

    def _fresh(self, group, param):
        return {
            "step": counter(),
            "square_avg": zeros_like(param),
            "acc_delta": zeros_like(param),
        }

    def _facts(self, group, step):
        lr = group["lr"]
        return {
            "lr": lr if group["differentiable"] else number(lr),
            "rho": group["rho"],
            "rest": 1 - group["rho"],
            "eps": group["eps"],
            "weight_decay": group["weight_decay"],
            "maximize": group["maximize"],
            "decays": group["weight_decay"] != 0,
        }
