"""Traces in the trace event format, for chrome://tracing, Perfetto and TensorBoard.

Calls are complete events ("X") with their inputs as arguments, kernels lie below the calls that
launch them, memory is a series of instant events, and arrows ("s", "f") lead from an op to its node
of backward.
"""

import gzip
import json
import os
import platform
import socket
import threading
import time
import uuid
from typing import Any

from flambeau.profiler.events import EventList
from flambeau.profiler.recording import Recorder

GPU_ROW = 7  # what the default stream is called in traces


class TraceFacts:
    """What a trace tells besides events."""

    def __init__(self, recorder: Recorder, metadata: dict[str, Any]) -> None:
        self.recorder, self.metadata = recorder, metadata
        self.trace_id = uuid.uuid4().hex.upper()
        # perf_counter counts from an arbitrary moment: this is when that was
        self.base_ns = time.time_ns() - time.perf_counter_ns()
        self.native = {t.ident: t.native_id for t in threading.enumerate()}

    def thread_id(self, ident: int) -> int:
        """The number the operating system knows a thread by, where it is still there."""
        return self.native.get(ident) or ident & 0x7FFFFFFF


def trace_dict(events: EventList, name: str = "") -> dict[str, Any]:
    """A trace as a dictionary, ready for json."""
    facts: TraceFacts = events._trace
    recorder, pid = facts.recorder, os.getpid()
    shown = [*_names(facts, pid), *_calls(events, facts, pid), *_arrows(events, facts, pid)]
    shown += _kernels(facts, pid)
    shown += _memory(facts, pid)
    shown += _window(recorder, len(events))
    return {
        "schemaVersion": 1,
        "deviceProperties": [],
        "trace_id": facts.trace_id,
        "with_stack": int(recorder.stack),
        "profile_memory": int(recorder.memory),
        "record_shapes": int(recorder.shapes),
        "with_modules": int(recorder.modules),
        "with_flops": int(recorder.flops),
        "host_name": socket.gethostname() or platform.node(),
        **facts.metadata,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": facts.base_ns,
        "traceEvents": shown,
        "traceName": name,
    }


def _window(recorder, count):
    """From when to when was recorded, as the last events of a trace."""
    start, end = recorder.start_time / 1e3, recorder.end_time / 1e3
    at = {"ts": start, "pid": "Spans"}
    name = {"tid": "PyTorch Profiler", "name": "PyTorch Profiler (0)"}
    yield {"ph": "X", "cat": "Trace", **at, "dur": end - start, **name, "args": {"Op count": count}}
    last = {"sort_index": 0x20000000}  # below all processes
    yield {"ph": "M", **at, "name": "process_sort_index", "tid": 0, "args": last}
    at = {"ph": "i", "s": "g", **at, "pid": "Traces", "tid": "Trace PyTorch Profiler"}
    yield {**at, "name": "Iteration Start: PyTorch Profiler"}
    yield {**at, "pid": "", "tid": "", "ts": end, "name": "Record Window End"}


def write_trace(path: Any, events: EventList) -> None:
    """Write a trace; it is compressed if the path ends with .gz."""
    path = os.fspath(path)
    if events._trace is None:
        raise RuntimeError("these events were not recorded by a profiler, so there is no trace")
    text = json.dumps(trace_dict(events, path))
    if path.endswith(".gz"):
        with gzip.open(path, "wt") as file:
            file.write(text)
    else:
        with open(path, "w") as file:
            file.write(text)


def _names(facts, pid):
    at = {"ph": "M", "ts": facts.recorder.start_time / 1e3, "pid": pid}
    yield {**at, "name": "process_name", "tid": 0, "args": {"name": "python"}}
    yield {**at, "name": "process_labels", "tid": 0, "args": {"labels": "CPU"}}
    yield {**at, "name": "process_sort_index", "tid": 0, "args": {"sort_index": pid}}
    if facts.recorder.gpu:
        there = {**at, "pid": 0, "tid": 0}
        yield {**there, "name": "process_name", "args": {"name": "python"}}
        yield {**there, "name": "process_labels", "args": {"labels": "GPU 0"}}
        row = {**there, "tid": GPU_ROW, "args": {"name": f"stream {GPU_ROW}"}}
        yield {**row, "name": "thread_name"}
    for ident in {note.thread for note in facts.recorder.notes}:
        tid = facts.thread_id(ident)
        yield {**at, "name": "thread_name", "tid": tid, "args": {"name": f"thread {tid} (python)"}}
        yield {**at, "name": "thread_sort_index", "tid": tid, "args": {"sort_index": tid}}


def _calls(events, facts, pid):
    for event in events:
        if event.kind in ("memory", "gpu"):
            continue
        yield {
            "ph": "X",
            "cat": event.activity_type,
            "name": event.trace_name,
            "pid": pid,
            "tid": facts.thread_id(event.device_resource_id),
            "ts": event.base_us + event.time_range.start,
            "dur": event.time_range.elapsed_us(),
            "args": _arguments(event, facts.recorder),
        }


def _arguments(event, recorder):
    found = {"External id": event.id, "Record function id": 0, "Ev Idx": event.id - 1}
    if event.sequence_nr >= 0 and event.kind != "user":
        found["Sequence number"] = event.sequence_nr
        found["Fwd thread id"] = event.fwd_thread if event.kind == "node" else 0
    inputs = event.inputs
    if inputs is not None:
        found["Concrete Inputs"] = ["" if v is None else repr(v) for v in inputs.concrete]
        found["Input type"] = inputs.types
        found["Input Strides"] = inputs.strides
        found["Input Dims"] = inputs.dims
    if event.stack:
        found["Call stack"] = ";\n".join(event.stack)
    if event.module:
        found["Module Hierarchy"] = event.module
    if event.flops:
        found["flops"] = event.flops
    if recorder.memory and event.cpu_memory_usage:
        found["CPU memory (bytes)"] = event.cpu_memory_usage
    return found


def _arrows(events, facts, pid):
    """From ops to their nodes of backward."""
    forward = {e.sequence_nr: e for e in events if e.kind == "op" and e.sequence_nr >= 0}
    for event in events:
        origin = forward.get(event.sequence_nr)
        if event.kind != "node" or origin is None or event.trace_name.startswith("autograd::"):
            continue
        for phase, e in (("s", origin), ("f", event)):
            yield {
                "ph": phase,
                "id": event.sequence_nr,
                "pid": pid,
                "tid": facts.thread_id(e.device_resource_id),
                "ts": e.base_us + e.time_range.start,
                "cat": "fwdbwd",
                "name": "fwdbwd",
                **({"bp": "e"} if phase == "f" else {}),
            }


def _kernels(facts, pid):
    for number, (name, ident, start, end, span) in enumerate(facts.recorder.kernels, 1):
        here = {"ph": "X", "pid": pid, "tid": facts.thread_id(ident), "ts": start / 1e3}
        here["dur"] = (end - start) / 1e3
        if span is None:
            yield {**here, "cat": "kernel", "name": name, "args": {"kind": "native kernel"}}
            continue
        linked = {"correlation": number}
        yield {**here, "cat": "cuda_runtime", "name": "cuLaunchKernel", "args": linked}
        there = {"ph": "X", "pid": 0, "tid": GPU_ROW, "ts": span[0] / 1e3, "name": name}
        there["dur"] = (span[1] - span[0]) / 1e3
        yield {**there, "cat": "kernel", "args": {"device": 0, "stream": GPU_ROW, **linked}}
        for phase, at in (("s", here), ("f", there)):
            place = {key: at[key] for key in ("pid", "tid", "ts")}
            arrow = {"ph": phase, "id": number, "cat": "ac2g", "name": "ac2g", **place}
            yield {**arrow, "bp": "e"} if phase == "f" else arrow


def _memory(facts, pid):
    for note in facts.recorder.memory_notes:
        yield {
            "ph": "i",
            "cat": "cpu_instant_event",
            "s": "t",
            "name": "[memory]",
            "pid": pid,
            "tid": facts.thread_id(note.thread),
            "ts": note.time / 1e3,
            "args": {
                "Total Reserved": 0,
                "Total Allocated": note.total,
                "Bytes": note.nbytes,
                "Addr": note.address,
                "Device Id": -1,
                "Device Type": 0,
            },
        }
