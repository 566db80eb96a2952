"""Pickles of packages: names that an exporter's importers find, and those of torch for ours."""

import pickle
import pickletools
from typing import Any

from flambeau.serialization import rebuilding
from flambeau.serialization.pickling import Pickler, Storages
from flambeau.serialization.unrestricted import find_here

from .importer import Importer, ObjMismatchError, ObjNotFoundError

OURS = ("torch", "torchvision", "flambeau")


class PackagePickler(Pickler):
    """Writes objects for one package; tensors share its storages."""

    def __init__(
        self, exporter: Any, importer: Importer, file: Any, protocol: int, storages: Storages
    ) -> None:
        super().__init__(file, protocol)
        self.exporter, self.importer, self.storages = exporter, importer, storages

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, type) and hasattr(type(obj), "__reduce_package__"):
            return ("reduce_package", id(obj), *obj.__reduce_package__(self.exporter))
        return super().persistent_id(obj)

    def save_global(self, obj: Any, name: str | None = None) -> None:
        if rebuilding.spoken_name(obj, name) is not None:
            return super().save_global(obj, name)
        try:
            module, name = self.importer.get_name(obj, name)
        except (ObjNotFoundError, ObjMismatchError) as error:
            raise pickle.PicklingError(f"Can't pickle {obj}: {error}") from None
        if self.proto >= 4:  # type: ignore[attr-defined]
            self.save(module)
            self.save(name)
            self.write(pickle.STACK_GLOBAL)  # type: ignore[attr-defined]
        else:
            self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())  # type: ignore[attr-defined]
        self.memoize(obj)  # type: ignore[attr-defined]
        return None


def globals_of(pickled: bytes) -> list[tuple[str, str]]:
    """(module, name) of what a pickle names."""
    found: dict[tuple[str, str], None] = {}
    texts: list[str] = []
    memo: dict[int, str] = {}
    for code, argument, _ in pickletools.genops(pickled):
        if code.name == "GLOBAL":
            module, _, name = str(argument).partition(" ")
            found[module, name] = None
        elif code.name == "STACK_GLOBAL":
            found[texts[-2], texts[-1]] = None
        elif code.name == "MEMOIZE":
            memo[len(memo)] = texts[-1] if texts else ""
        elif code.name in ("BINGET", "LONG_BINGET"):
            texts.append(memo.get(argument or 0, ""))
        elif isinstance(argument, str):
            texts.append(argument)
    return list(found)


class PackageUnpickler(pickle.Unpickler):
    """Reads them, with modules of a package."""

    def __init__(self, importer: Importer, file: Any, persistent_load: Any) -> None:
        super().__init__(file)
        self.importer, self.load_persistent = importer, persistent_load

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] in OURS or module in ("builtins", "collections"):
            found = find_here(module, name)
            if found is not None:
                return found
        found = self.importer.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def persistent_load(self, identity: Any) -> Any:
        return self.load_persistent(identity)
