"""Averaged stochastic gradient descent."""

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


class ASGD(RuleOptimizer):
    """Gradient descent that also keeps the average of the parameters it came through."""

    rule = "asgd"
    repeats = False
    late_options = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_tensor_lr(lr)
        check_range(lr, "learning rate")
        check_range(weight_decay, "weight_decay value")
        defaults = dict(
            lr=lr,
            lambd=lambd,
            alpha=alpha,
            t0=t0,
            weight_decay=weight_decay,
            foreach=foreach,
            maximize=maximize,
            differentiable=differentiable,
            capturable=capturable,
        )
        super().__init__(params, defaults)

    def _fresh(self, group, param):
        return {
            "step": counter(),
            "eta": counter(float(number(group["lr"]))),
            "mu": counter(1.0),
            "ax": zeros_like(param),
        }

    def _key(self, group, state):
        return state["step"].item() + 1, state["eta"].item(), state["mu"].item()

    def _facts(self, group, key):
        _, eta, mu = key
        return {
            "kept": 1 - group["lambd"] * eta,
            "eta": eta,
            "mu": mu,
            "weight_decay": group["weight_decay"],
            "maximize": group["maximize"],
            "decays": group["weight_decay"] != 0,
            "averages": mu != 1,
        }

    def _after(self, group, key, rows):
        step, lr = key[0], number(group["lr"])
        eta = lr / ((1 + group["lambd"] * lr * step) ** group["alpha"])
        mu = 1 / max(1, step - group["t0"])
        found = super()._after(group, key, rows)
        for name, value in (("eta", eta), ("mu", mu)):
            found.append(("replaced", [[row[2][name] for row in rows]], [float(value)], ()))
        return found
