"""NAdam."""

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


class NAdam(RuleOptimizer):
    """Adam with Nesterov momentum, whose weight grows from step to step."""

    rule = "nadam"
    repeats = False
    late_options = {
        "maximize": False,
        "foreach": None,
        "capturable": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
    }

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
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
        check_range(momentum_decay, "momentum_decay value")
        defaults = dict(
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            momentum_decay=momentum_decay,
            decoupled_weight_decay=decoupled_weight_decay,
            maximize=maximize,
            foreach=foreach,
            capturable=capturable,
            differentiable=differentiable,
        )
        super().__init__(params, defaults)

    def _fresh(self, group, param):
        return {
            "step": counter(),
            "mu_product": counter(1.0),
            "exp_avg": zeros_like(param),
            "exp_avg_sq": zeros_like(param),
        }

    def _key(self, group, state):
        product = state["mu_product"]
        return state["step"].item() + 1, product if group["differentiable"] else product.item()

    def _momentum(self, group, step):
        return group["betas"][0] * (1.0 - 0.5 * 0.96 ** (step * group["momentum_decay"]))

    def _facts(self, group, key):
        step, product = key
        beta1, beta2 = group["betas"]
        lr, decay = group["lr"], group["weight_decay"]
        lr = lr if group["differentiable"] else number(lr)
        now, following = self._momentum(group, step), self._momentum(group, step + 1)
        if isinstance(product, Tensor):
            product = (product * now).double()
        else:
            product = counter(product).mul_(now).item()  # rounded as the state is
        return {
            "rest1": 1 - beta1,
            "beta2": beta2,
            "rest2": 1 - beta2,
            "eps": group["eps"],
            "weight_decay": decay,
            "kept": 1 - lr * decay,
            "correction": 1 - beta2**step,
            "gradient_step": lr * (1.0 - now) / (1.0 - product),
            "average_step": lr * following / (1.0 - product * following),
            "maximize": group["maximize"],
            "decays": decay != 0,
            "decoupled": group["decoupled_weight_decay"],
        }

    def _after(self, group, key, rows):
        products = [row[2]["mu_product"] for row in rows]
        if group["differentiable"]:
            for product in products:
                product.mul_(self._momentum(group, key[0]))
            return super()._after(group, key, rows)
        grown = "scaled", [products], [self._momentum(group, key[0])], ()
        return [*super()._after(group, key, rows), grown]
