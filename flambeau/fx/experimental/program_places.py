"""Where in a program a call is made: its line, and the modules around it."""

import linecache
import os
import sys
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import interposing
from flambeau.nn import Module

PACKAGE = os.path.dirname(flambeau.__file__)
_INSIDE = tuple(
    os.path.join(PACKAGE, part)
    for part in "eager interposing aten fx export _tensor ops autograd utils _decomp func".split()
)
_BETWEEN = (
    os.path.join("interposing", "__init__.py"),
    *("op_recorder.py proxy_tensor.py lowering.py recorder.py".split()),
    *("functional_levels.py handling.py".split()),
)


class Modules(interposing.Handler):
    """Tells the recorder which modules are being called."""

    kinds = frozenset({"module"})
    level = interposing.FUNCTION_MODES
    sees = "all"

    def __init__(self, recorder: Any, root: Module) -> None:
        self.recorder = recorder
        self.paths: dict[int, str] = {}
        for path, module in root.named_modules(remove_duplicate=False):
            self.paths.setdefault(id(module), path)
        self.calls: dict[str, int] = {}

    def around(self, name: interposing.Name, function: Callable, args: tuple, kwargs: dict) -> Any:
        module = args[0]
        path = self.paths.get(id(module))
        if path is None:
            return function(*args, **kwargs)
        kind = type(module)
        where = kind.__module__.replace("flambeau.", "torch.", 1)
        count = self.calls[path] = self.calls.get(path, -1) + 1
        key = f"L__self__{path}" + (f"@{count}" if count else "")
        self.recorder.modules.append((key, path, f"{where}.{kind.__qualname__}"))
        try:
            return function(*args, **kwargs)
        finally:
            self.recorder.modules.pop()


def watch_modules() -> None:
    """Let handlers stand around calls of modules."""
    interposing.offer(Module.__call__, "nn.Module", "module")


def passes_calls(filename):
    """Is it code that stands between a call and its function?"""
    return filename.startswith("<flambeau") or filename.endswith(_BETWEEN)


def _is_machinery(filename):
    return filename.startswith(_INSIDE) or filename.startswith("<flambeau")


def program_frame():
    """The innermost frame of the program: the last that runs a forward, else the last of all."""
    frame = sys._getframe(2)
    first = None
    while frame is not None:
        filename = frame.f_code.co_filename
        if not _is_machinery(filename) and "contextlib" not in filename:
            if frame.f_code.co_name == "forward":
                return frame
            if filename.startswith(PACKAGE + os.sep + "nn" + os.sep):
                pass
            elif first is None:
                first = frame
        frame = frame.f_back
    return first


def frame_text(frame):
    code = frame.f_code
    line = linecache.getline(code.co_filename, frame.f_lineno).strip()
    return f'  File "{code.co_filename}", line {frame.f_lineno}, in {code.co_name}\n    {line}\n'
