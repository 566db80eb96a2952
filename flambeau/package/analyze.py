"""Questions about objects and code, before and after packaging."""

import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from ._mangling import is_mangled


def is_from_package(obj: Any) -> bool:
    """Was a module, or the class of an object, loaded from a package?"""
    if isinstance(obj, ModuleType):
        return is_mangled(obj.__name__)
    return is_mangled(type(obj).__module__)


def trace_dependencies(
    callable: Callable[..., Any], inputs: Iterable[tuple[Any, ...]]
) -> list[str]:
    """The names of the modules that code runs in when a function is called.

    Args:
        callable: the function.
        inputs: arguments, a tuple for each call.
    """
    modules: dict[str, None] = {}

    def note(frame: Any, event: str, arg: Any) -> None:
        name = frame.f_globals.get("__name__")
        if event.startswith("c_"):
            name = getattr(arg, "__module__", None)
        if name is not None:
            modules[name] = None

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        for arguments in inputs:
            callable(*arguments)
    finally:
        sys.setprofile(before)
    return list(modules)
