"""Events as a table of text, in the layout that PyTorch's users know."""

import math
from typing import Any

WIDTH, GAP = 12, 2  # of columns of numbers, and between columns
_UNITS = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")


def format_time(us: float, unit: str | None = None) -> str:
    """Microseconds as text.

    >>> format_time(1500.0)
    '1.500ms'
    """
    if unit is None:
        unit = "s" if us >= 1e6 else "ms" if us >= 1e3 else "us"
    scale = {"s": 1e6, "ms": 1e3, "us": 1.0}
    if unit not in scale:
        raise ValueError(f"Unknown time unit: {unit}. Must be one of {list(scale)}.")
    return f"{us / scale[unit]:.3f}{unit}"


def format_memory(nbytes: int) -> str:
    """Bytes as text.

    >>> format_memory(2048)
    '2.00 KB'
    """
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(nbytes) >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} B"


def _share(time, total):
    return "NaN" if total == 0 else f"{time * 100.0 / total:.2f}%"


def _flops_unit(least):
    """The unit in which the smallest count is at least one."""
    step = max(0, min(int(math.log10(least) / 3), len(_UNITS) - 1))
    return 10 ** (-3.0 * step), "Total " + _UNITS[step]


def _cut(text, width):
    if width is not None and len(text) >= width - 3:
        return text[: width - 3] + "..."
    return text


def _cut_left(text, width):
    return "..." + text[3 - width :] if len(text) > width else text


class _Columns:
    """Titles and widths."""

    def __init__(self):
        self.titles, self.widths = [], []

    def add(self, title, width=WIDTH):
        self.titles.append(title)
        self.widths.append(width)

    def row(self, cells):
        padded = [
            cell.ljust(width) if title == "Source Location" else cell.rjust(width)
            for cell, width, title in zip(cells, self.widths, self.titles)
        ]
        return "".join(cell + " " * GAP for cell in padded)

    def line(self):
        return "".join("-" * width + " " * GAP for width in self.widths)


def build_table(
    events: Any,
    sort_by: str | None = None,
    header: str | None = None,
    row_limit: int = 100,
    max_src_column_width: int = 75,
    max_name_column_width: int = 55,
    max_shapes_column_width: int = 80,
    with_flops: bool = False,
    profile_memory: bool = False,
    top_level_events_only: bool = False,
    time_unit: str | None = None,
    use_device: str | None = None,
) -> str:
    """The text of EventList.table."""
    if not events:
        return ""
    has_shapes = any(e.input_shapes is not None and len(e.input_shapes) > 0 for e in events)
    has_overloads = any(e.overload_name is not None and len(e.overload_name) > 0 for e in events)
    if sort_by is not None:
        name = sort_by.replace("cuda", "device").replace("xpu", "device")
        events = sorted(events, key=lambda e: getattr(e, name), reverse=True)
    on_device = sum(e.self_device_time_total for e in events if e.device_type.name == "CUDA")
    use_device = use_device if on_device else None
    columns = _Columns()
    name_width = max(len(e.key) for e in events) + 4
    if max_name_column_width is not None:
        name_width = min(name_width, max_name_column_width)
    columns.add("Name", name_width)
    if has_overloads:
        columns.add("Overload Name", name_width)
    for title in ("Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"):
        columns.add(title)
    if use_device:
        name = use_device.upper()
        for title in (f"Self {name}", f"Self {name} %", f"{name} total", f"{name} time avg"):
            columns.add(title)
    if profile_memory:
        columns.add("CPU Mem")
        columns.add("Self CPU Mem")
    columns.add("# of Calls")
    has_nodes = any(e.node_id != -1 for e in events)
    if has_nodes:
        columns.add("Node ID")
    if has_shapes:
        widest = max(len(str(e.input_shapes)) for e in events) + 4
        columns.add("Input Shapes", min(widest, max_shapes_column_width or widest))
    stacks = [e.stack for e in events if e.stack]
    if stacks:
        widest = max(len(entry) for stack in stacks for entry in stack) + 4
        widest = min(widest, max_src_column_width or widest)
        columns.add("Source Location", widest)
    scale = 0.0
    if with_flops:
        counts = [e.flops for e in events if e.flops]
        if counts:
            scale, title = _flops_unit(min(counts))
            columns.add(title)
        else:
            with_flops = False
    total = sum(e.self_cpu_time_total for e in events)

    def cells(event):
        yield _cut(event.key, max_name_column_width)
        if has_overloads:
            yield _cut(event.overload_name, max_name_column_width)
        event.self_cpu_percent = _share(event.self_cpu_time_total, total)
        event.total_cpu_percent = _share(event.cpu_time_total, total) if not event.is_async else "0"
        yield event.self_cpu_percent
        yield format_time(event.self_cpu_time_total, time_unit)
        yield event.total_cpu_percent
        yield format_time(event.cpu_time_total, time_unit)
        yield format_time(event.cpu_time, time_unit)
        if use_device:
            own = event.self_device_time_total
            yield format_time(own, time_unit)
            yield _share(own, on_device)
            yield format_time(event.device_time_total, time_unit)
            yield format_time(event.device_time, time_unit)
        if profile_memory:
            yield format_memory(event.cpu_memory_usage)
            yield format_memory(event.self_cpu_memory_usage)
        yield str(event.count)
        if has_nodes:
            yield str(event.node_id)
        if has_shapes:
            yield str(event.input_shapes)[: max_shapes_column_width or None]
        if stacks:
            yield _cut_left(event.stack[0], widest) if event.stack else ""
        if with_flops:
            yield f"{event.flops * scale:8.3f}" if event.flops else "--"

    rule = "=" * (sum(columns.widths) + GAP * (len(columns.widths) - 1))
    lines = [] if header is None else [rule, header]
    if top_level_events_only:
        lines += [rule, "This report only display top-level ops statistics"]
    lines += [columns.line(), columns.row(columns.titles), columns.line()]
    shown = 0
    for event in events:
        if shown == row_limit:
            break
        if top_level_events_only and event.cpu_parent is not None:
            continue
        shown += 1
        lines.append(columns.row(list(cells(event))))
        if stacks:
            blank = [""] * columns.titles.index("Source Location")
            after = [""] * (len(columns.titles) - len(blank) - 1)
            rest = [_cut_left(entry, widest) for entry in event.stack[1:]]
            lines += [columns.row([*blank, entry, *after]) for entry in [*rest, ""]]
    lines += [columns.line(), f"Self CPU time total: {format_time(total, time_unit)}"]
    if use_device:
        told = format_time(on_device, time_unit)
        lines.append(f"Self {use_device.upper()} time total: {told}")
    lines.append("")
    return "\n".join(lines)
