"""`python -m flambeau inspect FILE`: what a file of weights holds, without loading it.

Nothing in the file is run and no tensor is read: headers and directories are parsed, and pickles
are described by `describing.py`. `inspect` gives the findings as an `Inspection`; the rest of this
file prints it.
"""

import argparse
import json
import math
import os
import sys
from dataclasses import asdict, dataclass, field
from typing import Any

from flambeau.serialization import inspecting_formats as formats
from flambeau.serialization.describing import TensorFacts
from flambeau.serialization.inspecting_formats import Unknown

MOST_ROWS = 200


@dataclass
class Inspection:
    """What was found in a file."""

    path: str
    format: str
    size: int
    facts: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    tensors: list[TensorFacts] = field(default_factory=list)
    storages: dict[str, int] = field(default_factory=dict)  # key -> bytes
    values: dict[str, str] = field(default_factory=dict)
    globals: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # those that weights_only=True refuses

    @property
    def shared(self) -> dict[str, list[str]]:
        """Storages that several tensors are over: {key: names}."""
        found: dict[str, list[str]] = {}
        for tensor in self.tensors:
            if tensor.storage is not None:
                found.setdefault(tensor.storage, []).append(tensor.name)
        return {key: names for key, names in found.items() if len(names) > 1}

    def as_dict(self) -> dict[str, Any]:
        """Everything as data for JSON."""
        found = asdict(self)
        found["tensors"] = [t._asdict() for t in self.tensors]
        found["shared"] = self.shared
        return found


def inspect(path: str | os.PathLike[str]) -> Inspection:
    """Look into a file.

    Raises:
        Unknown: the file is none that we know, or is damaged.
    """
    size = os.path.getsize(path)
    found = Inspection(os.fspath(path), "", size)
    with open(path, "rb") as file:
        formats.fill(found, file, size)
    return found


# printing


def human(count: int) -> str:
    """Bytes in units that people read: 1536 -> "1.5 KB"."""
    if count < 1000:
        return f"{count} B"
    amount, unit = float(count), "B"
    for larger in ("KB", "MB", "GB", "TB", "PB", "EB"):
        if round(amount, 1) < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.1f} {unit}" if amount < 99.95 else f"{amount:.0f} {unit}"


def shown(text: Any, width: int = 100) -> str:
    """Text of a file on a terminal: one line, nothing that a terminal would obey."""
    text = str(text)
    text = text if len(text) <= width else text[: width - 1] + "…"
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def table(rows: list[list[str]], right: tuple[int, ...] = ()) -> list[str]:
    """Rows of equal columns; those named in `right` are flush right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if k in right else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def _usual_strides(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _row(tensor, shared):
    notes = [tensor.kind] if tensor.kind else []
    if tensor.stride and tensor.stride != _usual_strides(tensor.shape):
        notes.append(f"strides {list(tensor.stride)}")
    if tensor.offset:
        notes.append(f"offset {tensor.offset}")
    if tensor.storage in shared:
        notes.append(f"shares storage {tensor.storage}")
    return [
        shown(tensor.name or "(the object itself)", 80),
        shown(list(tensor.shape), 60),
        shown(tensor.dtype, 30),
        human(tensor.nbytes),
        shown(", ".join(notes)),
    ]


def _tensor_lines(found, most):
    if not found.tensors:
        return ["no tensors"]
    shared = found.shared
    rows = [["tensor", "shape", "dtype", "size", ""]]
    rows += [_row(tensor, shared) for tensor in found.tensors[:most]]
    lines = table(rows, right=(3,))
    left = len(found.tensors) - most
    if left > 0:
        lines.append(f"... and {left} more (--all shows them)")
    count, numel = len(found.tensors), sum(t.numel for t in found.tensors)
    total = sum(t.nbytes for t in found.tensors)
    words = "tensor" if count == 1 else "tensors"
    text = f"{count} {words}, {numel:,} elements, {human(total)}"
    if found.storages:
        kept = sum(found.storages.values())
        words = "storage" if len(found.storages) == 1 else "storages"
        text += f" in {len(found.storages)} {words} of {human(kept)}"
    return [*lines, "", text]


def _named(title, entries, most):
    if not entries:
        return []
    lines = ["", f"{title}:"]
    for name, value in list(entries.items())[:most]:
        lines.append(f"  {shown(name or '(the object itself)', 60)} = {shown(value, 80)}")
    if len(entries) > most:
        lines.append(f"  ... and {len(entries) - most} more (--all shows them)")
    return lines


def _global_lines(found):
    if not found.globals:
        return []
    refused = set(found.refused)
    lines = ["", "globals that the pickle asks for:"]
    for name in found.globals:
        flag = "!" if name in refused else " "
        lines.append(f"  {flag} {shown(name, 90)}")
    if refused:
        words = "name is" if len(refused) == 1 else "names are"
        lines += [
            "",
            f"{len(refused)} {words} refused by load(weights_only=True), and marked with !",
            "Load this file with weights_only=False only if you trust whoever wrote it.",
        ]
    return lines


def text_of(found: Inspection, everything: bool = False) -> str:
    """A page about a file."""
    most = len(found.tensors) if everything else MOST_ROWS
    head = [f"{shown(found.path, 200)}: {found.format}, {human(found.size)}"]
    head += [f"{name}: {shown(value)}" for name, value in found.facts.items()]
    lines = [*head, "", *_tensor_lines(found, most)]
    lines += _named("metadata", found.metadata, 10**9 if everything else 30)
    lines += _named("other values", found.values, 10**9 if everything else 30)
    lines += _global_lines(found)
    return "\n".join(lines)


_FLAGS = {
    "json": "everything, for programs",
    "all": "every tensor and value",
    "safe": "exit with status 1 if load(weights_only=True) would refuse a file",
}


def main(arguments: list[str]) -> int:
    """The command; 0 if the file was understood, 1 if not."""
    parser = argparse.ArgumentParser(
        prog="python -m flambeau inspect",
        description="List what a file of weights holds, without loading it: files of torch.save "
        "(also old ones), TorchScript, safetensors, pickle, npy and npz.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE")
    for name, text in _FLAGS.items():
        parser.add_argument(f"--{name}", action="store_true", help=text)
    options = parser.parse_args(arguments)
    looked_at = [_understood(path) for path in options.files]
    pages = [page for page in looked_at if page is not None]
    if pages and options.json:
        data = [_finite(page.as_dict()) for page in pages]
        print(json.dumps(data if len(looked_at) > 1 else data[0], indent=2))
    elif pages:
        print("\n\n".join(text_of(page, options.all) for page in pages))
    if None in looked_at or (options.safe and any(page.refused for page in pages)):
        sys.exit(1)
    return 0


def _understood(path):
    """What a file holds; None, after a word on standard error, if nobody knows."""
    try:
        return inspect(path)
    except (Unknown, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        print(f"{shown(path, 200)}: {shown(reason, 500)}", file=sys.stderr)
        return None


def _finite(value):
    """Data without nan and infinities, which JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if isinstance(value, dict):
        return {str(name): _finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
