"""ReduceLROnPlateau: the rate goes down when a measure has stopped to improve."""

import math
import warnings
from typing import Any, Literal, SupportsFloat

from flambeau.optim.lr_scheduler.scheduler import (
    EPOCH_DEPRECATION_WARNING,
    LRScheduler,
    check_optimizer,
    rates,
    write,
)
from flambeau.optim.optimizer import Optimizer


class ReduceLROnPlateau(LRScheduler):
    """Times factor after patience epochs without progress.

    Args:
        mode: "min" if less is better, "max" if more is.
        threshold: how much better counts, as a part of the best value (threshold_mode "rel") or
            as a number ("abs").
        cooldown: epochs to wait after a reduction before counting again.
        eps: smaller changes are not made.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: Literal["min", "max"] = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: Literal["rel", "abs"] = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        check_optimizer(optimizer)
        self.optimizer, self.factor = optimizer, factor
        several = isinstance(min_lr, (list, tuple))
        self.default_min_lr = None if several else min_lr
        count = len(optimizer.param_groups)
        self.min_lrs = list(min_lr) if several else [min_lr] * count  # type: ignore[arg-type]
        if len(self.min_lrs) != count:
            raise ValueError(f"expected {count} min_lrs, got {len(self.min_lrs)}")
        self.patience, self.cooldown, self.eps = patience, cooldown, eps
        self.last_epoch, self._last_lr = 0, rates(optimizer)
        self._init_is_better(mode, threshold, threshold_mode)
        self._reset()

    def _reset(self):
        """As if no measure had been seen."""
        self.best, self.cooldown_counter, self.num_bad_epochs = self.mode_worse, 0, 0

    def step(  # type: ignore[override]
        self, metrics: SupportsFloat, epoch: int | None = None
    ) -> None:
        """Take the measure of another epoch."""
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        measure = float(metrics)  # a tensor that keeps a graph alive should not be kept
        better = self._is_better(measure, self.best)
        if better:
            self.best = measure
        waits = self.in_cooldown
        self.cooldown_counter -= waits
        self.num_bad_epochs = 0 if better or waits else self.num_bad_epochs + 1
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(self.last_epoch)
            self.num_bad_epochs, self.cooldown_counter = 0, self.cooldown
        self._last_lr = rates(self.optimizer)

    def _count_anew(self, count):
        """Groups were added: they have the same least rate, if it was told for all at once."""
        if self.default_min_lr is None:
            raise RuntimeError(
                f"The number of param groups in the `optimizer` ({count}) differs from when "
                f"`ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due to a new "
                "param group being added to the optimizer. Please modify the `min_lrs` field to "
                "match the length of the `optimizer` param groups."
            )
        self.min_lrs = [self.default_min_lr] * count

    def _reduce_lr(self, epoch):
        groups = self.optimizer.param_groups
        if len(self.min_lrs) != len(groups):
            self._count_anew(len(groups))
        for group, least in zip(groups, self.min_lrs):
            rate = float(group["lr"])
            lower = max(least, self.factor * rate)
            if rate - lower > self.eps:
                write(group, "lr", lower)

    @property
    def in_cooldown(self) -> bool:
        """Is it waiting after a reduction?"""
        return self.cooldown_counter > 0

    def _is_better(self, a, best):
        """Is a measure beyond the best one, by the threshold at least?"""
        sign = 1 if self.mode == "max" else -1
        margin = sign * self.threshold
        limit = best * (1.0 + margin) if self.threshold_mode == "rel" else best + margin
        return sign * a > sign * limit

    def _init_is_better(self, mode, threshold, threshold_mode):
        worst = {"min": math.inf, "max": -math.inf}
        if mode not in worst:
            raise ValueError("mode " + mode + " is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError("threshold mode " + threshold_mode + " is unknown!")
        self.mode_worse, self.mode = worst[mode], mode
        self.threshold, self.threshold_mode = threshold, threshold_mode

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        vars(self).update(state_dict)
        self._init_is_better(self.mode, self.threshold, self.threshold_mode)
