"""Where a piece of a program stands in its source, and errors that point at it."""

import ast
from typing import Any


class Source:
    """A text that is compiled: where its first line is in which file."""

    __slots__ = ("filename", "first", "lines", "margin", "name")

    def __init__(
        self, text: str, filename: str = "", first: int = 1, margin: int = 0, name: str = ""
    ) -> None:
        self.lines = text.splitlines()
        self.filename, self.first, self.margin, self.name = filename, first, margin, name

    def at(self, node: Any) -> "Place":
        """The place of a node of Python's syntax tree."""
        line = getattr(node, "lineno", 1)
        start = getattr(node, "col_offset", 0)
        end_line = getattr(node, "end_lineno", None) or line
        end = getattr(node, "end_col_offset", None) or start + 1
        if isinstance(node, ast.Call):  # what is called, not with what
            end_line, end = node.func.end_lineno or line, node.func.end_col_offset or end
        if isinstance(node, (ast.If, ast.For, ast.While, ast.With, ast.FunctionDef, ast.Try)):
            end_line = line  # the head, not all that follows
        if end_line != line:
            end = len(self.lines[line - 1]) if line <= len(self.lines) else start + 1
        return Place(self, line, start, end)


class Place:
    """A stretch of one line."""

    __slots__ = ("end", "line", "source", "start")

    def __init__(self, source: Source, line: int, start: int, end: int) -> None:
        self.source, self.line, self.start, self.end = source, line, start, end

    def shown(self) -> str:
        """file:line:column"""
        source = self.source
        name = source.filename or "<string>"
        return f"{name}:{source.first + self.line - 1}:{self.start + source.margin}"

    def highlight(self) -> str:
        """The lines around it, with a mark."""
        source, lines = self.source, self.source.lines
        at = self.line - 1
        pad = " " * source.margin
        start, end = max(0, at - 2), min(len(lines), at + 4)
        marks = " " * (source.margin + self.start) + "~" * max(1, self.end - self.start)
        out = [f'  File "{source.filename or "<string>"}", line {source.first + at}']
        for k in range(start, end):
            out.append(pad + lines[k])
            if k == at:
                out.append(marks + " <--- HERE")
        return "\n".join(out) + "\n"


class FrontendError(Exception):
    """Source that is no TorchScript."""

    def __init__(self, place: Place | None, message: str) -> None:
        super().__init__(message)
        self.place, self.message = place, message

    def __str__(self) -> str:
        return self.message if self.place is None else f"{self.message}:\n{self.place.highlight()}"


class NotSupportedError(FrontendError):
    """Python that TorchScript leaves out."""


class UnsupportedNodeError(NotSupportedError):
    """A statement or expression that TorchScript leaves out."""


class FrontendTypeError(FrontendError):
    """A type that TorchScript leaves out."""


class CompileError(RuntimeError):
    """A program whose types or names do not fit; points at the place."""

    def __init__(self, message: str, place: Place | None = None, within: str = "") -> None:
        self.message, self.place, self.within = message, place, within
        super().__init__(message)

    def __str__(self) -> str:
        if self.place is None:
            return self.message
        return f"\n{self.message}:\n{self.place.highlight()}{self.within}"
