"""Importers: from names to modules, and from objects to the names under which they are found."""

import importlib
import pickle
from abc import ABC, abstractmethod
from types import ModuleType
from typing import Any

from ._mangling import demangle, is_mangled

__all__ = ["Importer", "ObjMismatchError", "ObjNotFoundError", "OrderedImporter"]


class ObjNotFoundError(Exception):
    """An object is not where its name says."""


class ObjMismatchError(Exception):
    """Another object is where its name says."""


class Importer(ABC):
    """An environment to import from."""

    @abstractmethod
    def import_module(self, module_name: str) -> ModuleType:
        """The module of a name."""

    def whichmodule(self, obj: Any, name: str) -> str:
        """The name of the module that an object is defined in."""
        return pickle.whichmodule(obj, name)  # type: ignore[attr-defined]

    def get_name(self, obj: Any, name: str | None = None) -> tuple[str, str]:
        """(module, name) under which this importer finds an object."""
        if name is None:
            name = getattr(obj, "__qualname__", None) or obj.__name__
        said = self.whichmodule(obj, name)
        module_name = demangle(said)
        try:
            found: Any = self.import_module(module_name)
            for part in name.split("."):
                found = getattr(found, part)
        except (ImportError, KeyError, AttributeError):
            raise ObjNotFoundError(f"{obj} was not found as {module_name}.{name}") from None
        if found is obj:
            return module_name, name
        place = (
            "the importer of a package" if is_mangled(said) else "the current Python environment"
        )
        raise ObjMismatchError(
            f"The object being saved is from module '{said}' ({place}), but importing "
            f"{module_name}.{name} gives a different object. Give the importer that it was loaded "
            "by to the exporter, before the others: `PackageExporter(..., importer=(my_importer, "
            "sys_importer))`"
        )


class _SysImporter(Importer):
    """The modules of this process."""

    def import_module(self, module_name: str) -> ModuleType:
        return importlib.import_module(module_name)


sys_importer = _SysImporter()


class OrderedImporter(Importer):
    """Several importers, the first that knows a module counts.

    Args:
        args: the importers.
    """

    def __init__(self, *args: Importer) -> None:
        self._importers = list(args)

    def import_module(self, module_name: str) -> ModuleType:
        last: Exception | None = None
        for importer in self._importers:
            if not isinstance(importer, Importer):
                raise TypeError(
                    f"{importer} is not a Importer. All importers in OrderedImporter must inherit "
                    "from Importer."
                )
            try:
                module = importer.import_module(module_name)
            except ModuleNotFoundError as error:
                last = error
                continue
            # a package of which an archive has only parts may be whole in another one
            if not getattr(module, "__torch_package__", False) or module.__file__ is not None:
                return module
        raise last or ModuleNotFoundError(module_name)

    def whichmodule(self, obj: Any, name: str) -> str:
        names = (importer.whichmodule(obj, name) for importer in self._importers)
        return next((found for found in names if found != "__main__"), "__main__")
