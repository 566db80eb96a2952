"""A summary as a value: its rows, its totals, and what they look like as text and in notebooks."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import Any

COLUMNS = {
    "input_size": "Input Shape",
    "output_size": "Output Shape",
    "num_params": "Param #",
    "params_percent": "Param %",
    "kernel_size": "Kernel Shape",
    "mult_adds": "Mult-Adds",
    "flops": "FLOPs",
    "memory": "Output Size",
    "trainable": "Trainable",
}
_NUMBERS = {"num_params", "params_percent", "mult_adds", "flops", "memory"}


@dataclass
class Row:
    """One module. Numbers are its own: those of modules below it have rows of their own."""

    kind: str
    name: str
    depth: int
    calls: int = 0
    is_recursive: bool = False  # it has a row already
    is_leaf: bool = True
    input_size: Any = None
    output_size: Any = None
    kernel_size: tuple | None = None
    has_params: bool = False
    params: int = 0
    trainable_params: int = 0
    param_bytes: int = 0
    buffer_bytes: int = 0
    output_bytes: int = 0
    flops: int = 0
    trainable: set = field(default_factory=set)

    def take_in(self, other: Row) -> None:
        """Count in a row that is not shown."""
        for name in ("params", "trainable_params", "param_bytes", "buffer_bytes"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.output_bytes += other.output_bytes
        self.flops += other.flops
        self.has_params |= other.has_params and not other.is_recursive
        self.trainable |= other.trainable

    @property
    def label(self) -> str:
        name = f": {self.name}" if self.name else ""
        times = f" (x{self.calls})" if self.calls > 1 and not self.is_recursive else ""
        return self.kind + name + times

    def cell(self, column: str, total_params: int) -> str:
        """What stands in a column of this row."""
        if column in ("input_size", "output_size"):
            return shape_text(getattr(self, column))
        if column == "kernel_size":
            return shape_text(self.kernel_size)
        if self.is_recursive and column != "trainable":
            return "(recursive)" if column == "num_params" and self.has_params else "--"
        if column == "num_params":
            return f"{self.params:,}" if self.has_params else "--"
        if column == "params_percent":
            share = 100 * self.params / total_params if total_params else 0.0
            return f"{share:.2f}%" if self.has_params else "--"
        if column in ("mult_adds", "flops"):
            count = self.flops // (2 if column == "mult_adds" else 1)
            return f"{count:,}" if count else "--"
        if column == "memory":
            return bytes_text(self.output_bytes) if self.output_bytes else "--"
        if not self.trainable:
            return "--"
        return "Partial" if len(self.trainable) > 1 else str(self.trainable == {True})


def shape_text(shape: Any) -> str:
    """A shape, or several, as text."""
    if shape is None or shape == []:
        return "--"
    if isinstance(shape, list):
        shown = ", ".join(shape_text(s) for s in shape[:3])
        return f"[{shown}{', ...' if len(shape) > 3 else ''}]"
    return "[" + ", ".join(map(str, shape)) + "]"


def bytes_text(count: float) -> str:
    """Bytes in the largest unit that leaves a number of at least one.

    >>> bytes_text(2048)
    '2.00 KB'
    """
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count} B"


def count_text(count: int) -> str:
    """A large number with a unit.

    >>> count_text(4_089_000_000)
    '4.09 G'
    """
    for unit, size in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("K", 1e3)):
        if count >= size:
            return f"{count / size:.2f} {unit}"
    return str(count)


class Summary:
    """What `summary` gives: rows and totals; text when printed, a table in notebooks."""

    def __init__(
        self,
        rows: list[Row],
        inputs: list[Any],
        results: Any,
        columns: tuple[str, ...],
        col_width: int | None = None,
    ) -> None:
        self.rows, self.columns, self.col_width = rows, columns, col_width
        self.input_sizes = [tuple(t.shape) for t in inputs]
        self.input_bytes = sum(t.numel() * t.element_size() for t in inputs)
        self.output_size = results
        self.total_params = sum(row.params for row in rows)
        self.trainable_params = sum(row.trainable_params for row in rows)
        self.total_param_bytes = sum(row.param_bytes for row in rows)
        self.total_buffer_bytes = sum(row.buffer_bytes for row in rows)
        # outputs of layers are kept for backward, and have gradients of the same size there
        self.total_output_bytes = 2 * sum(row.output_bytes for row in rows)
        self.total_flops = sum(row.flops for row in rows)
        self.total_mult_adds = self.total_flops // 2

    @property
    def total_bytes(self) -> int:
        """Memory for inputs, parameters, and forward and backward."""
        return self.input_bytes + self.total_param_bytes + self.total_output_bytes

    def _facts(self):
        frozen = self.total_params - self.trainable_params
        yield [("Total params", f"{self.total_params:,}"),
               ("Trainable params", f"{self.trainable_params:,}"),
               ("Non-trainable params", f"{frozen:,}"),
               ("Total mult-adds", count_text(self.total_mult_adds)),
               ("Total FLOPs", count_text(self.total_flops))]  # fmt: skip
        yield [("Input size", bytes_text(self.input_bytes)),
               ("Forward/backward pass size", bytes_text(self.total_output_bytes)),
               ("Params size", bytes_text(self.total_param_bytes)),
               ("Estimated total size", bytes_text(self.total_bytes))]  # fmt: skip

    # -- text ----------------------------------------------------------------------------------
    def _tree(self):
        """The first column: names on branches."""
        rows = self.rows
        for k, row in enumerate(rows):
            if row.depth == 0:
                yield row.label
                continue
            text = ""
            for level in range(1, row.depth + 1):
                following = (r.depth for r in rows[k + 1 :])
                is_last = next((d for d in following if d <= level), 0) != level
                if level == row.depth:
                    text += "└─" if is_last else "├─"
                else:
                    text += "  " if is_last else "│ "
            yield text + row.label

    def __str__(self) -> str:
        names = list(self._tree())
        cells = [[row.cell(c, self.total_params) for c in self.columns] for row in self.rows]
        titles = [COLUMNS[c] for c in self.columns]
        first = max(len(n) for n in [*names, "Layer (type: name)"])
        widths = [
            self.col_width or max(len(t), *(len(line[k]) for line in cells))
            for k, t in enumerate(titles)
        ]
        width = first + sum(w + 3 for w in widths)

        def line(name, entries):
            padded = [
                entry.rjust(w) if c in _NUMBERS else entry.ljust(w)
                for entry, w, c in zip(entries, widths, self.columns)
            ]
            return (name.ljust(first) + "   " + "   ".join(padded)).rstrip()

        lines = ["=" * width, line("Layer (type: name)", titles), "=" * width]
        lines += [line(name, entries) for name, entries in zip(names, cells)]
        for facts in self._facts():
            lines += ["=" * width, *(f"{name}: {value}" for name, value in facts)]
        return "\n".join([*lines, "=" * width])

    __repr__ = __str__

    # -- notebooks -----------------------------------------------------------------------------
    def _repr_html_(self) -> str:
        head = "".join(f"<th>{COLUMNS[c]}</th>" for c in self.columns)
        most = max([row.params for row in self.rows] or [0])
        lines = []
        for row in self.rows:
            entries = []
            for c in self.columns:
                text, style = escape(row.cell(c, self.total_params)), ""
                if c == "num_params" and most and row.params and not row.is_recursive:
                    share = 100 * row.params / most
                    style = f' style="--share:{share:.1f}%"'
                kind = "fb-number" if c in _NUMBERS else "fb-shape"
                entries.append(f'<td class="{kind}"{style}>{text}</td>')
            name = f'<span class="fb-type">{escape(row.kind)}</span>'
            if row.name:
                name = f'<span class="fb-var">{escape(row.name)}</span> {name}'
            if row.calls > 1 and not row.is_recursive:
                name += f' <span class="fb-var">&times;{row.calls}</span>'
            indent = f'style="padding-left:{0.6 + 1.2 * row.depth:.1f}em"'
            lines.append(f"<tr><td {indent}>{name}</td>{''.join(entries)}</tr>")
        facts = "".join(
            "<dl>" + "".join(f"<dt>{n}</dt><dd>{v}</dd>" for n, v in group) + "</dl>"
            for group in self._facts()
        )
        return (
            f'<div class="fb-summary"><style>{_STYLE}</style><table><thead><tr><th>Layer</th>'
            f"{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
            f'<div class="fb-facts">{facts}</div></div>'
        )


_STYLE = """
.fb-summary { --line:#dde2e7; --soft:#7a8591; --text:#2b333b; --bar:#d9edfb; --back:#fff;
 color:var(--text); background:var(--back); font:13px system-ui,sans-serif; padding:8px;
 display:inline-block; }
@media (prefers-color-scheme: dark) { .fb-summary { --line:#3a424b; --soft:#98a3ae;
 --text:#e3e8ed; --bar:#1f4663; --back:#15191d; } }
.fb-summary table { border-collapse:collapse; margin:0; font:inherit; color:inherit; }
.fb-summary th { text-align:left; font-weight:600; border-bottom:2px solid var(--line);
 padding:4px 10px; }
.fb-summary td { padding:3px 10px; border-bottom:1px solid var(--line); white-space:nowrap;
 text-align:left; }
.fb-summary td.fb-number { text-align:right; font-variant-numeric:tabular-nums;
 background:linear-gradient(to left, var(--bar) var(--share,0%), transparent 0); }
.fb-summary td.fb-shape { font-family:ui-monospace,Menlo,Consolas,monospace; font-size:12px; }
.fb-summary .fb-var { color:var(--soft); }
.fb-summary .fb-type { font-weight:600; }
.fb-facts { display:flex; flex-wrap:wrap; gap:4px 40px; margin-top:8px; }
.fb-facts dl { display:grid; grid-template-columns:auto auto; gap:2px 14px; margin:0; }
.fb-facts dt { color:var(--soft); } .fb-facts dd { margin:0; text-align:right;
 font-variant-numeric:tabular-nums; }
"""
