"""From a recorder's notes to events: nesting, memory, kernels, and backward beside forward."""

import re
from typing import Any

from flambeau.ops.table import TABLE
from flambeau.profiler.activities import DeviceType
from flambeau.profiler.events import MEMORY_EVENT_NAME, EventList, FunctionEvent
from flambeau.profiler.recording import Note, Recorder
from flambeau.utils.flop_formulas import CONVOLUTIONS

_ENGINE = "autograd::engine::evaluate_function: "
_CATEGORIES = {"module": "python_function", "user": "user_annotation", "loader": "user_annotation"}
_CATEGORIES |= {"optimizer": "user_annotation", "step": "user_annotation"}
_LEFT_TO_OTHERS = {"aten::matmul", "aten::einsum"}  # what they call is counted instead
_COUNTED = {"aten::" + name for name in CONVOLUTIONS} | {"aten::scaled_dot_product_attention"}


def build_events(recorder: Recorder) -> EventList:
    """What happened, in the order in which it began."""
    threads: dict[int, int] = {}
    device = "cuda" if recorder.gpu else None
    events = EventList(use_device=device, profile_memory=recorder.memory, with_flops=recorder.flops)
    for note in sorted(recorder.notes, key=_start):
        thread = threads.setdefault(note.thread, len(threads) + 1)
        if note.kind in ("node", "leaf"):
            events.append(_event(len(events) + 1, note, thread, recorder, _ENGINE + note.name))
        events.append(_event(len(events) + 1, note, thread, recorder, note.name))
    events._build_tree()
    on_gpu = _give_kernels(events, recorder, threads)
    if recorder.memory:
        _give_memory(events, recorder, threads)
    if recorder.flops:
        _count_once(events)
    _link_backward(events)
    for name, span in on_gpu:
        events.append(_on_gpu(len(events) + 1, name, span, recorder))
    return events


def _start(note):
    return note.start


def _event(number: int, note: Note, thread: int, recorder: Recorder, name: str) -> FunctionEvent:
    base = recorder.start_time
    is_engine = name.startswith(_ENGINE)
    inputs = None if is_engine else note.inputs
    row = TABLE.get(getattr(note.name, "row", ""))
    if inputs is not None and row is not None and row.kind == "pointwise":
        inputs.complete([(p.name, p.default) for p in row.params])
    event = FunctionEvent(
        id=number,
        overload_name="",
        name=re.sub(r"^ProfilerStep#\d+$", "ProfilerStep*", name),
        trace_name=name,
        thread=thread,
        start_us=(note.start - base) / 1e3,
        end_us=(note.end - base) / 1e3,
        fwd_thread=thread if note.kind == "node" else 0,
        input_shapes=inputs.dims if inputs is not None else [] if recorder.shapes else None,
        concrete_inputs=inputs.concrete if inputs is not None else [],
        stack=[f"{file}({line}): {function}" for file, line, function in note.stack or ()],
        scope=1 if note.kind in ("node", "leaf") else 7 if note.kind == "user" else 0,
        sequence_nr=note.sequence,
        device_resource_id=note.thread,
        flops=0 if is_engine else note.flops,
        is_user_annotation=note.kind in ("user", "optimizer", "loader", "step"),
        is_python_function=note.kind == "module",
        activity_type=_CATEGORIES.get(note.kind, "cpu_op"),
    )
    event.__dict__.update(inputs=inputs, module=note.module, kind=note.kind, base_us=base / 1e3)
    return event


def _on_gpu(number, name, span, recorder):
    """A kernel as it ran on the GPU."""
    base = recorder.start_time
    start, end = ((edge - base) / 1e3 for edge in span)
    event = FunctionEvent(
        number, name, 0, start, end, device_type=DeviceType.CUDA, use_device="cuda",
        overload_name="", input_shapes=[] if recorder.shapes else None, activity_type="kernel",
    )  # fmt: skip
    event.__dict__.update(inputs=None, module=None, kind="gpu", base_us=base / 1e3)
    return event


def _innermost(events):
    """A function (thread, microseconds) -> the deepest event at that time; times must not fall."""
    by_thread: dict[int, list] = {}
    for event in events:
        by_thread.setdefault(event.thread, []).append(event)
    state = {thread: [0, []] for thread in by_thread}

    def find(thread: int, time: float) -> Any:
        if thread not in by_thread:
            return None
        todo, place = by_thread[thread], state[thread]
        while place[0] < len(todo) and todo[place[0]].time_range.start <= time:
            place[1].append(todo[place[0]])
            place[0] += 1
        while place[1] and place[1][-1].time_range.end < time:
            place[1].pop()
        return place[1][-1] if place[1] else None

    return find


def _give_kernels(events, recorder, threads):
    """Kernels count for the event they were launched in; (name, span) of those of GPUs."""
    find = _innermost(events)
    on_gpu = []
    for name, ident, start, end, span in sorted(recorder.kernels, key=lambda kernel: kernel[2]):
        thread = threads.get(ident, 0)
        event = find(thread, (start - recorder.start_time) / 1e3)
        if span is not None:
            on_gpu.append((name, span))
            start, end = span
        if event is not None:
            event.append_kernel(name, 0, (end - start) / 1e3)
            event.own_device_time += (end - start) / 1e3 if span is not None else 0.0
    return sorted(on_gpu, key=lambda kernel: kernel[1])


def _give_memory(events, recorder, threads):
    """Memory counts for the events it was taken in, and for an event of its own outside of all."""
    find = _innermost(list(events))
    alone = []
    for note in sorted(recorder.memory_notes, key=lambda note: note.time):
        time = (note.time - recorder.start_time) / 1e3
        thread = threads.get(note.thread, 0)
        event = find(thread, time)
        if event is None:
            lone = FunctionEvent(0, MEMORY_EVENT_NAME, thread, time, time, input_shapes=[])
            lone.cpu_memory_usage = note.nbytes
            base = recorder.start_time / 1e3
            lone.__dict__.update(inputs=None, module=None, kind="memory", base_us=base)
            alone.append(lone)
        while event is not None:
            event.cpu_memory_usage += note.nbytes
            event = event.cpu_parent
    if alone:
        events.extend(alone)
        events.sort(key=lambda event: event.time_range.start)
        for number, event in enumerate(events, 1):
            event.id = number


def _count_once(events):
    """Operations count for one event of a chain: convolutions as the user wrote them, products as
    what they come down to."""
    for event in events:
        if not event.flops:
            continue
        below = [event.cpu_children]
        nested = [e for level in below for e in _below(level)]
        if event.name in _LEFT_TO_OTHERS and any(e.flops for e in nested):
            event.flops = 0
        elif event.name in _COUNTED or event.name not in _LEFT_TO_OTHERS:
            for e in nested:
                e.flops = 0


def _below(events):
    for event in events:
        yield event
        yield from _below(event.cpu_children)


def _link_backward(events):
    """Nodes of backward, and what they call, come from where forward was called."""
    forward: dict[int, FunctionEvent] = {}
    for event in events:
        if event.kind == "op" and event.sequence_nr >= 0:
            forward.setdefault(event.sequence_nr, event)  # the outermost: what the user wrote
    for event in events:
        if event.kind == "node" and event.sequence_nr in forward:
            origin = forward[event.sequence_nr]
            event.fwd_thread = origin.thread
            for e in (event, *_below(event.cpu_children)):
                e.stack = origin.stack
