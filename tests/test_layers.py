"""Who may import whom. A line of LAYERS imports from its own line and the lines above it.

The graph is read from the source with `ast`, so nothing is imported here; imports inside functions
count as much as those at the top, imports for type checkers do not count. `python
tests/test_layers.py` prints the graph: read it as a mirror when a layer feels wrong.
"""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).parent.parent / "flambeau"

# A name is a file or a folder right under flambeau/.
LAYERS = [
    "config errors _dtype _natively _layout _memory_format _qscheme return_types torch_version "
    "version",
    "codegen runtime _device storage",
    "planning",
    "ops",
    "_tensor interposing aten eager autograd transforms random printing _typed_storage "
    "_storage_kinds _sparse",
    "tracing",
    "nn optim utils __future__ __config__ func serialization amp cpu cuda linalg fft signal "
    "special distributions profiler testing multiprocessing hub backends functional futures types "
    "accelerator mps xpu mtia monitor distributed sparse masked nested overrides _C _ops library "
    "_checks _higher_order_ops _decomp _subclasses _utils _tensor_str quasirandom _functorch debug "
    "_array_api _guards",
    "quantization ao onnx jit fx export compiler _dynamo _inductor _logging package vision viz",
    "__init__ __main__ runner",
]
LEVEL = {name: level for level, line in enumerate(LAYERS) for name in line.split()}

# The lines from nn on speak the public API, so they may import `flambeau` itself; these may too.
SPEAK_PUBLIC_API = "autograd.functional autograd.gradcheck"

# Narrower than the layers: what these folders may know of ours.
ONLY = {
    "codegen": "config errors _dtype _layout codegen",
    "runtime": "config errors _dtype _layout runtime _device storage",
    "planning": "config errors _dtype _natively _layout codegen runtime planning",
    "ops": "config errors _dtype _natively _layout _memory_format return_types ops codegen.scalar",
}

# Packages of others: the only places that may name them.
HOMES = {
    "llvmlite": ["codegen/llvm*.py"],
    "ctypes": ["runtime/*.py"],
    "cuda": ["runtime/*.py"],
}
NUMPY_FREE = ["ops", "codegen", "_tensor", "eager", "interposing", "aten", "autograd", "_sparse"]
INTERCHANGE = "_tensor.interchange"  # between NumPy and tensors is what it is for


class Import(NamedTuple):
    source: str  # dotted, without "flambeau."
    target: str  # the same, or the name of another package
    ours: bool
    place: str  # file:line
    top: bool  # not inside a function


def module_name(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def resolve(base, name):
    """`from base import name`: the module meant, which may be a file called name."""
    folder = PACKAGE.joinpath(*base.split(".")) if base else PACKAGE
    is_module = (folder / f"{name}.py").exists() or (folder / name).is_dir()
    return ".".join(filter(None, (base, name))) if is_module else base or "__init__"


def targets(node, package):
    """The modules one import statement names, as (dotted name, is it ours)."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            first, _, rest = alias.name.partition(".")
            yield (rest or "__init__", True) if first == "flambeau" else (alias.name, False)
    else:
        first, _, rest = (node.module or "").partition(".")
        if node.level:
            above = package[: len(package) - node.level + 1]
            base = ".".join([*above, *filter(None, [node.module])])
        elif first == "flambeau":
            base = rest
        else:
            yield node.module, False
            return
        for alias in node.names:
            yield resolve(base, alias.name), True


def walk(node, top=True):
    """Import statements under a node, each with whether it runs on import."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child, top
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        else:
            inside = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from walk(child, top and not inside)


@cache
def imports():
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        source = module_name(path)
        package = path.relative_to(PACKAGE).parent.parts
        for node, top in walk(ast.parse(path.read_text(), str(path))):
            place = f"{path.relative_to(PACKAGE.parent)}:{node.lineno}"
            for target, ours in targets(node, package):
                found.append(Import(source, target, ours, place, top))
    return found


def unit(module):
    return module.partition(".")[0]


def within(module, names):
    return any(module == name or module.startswith(name + ".") for name in names.split())


def test_every_file_has_a_layer():
    names = {path.stem if path.is_file() else path.name for path in PACKAGE.iterdir()}
    names -= {"__pycache__", "py"}
    assert not {name for name in names if name not in LEVEL and name != "py.typed"}


def allowed(source, target):
    if target == "__init__":
        return LEVEL[unit(source)] >= LEVEL["nn"] or within(source, SPEAK_PUBLIC_API)
    return LEVEL[unit(target)] <= LEVEL[unit(source)]


def test_imports_point_upwards_in_the_list():
    wrong = [
        f"{i.place} imports {i.target}"
        for i in imports()
        if i.ours and not allowed(i.source, i.target)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("folder", ONLY)
def test_inner_layers_know_only_what_they_need(folder):
    wrong = [
        f"{i.place} imports {i.target}"
        for i in imports()
        if i.ours and unit(i.source) == folder and not within(i.target, ONLY[folder])
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", HOMES)
def test_foreign_machinery_stays_in_its_home(package):
    def at_home(place):
        path = Path(place.rpartition(":")[0])
        return any(path.match(f"flambeau/{pattern}") for pattern in HOMES[package])

    wrong = [
        f"{i.place} imports {i.target}"
        for i in imports()
        if not i.ours and unit(i.target) == package and not at_home(i.place)
    ]
    assert not wrong, "\n".join(wrong)


def test_numpy_computes_no_op():
    wrong = [
        f"{i.place} imports numpy"
        for i in imports()
        if not i.ours and unit(i.target) == "numpy" and unit(i.source) in NUMPY_FREE
        if i.source != INTERCHANGE
    ]
    assert not wrong, "\n".join(wrong)


def test_no_cycles_among_files():
    graph = defaultdict(set)
    for i in imports():
        if i.ours and i.top and i.target not in (i.source, "__init__"):
            graph[i.source].add(i.target)
    done, path = set(), []

    def visit(module):
        assert module not in path, " -> ".join([*path[path.index(module) :], module])
        if module not in done:
            path.append(module)
            for target in sorted(graph[module]):
                visit(target)
            done.add(path.pop())

    for module in sorted(graph):
        visit(module)


WATCHERS = ("setprofile", "settrace", "monitoring")


def test_calls_are_watched_in_one_place():
    """Design 010: who observes op calls pushes a handler; code objects change places only there."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for line in path.read_text(encoding="utf-8").splitlines():
            before, is_assignment, _ = line.partition(" = ")
            exchanges = is_assignment and ".__code__" in before
            if exchanges or any(f"sys.{name}" in line for name in WATCHERS):
                found.add(path.relative_to(PACKAGE).as_posix())
    # package/analyze.py asks, for a program, which modules a call runs in
    assert found == {"interposing/__init__.py", "package/analyze.py"}


def test_the_reader_understands_every_form(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    for name in ("_dtype.py", "ops/table.py", "ops/rules.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    forms = {
        "from flambeau import _dtype": ["_dtype"],
        "from flambeau import randn": ["__init__"],
        "from flambeau._dtype import float32": ["_dtype"],
        "from flambeau.ops import table, rules": ["ops.table", "ops.rules"],
        "from . import rules": ["ops.rules"],
        "from .rules import same": ["ops.rules"],
        "from .. import _dtype": ["_dtype"],
        "from .._dtype import float32": ["_dtype"],
        "import flambeau.ops.table": ["ops.table"],
    }
    for text, expected in forms.items():
        (node,) = ast.parse(text).body
        assert [name for name, _ in targets(node, ("ops",))] == expected, text


if __name__ == "__main__":
    for line in LAYERS:
        for name in line.split():
            seen = {unit(i.target) for i in imports() if i.ours and unit(i.source) == name}
            if seen - {name}:
                print(f"{name:<14} imports {' '.join(sorted(seen - {name}, key=LEVEL.get))}")
