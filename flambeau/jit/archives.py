"""`save` and `load` of programs, in PyTorch's archives."""

import os
from typing import Any

from flambeau.jit import types as T
from flambeau.jit.archive_reading import read_module
from flambeau.jit.archive_writing import write_archive
from flambeau.jit.compiling import Function
from flambeau.jit.module_types import ModuleType
from flambeau.jit.modules import ScriptModule, new_module
from flambeau.jit.passes import copied
from flambeau.jit.schemas import REQUIRED, Argument, Schema
from flambeau.serialization import files


def save(m: Any, f: Any, _extra_files: dict | None = None) -> None:
    """Write a program to a path or a file object."""
    m.save(f, _extra_files=_extra_files)


def load(
    f: Any,
    map_location: Any = None,
    _extra_files: dict | None = None,
    _restore_shapes: bool = False,
) -> Any:
    """Read a program that was saved, here or in PyTorch; the classes it came from are not needed.

    The code in an archive is compiled, not run as Python. The values of _extra_files are filled in.
    """
    if files.is_path(f):
        if not os.path.exists(f):
            raise ValueError(f"The provided filename {os.fspath(f)} does not exist")
        if os.path.isdir(f):
            raise ValueError(f"The provided filename {os.fspath(f)} is a directory")
    with files.opened_for_reading(f) as file:
        return read_module(file, map_location, _extra_files)


def save_module(module: ScriptModule, f: Any, extra: dict | None = None) -> None:
    """Write a module with its code to an archive."""
    files.check_writable(f)
    with files.opened_for_writing(f) as file:
        name = (
            os.path.splitext(os.path.basename(os.fspath(f)))[0] if files.is_path(f) else "archive"
        )
        write_archive(file, module, name or "archive", extra or {})


def save_function(function: Function, f: Any, extra: dict | None = None) -> None:
    """A function is saved as the forward of an empty module."""
    kind = ModuleType("__torch__.PlaceholderModule", object)
    kind.attributes["training"] = T.BOOL
    forward = Function("forward", kind.name + ".forward", kind)
    graph = forward.graph = copied(function.graph)
    own = graph.param.add_output(kind, "self")
    graph.param.outs.insert(0, graph.param.outs.pop())
    assert function.schema is not None
    arguments = tuple(a._replace(default=REQUIRED) for a in function.schema.arguments)
    forward.schema = Schema("forward", "", (Argument("self", own.type_), *arguments),
                            function.schema.returns)  # fmt: skip
    kind.methods["forward"] = forward
    save_module(new_module(kind), f, extra)
