"""OneCycleLR: up to a high rate, then far down (Smith and Topin, Super-Convergence, 2018)."""

import math
from typing import Literal

from flambeau._tensor import Tensor
from flambeau.optim.lr_scheduler.cycles import (
    check_momentum,
    momentum_bounds,
    start_momentum,
    write_momentum,
)
from flambeau.optim.lr_scheduler.scheduler import LRScheduler, check_optimizer, per_group
from flambeau.optim.optimizer import Optimizer


def _cosine(start, end, part):
    return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)


def _straight(start, end, part):
    return (end - start) * part + start


_CURVES = {"cos": _cosine, "linear": _straight}


def _positive(value, name):
    if value <= 0 or not isinstance(value, int):
        raise ValueError(f"Expected positive integer {name}, but got {value}")
    return value


def _phase(end_step, start, end, start_momentum, end_momentum):
    return {
        "end_step": end_step,
        "start_lr": start,
        "end_lr": end,
        "start_momentum": start_momentum,
        "end_momentum": end_momentum,
    }


class OneCycleLR(LRScheduler):
    """From max_lr / div_factor up to max_lr, then down to a final_div_factor-th of the start.

    Args:
        pct_start: the part of all steps that goes up.
        three_phase: come down to the start as fast as it went up, and only then to the end.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        if total_steps is not None:
            self.total_steps = _positive(total_steps, "total_steps")
        elif epochs is not None and steps_per_epoch is not None:
            epochs = _positive(epochs, "epochs")
            self.total_steps = epochs * _positive(steps_per_epoch, "steps_per_epoch")
        else:
            raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
        up = float(pct_start * self.total_steps)
        low, high, last = ("initial_lr", "max_lr", "min_lr")
        light, heavy = "base_momentum", "max_momentum"
        self._schedule_phases = [
            _phase(up - 1, low, high, heavy, light),
            _phase(2 * up - 2, high, low, light, heavy),
            _phase(self.total_steps - 1, low, last, heavy, heavy),
        ]
        if not three_phase:
            self._schedule_phases[1:] = [_phase(self.total_steps - 1, high, last, light, heavy)]
        if not (isinstance(pct_start, float) and 0 <= pct_start <= 1):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in _CURVES:
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_func_type = anneal_strategy
        max_lrs = per_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, top in zip(optimizer.param_groups, max_lrs):
                group["initial_lr"] = top / div_factor
                group["max_lr"] = top
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = check_momentum(optimizer)
            momenta = momentum_bounds(optimizer, base_momentum, max_momentum)
            if last_epoch == -1:
                start_momentum(optimizer, self.use_beta1, *momenta)
        super().__init__(optimizer, last_epoch)

    def _anneal_func(self, start, end, part):
        if self._anneal_func_type not in _CURVES:
            raise ValueError(f"Unknown _anneal_func_type: {self._anneal_func_type}")
        return _CURVES[self._anneal_func_type](start, end, part)

    def get_lr(self) -> list[float | Tensor]:
        self._current()
        number = self.last_epoch
        if number > self.total_steps:
            raise ValueError(
                f"Tried to step {number} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        phase, part = self._place(number)

        def annealed(group, what):
            ends = (group[phase[f"{end}_{what}"]] for end in ("start", "end"))
            return self._anneal_func(*ends, part)

        groups = self.optimizer.param_groups
        for group in groups if self.cycle_momentum else ():
            write_momentum(group, self.use_beta1, annealed(group, "momentum"))
        return [annealed(group, "lr") for group in groups]

    def _place(self, number):
        """The phase that a step belongs to, and how much of it has passed."""
        ends = [phase["end_step"] for phase in self._schedule_phases]
        k = next((k for k, end in enumerate(ends) if number <= end), len(ends) - 1)
        start = ends[k - 1] if k else 0
        return self._schedule_phases[k], (number - start) / (ends[k] - start)
