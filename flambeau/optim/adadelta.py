"""Adadelta."""

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
        params,
        lr=1.0,
        rho=0.9,
        eps=1e-6,
        weight_decay=0,
        foreach=None,
        *,
        capturable=False,
        maximize=False,
        differentiable=False,
    ):
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
