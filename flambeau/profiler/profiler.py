"""`torch.profiler.profile`: profiling by steps, with a schedule, and what to do with the result."""

import gzip
import json
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from flambeau.profiler import legacy
from flambeau.profiler.activities import (
    ProfilerAction,
    ProfilerActivity,
    always_record,
    supported_activities,
)
from flambeau.profiler.events import EventList, FunctionEventAvg
from flambeau.profiler.recording import record_function

_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def tensorboard_trace_handler(
    dir_name: str,
    worker_name: str | None = None,
    use_gzip: bool = False,
    use_python_export: bool = False,
) -> Callable[["profile"], None]:
    """Writes traces into a folder, under names that TensorBoard's profiler plugin looks for.

    Give it to `profile` as on_trace_ready.
    """

    def handle(prof: "profile") -> None:
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as error:
            raise RuntimeError(f"Can't create directory: {dir_name}") from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        ending = ".gz" if use_gzip else ""
        name = f"{worker}.{time.time_ns()}.pt.trace.json{ending}"
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return handle


class _KinetoProfile:
    """A profiler without steps: start_trace, stop_trace, then results."""

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Any = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        chosen: set = set()
        for activity in activities or ():
            chosen.update(activity if isinstance(activity, dict) else (activity,))
        self.activities = chosen if activities is not None else supported_activities()
        self.record_shapes, self.profile_memory = record_shapes, profile_memory
        self.with_stack, self.with_flops = with_stack, with_flops
        self.with_modules, self.acc_events = with_modules, acc_events
        self.experimental_config = experimental_config
        self.execution_trace_observer = execution_trace_observer
        self.custom_trace_id_callback = custom_trace_id_callback
        self.profiler: legacy.profile | None = None
        self.preset_metadata: dict[str, Any] = {}

    # -- start and stop ------------------------------------------------------------------------
    def start(self) -> None:
        self.prepare_trace()
        self.start_trace()

    def stop(self) -> None:
        self.stop_trace()

    def prepare_trace(self) -> None:
        if not self.activities:
            raise AssertionError("No valid profiler activities found")
        if self.profiler is not None and self.acc_events:
            return
        self.profiler = legacy.profile(
            use_device="cuda" if ProfilerActivity.CUDA in self.activities else None,
            record_shapes=self.record_shapes,
            with_flops=self.with_flops,
            profile_memory=self.profile_memory,
            with_stack=self.with_stack,
            with_modules=self.with_modules,
            experimental_config=self.experimental_config,
            acc_events=self.acc_events,
            custom_trace_id_callback=self.custom_trace_id_callback,
        )

    def start_trace(self) -> None:
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized before starting trace")
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.start()
        self.profiler.metadata.update(self.preset_metadata)
        self.profiler._start_trace()

    def stop_trace(self) -> None:
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized before stopping trace")
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.stop()
        self.profiler.__exit__(None, None, None)

    def _ready(self, what: str) -> legacy.profile:
        if self.profiler is None:
            raise AssertionError(f"Profiler must be initialized before {what}")
        return self.profiler

    # -- results -------------------------------------------------------------------------------
    def export_chrome_trace(self, path: str, use_python_export: bool = False) -> None:
        """Write a trace for chrome://tracing or Perfetto; compressed if path ends with .gz."""
        self._ready("exporting chrome trace").export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write call stacks with their times, for flame graphs; wants with_stack=True."""
        self._ready("exporting stacks").export_stacks(path, metric)

    def toggle_collection_dynamic(
        self, enable: bool, activities: Iterable[ProfilerActivity]
    ) -> None:
        """Stop or go on recording in the middle of a step."""
        if self.profiler is not None:
            self.profiler.toggle_collection_dynamic(enable, activities)

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Events summed up by name, and by input shapes or callers on request."""
        return self._ready("getting key averages").key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def kernel_averages(self) -> EventList:
        """Native kernels summed up by name: what ops spend their time in."""
        return self._ready("getting key averages").kernel_averages()

    def total_average(self) -> FunctionEventAvg:
        """All events summed up."""
        return self._ready("getting key averages").total_average()

    def events(self) -> EventList:
        """Every event, in the order in which they began."""
        return self._ready("accessing events").function_events

    def add_metadata(self, key: str, value: str) -> None:
        """Put a text into the trace."""
        self.add_metadata_json(key, json.dumps(value))

    def add_metadata_json(self, key: str, value: str) -> None:
        """Put something into the trace, given as JSON."""
        target = self.preset_metadata if self.profiler is None else self.profiler.metadata
        target[key] = json.loads(value)

    def preset_metadata_json(self, key: str, value: str) -> None:
        """Put something into every trace from now on, given as JSON."""
        self.preset_metadata[key] = json.loads(value)

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Write how much memory was in use over time: times in microseconds, then bytes.

        Wants profile_memory=True. The path ends with .json or .json.gz.
        """
        prof = self._ready("exporting memory timeline")
        if not prof.profile_memory:
            raise ValueError(
                "profile_memory=True required to construct a memory profile: without it no memory "
                "is noted"
            )
        notes = sorted(prof._recorder.memory_notes, key=lambda n: n.time) if prof._recorder else []
        text = json.dumps([[n.time / 1e3 for n in notes], [n.total for n in notes]])
        if path.endswith(".gz"):
            with gzip.open(path, "wt") as file:
                file.write(text)
        elif path.endswith(".json"):
            with open(path, "w") as plain:
                plain.write(text)
        else:
            raise ValueError(f"the path should end with .json or .json.gz, but got {path}")


class profile(_KinetoProfile):
    """Profiles a program: which ops ran, how long, with which inputs, using how much memory.

    Args:
        activities: what is watched: ProfilerActivity.CPU and, where there is a GPU, CUDA.
        schedule: which steps are recorded (`profiler.schedule`); without one, everything is.
        on_trace_ready: called with the profiler whenever a stretch of steps has been recorded.
        record_shapes: note sizes, strides and types of inputs.
        profile_memory: note memory of results, taken and given back.
        with_stack: note where in the program calls come from.
        with_flops: estimate operations of products and convolutions.
        with_modules: note which module a call is in.

    Example:
        >>> from flambeau.profiler import ProfilerActivity, profile
        >>> x = flambeau.ones(4, 4)
        >>> with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
        ...     y = x @ x
        >>> [event.input_shapes for event in prof.events() if event.name == "aten::matmul"]
        [[[4, 4], [4, 4]]]
        >>> print(prof.key_averages().table(sort_by="cpu_time_total"))  # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        if use_cuda is not None:
            warnings.warn(
                "`use_cuda` is deprecated, use `activities` argument instead",
                FutureWarning,
                stacklevel=2,
            )
        super().__init__(
            activities=activities,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=experimental_config,
            execution_trace_observer=execution_trace_observer,
            acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback,
        )
        self.schedule = schedule or always_record
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.current_action = self.schedule(0)
        self.step_rec_fn: record_function | None = None
        self._is_recording = False

    def __enter__(self) -> "profile":
        self.start()
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        self.stop()

    def start(self) -> None:
        """Begin with step 0."""
        self._go(self.current_action)
        self._begin_step()

    def stop(self) -> None:
        """End, and hand over what has been recorded."""
        self._end_step()
        if self.profiler is None and self.current_action in _RECORDING:
            raise AssertionError("Profiler must be initialized before stopping trace")
        if self._is_recording:
            self._save()
        self.current_action = ProfilerAction.NONE

    def step(self) -> None:
        """The next step begins."""
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        if self._is_recording and before is ProfilerAction.RECORD_AND_SAVE:
            self._save()
        elif self._is_recording and self.current_action not in _RECORDING:
            warnings.warn(
                f"Incorrect schedule: RECORD followed by {self.current_action.name}", stacklevel=2
            )
            self._end()
        self._go(self.current_action)
        self._begin_step()

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Name traces by a function instead of by chance."""
        self.custom_trace_id_callback = callback

    def get_trace_id(self) -> str | None:
        """The name of the current trace."""
        return None if self.profiler is None else self.profiler.trace_id

    def _go(self, action):
        if action is not ProfilerAction.NONE and not self._is_recording:
            self.prepare_trace()
        if action in _RECORDING and not self._is_recording:
            self.start_trace()
            self._is_recording = True

    def _end(self):
        self.stop_trace()
        self._is_recording = False

    def _save(self):
        self._end()
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def _begin_step(self):
        if self.record_steps:
            self.step_rec_fn = record_function(f"ProfilerStep#{self.step_num}")
            self.step_rec_fn.__enter__()

    def _end_step(self):
        if self.step_rec_fn is not None:
            self.step_rec_fn.__exit__(None, None, None)
            self.step_rec_fn = None


class ExecutionTraceObserver:
    """Records an execution trace in PyTorch; here it only keeps the file name it was given."""

    def __init__(self) -> None:
        self._path: str | None = None
        self._running = False

    def register_callback(self, output_file_path: str) -> "ExecutionTraceObserver":
        self._path = output_file_path
        return self

    def unregister_callback(self) -> None:
        self._path, self._running = None, False

    @property
    def is_registered(self) -> bool:
        return self._path is not None

    def is_running(self) -> bool:
        return self._running

    def start(self) -> None:
        self._running = self._path is not None

    def stop(self) -> None:
        self._running = False

    def cleanup(self) -> None:
        self.unregister_callback()

    def get_output_file_path(self) -> str | None:
        return self._path
