"""Packages: objects with the code they need, in files that PyTorch reads too."""

import importlib.resources
import inspect
import io
import pickle
import sys
import textwrap
import warnings
import zipfile

import pytest

import flambeau as torch
from flambeau import fx, nn
from flambeau.package import (
    Directory,
    EmptyMatchError,
    GlobGroup,
    ObjMismatchError,
    ObjNotFoundError,
    OrderedImporter,
    PackageExporter,
    PackageImporter,
    PackagingError,
    is_from_package,
    sys_importer,
)
from flambeau.package._digraph import DiGraph
from flambeau.package._mangling import PackageMangler, demangle, is_mangled
from flambeau.package.analyze import trace_dependencies
from flambeau.package.find_file_dependencies import find_files_source_depends_on

SHAPES = {
    "__init__.py": "from .parts import side\n\n\nclass Square:\n    def area(self):\n"
    "        return side() ** 2\n",
    "parts.py": "import math\n\nimport packaged_helper\n\n\ndef side():\n"
    "    return packaged_helper.two() + math.floor(0.5)\n",
}


@pytest.fixture
def shapes(tmp_path, monkeypatch):
    """Two modules of a program: `packaged_shapes` needs `packaged_helper`."""
    folder = tmp_path / "packaged_shapes"
    folder.mkdir()
    for name, source in SHAPES.items():
        (folder / name).write_text(source)
    (tmp_path / "packaged_helper.py").write_text("def two():\n    return 2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import packaged_shapes

    yield packaged_shapes
    for name in ("packaged_shapes", "packaged_shapes.parts", "packaged_helper"):
        sys.modules.pop(name, None)


def written(fill, **settings):
    file = io.BytesIO()
    with PackageExporter(file, **settings) as exporter:
        fill(exporter)
    return io.BytesIO(file.getvalue())


def test_objects_bring_their_modules(shapes):
    def fill(exporter):
        exporter.intern("packaged_*.**")
        exporter.save_pickle("things", "square.pkl", shapes.Square())
        assert exporter.interned_modules() == [
            "packaged_shapes", "packaged_shapes.parts", "packaged_helper",
        ]  # fmt: skip
        assert exporter.externed_modules() == ["math"]
        assert exporter.get_rdeps("packaged_helper") == ["packaged_shapes.parts"]
        assert '"packaged_shapes" -> "packaged_shapes.parts";' in exporter.all_paths(
            "packaged_shapes", "packaged_helper"
        )

    importer = PackageImporter(written(fill))
    square = importer.load_pickle("things", "square.pkl")
    assert square.area() == 4 and type(square) is not shapes.Square
    assert is_from_package(square) and not is_from_package(shapes)
    module = importer.import_module("packaged_shapes")
    assert demangle(module.__name__) == "packaged_shapes" and module.__torch_package__
    assert inspect.getsource(module.Square).startswith("class Square:")
    assert "packaged_shapes" not in importer.id()
    with pytest.raises(ModuleNotFoundError, match="No module named"):
        importer.import_module("nothing_of_this_name")


def test_tensors_share_memory_and_keep_values():
    weight = torch.arange(6.0).reshape(2, 3)
    model = nn.Linear(3, 2)

    def fill(exporter):
        exporter.save_pickle("data", "t.pkl", {"a": weight, "b": weight[0], "m": model})
        exporter.save_pickle("data", "u.pkl", weight.to(torch.float8_e4m3fn), pickle_protocol=4)

    importer = PackageImporter(written(fill))
    loaded = importer.load_pickle("data", "t.pkl")
    assert torch.equal(loaded["a"], weight)
    loaded["a"][0, 0] = 9
    assert loaded["b"][0] == 9
    assert torch.equal(loaded["m"](weight), model(weight))
    assert importer.load_pickle("data", "u.pkl").dtype == torch.float8_e4m3fn
    assert importer.load_pickle("data", "t.pkl", map_location="meta")["a"].device.type == "meta"


def test_recorded_modules_bring_what_their_code_names(shapes):
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(torch.mul, (x, graph.call_function(shapes.parts.side, ()))))
    module = fx.GraphModule(nn.Module(), graph)

    def fill(exporter):
        exporter.intern("**")
        exporter.save_pickle("m", "m.pkl", module)

    importer = PackageImporter(written(fill))
    assert importer.load_pickle("m", "m.pkl")(torch.ones(2)).tolist() == [2.0, 2.0]
    assert importer.import_module("packaged_shapes.parts") is not shapes.parts


def test_mocks_and_externs(shapes):
    def fill(exporter):
        exporter.mock("packaged_helper")
        exporter.intern("packaged_shapes.**")
        exporter.save_module("packaged_shapes")
        exporter.save_source_string("own", "import packaged_shapes.parts as p; import torch")

    importer = PackageImporter(written(fill))
    with pytest.raises(NotImplementedError, match=r"'.*two' was mocked out during packaging"):
        importer.import_module("packaged_shapes").Square().area()
    assert importer.import_module("own").torch is torch

    def outside(exporter):
        exporter.extern("packaged_shapes")
        exporter.save_source_string("own", "import packaged_shapes")

    assert PackageImporter(written(outside)).import_module("own").packaged_shapes is shapes
    with pytest.raises(ImportError, match="needs the external module 'packaged_shapes'"):
        PackageImporter(written(outside), lambda name: False)


BROKEN = {
    "no pattern": (
        lambda e: e.save_source_string("own", "import packaged_shapes"),
        "Module did not match against any action pattern. Extern, mock, or intern it.\n"
        "    packaged_shapes\n",
    ),
    "denied": (
        lambda e: (e.deny("packaged_*"), e.save_source_string("own", "import packaged_shapes")),
        "Module was denied by a pattern.\n    packaged_shapes\n",
    ),
    "too far up": (
        lambda e: e.save_source_string("own", "from ...... import x"),
        "Dependency resolution failed.\n    own\n"
        "      Context: attempted relative import beyond top-level package\n",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_packaged(shapes, name):
    fill, text = BROKEN[name]
    with pytest.raises(PackagingError) as caught:
        written(fill)
    assert str(caught.value) == (
        f"\n* {text}\nSet debug=True when invoking PackageExporter for a visualization of where "
        "broken modules are coming from!\n"
    )
    with pytest.raises(PackagingError, match="A path to it"):
        written(fill, debug=True)


def test_mocked_classes_cannot_be_pickled(shapes):
    def fill(exporter):
        exporter.mock("packaged_shapes")
        exporter.save_pickle("things", "square.pkl", shapes.Square())

    with pytest.raises(PackagingError, match="Module was mocked out, but is still being used"):
        written(fill)


def test_patterns_that_must_fit():
    def fill(exporter):
        exporter.extern("nothing.**", allow_empty=False)

    with pytest.raises(EmptyMatchError, match="did not match any modules to GlobGroup"):
        written(fill)


def test_errors_inside_leave_no_file(tmp_path):
    path = tmp_path / "p.pt"
    with pytest.raises(KeyError), PackageExporter(path):
        raise KeyError("x")
    assert not path.exists()


def test_packages_of_packages(shapes):
    def fill(exporter):
        exporter.intern("**")
        exporter.save_pickle("things", "square.pkl", shapes.Square())

    file = written(fill)
    one, two = PackageImporter(file), PackageImporter(io.BytesIO(file.getvalue()))
    loaded = one.load_pickle("things", "square.pkl")
    again = io.BytesIO()
    with PackageExporter(again, importer=(one, sys_importer)) as exporter:
        exporter.intern("**")
        exporter.save_pickle("things", "square.pkl", loaded)
    assert PackageImporter(again).load_pickle("things", "square.pkl").area() == 4
    other = PackageExporter(io.BytesIO(), importer=[one, sys_importer])
    for thing in (shapes.Square(), two.load_pickle("things", "square.pkl")):
        with pytest.raises(pickle.PicklingError, match="Can't pickle"):
            other.save_pickle("x", "y", thing)
    with pytest.raises(ObjMismatchError):
        sys_importer.get_name(type(loaded))
    with pytest.raises(ObjNotFoundError):
        OrderedImporter(sys_importer).get_name(lambda: 0)


def test_hooks():
    seen = []

    def fill(exporter):
        exporter.extern("ext*")
        exporter.register_extern_hook(lambda e, name: seen.append(name))
        exporter.register_extern_hook(lambda e, name: seen.append("never")).remove()
        exporter.register_intern_hook(lambda e, name: seen.append(f"in {name}"))
        exporter.add_dependency("external")
        exporter.save_source_string("own", "")

    written(fill)
    assert seen == ["external", "in own"]


# -- files -----------------------------------------------------------------------------------------


def resources(exporter):
    exporter.save_text("one", "a.txt", "hello")
    exporter.save_binary("one.two", "b.bin", b"bytes")
    exporter.save_source_string(
        "reads",
        textwrap.dedent("""
            import importlib.resources
            import one
            import torch_package_importer
            text = importlib.resources.files(one).joinpath("a.txt").read_text()
            again = torch_package_importer.load_text("one", "a.txt")
        """),
    )


@pytest.mark.parametrize("unpacked", [False, True])
def test_resources(tmp_path, unpacked):
    path = tmp_path / "package.pt"
    with PackageExporter(path) as exporter:
        resources(exporter)
    if unpacked:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(tmp_path)
        path = tmp_path / "package"
    importer = PackageImporter(path)
    assert importer.load_binary("one.two", "b.bin") == b"bytes"
    module = importer.import_module("reads")
    assert module.text == module.again == "hello"
    reader = importer.get_resource_reader("one")
    assert reader.is_resource("a.txt") and not reader.is_resource("two")
    assert sorted(reader.contents()) == ["a.txt", "two"]
    assert importer.get_resource_reader("nothing") is None
    assert importer.python_version().startswith(f"{sys.version_info[0]}.")
    assert importlib.resources.files(importer.import_module("one"))


def test_the_tree_of_a_package():
    tree = PackageImporter(written(resources)).file_structure(include=["one/**", "reads.py"])
    assert isinstance(tree, Directory) and tree.has_file("one/two/b.bin")
    assert not tree.has_file("one/two")
    assert str(tree) == (
        "<binary>\n├── one\n│   ├── two\n│   │   └── b.bin\n│   └── a.txt\n└── reads.py\n"
    )


@pytest.mark.oracle
def test_pytorch_reads_our_packages_and_we_read_its():
    reference = pytest.importorskip("torch")
    import torch.package as theirs

    values = [1.0, 2.0]

    def fill(exporter, library):
        exporter.save_source_string("own", "import torch\nvalue = torch.ones(2)")
        exporter.save_pickle("data", "t.pkl", {"a": library.tensor(values)})
        exporter.save_pickle("data", "m.pkl", library.nn.Linear(2, 1))

    ours = written(lambda exporter: fill(exporter, torch))
    loaded = theirs.PackageImporter(ours)
    warnings.simplefilter("ignore")  # of its typed storages
    assert loaded.load_pickle("data", "t.pkl")["a"].tolist() == values
    assert isinstance(loaded.load_pickle("data", "m.pkl"), reference.nn.Linear)
    file = io.BytesIO()
    with theirs.PackageExporter(file) as exporter:
        fill(exporter, reference)
    importer = PackageImporter(io.BytesIO(file.getvalue()))
    assert importer.load_pickle("data", "t.pkl")["a"].tolist() == values
    assert isinstance(importer.load_pickle("data", "m.pkl"), nn.Linear)
    assert importer.import_module("own").value.tolist() == [1, 1]


# -- parts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "fits", "does_not"),
    [
        ("torch.*", ["torch.foo"], ["tor.foo", "torch.foo.bar", "torch"]),
        ("fo*.bar", ["fo.bar", "foobar.bar"], ["f.bar", "foo"]),
        ("torch.**", ["torch", "torch.foo.bar"], ["torchvision"]),
        ("**.torch", ["torch", "bar.torch"], ["visiontorch"]),
        ("foo.**.baz", ["foo.baz", "foo.a.b.baz"], ["foobaz", "foo.bar.baz.z"]),
        ("**", ["bar", "a.b.c"], [""]),
    ],
)
def test_patterns(pattern, fits, does_not):
    group = GlobGroup(pattern, exclude="torch.**.no")
    assert all(map(group.matches, fits)) and not any(map(group.matches, does_not))
    assert not group.matches("torch.some.no")


def test_patterns_that_are_none():
    with pytest.raises(ValueError, match="entire path segment"):
        GlobGroup("a.**b")


def test_imports_of_a_source():
    source = """
        import a.b
        from c import d, e
        from . import f
        from .g import *
        __import__("h.i", globals(), locals(), ["j"], 0)
        __import__("k", level=1)
        __import__(unknown, "things")
    """
    assert set(find_files_source_depends_on(textwrap.dedent(source), "p.q")) == {
        ("a.b", None), ("c", "d"), ("c", "e"), ("p.q", "f"), ("p.q.g", None), ("h.i", "j"),
        ("p.q.k", None),
    }  # fmt: skip


def test_mangled_names():
    one, two = PackageMangler(), PackageMangler()
    name = one.mangle("a.b")
    assert name != two.mangle("a.b") and is_mangled(name) and not is_mangled("a.b")
    assert (demangle(name), one.demangle(name), two.demangle(name)) == ("a.b", "a.b", name)


def test_graphs():
    graph = DiGraph()
    for edge in ("12", "17", "78", "83", "23", "54", "43"):
        graph.add_edge(*edge)
    assert graph.forward_transitive_closure("4") == {"4", "3"}
    assert graph.backward_transitive_closure("2") == {"1", "2"}
    lines = graph.all_paths("1", "3").split(";")[2:-1]
    assert {line.strip() for line in lines} == {
        '"1" -> "2"', '"1" -> "7"', '"7" -> "8"', '"8" -> "3"', '"2" -> "3"',
    }  # fmt: skip
    with pytest.raises(ValueError, match="not in the digraph"):
        graph.successors("nothing")


def test_modules_that_a_call_runs_in():
    assert "textwrap" in trace_dependencies(textwrap.dedent, [("  a",)])
