"""PackageExporter: what goes into a package, and what becomes of the modules it needs.

Modules that something needs are nodes of a graph, each with the action of the first pattern that
fits: taken along, left to the reader's environment, mocked or refused. Everything is written at the
end, when the graph is complete.
"""

import contextlib
import importlib.machinery
import io
import linecache
import os
import platform
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import IO, Any, NamedTuple

from flambeau.runtime.cpu import buffer_at
from flambeau.serialization.archive import ArchiveWriter
from flambeau.serialization.files import opened_for_writing
from flambeau.serialization.pickling import Storages
from flambeau.utils.hooks import RemovableHandle

from . import _mock
from ._digraph import DiGraph
from ._mangling import demangle, is_mangled
from ._package_pickler import OURS, PackagePickler, globals_of
from .find_file_dependencies import find_files_source_depends_on
from .glob_group import GlobGroup, GlobPattern
from .importer import Importer, OrderedImporter, sys_importer

__all__ = ["EmptyMatchError", "PackageExporter", "PackagingError", "PackagingErrorReason"]

_gate_torchscript_serialization = True  # for programs that set it
IMPORTER = "torch_package_importer"  # the name under which packaged code finds its importer
MOCKS = "_mock"
Hook = Callable[["PackageExporter", str], None]


class _Action(Enum):
    INTERN = 1
    EXTERN = 2
    MOCK = 3
    DENY = 4
    MOCK_MODULE = 5
    SKIP = 6


class PackagingErrorReason(Enum):
    """What is wrong with a module."""

    IS_EXTENSION_MODULE = (
        "Module is a C extension module. torch.package supports Python modules only."
    )
    NO_DUNDER_FILE = "Module had no __file__ defined."
    SOURCE_FILE_NOT_FOUND = "Module had a __file__, but we could not find it in your filesystem."
    DEPENDENCY_RESOLUTION_FAILED = "Dependency resolution failed."
    NO_ACTION = "Module did not match against any action pattern. Extern, mock, or intern it."
    DENIED = "Module was denied by a pattern."
    MOCKED_BUT_STILL_USED = (
        "Module was mocked out, but is still being used in the package. Please intern or extern "
        "the mocked modules if objects are supposed to be in the package."
    )


class EmptyMatchError(Exception):
    """A pattern that had to fit some module fits none."""


class PackagingError(Exception):
    """Modules that a package needs cannot be had.

    Args:
        dependency_graph: the modules; those with an `error` are told of.
        debug: whether to say what leads to them.
    """

    def __init__(self, dependency_graph: DiGraph, debug: bool = False) -> None:
        by_reason: dict[PackagingErrorReason, list[str]] = {}
        for name, facts in dependency_graph.nodes.items():
            if facts.get("error") is not None:
                by_reason.setdefault(facts["error"], []).append(name)
        lines = [""]
        for reason, names in by_reason.items():
            lines.append(f"* {reason.value}")
            for name in names:
                lines.append(f"    {name}")
                context = dependency_graph.nodes[name].get("error_context")
                if context is not None:
                    lines.append(f"      Context: {context}")
                if debug:
                    lines.append("      A path to it:")
                    path = dependency_graph.first_path(name)
                    lines += [f"        {step}" for step in path]
        lines.append("")
        if not debug:
            lines.append(
                "Set debug=True when invoking PackageExporter for a visualization of where broken "
                "modules are coming from!\n"
            )
        super().__init__("\n".join(lines))
        self.dependency_graph = dependency_graph


class _Pattern(NamedTuple):
    glob: GlobGroup
    action: _Action
    allow_empty: bool


class PackageExporter:
    """Writes a package.

    Args:
        f: a path, or an object with `write`.
        importer: where modules come from, or several, the first that has one counts.
        debug: whether errors say what leads to a module.

    Example:
        >>> import io
        >>> from flambeau.package import PackageExporter, PackageImporter
        >>> file = io.BytesIO()
        >>> with PackageExporter(file) as exporter:
        ...     exporter.save_source_string("answers", "answer = 42")
        >>> PackageImporter(io.BytesIO(file.getvalue())).import_module("answers").answer
        42
    """

    importer: Importer

    def __init__(
        self,
        f: str | os.PathLike[str] | IO[bytes],
        importer: Importer | Sequence[Importer] = sys_importer,
        debug: bool = False,
    ) -> None:
        self.debug, self._target = debug, f
        self._records: dict[str, bytes] = {}
        self._storages = Storages()
        self._kept: list[Any] = []  # pickled objects stay alive, since storages go by identity
        self.dependency_graph = DiGraph()
        self._patterns: list[_Pattern] = []
        self._matched: set[int] = set()
        self._hooks: dict[_Action, OrderedDict[int, Hook]] = {
            action: OrderedDict() for action in (_Action.EXTERN, _Action.MOCK, _Action.INTERN)
        }
        self._unique_id, self._closed = 0, False
        if isinstance(importer, Importer):
            self.importer = importer
        elif isinstance(importer, Sequence):
            self.importer = OrderedImporter(*importer)
        else:
            raise TypeError(
                "importer arg should be an Importer or a sequence of Importers, got "
                f"{type(importer)} instead."
            )

    # -- what goes in ------------------------------------------------------------------------------

    def save_source_file(
        self, module_name: str, file_or_directory: str, dependencies: bool = True
    ) -> None:
        """A module from a file, or a package with all that is in it from a folder."""
        path = Path(file_or_directory)
        if not path.is_dir():
            return self.save_source_string(module_name, path.read_text(), False, dependencies)
        found = []
        for file in sorted(path.rglob("*.py")):
            parts = file.relative_to(path).with_suffix("").parts
            is_package = parts[-1] == "__init__"
            name = ".".join((module_name, *(parts[:-1] if is_package else parts)))
            found.append((name, file.read_text(), is_package))
        for name, source, is_package in found:  # all are there before their imports are looked at
            self._provide(name, source, is_package)
        for name, source, is_package in found:
            if dependencies:
                self._add_dependencies_of(name, source, is_package)
        return None

    def get_unique_id(self) -> str:
        """A number that nothing else in this package has."""
        self._unique_id += 1
        return str(self._unique_id - 1)

    def save_source_string(
        self, module_name: str, src: str, is_package: bool = False, dependencies: bool = True
    ) -> None:
        """A module of a source."""
        self._provide(module_name, src, is_package)
        if dependencies:
            self._add_dependencies_of(module_name, src, is_package)

    def save_module(self, module_name: str, dependencies: bool = True) -> None:
        """A module with its source."""
        if not isinstance(module_name, str):
            raise TypeError(
                "save_module() expects a string input, did you perhaps mean to pass `__name__`?"
            )
        name = demangle(module_name)
        self.dependency_graph.add_node(name, provided=True)
        self._intern(name, dependencies)

    def save_pickle(
        self,
        package: str,
        resource: str,
        obj: Any,
        dependencies: bool = True,
        pickle_protocol: int = 3,
    ) -> None:
        """An object, with the modules that its pickle names.

        Args:
            package: where it lies, as the name of a package.
            resource: its name there.
            obj: the object.
            dependencies: whether its modules are looked after.
            pickle_protocol: 3 or 4.
        """
        if pickle_protocol not in (3, 4):
            raise AssertionError("torch.package only supports pickle protocols 3 and 4")
        file = io.BytesIO()
        PackagePickler(self, self.importer, file, pickle_protocol, self._storages).dump(obj)
        self._kept.append(obj)
        pickled, place = file.getvalue(), _path(package, resource)
        if dependencies:
            named = f"<{package}.{resource}>"
            self.dependency_graph.add_node(
                named, action=_Action.INTERN, provided=True, is_pickle=True
            )
            for module in dict.fromkeys(module for module, _ in globals_of(pickled)):
                self.dependency_graph.add_edge(named, module)
                self.add_dependency(module)
                if self.dependency_graph.nodes[module].get("action") is _Action.MOCK:
                    self.dependency_graph.add_node(
                        module, error=PackagingErrorReason.MOCKED_BUT_STILL_USED
                    )
        self._write(place, pickled)

    def save_text(self, package: str, resource: str, text: str) -> None:
        """A text."""
        self.save_binary(package, resource, text.encode("utf-8"))

    def save_binary(self, package: str, resource: str, binary: bytes) -> None:
        """Bytes."""
        self._write(_path(package, resource), binary)

    def _write(self, place: str, data: bytes) -> None:
        if place in self._records:
            raise AssertionError(
                f"Tried to write file '{place}', but it already exists in this archive. "
            )
        self._records[place] = data

    # -- patterns and hooks ------------------------------------------------------------------------

    def intern(
        self, include: GlobPattern, *, exclude: GlobPattern = (), allow_empty: bool = True
    ) -> None:
        """Take modules along."""
        self._add_pattern(include, exclude, _Action.INTERN, allow_empty)

    def mock(
        self, include: GlobPattern, *, exclude: GlobPattern = (), allow_empty: bool = True
    ) -> None:
        """Put mocks in the place of modules."""
        self._add_pattern(include, exclude, _Action.MOCK, allow_empty)

    def extern(
        self, include: GlobPattern, *, exclude: GlobPattern = (), allow_empty: bool = True
    ) -> None:
        """Leave modules to the environment of the reader."""
        self._add_pattern(include, exclude, _Action.EXTERN, allow_empty)

    def deny(self, include: GlobPattern, *, exclude: GlobPattern = ()) -> None:
        """Refuse modules."""
        self._add_pattern(include, exclude, _Action.DENY, True)

    def _add_pattern(
        self, include: GlobPattern, exclude: GlobPattern, action: _Action, allow_empty: bool
    ) -> None:
        self._patterns.append(_Pattern(GlobGroup(include, exclude=exclude), action, allow_empty))

    def _register(self, action: _Action, hook: Hook) -> RemovableHandle:
        handle = RemovableHandle(self._hooks[action])
        self._hooks[action][handle.id] = hook
        return handle

    def register_extern_hook(self, hook: Hook) -> RemovableHandle:
        """A function of exporter and name, called for each module that is left to the reader."""
        return self._register(_Action.EXTERN, hook)

    def register_mock_hook(self, hook: Hook) -> RemovableHandle:
        """The same for modules that are mocked."""
        return self._register(_Action.MOCK, hook)

    def register_intern_hook(self, hook: Hook) -> RemovableHandle:
        """The same for modules that are taken along."""
        return self._register(_Action.INTERN, hook)

    # -- the graph ---------------------------------------------------------------------------------

    def add_dependency(self, module_name: str, dependencies: bool = True) -> None:
        """A module that something needs: what becomes of it is what patterns say."""
        graph = self.dependency_graph
        if graph.nodes.get(module_name, {}).get("provided"):
            return
        if module_name == IMPORTER:
            return graph.add_node(module_name, action=_Action.SKIP, provided=True)
        if module_name == MOCKS:
            return graph.add_node(module_name, action=_Action.MOCK_MODULE, provided=True)
        if always_there(module_name):
            return graph.add_node(module_name, action=_Action.EXTERN, provided=True)
        for number, pattern in enumerate(self._patterns):
            if not pattern.glob.matches(module_name):
                continue
            self._matched.add(number)
            graph.add_node(module_name, action=pattern.action, provided=True)
            if pattern.action is _Action.DENY:
                graph.add_node(module_name, error=PackagingErrorReason.DENIED)
            if pattern.action is _Action.INTERN:
                self._intern(module_name, dependencies)
            return None
        return graph.add_node(module_name, error=PackagingErrorReason.NO_ACTION)

    def _provide(self, name: str, source: str, is_package: bool) -> None:
        self.dependency_graph.add_node(
            name, source=source, is_package=is_package, provided=True, action=_Action.INTERN
        )

    def _intern(self, name: str, dependencies: bool) -> None:
        module = self._import(name)
        is_package = hasattr(module, "__path__")
        source = _source_of(module)
        if source is None:
            reason, context = _why_no_source(module)
            self.dependency_graph.add_node(
                name,
                action=_Action.INTERN,
                is_package=is_package,
                error=reason,
                error_context=context,
                provided=True,
            )
            return
        self._provide(name, source, is_package)
        if dependencies:
            self._add_dependencies_of(name, source, is_package)

    def _add_dependencies_of(self, name: str, source: str, is_package: bool) -> None:
        package = name if is_package else name.rpartition(".")[0]
        try:
            found = find_files_source_depends_on(source, package)
        except Exception as error:
            self.dependency_graph.add_node(
                name,
                error=PackagingErrorReason.DEPENDENCY_RESOLUTION_FAILED,
                error_context=str(error),
            )
            return
        for module, part in found:
            # of what is always there, the module will do
            parts = [f"{module}.{part}"] if part and not always_there(module) else []
            for candidate in (*parts, module):
                if self._exists(candidate):
                    self.dependency_graph.add_edge(name, candidate)
                    self.add_dependency(candidate)
                    break

    def _import(self, name: str) -> ModuleType:
        try:
            return self.importer.import_module(name)
        except ModuleNotFoundError as error:
            if not is_mangled(name):
                raise
            raise ModuleNotFoundError(
                f"{error} '{name}' is the name of a module from another package; give its importer "
                "to the exporter as well"
            ) from None

    def _exists(self, name: str) -> bool:
        if name == IMPORTER or name in self.dependency_graph or always_there(name):
            return True
        try:
            self._import(name)
        except Exception:
            return False
        return True

    def _modules_with(self, action: _Action) -> list[str]:
        nodes = self.dependency_graph.nodes.items()
        return [n for n, f in nodes if f.get("action") is action and not f.get("is_pickle")]

    def dependency_graph_string(self) -> str:
        """The graph for Graphviz."""
        return self.dependency_graph.to_dot()

    def externed_modules(self) -> list[str]:
        """Modules that are left to the reader."""
        return self._modules_with(_Action.EXTERN)

    def interned_modules(self) -> list[str]:
        """Modules that are taken along."""
        return self._modules_with(_Action.INTERN)

    def mocked_modules(self) -> list[str]:
        """Modules that are mocked."""
        return self._modules_with(_Action.MOCK)

    def denied_modules(self) -> list[str]:
        """Modules that are refused."""
        return self._modules_with(_Action.DENY)

    def get_rdeps(self, module_name: str) -> list[str]:
        """Modules that need a module."""
        if module_name not in self.dependency_graph:
            return []
        return list(self.dependency_graph.predecessors(module_name))

    def all_paths(self, src: str, dst: str) -> str:
        """What lies between two modules, for Graphviz."""
        return self.dependency_graph.all_paths(src, dst)

    # -- the end -----------------------------------------------------------------------------------

    def __enter__(self) -> "PackageExporter":
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        if exc_type is None:  # else nothing is written, and that error is the one to see
            self.close()

    def close(self) -> None:
        """Write the package."""
        if self._closed:
            return
        self._closed = True
        self._check()
        externs = self._write_modules()
        self._write(".data/extern_modules", "\n".join(externs).encode())
        self._write(".data/python_version", platform.python_version().encode())
        with opened_for_writing(self._target) as file:
            archive = ArchiveWriter(file, self._root())
            records = [(name, memoryview(data)) for name, data in self._records.items()]
            for key, storage in enumerate(self._storages.found):
                data = buffer_at(storage.pointer, storage.nbytes) if storage.nbytes else b""
                records.append((f".data/{key}.storage", memoryview(data)))
            records.append(("byteorder", memoryview(sys.byteorder.encode())))
            records.append((".data/version", memoryview(b"6\n")))
            archive.add_all(records)
            archive.close()

    def _root(self) -> str:
        if not isinstance(self._target, (str, os.PathLike)):
            return "archive"
        return os.path.splitext(os.path.basename(os.fspath(self._target)))[0] or "archive"

    def _check(self) -> None:
        nodes = self.dependency_graph.nodes.values()
        if any(facts.get("error") is not None for facts in nodes):
            raise PackagingError(self.dependency_graph, debug=self.debug)
        for number, pattern in enumerate(self._patterns):
            if not pattern.allow_empty and number not in self._matched:
                raise EmptyMatchError(
                    f"Exporter did not match any modules to {pattern.glob}, which was marked as "
                    "allow_empty=False"
                )

    def _write_modules(self) -> list[str]:
        """Sources and mocks; the names of modules that are left to the reader."""
        externs = []
        for name, facts in self.dependency_graph.nodes.items():
            action: Any = facts.get("action")
            if action in self._hooks and not facts.get("is_pickle"):
                for hook in self._hooks[action].values():
                    hook(self, name)
            if action is _Action.EXTERN:
                externs.append(name)
            elif action is _Action.MOCK:
                self._write_mocks()
                is_package = hasattr(self._import(name), "__path__")
                self._write_source(name, MOCKED_MODULE, is_package)
            elif action is _Action.MOCK_MODULE:
                self._write_mocks()
            elif action is _Action.INTERN and "source" in facts:
                self._write_source(name, facts["source"], facts["is_package"])
        return externs

    def _write_source(self, name: str, source: str, is_package: bool) -> None:
        end = "/__init__.py" if is_package else ".py"
        self._write(name.replace(".", "/") + end, source.encode("utf-8"))

    def _write_mocks(self) -> None:
        place = f"{MOCKS}.py"
        if place not in self._records:
            self._write(place, Path(str(_mock.__file__)).read_bytes())


MOCKED_MODULE = """\
from _mock import MockedObject


def __getattr__(attr):
    return MockedObject(__name__ + "." + attr, _suppress_err=True)
"""


def always_there(name: str) -> bool:
    """Is a module part of Python or of PyTorch?"""
    top = name.partition(".")[0]
    return top in OURS or top in sys.stdlib_module_names


def _path(package: str, resource: str) -> str:
    return f"{package.replace('.', '/')}/{resource}"


def _source_of(module: ModuleType) -> str | None:
    filename: Any = None
    loader: Any = getattr(getattr(module, "__spec__", None), "loader", None)
    if hasattr(loader, "get_filename"):
        with contextlib.suppress(ImportError):
            filename = loader.get_filename(module.__name__)
    filename = filename or getattr(module, "__file__", None)
    if not isinstance(filename, str) or not filename.endswith(".py"):
        return None
    lines = linecache.getlines(filename, module.__dict__)
    if lines or (os.path.exists(filename) and not os.path.getsize(filename)):
        return "".join(lines)
    if hasattr(loader, "get_source"):  # an empty file of a package
        return loader.get_source(module.__name__)
    return None


def _why_no_source(module: ModuleType) -> tuple[PackagingErrorReason, str | None]:
    filename = getattr(module, "__file__", None)
    if filename is None:
        return PackagingErrorReason.NO_DUNDER_FILE, None
    if filename.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES)):
        return PackagingErrorReason.IS_EXTENSION_MODULE, None
    return PackagingErrorReason.SOURCE_FILE_NOT_FOUND, f"filename: {filename}"
