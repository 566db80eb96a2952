"""CyclicLR: rates go up and down between two bounds, and the momentum down and up (Smith, 2015)."""

import math
from collections.abc import Callable
from types import FunctionType
from typing import Any, Literal

from flambeau._tensor import Tensor
from flambeau.optim.lr_scheduler.scheduler import LRScheduler, check_optimizer, per_group, write
from flambeau.optim.optimizer import Optimizer


def check_momentum(optimizer):
    """Is there a momentum to cycle? Says whether it is the first of the betas."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
        )
    return "betas" in optimizer.defaults


def write_momentum(group, use_beta1, value):
    if use_beta1:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


def momentum_bounds(optimizer, base_momentum, max_momentum):
    """The least and the largest momentum of every group."""
    tops = per_group("max_momentum", optimizer, max_momentum)
    return per_group("base_momentum", optimizer, base_momentum), tops


def start_momentum(optimizer, use_beta1, bottoms, tops):
    """Groups start with the largest momentum, and note both bounds."""
    for group, bottom, top in zip(optimizer.param_groups, bottoms, tops):
        write_momentum(group, use_beta1, top)
        group.update(max_momentum=top, base_momentum=bottom)


def _triangular(x):
    return 1.0


def _triangular2(x):
    return 1 / (2.0 ** (x - 1))


class CyclicLR(LRScheduler):
    """Straight up from base_lr to max_lr in step_size_up steps, and down in step_size_down.

    Args:
        mode: "triangular" keeps the height, "triangular2" halves it every cycle, "exp_range" scales
            it by gamma ** step.
        scale_fn: the height of a cycle as a function of what scale_mode names, in place of mode.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: Literal["triangular", "triangular2", "exp_range"] = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: Literal["cycle", "iterations"] = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        bottoms = per_group("base_lr", optimizer, base_lr)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        if scale_fn is None and mode not in ("triangular", "triangular2", "exp_range"):
            raise ValueError("mode is invalid and scale_fn is None")
        for group, bottom in zip(optimizer.param_groups, bottoms if last_epoch == -1 else ()):
            write(group, "lr", bottom)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        self.mode, self.gamma = mode, gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        self._init_scale_fn()
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = check_momentum(optimizer)
            momenta = momentum_bounds(optimizer, base_momentum, max_momentum)
            self.base_momentums, self.max_momentums = momenta
            if last_epoch == -1:
                start_momentum(optimizer, self.use_beta1, *momenta)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = bottoms

    def _init_scale_fn(self):
        if self._scale_fn_custom is not None:
            self._scale_fn_ref = None
        elif self.mode == "exp_range":
            self._scale_fn_ref = lambda x, gamma=self.gamma: gamma**x
            self.scale_mode = "iterations"
        else:
            self._scale_fn_ref = _triangular if self.mode == "triangular" else _triangular2
            self.scale_mode = "cycle"

    def scale_fn(self, x: float) -> float:
        """The height of cycle or step x, as a part of the whole."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        return self._scale_fn_ref(x)

    def get_lr(self) -> list[float | Tensor]:
        self._current()
        turns = 1 + self.last_epoch / self.total_size
        cycle = math.floor(turns)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        ratio = self.step_ratio
        part = x / ratio if x <= ratio else (x - 1) / (ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for bottom, top, group in zip(
                self.base_momentums, self.max_momentums, self.optimizer.param_groups
            ):
                write_momentum(group, self.use_beta1, top - (top - bottom) * part * scale)
        return [
            bottom + (top - bottom) * part * scale
            for bottom, top in zip(self.base_lrs, self.max_lrs)
        ]

    def state_dict(self) -> dict[str, Any]:
        """All fields but the optimizer; an object as scale_fn as a copy of its fields."""
        found = super().state_dict()
        found.pop("_scale_fn_ref")
        function = found.pop("_scale_fn_custom")
        saves = function is not None and not isinstance(function, FunctionType)
        found["_scale_fn_custom"] = function.__dict__.copy() if saves else None
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave; a function as scale_fn stays that of this scheduler."""
        fields = state_dict["_scale_fn_custom"]
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        if fields is not None:
            self._scale_fn_custom.__dict__.update(fields)
        self._init_scale_fn()
