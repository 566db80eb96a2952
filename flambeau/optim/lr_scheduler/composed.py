"""Several schedulers on one optimizer: one after the other, or all at once."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from flambeau.optim.lr_scheduler.plateau import ReduceLROnPlateau
from flambeau.optim.lr_scheduler.scheduler import LRScheduler, rates, write
from flambeau.optim.optimizer import Optimizer


def _check_members(name, schedulers, optimizer):
    """All of them step without arguments, on this optimizer."""
    for number, scheduler in enumerate(schedulers):
        own = getattr(scheduler, "optimizer", None)
        if own is None:
            raise TypeError(f"{name} at index {number} should have `optimizer` as its attribute.")
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ValueError(
                f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional "
                "kwargs to be specified when calling `step`, but got one at index "
                f"{number} in the given schedulers sequence."
            )
        if own is not optimizer:
            raise ValueError(
                f"{name} expects all schedulers to belong to the same optimizer, but got scheduler "
                f"{type(scheduler).__name__} at index {number} has {own}, which is different from "
                f"{type(optimizer).__name__}."
            )


class _Composed(LRScheduler):
    """Saves its members within its own state."""

    _schedulers: list[LRScheduler]

    def state_dict(self) -> dict[str, Any]:
        """All fields but the optimizer; members as their own state_dicts."""
        found = super().state_dict()
        del found["_schedulers"]
        found["_schedulers"] = [member.state_dict() for member in self._schedulers]
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave, member by member."""
        members = state_dict["_schedulers"]
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for member, state in zip(self._schedulers, members):
            member.load_state_dict(state)


class SequentialLR(_Composed):
    """One scheduler after the other; each milestone is the epoch at which the next one starts."""

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
    ) -> None:
        name = type(self).__name__
        members, turns = len(schedulers), len(milestones)
        if not members:
            raise ValueError(f"{name} expects at least one scheduler, but got no scheduler.")
        _check_members(name, schedulers, optimizer)
        if turns + 1 != members:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than "
                f"the number of milestone points, but got number of schedulers {members} and the "
                f"number of milestones to be equal to {turns}"
            )
        self._schedulers, self._milestones = schedulers, milestones
        self.optimizer, self.last_epoch = optimizer, last_epoch + 1
        # every member has written its first rates already: start again with the first one alone
        self.recursive_undo()
        for group in optimizer.param_groups:
            write(group, "lr", group["initial_lr"])
        first = schedulers[0]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: LRScheduler | None = None) -> None:
        """Take back the first step of all members, and of their members."""
        undone: Any = self if sched is None else sched
        below = getattr(undone, "_schedulers", None)
        for member in below or ():
            self.recursive_undo(member)
        if below is None and hasattr(undone, "last_epoch"):
            undone.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Go on to the next epoch of the scheduler whose turn it is."""
        self.last_epoch = epoch = self.last_epoch + 1
        turn = bisect_right(self._milestones, epoch)
        current: Any = self._schedulers[turn]
        starts = turn > 0 and epoch == self._milestones[turn - 1]
        current._update_lr(0) if starts else current.step()
        self._last_lr = current.get_last_lr()


class ChainedScheduler(_Composed):
    """All schedulers at every step, each going on from the rates of the one before."""

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        name = type(self).__name__
        if len(schedulers) < 1:
            raise ValueError(
                f"{name} expects at least one scheduler to be chained, but got no scheduler."
            )
        optimizer = optimizer or schedulers[0].optimizer
        _check_members(name, schedulers, optimizer)
        self._schedulers = schedulers  # type: ignore[assignment]
        self.optimizer = optimizer
        self._last_lr = rates(optimizer)

    def step(self) -> None:  # type: ignore[override]
        """One step of every scheduler."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = rates(self.optimizer)
