"""Adagrad."""

from collections.abc import Iterable
from typing import Any

from flambeau._tensor import Tensor
from flambeau.eager.creation import full_like
from flambeau.optim.ruled import (
    RuleOptimizer,
    check_fused,
    check_range,
    check_tensor_lr,
    counter,
    number,
    rebuilt,
)


class Adagrad(RuleOptimizer):
    """Steps shrink with the root of the sum of all squared gradients."""

    rule = "adagrad"
    late_options = {"foreach": None, "maximize": False, "differentiable": False, "fused": None}

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_tensor_lr(lr)
        check_range(lr, "learning rate")
        check_range(lr_decay, "lr_decay value")
        check_range(weight_decay, "weight_decay value")
        check_range(initial_accumulator_value, "initial_accumulator_value value")
        check_range(eps, "epsilon value")
        defaults = dict(
            lr=lr,
            lr_decay=lr_decay,
            eps=eps,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            foreach=foreach,
            maximize=maximize,
            differentiable=differentiable,
            fused=fused,
        )
        super().__init__(params, defaults)
        check_fused(fused, foreach, differentiable)
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p].update(self._fresh(group, p))

    def _fresh(self, group, param):
        start = self.defaults["initial_accumulator_value"]
        if param.dtype.is_complex:
            start = complex(start, start)
        return {"step": counter(), "sum": full_like(param.detach(), start)}

    def share_memory(self) -> None:
        """Move the state to memory that processes share."""
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["sum"].share_memory_()

    def _step_sparse(self, group, param, grad):
        """Only the rows that are there grow their sums and move."""
        if group["weight_decay"] != 0:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        state = self.state[param]
        state["step"] += 1
        facts = self._facts(group, state["step"].item())
        grad = (-grad if group["maximize"] else grad).coalesce()
        total, values = state["sum"], grad._values()
        total.add_(rebuilt(grad, values.pow(2)))
        root = total.sparse_mask(grad)._values().sqrt().add_(group["eps"])
        param.add_(rebuilt(grad, values / root), alpha=-number(facts["lr"]))

    def _facts(self, group, step):
        lr = group["lr"]
        lr = lr if group["differentiable"] else number(lr)
        return {
            "lr": lr / (1 + (step - 1) * group["lr_decay"]),
            "eps": group["eps"],
            "weight_decay": group["weight_decay"],
            "maximize": group["maximize"],
            "decays": group["weight_decay"] != 0,
        }
