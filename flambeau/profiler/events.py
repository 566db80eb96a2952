"""Events: what a profile consists of, alone, nested, and summed up by name.

`FunctionEvent` is one call, `FunctionEventAvg` all calls of one name, `EventList` many of either,
with a table (table.py), a trace for viewers (trace.py) and stacks for flame graphs. These are the
names of `torch.autograd.profiler_util`. How notes become events: building.py.
"""

from collections import defaultdict, namedtuple
from collections.abc import Iterable
from typing import Any, NamedTuple

from flambeau.profiler.activities import DeviceType
from flambeau.profiler.table import build_table, format_time

MEMORY_EVENT_NAME = "[memory]"
OUT_OF_MEMORY_EVENT_NAME = "[OutOfMemory]"

Kernel = namedtuple("Kernel", ["name", "device", "duration"])
EventMetadata = namedtuple("EventMetadata", ["stream", "context", "bytes"])


class Interval:
    """A span of time in microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        return self.end - self.start


class StringTable(defaultdict):
    """Names, shown as they are."""

    def __missing__(self, key):
        self[key] = key
        return key


class MemRecordsAcc:
    """Memory records, looked up by time."""

    def __init__(self, mem_records: list) -> None:
        self._mem_records = sorted(mem_records, key=lambda record: record[0].start_ns())

    def in_interval(self, start_ns: int, end_ns: int) -> Iterable:
        return (r for r in self._mem_records if start_ns <= r[0].start_ns() <= end_ns)


class FormattedTimesMixin:
    """Times as text, and means over calls."""

    count: int
    cpu_time_total: Any
    device_time_total: Any
    self_cpu_time_total: Any
    self_device_time_total: Any

    @property
    def cpu_time(self) -> float:
        return 0.0 if self.count == 0 else 1.0 * self.cpu_time_total / self.count

    @property
    def device_time(self) -> float:
        return 0.0 if self.count == 0 else 1.0 * self.device_time_total / self.count

    cuda_time = property(lambda self: self.device_time)
    cuda_time_total = property(lambda self: self.device_time_total)
    self_cuda_time_total = property(lambda self: self.self_device_time_total)
    cpu_time_str = property(lambda self: format_time(self.cpu_time))
    device_time_str = property(lambda self: format_time(self.device_time))
    cpu_time_total_str = property(lambda self: format_time(self.cpu_time_total))
    device_time_total_str = property(lambda self: format_time(self.device_time_total))
    self_cpu_time_total_str = property(lambda self: format_time(self.self_cpu_time_total))
    self_device_time_total_str = property(lambda self: format_time(self.self_device_time_total))


class FunctionEvent(FormattedTimesMixin):
    """One call of an op, a node of backward, or a block that a user named."""

    def __init__(
        self,
        id: Any,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        overload_name: str | None = None,
        fwd_thread: int | None = None,
        input_shapes: Any = None,
        stack: list[str] | None = None,
        scope: int = 0,
        use_device: str | None = None,
        cpu_memory_usage: int = 0,
        device_memory_usage: int = 0,
        is_async: bool = False,
        is_remote: bool = False,
        sequence_nr: int = -1,
        node_id: int = -1,
        device_type: DeviceType = DeviceType.CPU,
        device_index: int = 0,
        device_resource_id: int | None = None,
        is_legacy: bool = False,
        flops: int | None = None,
        trace_name: str | None = None,
        concrete_inputs: Any = None,
        kwinputs: Any = None,
        is_user_annotation: bool = False,
        is_python_function: bool = False,
        activity_type: str | None = None,
        metadata_json: str | None = None,
        **more: Any,
    ) -> None:
        self.id, self.node_id, self.name = id, node_id, name
        self.overload_name = overload_name
        self.trace_name = trace_name or name
        self.time_range = Interval(start_us, end_us)
        self.thread, self.fwd_thread = thread, fwd_thread
        self.kernels: list[Kernel] = []
        self.own_device_time = 0.0
        self.count = 1
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None
        self.input_shapes, self.concrete_inputs = input_shapes, concrete_inputs
        self.kwinputs = kwinputs
        self.stack, self.scope, self.use_device = stack or [], scope, use_device
        self.cpu_memory_usage, self.device_memory_usage = cpu_memory_usage, device_memory_usage
        self.is_async, self.is_remote = is_async, is_remote
        self.sequence_nr, self.device_type = sequence_nr, device_type
        self.device_index = device_index
        self.device_resource_id = thread if device_resource_id is None else device_resource_id
        self.is_legacy, self.flops = is_legacy, flops
        self.is_user_annotation = is_user_annotation
        self.is_python_function, self.activity_type = is_python_function, activity_type
        self.metadata_json = metadata_json or ""
        self.self_cpu_percent: Any = -1
        self.total_cpu_percent: Any = -1
        self.total_device_percent: Any = -1
        self.__dict__.update(more)

    def append_kernel(self, name: str, device: int, duration: float) -> None:
        self.kernels.append(Kernel(name, device, duration))

    def append_cpu_child(self, child: "FunctionEvent") -> None:
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: "FunctionEvent") -> None:
        self.cpu_parent = parent

    @property
    def cpu_time_total(self) -> float:
        return self.time_range.elapsed_us() if self.device_type is DeviceType.CPU else 0

    @property
    def self_cpu_time_total(self) -> float:
        if self.is_async or self.device_type is not DeviceType.CPU:
            return 0
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def self_cpu_memory_usage(self) -> int:
        if self.is_async or self.device_type is not DeviceType.CPU:
            return 0
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    @property
    def kernel_time_total(self) -> float:
        """Microseconds in native kernels, those of nested calls included."""
        nested = sum(child.kernel_time_total for child in self.cpu_children)
        return nested + sum(kernel.duration for kernel in self.kernels)

    @property
    def device_time_total(self) -> float:
        """Microseconds on a GPU: of a kernel, or of all that a call launched."""
        if self.device_type is not DeviceType.CPU:
            return self.time_range.elapsed_us()
        nested = sum(child.device_time_total for child in self.cpu_children)
        return nested + self.own_device_time

    @property
    def self_device_time_total(self) -> float:
        if self.device_type is not DeviceType.CPU:
            return self.time_range.elapsed_us()
        return self.own_device_time

    self_device_memory_usage = property(lambda self: 0)
    self_cuda_memory_usage = property(lambda self: 0)

    @property
    def key(self) -> str:
        return self.name

    def __repr__(self):
        return (
            f"<FunctionEvent id={self.id} name={self.name} overload_name={self.overload_name} "
            f"device_type={self.device_type} node_id={self.node_id} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start} end_us={self.time_range.end} "
            f"cpu_children={[child.id for child in self.cpu_children]} "
            f"{self.use_device}_time={self.device_time_str} name={self.name} thread={self.thread} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} "
            f"{self.use_device}_memory_usage={self.device_memory_usage} is_async={self.is_async} "
            f"is_remote={self.is_remote} seq_nr={self.sequence_nr} is_legacy={self.is_legacy}>"
        )


class FunctionEventAvg(FormattedTimesMixin):
    """All calls of one name, summed up."""

    def __init__(self) -> None:
        self.key: str | None = None
        self.count = self.node_id = 0
        self.is_async = self.is_remote = False
        self.use_device: str | None = None
        self.cpu_time_total = self.device_time_total = 0.0
        self.self_cpu_time_total = self.self_device_time_total = 0.0
        self.kernel_time_total = 0.0
        self.input_shapes: Any = None
        self.overload_name: str | None = None
        self.stack: list | None = None
        self.scope: int | None = None
        self.cpu_memory_usage = self.device_memory_usage = 0
        self.self_cpu_memory_usage = self.self_device_memory_usage = 0
        self.cpu_children: list[FunctionEvent] | None = None
        self.cpu_parent: FunctionEvent | None = None
        self.device_type = DeviceType.CPU
        self.is_legacy = self.is_user_annotation = False
        self.flops = 0

    def add(self, other: Any) -> "FunctionEventAvg":
        if self.key is None:  # the first one says what all of them are
            for name in _COMMON:
                setattr(self, name, getattr(other, name))
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + (getattr(other, name) or 0))
        return self

    def __iadd__(self, other):
        return self.add(other)

    def __repr__(self):
        device = self.use_device or "cuda"
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str}  self_{device}_time={self.self_device_time_total_str} "
            f"{device}_time={self.device_time_str} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} "
            f"{device}_memory_usage={self.device_memory_usage}>"
        )


_COMMON = (
    "key node_id is_async is_remote use_device cpu_parent cpu_children overload_name input_shapes "
    "stack scope device_type is_legacy is_user_annotation"
).split()
_SUMMED = (
    "cpu_time_total device_time_total self_cpu_time_total self_device_time_total "
    "kernel_time_total cpu_memory_usage device_memory_usage self_cpu_memory_usage "
    "self_device_memory_usage count flops"
).split()


class Options(NamedTuple):
    """How events were recorded, which tables and traces depend on."""

    memory: bool = False
    flops: bool = False


class EventList(list):
    """Events, one by one or summed up. As text it is its table."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._use_device = kwargs.pop("use_device", None)
        self._profile_memory = kwargs.pop("profile_memory", False)
        self._with_flops = kwargs.pop("with_flops", False)
        super().__init__(*args, **kwargs)
        self._trace: Any = None  # what a trace shows besides events

    def _like(self, events):
        found = EventList(
            events,
            use_device=self._use_device,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
        )
        found._trace = self._trace
        return found

    def __str__(self):
        return self.table()

    def _build_tree(self):
        """Find out which events are called by which, from their times; events begin in order."""
        open_events: dict[int, list[FunctionEvent]] = {}
        for event in self:
            above = open_events.setdefault(event.thread, [])
            while above and above[-1].time_range.end < event.time_range.end:
                above.pop()
            while above and above[-1].time_range.end <= event.time_range.start:
                above.pop()
            if above:
                above[-1].append_cpu_child(event)
                event.set_cpu_parent(above[-1])
            above.append(event)

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events, nested ones not counted twice."""
        return sum(event.self_cpu_time_total for event in self)

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The events as text, one row each.

        Args:
            sort_by: `cpu_time`, `cpu_time_total`, `self_cpu_time_total`, `cpu_memory_usage`,
                `self_cpu_memory_usage`, `count` or another attribute; largest first.
            row_limit: how many rows at most; -1 for all.
            top_level_events_only: leave out what is called by others.
            time_unit: `us`, `ms` or `s`, if all times shall have the same one.
        """
        return build_table(
            self,
            sort_by=sort_by,
            row_limit=row_limit,
            max_src_column_width=max_src_column_width,
            max_name_column_width=max_name_column_width,
            max_shapes_column_width=max_shapes_column_width,
            header=header,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
            use_device=self._use_device,
            top_level_events_only=top_level_events_only,
            time_unit=time_unit,
        )

    def export_chrome_trace(self, path: str) -> None:
        """Write a trace for chrome://tracing or Perfetto."""
        from flambeau.profiler.trace import write_trace

        write_trace(path, self)

    def supported_export_stacks_metrics(self) -> list[str]:
        return [
            "self_cpu_time_total",
            "self_cuda_time_total",
            "self_xpu_time_total",
            "self_privateuse1_time_total",
        ]

    def export_stacks(self, path: str, metric: str) -> None:
        """Write call stacks with their times, one line each, for flame graphs."""
        if metric not in self.supported_export_stacks_metrics():
            raise ValueError(
                "metric should be one of: " + str(self.supported_export_stacks_metrics())
            )
        attribute = metric if "cpu" in metric else "self_device_time_total"
        blanks = str.maketrans(" ;\t\n", "____")
        with open(path, "w") as file:
            for event in self:
                value = int(getattr(event, attribute))
                if event.stack and value > 0:
                    line = ";".join(entry.translate(blanks) for entry in reversed(event.stack))
                    file.write(f"{line} {value}\n")

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> "EventList":
        """Events summed up by name, and by input shapes or callers on request."""
        sums: dict[tuple, FunctionEventAvg] = {}
        for event in self:
            key = [event.key, event.node_id, event.device_type, event.is_legacy]
            key.append(event.is_user_annotation)
            if group_by_overload_name:
                key.append(event.overload_name)
            if group_by_input_shapes:
                key.append(str(event.input_shapes))
            key += event.stack[:group_by_stack_n] if group_by_stack_n > 0 else []
            sums.setdefault(tuple(key), FunctionEventAvg()).add(event)
        found = self._like(sums.values())
        found._trace = None  # sums have no place in time
        for average in found:
            average.stack = average.stack[:group_by_stack_n] if group_by_stack_n > 0 else []
            if not group_by_input_shapes:
                average.input_shapes = ""
            if not group_by_overload_name:
                average.overload_name = ""
        return found

    def total_average(self) -> FunctionEventAvg:
        """All events summed up."""
        total = FunctionEventAvg()
        for event in self:
            total += event
            total.key = None
        total.key = "Total"
        return total

    def kernel_averages(self) -> "EventList":
        """Native kernels summed up by name: what ops spend their time in."""
        sums: dict[str, FunctionEventAvg] = {}
        for event in self:
            for kernel in event.kernels:
                one = FunctionEvent(0, kernel.name, event.thread, 0.0, kernel.duration)
                sums.setdefault(kernel.name, FunctionEventAvg()).add(one)
        found = EventList(sums.values())
        for average in found:
            average.input_shapes, average.stack = "", []
        return found
