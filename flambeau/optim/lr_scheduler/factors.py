"""Schedulers that multiply by a factor: one of the user's, or a constant at certain epochs."""

from collections import Counter
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from flambeau._tensor import Tensor
from flambeau.optim.lr_scheduler.scheduler import FactorScheduler, LRScheduler
from flambeau.optim.optimizer import Optimizer


class _FactorPerGroup(LRScheduler):
    """One callable per group. Objects save their fields; plain functions cannot be saved."""

    lr_lambdas: list[Callable[[int], float]]

    def _set_lambdas(self, optimizer, lr_lambda):
        self.optimizer = optimizer
        count = len(optimizer.param_groups)
        if not isinstance(lr_lambda, (list, tuple)):
            self.lr_lambdas = [lr_lambda] * count
        elif len(lr_lambda) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(lr_lambda)}")
        else:
            self.lr_lambdas = list(lr_lambda)

    def state_dict(self) -> dict[str, Any]:
        """All fields but the optimizer and functions; objects as copies of their fields."""
        found = super().state_dict()
        del found["lr_lambdas"]
        found["lr_lambdas"] = [
            None if isinstance(f, FunctionType) else f.__dict__.copy() for f in self.lr_lambdas
        ]
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave; functions stay those of this scheduler."""
        lambdas = state_dict["lr_lambdas"]
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for function, fields in zip(self.lr_lambdas, lambdas, strict=True):
            if fields is not None:
                function.__dict__.update(fields)


class LambdaLR(_FactorPerGroup):
    """The initial rate times lr_lambda(epoch)."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        self._set_lambdas(optimizer, lr_lambda)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        self._current()
        return [base * f(self.last_epoch) for base, f in zip(self.base_lrs, self.lr_lambdas)]


class MultiplicativeLR(_FactorPerGroup):
    """The rate of the epoch before times lr_lambda(epoch)."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        self._set_lambdas(optimizer, lr_lambda)
        for function in self.lr_lambdas:
            if not callable(function):
                raise TypeError(
                    f"lr_lambda should be a function, but got {type(function).__name__}"
                )
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        current = self._current()
        if self._is_initial:
            return current
        return [lr * f(self.last_epoch) for lr, f in zip(current, self.lr_lambdas, strict=True)]


class StepLR(FactorScheduler):
    """Times gamma every step_size epochs."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def _growth(self):
        steps, rest = divmod(self.last_epoch, self.step_size)
        return self.gamma if steps and not rest else None

    def _factor(self):
        return self.gamma ** (self.last_epoch // self.step_size)


class MultiStepLR(FactorScheduler):
    """Times gamma at every milestone; a milestone named twice counts twice."""

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def _growth(self):
        times = self.milestones.get(self.last_epoch)
        return None if times is None else self.gamma**times

    def _factor(self):
        passed = sum(times for epoch, times in self.milestones.items() if epoch <= self.last_epoch)
        return self.gamma**passed


class ExponentialLR(FactorScheduler):
    """Times gamma at every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _growth(self):
        return None if self._is_initial else self.gamma

    def _factor(self):
        return self.gamma**self.last_epoch
