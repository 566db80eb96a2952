"""The pickles in archives of programs: data, and empty objects with the name of a class."""

import io
from typing import Any

from flambeau.serialization.reading import StorageReader
from flambeau.serialization.restricted import Machine, broken


class Held:
    """An object in a pickle: the name of its class, and its attributes or arguments."""

    name = ""

    def __init__(self, *given: Any) -> None:
        self.given = given
        self.state: Any = None


class _Machine(Machine):
    """A pickle reader that also makes empty objects, by the names of their classes."""

    def __init__(self, file: Any, storages: Any, classes: dict[str, type]) -> None:
        super().__init__(file, storages)
        self.classes = classes
        self.safe = {}

    def find(self, module: Any, name: Any) -> Any:
        if not isinstance(module, str) or not isinstance(name, str):
            raise broken("a global without a name")
        if module == "__torch__" or module.startswith("__torch__."):
            full = f"{module}.{name}"
            if full not in self.classes:
                self.classes[full] = type("Held", (Held,), {"name": full})
            return self.classes[full]
        if module == "torch.jit._pickle":
            found = _TAGS.get(name)
            if found is None:
                raise broken(f"unknown name {module}.{name}")
            return found
        return super().find(module, name)

    def call(self, function: Any, arguments: Any) -> Any:
        if isinstance(function, type) and issubclass(function, Held):
            return function(*arguments) if isinstance(arguments, tuple) else function(arguments)
        if any(function is tag for tag in _TAGS.values()):
            if not isinstance(arguments, tuple):
                raise broken("arguments that are not a tuple")
            return function(*arguments)
        return super().call(function, arguments)

    def is_safe(self, obj: Any) -> bool:
        return isinstance(obj, type) and issubclass(obj, Held)

    def build(self, obj: Any, state: Any) -> None:
        if isinstance(obj, Held):
            obj.state = state
        else:
            super().build(obj, state)


def _tagged(value, kind=None):
    return value


def _from_list(value):
    if not isinstance(value, list):
        raise broken("a list that is none")
    return value


_TAGS = {
    "restore_type_tag": _tagged,
    **dict.fromkeys("build_intlist build_tensorlist build_doublelist build_boollist".split(),
                    _from_list),
}  # fmt: skip


def unpickle(archive: Any, folder: str, map_location: Any, classes: dict[str, type]) -> Any:
    """What the pickle of a folder holds; its tensors are beside it."""
    storages = StorageReader(archive, map_location, folder=folder)
    data = io.BytesIO(archive.read(f"{folder}.pkl"))
    return _Machine(data, storages, classes).load()
