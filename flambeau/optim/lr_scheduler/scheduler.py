"""LRScheduler: counts epochs and writes learning rates into the groups of an optimizer.

A scheduler says in `get_lr` how rates go on from those of the last epoch, so that several of them
can act on one optimizer. `_get_closed_form_lr`, where it exists, knows the rates of any epoch at
once. Rates that are tensors are filled in place.
"""

import functools
import warnings
import weakref
from typing import Any

from flambeau._tensor import Tensor
from flambeau.optim.optimizer import Optimizer

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler. During the deprecation, if "
    "epoch is different from None, the closed form is used instead of the new chainable form, "
    "where available. Please open an issue if you are unable to replicate your use case: "
    "https://github.com/pytorch/pytorch/issues/new/choose."
)
_ORDER = "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


def check_optimizer(optimizer):
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def kept(value):
    """A copy that later writes to a rate do not reach."""
    return value.clone() if isinstance(value, Tensor) else value


def rates(optimizer, key="lr"):
    """A copy of an option of every group."""
    return [kept(group[key]) for group in optimizer.param_groups]


def write(group, key, value):
    """Set an option of a group; a tensor stays the same tensor."""
    if isinstance(group[key], Tensor):
        group[key].fill_(value)
    else:
        group[key] = value


def per_group(name, optimizer, value):
    """An option of the scheduler as a list with one entry per group."""
    groups = optimizer.param_groups
    if not isinstance(value, (list, tuple)):
        return [kept(value) for _ in groups]
    if len(value) != len(groups):
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has "
            f"{len(value)} values, param_groups has {len(groups)}."
        )
    return list(value)


def _watch_steps(optimizer):
    """From now on the optimizer notes that it was stepped: schedulers warn when it was not."""
    step = optimizer.step
    if hasattr(step, "_wrapped_by_lr_sched"):
        return
    function, owner = step.__func__, weakref.ref(optimizer)  # a strong one would be a cycle

    @functools.wraps(function)
    def watched(*args, **kwargs):
        alive = owner()
        alive._opt_called = True
        return function(alive, *args, **kwargs)

    watched._wrapped_by_lr_sched = True
    optimizer.step = watched


class LRScheduler:
    """Base class of all schedulers.

    Args:
        last_epoch: the epoch to resume after; -1 starts from the rates of the groups.
    """

    _get_lr_called_within_step: bool = False
    _is_initial: bool = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", kept(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{number}] when resuming "
                    "scheduler with last_epoch >= 0.\nThis typically happens when:\n"
                    "1. You're trying to resume training from a checkpoint but haven't properly "
                    "loaded the optimizer state\n"
                    "2. You're using last_epoch >= 0 for a fresh training run (not recommended)"
                )
        self.base_lrs: list[Any] = rates(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _watch_steps(optimizer)
        self._initial_step()

    def _initial_step(self):
        """Write the rates of the first epoch."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """All fields but the optimizer."""
        return {name: value for name, value in self.__dict__.items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[float | Tensor]:
        """The rates that were written last, one per group."""
        return self._last_lr

    def get_lr(self) -> list[float | Tensor]:
        """The rates of this epoch, from those of the epoch before."""
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Go on to the next epoch and write its rates."""
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        if self._step_count == 1:
            self._check_order()
        self._step_count += 1
        self._update_lr(epoch)

    def _check_order(self):
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            warnings.warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
                "initialization. Please, make sure to call `optimizer.step()` before "
                f"`lr_scheduler.step()`. See more details at {_ORDER}",
                UserWarning,
                stacklevel=3,
            )
        elif not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch "
                "1.1.0 and later, you should call them in the opposite order: `optimizer.step()` "
                "before `lr_scheduler.step()`.  Failure to do this will result in PyTorch "
                "skipping the first value of the learning rate schedule. See more details at "
                + _ORDER,
                UserWarning,
                stacklevel=3,
            )

    def _update_lr(self, epoch=None):
        """Go to an epoch (None: the next one) and write its rates."""
        closed = None if epoch is None else getattr(self, "_get_closed_form_lr", None)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._write_rates(closed or self.get_lr)

    def _write_rates(self, compute):
        """Write what compute() gives; get_lr knows that it was not the user who asked."""
        self._get_lr_called_within_step = True
        try:
            found = compute()
        finally:
            self._get_lr_called_within_step = False
        for group, rate in zip(self.optimizer.param_groups, found):
            write(group, "lr", rate)
        self._last_lr: list[Any] = rates(self.optimizer)

    def _current(self):
        """The rates as they stand, after a warning if a user asks instead of `step`."""
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use "
                "`get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )
        return rates(self.optimizer)


class FactorScheduler(LRScheduler):
    """Rates that are the initial ones times a factor, the same for all groups.

    Subclasses tell it in two ways: `_factor` is the factor of this epoch, `_growth` what it is to
    that of the epoch before (None: the same).
    """

    def _factor(self):
        raise NotImplementedError

    def _growth(self):
        raise NotImplementedError

    def get_lr(self) -> list[float | Tensor]:
        """The rates of this epoch, from those of the epoch before."""
        before, growth = self._current(), self._growth()
        return before if growth is None else [rate * growth for rate in before]

    def _get_closed_form_lr(self):
        factor = self._factor()
        return [base * factor for base in self.base_lrs]


class _LRScheduler(LRScheduler):
    """The name of LRScheduler in older programs."""
