"""Resilient propagation."""

from collections.abc import Iterable
from typing import Any

from flambeau._tensor import Tensor
from flambeau.eager.creation import full_like
from flambeau.optim.ruled import (
    RuleOptimizer,
    check_range,
    check_tensor_lr,
    counter,
    number,
    zeros_like,
)


class Rprop(RuleOptimizer):
    """Every element has a step size, which grows while the sign of its gradient stays."""

    rule = "rprop"
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
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_tensor_lr(lr)
        check_range(lr, "learning rate")
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = dict(
            lr=lr,
            etas=etas,
            step_sizes=step_sizes,
            foreach=foreach,
            maximize=maximize,
            differentiable=differentiable,
            capturable=capturable,
        )
        super().__init__(params, defaults)

    def _fresh(self, group, param):
        size = number(group["lr"])
        if param.dtype.is_complex:
            size = complex(size, size)
        return {
            "step": counter(),
            "prev": zeros_like(param),
            "step_size": full_like(param.detach(), size),
        }

    def _facts(self, group, step):
        return {
            "etaminus": group["etas"][0],
            "etaplus": group["etas"][1],
            "smallest": group["step_sizes"][0],
            "largest": group["step_sizes"][1],
            "maximize": group["maximize"],
        }
