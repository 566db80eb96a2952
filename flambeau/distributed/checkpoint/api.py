"""The exception of checkpoints."""

import traceback

__all__ = ["CheckpointException"]


class CheckpointException(BaseException):
    """A checkpoint could not be saved or loaded; `failures` says on which ranks, and why."""

    def __init__(
        self, msg: str, failures: dict[int, tuple[BaseException, traceback.StackSummary]]
    ) -> None:
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self) -> dict[int, tuple[BaseException, traceback.StackSummary]]:
        """rank -> (its exception, where it was raised)"""
        return self._failures

    def __str__(self) -> str:
        text = f"CheckpointException ranks:{self._failures.keys()}\n"
        for rank, (error, stack) in self._failures.items():
            text += f"Traceback (most recent call last): (RANK {rank})\n"
            text += "".join(traceback.format_list(stack))
            text += "".join(traceback.format_exception_only(type(error), error))
        return text
