"""The processes that save or load together: each does its part, one puts the parts together.

An error on one process must end the step on all of them, or the others would wait: every exchange
carries errors as well as results.
"""

import pickle
import traceback
from collections.abc import Callable
from typing import Any

from flambeau import distributed

from .api import CheckpointException

__all__ = ["Team"]


class Failed:
    """An error on its way to the others."""

    def __init__(self, error: BaseException) -> None:
        self.stack = traceback.extract_tb(error.__traceback__)
        self.error = error if _travels(error) else RuntimeError(f"{type(error).__name__}: {error}")


def _travels(error):
    try:
        return type(pickle.loads(pickle.dumps(error))) is type(error)
    except Exception:
        return False


def attempt(work: Callable[[], Any]) -> Any:
    """work(), or what went wrong."""
    try:
        return work()
    except Exception as error:
        return Failed(error)


class Team:
    """Members of a group, or this process alone.

    Args:
        group: who takes part; None for everybody.
        alone: no others, even if there is a process group.
        coordinator: the member that puts things together.
    """

    def __init__(self, group: Any = None, alone: bool = False, coordinator: int = 0) -> None:
        self.alone = alone or not distributed.is_initialized()
        self.group = None if self.alone else group
        self.rank = 0 if self.alone else distributed.get_rank(group)
        self.size = 1 if self.alone else distributed.get_world_size(group)
        self.coordinator = 0 if self.alone else coordinator
        self.is_coordinator = self.rank == self.coordinator

    def each(self, work: Callable[[], Any], combine: Callable[[list], list]) -> Any:
        """Everybody works, the coordinator makes of all results one for each."""
        results = self._gathered(attempt(work))
        answers: list = [None] * self.size
        if results is not None:
            answers = [self._combined(results, combine)] * self.size
            if not isinstance(answers[0], CheckpointException):
                answers = list(answers[0])
        return self._opened(self._scattered(answers))

    def all(self, work: Callable[[], Any], combine: Callable[[list], Any]) -> Any:
        """Everybody works, the coordinator makes of all results one for all."""
        return self.each(work, lambda results: [combine(results)] * self.size)

    def _combined(self, results, combine):
        failures = {k: (r.error, r.stack) for k, r in enumerate(results) if isinstance(r, Failed)}
        if not failures:
            answer = attempt(lambda: combine(results))
            if not isinstance(answer, Failed):
                return answer
            failures = {self.coordinator: (answer.error, answer.stack)}
        return CheckpointException("a step of the checkpoint failed", failures)

    def _gathered(self, result):
        if self.alone:
            return [result]
        box: list | None = [None] * self.size if self.is_coordinator else None
        distributed.gather_object(
            result, box, group=self.group, group_dst=self.coordinator, dst=None
        )
        return box

    def _scattered(self, answers):
        if self.alone:
            return answers[0]
        box: list = [None]
        distributed.scatter_object_list(
            box, answers, group=self.group, group_src=self.coordinator, src=None
        )
        return box[0]

    @staticmethod
    def _opened(answer):
        if isinstance(answer, CheckpointException):
            raise answer
        return answer
