"""PackageImporter: modules and objects of a package, apart from those of the program.

Packaged modules are called `<torch_package_0>.name` and live in a table of the importer's own; code
in them imports through the importer. Modules that the package leaves to its reader come from the
program.
"""

import builtins
import importlib
import importlib.machinery
import importlib.util
import inspect
import io
import linecache
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from flambeau._typed_storage import UntypedStorage, typed
from flambeau.runtime.cpu import buffer_at
from flambeau.serialization import locations
from flambeau.serialization.reading import parts_of
from flambeau.serialization.rebuilding import MetaStorage
from flambeau.serialization.record_reader import PyTorchFileReader
from flambeau.storage import new_storage

from ._mangling import PackageMangler, demangle, is_mangled
from ._package_pickler import OURS, PackageUnpickler
from .file_structure_representation import Directory, directory_of
from .glob_group import GlobPattern
from .importer import Importer
from .package_exporter import IMPORTER, always_there

__all__ = ["PackageImporter"]

# modules of all importers, by their mangled names
_modules_of_packages: dict[str, ModuleType] = {}


class DirectoryReader:
    """The records of a package that has been unpacked."""

    def __init__(self, directory: str) -> None:
        self.directory = Path(directory)

    def get_record(self, name: str) -> bytes:
        return (self.directory / name).read_bytes()

    def has_record(self, name: str) -> bool:
        return (self.directory / name).is_file()

    def get_all_records(self) -> list[str]:
        files = (path for path in self.directory.rglob("*") if path.is_file())
        return [path.relative_to(self.directory).as_posix() for path in files]


class PackageImporter(Importer):
    """Loads modules and objects of a package. A package can run any code: trust its source.

    Args:
        file_or_buffer: a path, an object with `read` and `seek`, or the folder of an unpacked one.
        module_allowed: says of a module that the package leaves to its reader whether it may be
            used.
    """

    modules: dict[str, Any]

    def __init__(
        self,
        file_or_buffer: str | os.PathLike[str] | IO[bytes] | PyTorchFileReader,
        module_allowed: Callable[[str], bool] = lambda module_name: True,
    ) -> None:
        self.zip_reader: Any
        self.filename = "<binary>"
        if isinstance(file_or_buffer, PyTorchFileReader):
            self.filename, self.zip_reader = "<pytorch_file_reader>", file_or_buffer
        elif isinstance(file_or_buffer, (str, os.PathLike)):
            self.filename = os.fspath(file_or_buffer)
            folder = os.path.isdir(self.filename)
            self.zip_reader = (DirectoryReader if folder else PyTorchFileReader)(self.filename)
        else:
            self.zip_reader = PyTorchFileReader(file_or_buffer)
        listed = self.zip_reader.get_record(".data/extern_modules").decode("utf-8")
        self.extern_modules = listed.split("\n") if listed else []
        for name in self.extern_modules:
            if not module_allowed(name):
                raise ImportError(
                    f"package '{self.filename}' needs the external module '{name}' but that "
                    "module has been disallowed by the module_allowed argument."
                )
        self._mangler = PackageMangler()
        self.modules = {IMPORTER: self}
        self._files: dict[str, tuple[str | None, bool]] = {}  # module -> (record, is a package)
        self._folders: set[str] = set()
        for record in self.zip_reader.get_all_records():
            if not record.startswith(".data/"):
                self._note_file(record)
        for name in self.extern_modules:
            self._note_parents(name)
        self.patched_builtins = {**vars(builtins), "__import__": self.__import__}

    def _note_parents(self, name: str) -> None:
        while name := name.rpartition(".")[0]:
            self._files.setdefault(name, (None, True))

    def _note_file(self, record: str) -> None:
        stem, dot, end = record.rpartition(".")
        *folders, last = stem.split("/") if dot and end == "py" else record.split("/")
        name = ".".join(folders)
        if dot and end == "py" and last == "__init__":
            self._files[name] = record, True
        elif dot and end == "py":
            name = ".".join((*folders, last))
            self._files[name] = record, False
        elif name:
            self._files.setdefault(name, (None, True))
        self._note_parents(name)

    # -- modules -----------------------------------------------------------------------------------

    def import_module(self, name: str, package: Any = None) -> Any:
        """A module of the package, or one that it leaves to its reader."""
        return self._load(self._mangler.demangle(name))

    def _load(self, name: str) -> Any:
        if name in self.modules:
            return self.modules[name]
        parent, _, last = name.rpartition(".")
        above = self._load(parent) if parent else None
        if name in self.modules:  # its parent has imported it
            return self.modules[name]
        if self._is_external(name):
            module = _of_program(name)
            self.modules[name] = module
        elif name in self._files:
            module = self._made(name)
        else:
            raise ModuleNotFoundError(
                f'No module named "{name}" in self-contained archive "{self.filename}" and the '
                "module is also not in the list of allowed external modules: "
                f"{self.extern_modules!r}",
                name=name,
            )
        if above is not None and is_mangled(getattr(above, "__name__", "")):
            setattr(above, last, module)
        return self.modules[name]

    def _is_external(self, name: str) -> bool:
        if name in self.extern_modules:
            return True
        record, _ = self._files.get(name, (None, False))
        if record is not None or not always_there(name):
            return False
        # parts of what is there, and parents of it
        top = name.partition(".")[0]
        return any(extern.partition(".")[0] == top for extern in self.extern_modules)

    def _made(self, name: str) -> ModuleType:
        record, is_package = self._files[name]
        mangled = self._mangler.mangle(name)
        spec = importlib.machinery.ModuleSpec(mangled, self, is_package=is_package)  # type: ignore[arg-type]
        module = importlib.util.module_from_spec(spec)
        facts = vars(module)
        filename = None if record is None else self._mangler.mangle(record)
        facts.update(
            __file__=filename,
            __cached__=None,
            __builtins__=self.patched_builtins,
            __torch_package__=True,
        )
        self.modules[name] = _modules_of_packages[mangled] = module
        if record is not None:
            source = self.zip_reader.get_record(record)
            code = compile(source, str(filename), "exec", dont_inherit=True)
            linecache.lazycache(str(filename), facts)
            try:
                exec(code, facts)
            except BaseException:
                del self.modules[name], _modules_of_packages[mangled]
                raise
        return module

    def create_module(self, spec: Any) -> None:
        """Modules are made as usual."""

    def exec_module(self, module: ModuleType) -> None:
        """They are run when they are imported."""

    def get_source(self, module_name: str) -> str:
        """The source of a module."""
        record, _ = self._files.get(demangle(module_name), (None, False))
        if record is None:
            raise ImportError(f"no source of {module_name}", name=module_name)
        return self.zip_reader.get_record(record).decode("utf-8")

    def __import__(
        self,
        name: str,
        globals: Any = None,
        locals: Any = None,
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        """What `import` means in packaged code."""
        if level:
            package = globals.get("__package__") or globals["__name__"].rpartition(".")[0]
            name = importlib.util.resolve_name("." * level + name, package)
        name = demangle(name)
        module = self._load(name)
        if not fromlist:
            return self._load(name.partition(".")[0])
        if hasattr(module, "__path__"):
            parts = getattr(module, "__all__", ()) if "*" in fromlist else fromlist
            for part in parts:
                if not hasattr(module, part):
                    self._try_part(f"{name}.{part}")
        return module

    def _try_part(self, name: str) -> None:
        try:
            self._load(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise

    def whichmodule(self, obj: Any, name: str) -> str:
        said = getattr(obj, "__module__", None)
        return said if said is not None else super().whichmodule(obj, name)

    # -- objects and other files -------------------------------------------------------------------

    def _record(self, package: str, resource: str) -> bytes:
        return self.zip_reader.get_record(f"{package.replace('.', '/')}/{resource}")

    def load_binary(self, package: str, resource: str) -> bytes:
        """Bytes that `save_binary` wrote."""
        return self._record(package, resource)

    def load_text(
        self, package: str, resource: str, encoding: str = "utf-8", errors: str = "strict"
    ) -> str:
        """A text that `save_text` wrote."""
        return self._record(package, resource).decode(encoding, errors)

    def load_pickle(self, package: str, resource: str, map_location: Any = None) -> Any:
        """An object that `save_pickle` wrote.

        Args:
            package: where it lies.
            resource: its name there.
            map_location: where tensors go, as `load` takes it.
        """
        storages: dict[str, Any] = {}
        reduced: dict[int, Any] = {}

        def persistent(identity: Any) -> Any:
            if isinstance(identity, tuple) and identity[0] == "reduce_package":
                *known, function, arguments = identity[1:]
                if not known:
                    return function(self, *arguments)
                if known[0] not in reduced:
                    reduced[known[0]] = function(self, *arguments)
                return reduced[known[0]]
            return self._storage(identity, storages, map_location)

        file = io.BytesIO(self._record(package, resource))
        return PackageUnpickler(self, file, persistent).load()

    def _storage(self, identity: Any, known: dict[str, Any], map_location: Any) -> Any:
        kind, key, location, count = parts_of(identity)
        place = locations.place_of(location, map_location)
        if place == "meta":
            itemsize = 1 if kind.dtype is None else kind.dtype.itemsize
            return MetaStorage(count * itemsize, kind.dtype)
        if key not in known:
            name = key if str(key).endswith(".storage") else f"{key}.storage"
            data = self.zip_reader.get_record(f".data/{name}")
            storage = new_storage(len(data))
            if data:
                memoryview(buffer_at(storage.pointer, len(data))).cast("B")[:] = data
            if place is None:
                known[key] = locations.ask(map_location, storage, location)
            else:
                known[key] = locations.moved(storage, place)
        found, where = known[key]
        if kind.dtype is None:
            return UntypedStorage(found, device=where)
        return typed(found, kind.dtype, where)

    def id(self) -> str:
        """The prefix of this importer's modules."""
        return self._mangler.parent_name()

    def file_structure(
        self, *, include: GlobPattern = "**", exclude: GlobPattern = ()
    ) -> Directory:
        """The files of the package as a tree, as far as they fit."""
        records = self.zip_reader.get_all_records()
        return directory_of(self.filename, records, include, exclude)

    def python_version(self) -> str | None:
        """Which Python wrote the package; None if it does not say."""
        place = ".data/python_version"
        if not self.zip_reader.has_record(place):
            return None
        return self.zip_reader.get_record(place).decode("utf-8").strip()

    def get_resource_reader(self, fullname: str) -> "_ResourceReader | None":
        """What `importlib.resources` reads a package with; None if there is none."""
        name = demangle(fullname)
        try:
            module = self._load(name)
        except ImportError:
            return None
        if getattr(module, "__loader__", None) is not self:
            return None
        return _ResourceReader(self, name)

    def __reduce__(self) -> Any:
        raise TypeError("a PackageImporter cannot be pickled; pickle the file that it reads")


class _ResourceReader:
    """The files of one package."""

    def __init__(self, importer: PackageImporter, name: str) -> None:
        self.importer, self.folder = importer, name.replace(".", "/") + "/"

    def open_resource(self, resource: str) -> io.BytesIO:
        return io.BytesIO(self.importer.zip_reader.get_record(self.folder + resource))

    def resource_path(self, resource: str) -> str:
        reader = self.importer.zip_reader
        if isinstance(reader, DirectoryReader) and reader.has_record(self.folder + resource):
            return str(reader.directory / (self.folder + resource))
        raise FileNotFoundError

    def is_resource(self, name: str) -> bool:
        return self.importer.zip_reader.has_record(self.folder + name)

    def contents(self) -> Iterator[str]:
        seen: dict[str, None] = {}
        for record in self.importer.zip_reader.get_all_records():
            if record.startswith(self.folder):
                seen[record.removeprefix(self.folder).partition("/")[0]] = None
        return iter(seen)


def _of_program(name: str) -> ModuleType:
    """A module of the program's; what is called torch is ours."""
    top, _, rest = name.partition(".")
    if top in OURS:
        root = "flambeau.vision" if top == "torchvision" else "flambeau"
        try:
            return importlib.import_module(f"{root}.{rest}" if rest else root)
        except ModuleNotFoundError:
            if top == "flambeau" or top not in sys.modules:
                raise
    return importlib.import_module(name)


_getfile = inspect.getfile


def _getfile_of_packages(object: Any) -> str:
    """`inspect.getfile` that knows classes of packages, which are not in `sys.modules`."""
    if inspect.isclass(object) and object.__module__ in _modules_of_packages:
        return str(_modules_of_packages[object.__module__].__file__)
    return _getfile(object)


inspect.getfile = _getfile_of_packages
