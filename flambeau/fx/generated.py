"""Generated code: made into functions, found by tracebacks, imported again from pickles."""

import builtins
import importlib
import itertools
import linecache
import sys
import traceback
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.codegen.texts import code_of
from flambeau.fx.naming import _get_qualified_name, custom_builtins

_numbers = itertools.count()
_PREFIX = "<eval_with_key>"


def _import(name: str, *rest: Any) -> Any:
    """`import torch` in generated code means flambeau."""
    first, dot, below = name.partition(".")
    if first != "torch":
        return builtins.__import__(name, *rest)
    module = importlib.import_module("flambeau" + dot + below)
    return module if len(rest) > 2 and rest[2] else flambeau


def function_of(src: str, names: dict[str, Any], name: str = "forward") -> Callable:
    """The function that some code defines; its lines are found by tracebacks."""
    key = f"{_PREFIX}.{next(_numbers)}"
    linecache.cache[key] = (len(src), None, src.splitlines(keepends=True), key)
    names = {"__builtins__": {**vars(builtins), "__import__": _import}, **names}
    exec(code_of(src, key), names)
    return names[name]


def import_block(names: dict[str, Any], importer: Any = None) -> str:
    """Statements that bring the globals of generated code back, as an importer finds them."""
    return "\n".join(sorted(_statement(name, obj, importer) for name, obj in names.items()))


def _statement(name, obj, importer):
    known = custom_builtins().get(name)
    if known is not None and known[1] is obj:
        return known[0]
    if getattr(builtins, name, None) is obj:
        return f"from builtins import {name}"
    if importer is not None and str(getattr(obj, "__module__", "")).startswith("<torch_package_"):
        module, attribute = importer.get_name(obj)
    else:
        module, _, attribute = _get_qualified_name(obj).rpartition(".")
    return f"from {module or 'builtins'} import {attribute} as {name}"


def tell_place(error: Exception) -> None:
    """Print where in generated code an error came up."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [f for f in frames if f.filename.startswith(_PREFIX)]
    if not inside:
        return
    print("".join(traceback.format_exception(error)), file=sys.stderr)
    print(message_about(inside[-1]), file=sys.stderr)


def message_about(frame: traceback.FrameSummary) -> str:
    """The line of generated code of a frame, with its neighbours."""
    number = frame.lineno or 0
    lines = linecache.getlines(frame.filename)
    wrong = lines[number - 1] if 0 < number <= len(lines) else ""
    before = "".join(lines[max(0, number - 2) : number - 1])
    after = "\n".join(lines[number : number + 2])
    return (
        f"Call using an FX-traced Module, line {number} of the traced Module's generated forward "
        f"function:\n{before}{wrong}\n{'~' * len(wrong)} <--- HERE\n{after}"
    )
