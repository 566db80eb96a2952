"""Names of files that are written again and again: "run/step-{step:06}.pt" and its kin.

The fields of such a pattern are values of the run. The files that belong to a pattern are those
whose names have digits, letters or dots in place of the fields; among them the newest is the one
that was written last.
"""

import os
import re
import string
from typing import Any


def _pieces(name):
    return list(string.Formatter().parse(name))


def path_of(path: str | os.PathLike[str], values: dict[str, Any]) -> str:
    """The name of the file for these values."""
    text = os.fspath(path)
    folder, name = os.path.split(text)
    if not _has_fields(name):
        return text
    try:
        return os.path.join(folder, name.format(**values))
    except KeyError as error:
        raise ValueError(
            f"the path {text!r} speaks of {error}, but the values of this training state are "
            f"{', '.join(values) or 'none'}"
        ) from None


def _has_fields(name):
    try:
        return any(field is not None for _, field, _, _ in _pieces(name))
    except ValueError:  # a lone brace is part of a name like any other
        return False


def _files_of(path):
    """The files of a pattern, oldest first."""
    folder, name = os.path.split(os.fspath(path))
    matches = re.compile(
        "".join(
            re.escape(text) + ("" if field is None else r"[\w.+-]+")
            for text, field, _, _ in _pieces(name)
        )
    ).fullmatch
    found = []
    for entry in os.scandir(folder or "."):
        if entry.is_file() and matches(entry.name):
            found.append((entry.stat().st_mtime_ns, entry.name))
    return [os.path.join(folder, name) for _, name in sorted(found)]


def earlier_files(path: str | os.PathLike[str], new: str, keep: int | None) -> list[str]:
    """Which files of a pattern are too many once `new` is written."""
    if keep is None:
        return []
    if keep < 1:
        raise ValueError(f"keep must be at least 1, but got {keep}")
    if not _has_fields(os.path.basename(os.fspath(path))):
        raise ValueError(
            f"keep={keep} needs a path with a field, such as 'step-{{step:06}}.pt', but got "
            f"{os.fspath(path)!r}"
        )
    if not os.path.isdir(os.path.dirname(new) or "."):
        return []  # save says what is wrong
    others = [name for name in _files_of(path) if name != new]
    return others[: max(len(others) - keep + 1, 0)]


def newest_file(path: str | os.PathLike[str]) -> str:
    """The file of a path; of a pattern, the one written last."""
    text = os.fspath(path)
    if os.path.exists(text) or not _has_fields(os.path.basename(text)):
        if not os.path.exists(text):
            raise FileNotFoundError(2, "No such file or directory", text)
        return text
    found = _files_of(text) if os.path.isdir(os.path.dirname(text) or ".") else []
    if not found:
        raise FileNotFoundError(2, "No file of this pattern", text)
    return found[-1]
