"""What can be profiled and when: activities, devices, and schedules of steps."""

import enum
import warnings
from collections.abc import Callable

from flambeau._device import is_there


class ProfilerActivity(enum.Enum):
    """Kinds of work a profiler can watch: the processor's and that of GPUs."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class DeviceType(enum.Enum):
    """Kinds of devices an event can belong to."""

    CPU = 0
    CUDA = 1
    XPU = 12
    MTIA = 19
    PrivateUse1 = 20

    def __str__(self):
        return f"DeviceType.{self.name}"


class ProfilerAction(enum.Enum):
    """What a profiler does in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4


class _ExperimentalConfig:
    """Options without promises; `profile_all_threads` is the one that matters here."""

    def __init__(self, *args, profile_all_threads=False, verbose=False, **options):
        self.profile_all_threads, self.verbose = profile_all_threads, verbose
        self.options = options


def supported_activities() -> set[ProfilerActivity]:
    """The activities that can be profiled on this machine."""
    found = {ProfilerActivity.CPU}
    return found | {ProfilerActivity.CUDA} if is_there("cuda") else found


def kineto_available() -> bool:
    """Can traces be recorded? They always can."""
    return True


def always_record(step: int) -> ProfilerAction:
    """The schedule of a profiler that was given none."""
    return ProfilerAction.RECORD


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """Which steps are recorded: after skip_first steps, cycles of wait, warmup and active ones.

    Args:
        repeat: how many cycles; 0 means until the end.
        skip_first_wait: if not 0, the first cycle does not wait.

    Example:
        >>> plan = flambeau.profiler.schedule(wait=1, warmup=1, active=2)
        >>> [plan(step).name for step in range(5)]
        ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if wait < 0 or warmup < 0 or active <= 0 or repeat < 0 or skip_first < 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} "
            f"(need >= 0), active={active} (need > 0), repeat={repeat} (need >= 0), "
            f"skip_first={skip_first} (need >= 0)."
        )
    if warmup == 0:
        warnings.warn(
            "Profiler won't be using warmup, this can skew profiler results", stacklevel=2
        )

    def plan(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        length = wait + warmup + active
        if repeat and step >= repeat * length:
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return plan
