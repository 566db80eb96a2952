"""Stochastic gradient descent with momentum."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from flambeau._tensor import Tensor
from flambeau.eager.creation import empty_like
from flambeau.optim.ruled import (
    RuleOptimizer,
    check_fused,
    check_tensor_lr,
    number,
)


class SGD(RuleOptimizer):
    """Stochastic gradient descent, optionally with momentum or Nesterov's."""

    rule = "sgd"
    counts = False
    late_options = {
        "nesterov": False,
        "maximize": False,
        "foreach": None,
        "differentiable": False,
        "fused": False,
    }

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_tensor_lr(lr)
        if number(lr) < 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if momentum < 0.0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if number(weight_decay) < 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = dict(
            lr=lr,
            momentum=momentum,
            dampening=dampening,
            weight_decay=weight_decay,
            nesterov=nesterov,
            maximize=maximize,
            foreach=foreach,
            differentiable=differentiable,
            fused=fused,
        )
        super().__init__(params, defaults)
        check_fused(fused, foreach, differentiable)

    def _bundles(self, group, others):
        """Parameters that take their first step with momentum have no buffer yet."""
        found: dict = {}
        momentum, states = group["momentum"] != 0, self.state
        empty: dict = {}
        for p in group["params"]:
            grad = p.grad
            if grad is None:
                continue
            if grad._layout.strides is None:
                others.append((None, partial(self._step_sparse, group, p, grad)))
                continue
            state = states[p] if momentum else empty
            first = momentum and state.get("momentum_buffer") is None
            if first:  # which the state gets when it holds something
                state = {"momentum_buffer": empty_like(p.detach())}
            key = first, p._layout.dtype, grad._layout.dtype
            if key in found:
                found[key].append((p, grad, state))
            else:
                found[key] = [(p, grad, state)]
        return found

    def _step_sparse(self, group, param, grad):
        """The same on rows that are there; the momentum is as sparse as the gradients."""
        if group["maximize"]:
            grad = -grad
        if number(group["weight_decay"]) != 0:
            grad = grad.add(param, alpha=group["weight_decay"])
        if group["momentum"] != 0:
            state = self.state[param]
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = state["momentum_buffer"] = grad.detach().clone()
            else:
                buffer.mul_(group["momentum"]).add_(grad, alpha=1 - group["dampening"])
            grad = grad.add(buffer, alpha=group["momentum"]) if group["nesterov"] else buffer
        param.add_(grad, alpha=-number(group["lr"]))

    def _facts(self, group, key):
        return {
            "lr": group["lr"],
            "momentum": group["momentum"],
            "dampening": group["dampening"],
            "weight_decay": group["weight_decay"],
            "nesterov": group["nesterov"],
            "maximize": group["maximize"],
            "decays": number(group["weight_decay"]) != 0,
            "first": key,
        }

    def _after(self, group, key, rows):
        return [(None, partial(self._keep, rows))] if key else []

    def _keep(self, rows):
        """Buffers of a first step become state."""
        for param, _, state in rows:
            self.state[param].update(state)
