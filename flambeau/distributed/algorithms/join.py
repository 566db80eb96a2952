"""Join: processes with different numbers of inputs train together.

In every step those that still have inputs count themselves. A process that has run out goes on to
take part in the collectives of others, through the hooks of what was joined, until all are done.
"""

import warnings
from typing import Any, ClassVar

import flambeau
from flambeau import distributed

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """What a process without inputs does."""

    def main_hook(self) -> None:
        """In every step of the others."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """When all are done."""


class _Config:
    """What a joinable object knows of the context around it."""

    def __init__(self, enable=False, by_initial_size=True, first=False, throw=False):
        self.enable, self.by_initial_size = enable, by_initial_size
        self.first, self.throw = first, throw
        self.active = 0


class Joinable:
    """Something that can be joined: it has `join_hook`, `join_device` and `join_process_group`."""

    _join_config: Any

    def __init__(self) -> None:
        self._join_config = _Config()


class Join:
    """A context in which processes may run out of inputs at different times.

    Args:
        joinables: the objects whose collectives must be matched.
        enable: False if inputs are known to be even.
        throw_on_early_termination: raise everywhere when the first process runs out.
    """

    current: ClassVar[Any] = None

    def __init__(
        self,
        joinables: list,
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables, self._enable = joinables, enable
        self._throw = throw_on_early_termination
        self._hooks = [each.join_hook(**kwargs) for each in joinables]
        self._group = joinables[0].join_process_group
        for k, each in enumerate(joinables):
            each._join_config = _Config(
                enable,
                kwargs.get("divide_by_initial_world_size", True),
                k == 0,
                throw_on_early_termination,
            )

    def __enter__(self) -> "Join":
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if not self._enable or kind is not None:
            self._end()
            return
        warned, steps, last = False, 0, True
        while True:
            count = flambeau.zeros(1, dtype=flambeau.int64)
            distributed.all_reduce(count, group=self._group)
            active = int(count)
            if active == 0:
                break
            if self._throw:
                self._agree(True)
                raise RuntimeError(
                    "Detected at least one rank that exhausted inputs. Throwing across all ranks."
                )
            last, steps = False, steps + 1
            if steps > 1000 and not warned:
                warned = True
                warnings.warn(
                    "Detected uneven input skew of greater than 1000. This means that a rank has "
                    "at least 1000 fewer inputs than other currently-active ranks.",
                    stacklevel=2,
                )
            for each, hook in zip(self._joinables, self._hooks):
                each._join_config.active = active
                hook.main_hook()
        for hook in self._hooks:
            hook.post_hook(last)
        self._end()

    def _agree(self, out):
        """Has anybody run out of inputs?"""
        flag = flambeau.tensor([int(out)])
        distributed.all_reduce(flag, group=self._group)
        return int(flag) > 0

    def _end(self):
        for each in self._joinables:
            each._join_config = _Config()

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Any:
        """An object is about to communicate: this process still has inputs."""
        config = joinable._join_config
        if not config.enable or not config.first:
            return None
        group = joinable.join_process_group  # type: ignore[attr-defined]
        count = flambeau.ones(1, dtype=flambeau.int64)
        distributed.all_reduce(count, group=group)
        config.active = int(count)
        if config.throw and config.active < group.size():
            flag = flambeau.zeros(1, dtype=flambeau.int64)
            distributed.all_reduce(flag, group=group)
            raise RuntimeError(
                "Detected at least one rank that exhausted inputs. Throwing across all ranks."
            )
        return None
