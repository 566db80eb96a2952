"""`torch.autograd.profiler`: a profiler of one stretch of a program.

`profile` here records from __enter__ to __exit__ and gives events, tables and traces;
`torch.profiler.profile` (profiler.py) is this one with steps and a schedule. The names for tools of
NVIDIA and Intel are here because programs mention them; they refuse to be used.
"""

import contextlib
from typing import Any

from flambeau.profiler.activities import ProfilerActivity as ProfilerActivity
from flambeau.profiler.activities import kineto_available as kineto_available
from flambeau.profiler.building import build_events
from flambeau.profiler.events import (
    MEMORY_EVENT_NAME as MEMORY_EVENT_NAME,
)
from flambeau.profiler.events import (
    EventList,
    FunctionEvent,
    FunctionEventAvg,
    MemRecordsAcc,
)
from flambeau.profiler.recording import Recorder, record_function
from flambeau.profiler.trace import TraceFacts, write_trace

__all__ = [
    "EnforceUnique",
    "EventList",
    "FunctionEvent",
    "KinetoStepTracker",
    "MemRecordsAcc",
    "emit_itt",
    "emit_nvtx",
    "load_nvprof",
    "parse_nvprof_trace",
    "profile",
    "record_function",
]

_enabled = 0


def is_enabled() -> bool:
    """Does a profiler run?"""
    return _enabled > 0


class profile:
    """Records ops and what they take, between entering and leaving a block.

    Args:
        enabled: False makes it do nothing.
        record_shapes: note the sizes of inputs.
        with_flops: estimate operations of products and convolutions.
        profile_memory: note memory of results, taken and given back.
        with_stack: note where calls come from.
        with_modules: note which module a call is in.

    Example:
        >>> x = flambeau.ones(2, requires_grad=True)
        >>> with flambeau.autograd.profiler.profile() as prof:
        ...     (x * 2).sum().backward()
        >>> "MulBackward0" in prof.key_averages().table(sort_by="self_cpu_time_total")
        True
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Any = None,
        post_processing_timeout_s: float | None = None,
        activity_filters: Any = None,
    ) -> None:
        self.enabled = enabled
        self.entered = False
        self.record_shapes = record_shapes or with_flops
        self.with_flops, self.profile_memory = with_flops, profile_memory
        self.with_stack, self.with_modules = with_stack, with_modules
        self.use_cpu, self.acc_events = use_cpu, acc_events
        self.use_device = "cuda" if use_cuda or use_device == "cuda" else None
        self.experimental_config = experimental_config
        self.custom_trace_id_callback = custom_trace_id_callback
        self.trace_id = ""
        self.metadata: dict[str, Any] = {}
        self._recorder: Recorder | None = None
        self._facts: TraceFacts | None = None
        self._events: EventList | None = None

    # -- start and stop ------------------------------------------------------------------------
    def __enter__(self) -> "profile":
        if not self.enabled:
            return self
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self._start_trace()
        return self

    def _start_trace(self) -> None:
        global _enabled
        self.entered = True
        _enabled += 1
        self._recorder = Recorder(
            shapes=self.record_shapes,
            memory=self.profile_memory,
            stack=self.with_stack,
            flops=self.with_flops,
            modules=self.with_modules,
            all_threads=getattr(self.experimental_config, "profile_all_threads", False),
            gpu=self.use_device == "cuda",
        )
        self._recorder.start()

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        global _enabled
        if not self.enabled or self._recorder is None:
            return
        self._recorder.stop()
        _enabled -= 1
        self._facts = TraceFacts(self._recorder, self.metadata)
        if self.custom_trace_id_callback is not None:
            self._facts.trace_id = self.custom_trace_id_callback()
        self.trace_id = self._facts.trace_id
        earlier, self._events = self._events, None
        if self.acc_events:
            self._events = self._built()
            self._events[:0] = earlier or []

    def _built(self) -> EventList:
        assert self._recorder is not None
        events = build_events(self._recorder)
        events._trace = self._facts
        return events

    # -- results -------------------------------------------------------------------------------
    @property
    def function_events(self) -> EventList:
        """Events, built when first asked for."""
        if self._events is None:
            if self._facts is None:
                raise RuntimeError("Profiler didn't finish running")
            self._events = self._built()
        return self._events

    def __repr__(self):
        if self._facts is None:
            return "<unfinished torch.autograd.profile>"
        return repr(self.function_events)

    def __str__(self):
        if self._facts is None:
            return "<unfinished torch.autograd.profile>"
        return str(self.function_events)

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """All events as a table of text."""
        return self.function_events.table(
            sort_by=sort_by,
            row_limit=row_limit,
            max_src_column_width=max_src_column_width,
            max_name_column_width=max_name_column_width,
            max_shapes_column_width=max_shapes_column_width,
            header=header,
            top_level_events_only=top_level_events_only,
        )

    def export_chrome_trace(
        self, path: str, metadata: dict[str, Any] | None = None, use_python_export: bool = False
    ) -> None:
        """Write a trace for chrome://tracing or Perfetto."""
        self.metadata.update(metadata or {})
        write_trace(path, self.function_events)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write call stacks with their times, for flame graphs; wants with_stack=True."""
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        self.function_events.export_stacks(path, metric)

    def toggle_collection_dynamic(self, enabled: bool, activities: Any) -> None:
        """Stop or go on recording within a block."""
        recorder = self._recorder
        if recorder is not None and ProfilerActivity.CPU in set(activities):
            (recorder.resume if enabled else recorder.pause)()

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Events summed up by name."""
        return self.function_events.key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def kernel_averages(self) -> EventList:
        """Native kernels summed up by name."""
        return self.function_events.kernel_averages()

    def total_average(self) -> FunctionEventAvg:
        """All events summed up."""
        return self.function_events.total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events."""
        return self.function_events.self_cpu_time_total


# -- names for tools of others ---------------------------------------------------------------------


class _Elsewhere(contextlib.AbstractContextManager):
    tool = ""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled, self.record_shapes = enabled, record_shapes

    def __enter__(self):
        if self.enabled:
            raise RuntimeError(
                f"{type(self).__name__} annotates programs for {self.tool}, which flambeau does "
                "not speak to. Use flambeau.profiler.profile and a trace viewer instead."
            )
        return self

    def __exit__(self, *error: Any) -> None:
        pass


class emit_nvtx(_Elsewhere):
    """Annotations for NVIDIA's tools; refuses to be used."""

    tool = "NVIDIA's nvprof"


class emit_itt(_Elsewhere):
    """Annotations for Intel's tools; refuses to be used."""

    tool = "Intel VTune"


def parse_nvprof_trace(path: str) -> Any:
    """Events of a file that nvprof wrote; there are none."""
    raise RuntimeError("files of nvprof cannot be read: flambeau does not write them either")


def load_nvprof(path: str) -> EventList:
    """Open a file that nvprof wrote; refuses."""
    return EventList(parse_nvprof_trace(path))


class EnforceUnique:
    """Raises an error if a key is seen twice."""

    def __init__(self) -> None:
        self.seen: set = set()

    def see(self, *key: Any) -> None:
        if key in self.seen:
            raise RuntimeError("duplicate key: " + str(key))
        self.seen.add(key)


class KinetoStepTracker:
    """A count of steps that several parts of a program advance together."""

    _current_step = 0
    _step_dict: dict[str, int] = {}

    @classmethod
    def init_step_count(cls, requester: str) -> None:
        cls._step_dict[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        return cls._step_dict.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        cls._step_dict[requester] = cls._step_dict.get(requester, cls._current_step) + 1
        cls._current_step = max(cls._current_step, *cls._step_dict.values())
        return cls._current_step

    @classmethod
    def current_step(cls) -> int:
        return cls._current_step
