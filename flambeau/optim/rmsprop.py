"""RMSprop."""

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


class RMSprop(RuleOptimizer):
    """Steps along the gradient, divided by the root of a running mean of its squares."""

    rule = "rmsprop"
    late_options = {
        "momentum": 0,
        "centered": False,
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_tensor_lr(lr)
        check_range(lr, "learning rate")
        check_range(eps, "epsilon value")
        check_range(momentum, "momentum value")
        check_range(weight_decay, "weight_decay value")
        check_range(alpha, "alpha value")
        defaults = dict(
            lr=lr,
            momentum=momentum,
            alpha=alpha,
            eps=eps,
            centered=centered,
            weight_decay=weight_decay,
            capturable=capturable,
            foreach=foreach,
            maximize=maximize,
            differentiable=differentiable,
        )
        super().__init__(params, defaults)

    def _fresh(self, group, param):
        state = {"step": counter(), "square_avg": zeros_like(param)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_like(param)
        if group["centered"]:
            state["grad_avg"] = zeros_like(param)
        return state

    def _facts(self, group, step):
        lr = group["lr"]
        return {
            "lr": lr if group["differentiable"] else number(lr),
            "alpha": group["alpha"],
            "rest": 1 - group["alpha"],
            "eps": group["eps"],
            "weight_decay": group["weight_decay"],
            "momentum": group["momentum"],
            "maximize": group["maximize"],
            "decays": group["weight_decay"] != 0,
        }
