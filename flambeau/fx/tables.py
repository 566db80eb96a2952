"""Rows as text in columns, with `tabulate` if it is installed."""

from typing import Any


def table(rows: list[list[Any]], headers: list[str]) -> str:
    """A table: names, a line, rows."""
    try:
        from tabulate import tabulate  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        return _plain(rows, headers)
    return tabulate(rows, headers=headers)


def _plain(rows, headers):
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headers, *texts)]
    lines = [headers, ["-" * width for width in widths], *texts]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines
    )
