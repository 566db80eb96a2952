"""Adam, and the part that AdamW shares."""

from collections.abc import Iterable
from typing import Any

from flambeau._tensor import Tensor
from flambeau.optim.ruled import (
    RuleOptimizer,
    check_betas,
    check_fused,
    check_range,
    check_tensor_lr,
    counter,
    number,
    zeros_like,
)


class Adam(RuleOptimizer):
    """Adam: steps along a running mean of gradients, scaled by a running mean of their squares."""

    rule = "adam"
    late_options = {
        "amsgrad": False,
        "maximize": False,
        "foreach": None,
        "capturable": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
        "fused": None,
    }

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and foreach and not capturable:
            raise ValueError(
                "lr as a Tensor is not supported for capturable=False and foreach=True"
            )
        check_tensor_lr(lr)
        check_range(lr, "learning rate")
        check_range(eps, "epsilon value")
        check_betas(betas)
        check_range(weight_decay, "weight_decay value")
        self._check_beta_types(betas, foreach, capturable)
        defaults = dict(
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=amsgrad,
            maximize=maximize,
            foreach=foreach,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=decoupled_weight_decay,
        )
        super().__init__(params, defaults)
        check_fused(fused, foreach, differentiable)

    @staticmethod
    def _check_beta_types(betas, foreach, capturable):
        tensors = [isinstance(b, Tensor) for b in betas]
        if not (all(tensors) or all(isinstance(b, float) for b in betas)):
            raise ValueError("betas must be either both floats or both Tensors")
        for k in (0, 1):
            if tensors[k]:
                if foreach and not capturable:
                    raise ValueError(
                        f"betas[{k}] as a Tensor is not supported for capturable=False and "
                        "foreach=True"
                    )
                if betas[k].numel() != 1:
                    raise ValueError(f"Tensor betas[{k}] must be 1-element")

    def _fresh(self, group, param):
        state = {
            "step": counter(),
            "exp_avg": zeros_like(param),
            "exp_avg_sq": zeros_like(param),
        }
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_like(param)
        return state

    def _facts(self, group, step):
        options = (*group["betas"], group["lr"], group["weight_decay"])
        beta1, beta2, lr, decay = options if group["differentiable"] else map(number, options)
        return {
            "step_size": lr / (1 - beta1**step),
            "rest1": 1 - beta1,
            "beta2": beta2,
            "rest2": 1 - beta2,
            "eps": group["eps"],
            "weight_decay": decay,
            "kept": 1 - lr * decay,
            "root": (1 - beta2**step) ** 0.5,
            "maximize": group["maximize"],
            "decays": decay != 0,
            "decoupled": group["decoupled_weight_decay"],
        }
