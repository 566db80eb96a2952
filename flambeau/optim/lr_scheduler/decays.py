"""Schedulers that lead from one factor to another within total_iters epochs."""

from flambeau.optim.lr_scheduler.scheduler import FactorScheduler
from flambeau.optim.optimizer import Optimizer


class ConstantLR(FactorScheduler):
    """The initial rate times factor, until total_iters epochs have passed."""

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 <= factor <= 1:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _growth(self):
        if self.last_epoch == 0:
            return self.factor
        return 1.0 / self.factor if self.last_epoch == self.total_iters else None

    def _factor(self):
        return self.factor if self.last_epoch < self.total_iters else 1.0


class LinearLR(FactorScheduler):
    """The initial rate times a factor that goes straight from start_factor to end_factor."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal "
                "to 1."
            )
        if not 0 <= end_factor <= 1:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _growth(self):
        epoch, length = self.last_epoch, self.total_iters
        if epoch == 0:
            return self.start_factor
        if epoch > length or self._is_initial:
            return None
        rise = self.end_factor - self.start_factor  # within `length` epochs
        return 1.0 + rise / (length * self.start_factor + (epoch - 1) * rise)

    def _factor(self):
        rise = self.end_factor - self.start_factor
        return self.start_factor + rise * min(self.last_epoch, self.total_iters) / self.total_iters


class PolynomialLR(FactorScheduler):
    """The initial rate times (1 - epoch / total_iters) ** power."""

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def _left(self, epoch):
        return 1.0 - epoch / self.total_iters

    def _growth(self):
        if self.last_epoch > self.total_iters or self._is_initial:
            return None
        return (self._left(self.last_epoch) / self._left(self.last_epoch - 1)) ** self.power

    def _factor(self):
        return self._left(min(self.last_epoch, self.total_iters)) ** self.power
