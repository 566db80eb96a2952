"""Timer: a statement, run often enough to be measured.

Runs are timed in blocks whose own cost (reading the clock) is below a thousandth; the number of
threads is that of the task while they run.
"""

import enum
import textwrap
import timeit
from collections.abc import Callable
from typing import Any, NoReturn

import flambeau
from flambeau.utils.benchmark.utils import common

__all__ = ["Language", "Timer", "timer"]

_OVERHEAD = 1e-3  # the share of the clock in a block


def timer() -> float:
    """The time, after all devices have done what they were asked for."""
    if flambeau.accelerator.is_available():
        flambeau.accelerator.synchronize()
    return timeit.default_timer()


class Language(enum.Enum):
    """What statements are written in."""

    PYTHON = 0
    CPP = 1


def _language(given: Language | str) -> Language:
    if isinstance(given, Language):
        return given
    if given in ("py", "python"):
        return Language.PYTHON
    if given in ("cpp", "c++", "CPP"):
        return Language.CPP
    raise ValueError(f"Invalid language `{given}`.")


class Timer:
    """Measures how long a statement takes; see timeit.Timer for stmt, setup and globals.

    Threads are counted: one, unless num_threads says otherwise. label, sub_label, description and
    env name the measurement in tables (`Compare`).

    Example:
        >>> t = torch.utils.benchmark.Timer("x + 1", globals={"x": torch.ones(4)})
        >>> t.timeit(10).number_per_run
        10
    """

    _timer_cls = timeit.Timer

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if _language(language) is Language.CPP:
            raise RuntimeError("Timer measures statements in Python; there is no C++ compiler here")
        if global_setup:
            raise ValueError(
                f"global_setup is C++ only, got `{global_setup}`. Most likely this code can simply "
                "be moved to `setup`."
            )
        # a copy: timeit adds the timed function to it
        self._globals = {"torch": flambeau, **(globals or {})}
        stmt, setup = (textwrap.dedent(text).strip("\n").rstrip() for text in (stmt, setup))
        self._language = Language.PYTHON
        self._timer = self._timer_cls(stmt, setup, timer, self._globals)
        self._task_spec = common.TaskSpec(
            stmt, setup, global_setup, label, sub_label, description, env, num_threads
        )

    def _timeit(self, number: int) -> float:
        # a clock that stands still would be divided by
        return max(self._timer.timeit(number), 1e-9)

    def timeit(self, number: int = 1000000) -> common.Measurement:
        """The time of so many runs, after a few that are not counted."""
        with common.set_torch_threads(self._task_spec.num_threads):
            self._timeit(number=max(number // 100, min(2, number)))
            return self._measured(number, [self._timeit(number)])

    def _measured(self, number: int, times: list[float]) -> common.Measurement:
        return common.Measurement(number, times, self._task_spec)

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Callable[[int, float], NoReturn] | None = None) -> None:
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def blocked_autorange(
        self,
        callback: Callable[[int, float], NoReturn] | None = None,
        min_run_time: float = 0.2,
    ) -> common.Measurement:
        """Times of blocks of runs, until they add up to min_run_time seconds."""
        with common.set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(min_run_time)
            times = self._blocks(number, min_run_time, float("inf"), lambda times: True, callback)
        return self._measured(number, times)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], NoReturn] | None = None,
    ) -> common.Measurement:
        """Times of blocks, until their quartiles are within threshold of the median."""
        with common.set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(min_run_time)

            def is_enough(times: list[float]) -> bool:
                return len(times) > 3 and self._measured(number, times).meets_confidence(threshold)

            times = self._blocks(number, min_run_time, max_run_time, is_enough, callback)
        return self._measured(number, times)

    def _block_size(self, min_run_time: float) -> int:
        """Runs of a block: enough for the clock to cost little, or for all of the time."""
        clock = min(self._timeit(0) for _ in range(5))
        number = 1
        while True:
            took = self._timeit(number)
            if (clock / took <= _OVERHEAD and took >= min_run_time / 1000) or took > min_run_time:
                return number
            number *= 10

    def _blocks(
        self,
        number: int,
        least: float,
        most: float,
        is_enough: Callable[[list[float]], bool],
        callback: Callable[[int, float], NoReturn] | None,
    ) -> list[float]:
        total, times = 0.0, list[float]()
        while (total < least or not is_enough(times)) and total < most:
            times.append(self._timeit(number))
            total += times[-1]
            if callback is not None:
                callback(number, times[-1])
        return times

    def collect_callgrind(self, number: int = 100, **options: Any) -> Any:
        """Counts of instructions, which valgrind would have to tell."""
        raise OSError("Could not find `valgrind`: instructions are not counted here")
