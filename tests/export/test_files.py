"""Files: what is written is read again, here and by PyTorch; damaged files are refused."""

import io
import json
import zipfile

import pytest

import flambeau as torch
from flambeau.export import Dim, export, load, save
from tests.export.programs import PROGRAMS, build

pytestmark = pytest.mark.filterwarnings("ignore")


def written(program):
    file = io.BytesIO()
    save(program, file)
    file.seek(0)
    return file


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_programs_come_back_from_files(name):
    torch.manual_seed(0)
    program = export(*build(torch, name))
    found = load(written(program))
    assert str(found.graph_signature) == str(program.graph_signature)
    assert found.graph_module.code == program.graph_module.code
    for key, tensor in program.state_dict.items():
        assert torch.equal(found.state_dict[key], tensor)
        assert type(found.state_dict[key]) is type(tensor)


class Sizes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)

    def forward(self, x):
        y = torch.cat([self.layer(x), self.layer(x)])
        return y.view(x.shape[0] * 2, 2, 1), x.shape[0] + 1


def test_sizes_come_back_from_files():
    program = export(Sizes(), (torch.ones(4, 3),), dynamic_shapes=({0: Dim("b", max=9)},))
    found = load(written(program))
    assert str(found.range_constraints) == "{s0: VR[0, 9]}"
    assert str(found) == str(program)
    result, count = found.module()(torch.ones(7, 3))
    assert (result.shape, count) == ((14, 2, 1), 8)
    with pytest.raises(AssertionError, match=r"Guard failed: x.size\(\)\[0\] <= 9"):
        found.module()(torch.ones(10, 3))
    lowered = found.run_decompositions()
    assert lowered.module()(torch.ones(5, 3))[0].shape == (10, 2, 1)


def test_extra_files_and_paths(tmp_path):
    program = export(torch.nn.Linear(2, 1), (torch.ones(1, 2),))
    save(program, tmp_path / "model.pt2", extra_files={"note.txt": "hello"})
    names = zipfile.ZipFile(tmp_path / "model.pt2").namelist()
    assert "model/models/model.json" in names and "model/data/weights/weight_0" in names
    extra = {"note.txt": ""}
    found = load(tmp_path / "model.pt2", extra_files=extra)
    assert extra == {"note.txt": "hello"}
    assert torch.equal(found.example_inputs[0][0], torch.ones(1, 2))
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing.pt2")
    with pytest.raises(TypeError, match="must be an instance of 'ExportedProgram', got 'int'"):
        save(3, tmp_path / "model.pt2")


# -- damage ----------------------------------------------------------------------------------------


def changed(change):
    """A file of a program in which something was changed: entries by name -> entries."""
    program = export(torch.nn.Linear(2, 1), (torch.ones(1, 2),))
    old = zipfile.ZipFile(written(program))
    entries = {name: old.read(name) for name in old.namelist()}
    change(entries)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as new:
        for name, data in entries.items():
            new.writestr(name, data)
    file.seek(0)
    return file


def in_json(entry, change):
    def apply(entries):
        found = json.loads(entries["archive/" + entry])
        change(found)
        entries["archive/" + entry] = json.dumps(found).encode()

    return apply


def node(found):
    return found["graph_module"]["graph"]["nodes"][0]


MODEL, WEIGHTS = "models/model.json", "data/weights/model_weights_config.json"
DAMAGE = {
    "no model": lambda e: e.pop("archive/" + MODEL),
    "no json": lambda e: e.update({"archive/" + MODEL: b"{"}),
    "a list": lambda e: e.update({"archive/" + MODEL: b"[]"}),
    "no weight": lambda e: e.pop("archive/data/weights/weight_0"),
    "short weight": lambda e: e.update({"archive/data/weights/weight_0": b"abc"}),
    "other op": in_json(MODEL, lambda f: node(f).update(target="os.system")),
    "private op": in_json(MODEL, lambda f: node(f).update(target="torch.ops.aten.add.__class__")),
    "no such op": in_json(MODEL, lambda f: node(f).update(target="torch.ops.aten.hack.default")),
    "operator": in_json(MODEL, lambda f: node(f).update(target="_operator.attrgetter")),
    "name": in_json(MODEL, lambda f: node(f).update(outputs=[{"as_tensor": {"name": "a; b"}}])),
    "value": in_json(MODEL, lambda f: node(f)["inputs"][0].update(arg={"as_int": "3"})),
    "kind": in_json(MODEL, lambda f: node(f)["inputs"][0].update(arg={"as_magic": 1})),
    "unknown": in_json(
        MODEL, lambda f: node(f)["inputs"][0].update(arg={"as_tensor": {"name": "z"}})
    ),
    "dtype": in_json(WEIGHTS, lambda f: f["config"]["weight"]["tensor_meta"].update(dtype=99)),
    "sizes": in_json(
        WEIGHTS, lambda f: f["config"]["weight"]["tensor_meta"].update(sizes=[{"as_int": 1 << 40}])
    ),
    "strides": in_json(
        WEIGHTS,
        lambda f: f["config"]["weight"]["tensor_meta"].update(strides=[{"as_int": -1}] * 2),
    ),
    "pickle": in_json(WEIGHTS, lambda f: f["config"]["weight"].update(use_pickle=True)),
    "version": in_json(MODEL, lambda f: f["schema_version"].update(major=99)),
    "tree": in_json(
        MODEL,
        lambda f: f["graph_module"]["module_call_graph"][0]["signature"].update(
            in_spec='[1, {"type": "os.system", "context": "null", "children_spec": []}]'
        ),
    ),
    "signature": in_json(MODEL, lambda f: f["graph_module"]["signature"].update(input_specs=[])),
}


@pytest.mark.parametrize("name", list(DAMAGE))
def test_damaged_files_are_refused(name):
    with pytest.raises((RuntimeError, NotImplementedError)) as error:
        load(changed(DAMAGE[name]))
    assert str(error.value)


def test_any_damage_is_refused_or_harmless():
    plain = changed(lambda entries: None)
    for k in range(120):
        data = bytearray(plain.getvalue())
        at = (k * 7919) % (len(data) // 2) + len(data) // 2  # where the list of entries is, too
        data[at] ^= 1 << k % 8
        try:
            load(io.BytesIO(bytes(data)))
        except RuntimeError as error:
            assert str(error)


@pytest.mark.parametrize("data", [b"", b"hello", b"PK\x03\x04" + b"\0" * 40])
def test_other_files_are_refused(data):
    with pytest.raises(RuntimeError, match=r"is not a \.pt2 file"):
        load(io.BytesIO(data))


def test_cut_files_are_refused():
    whole = written(export(torch.nn.Linear(2, 1), (torch.ones(1, 2),))).getvalue()
    for length in range(0, len(whole), max(1, len(whole) // 25)):
        with pytest.raises(RuntimeError):
            load(io.BytesIO(whole[:length]))


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["conv", "bn_train", "attention", "losses", "setitem", "kwargs"])
def test_files_are_exchanged_with_pytorch(name, tmp_path):
    real = pytest.importorskip("torch")
    torch.manual_seed(0)
    module, args = build(torch, name)
    program = export(module, args)
    save(program, tmp_path / "ours.pt2")
    theirs = real.export.load(tmp_path / "ours.pt2")
    tree = real.utils._pytree
    to_real = lambda v: real.from_numpy(v.numpy()) if isinstance(v, torch.Tensor) else v
    given = torch.utils._pytree.tree_map(to_real, args)
    found = tree.tree_leaves(theirs.module()(*given))
    for value, wanted in zip(found, torch.utils._pytree.tree_leaves(program.module()(*args))):
        real.testing.assert_close(
            value, to_real(wanted.detach()), rtol=1e-4, atol=1e-4, equal_nan=True
        )
    other = real.export.export(*build(real, name))
    real.export.save(other, tmp_path / "theirs.pt2")
    assert (
        load(tmp_path / "theirs.pt2").graph_module.code.strip() == other.graph_module.code.strip()
    )
