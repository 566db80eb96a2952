"""Schedulers along a cosine, with and without restarts (Loshchilov and Hutter, SGDR, 2016)."""

import math
import warnings
from typing import Any

from flambeau._tensor import Tensor
from flambeau.optim.lr_scheduler.scheduler import LRScheduler
from flambeau.optim.optimizer import Optimizer


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the initial rate down to eta_min in T_max epochs, and back again."""

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        current = self._current()
        if self._is_initial or self.last_epoch == 0:
            return current
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # the rate before was eta_min, so that no quotient leads on from it
            rise = 1 - math.cos(math.pi / self.T_max)
            return [
                lr + (base - self.eta_min) * rise / 2 for base, lr in zip(self.base_lrs, current)
            ]
        height, before = (
            1 + math.cos(math.pi * epoch / self.T_max)
            for epoch in (self.last_epoch, self.last_epoch - 1)
        )
        return [height / before * (lr - self.eta_min) + self.eta_min for lr in current]

    def _get_closed_form_lr(self):
        height = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines down to eta_min, each T_mult times as long as the one before.

    `step(epoch)` takes fractions of epochs, so that it can be called after every batch.
    """

    T_cur: float

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        value: Any
        for value, wanted in ((T_0, "positive integer T_0"), (T_mult, "integer T_mult >= 1")):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"Expected {wanted}, but got {value}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(
                f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}"
            )
        # T_i: the length of the period under way, T_cur: how much of it has passed
        self.T_0, self.T_i, self.T_mult = T_0, T_0, T_mult
        self.eta_min, self.T_cur = eta_min, last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use "
                "`get_last_lr()`.",
                UserWarning,
                stacklevel=2,
            )
        height = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go on by one epoch, or to any epoch."""
        if epoch is None and self.last_epoch >= 0:
            self.last_epoch += 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:  # the next period, which is T_mult times as long
                self.T_cur, self.T_i = self.T_cur % self.T_i, self.T_i * self.T_mult
        else:
            epoch = 0 if epoch is None else epoch
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            self.last_epoch = math.floor(epoch)
            self._find(epoch)
        self._write_rates(self.get_lr)

    def _find(self, epoch):
        """The period that epoch is in, and the place in it."""
        first, growth = self.T_0, self.T_mult
        if epoch < first or growth == 1:
            self.T_i, self.T_cur = first, epoch % first
            return
        # n periods before it last first * (growth**n - 1) / (growth - 1) together
        n = int(math.log(epoch / first * (growth - 1) + 1, growth))
        self.T_i = first * growth**n
        self.T_cur = epoch - first * (growth**n - 1) / (growth - 1)
