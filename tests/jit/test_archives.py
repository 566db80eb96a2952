"""Archives of programs: ours and PyTorch's, files and buffers, whole and damaged."""

import io
import os
import subprocess
import sys
import warnings
import zipfile

import pytest

import flambeau as torch
from flambeau import nn
from tests.jit.loading import close, copied_inputs, fill, plain, programs

P = programs()
ramp = P.ramp
ALL = [*P.FUNCTIONS, *P.MODULES]
NAMES = [program.__name__ for program, _ in ALL]


def archive_of(made):
    file = io.BytesIO()
    torch.jit.save(made, file)
    return file.getvalue()


def model():
    return torch.jit.script(fill(P.Mixed()).eval())


def test_paths_buffers_and_extra_files(tmp_path):
    made = model()
    path = tmp_path / "model.pt"
    made.save(str(path), _extra_files={"note.txt": "hello", "more": b"\x00\x01"})
    extra = {"note.txt": "", "more": "", "missing": "kept"}
    for source in (str(path), path, io.BytesIO(path.read_bytes())):
        other = torch.jit.load(source, map_location="cpu", _extra_files=extra)
        assert close(plain(other(ramp(2, 3), 2)), plain(made(ramp(2, 3), 2)))
    assert extra == {"note.txt": b"hello", "more": b"\x00\x01", "missing": "kept"}
    assert zipfile.ZipFile(path).read("model/version") == b"10\n"
    with pytest.raises(ValueError, match="does not exist"):
        torch.jit.load(str(tmp_path / "none.pt"))


def test_map_location():
    made = torch.jit.load(io.BytesIO(archive_of(model())), map_location="meta")
    assert all(p.device.type == "meta" for p in made.parameters())


def test_state_comes_back():
    made = torch.jit.script(P.Attributes())
    made(ramp(3))
    other = torch.jit.load(io.BytesIO(archive_of(made)))
    assert (other.steps, other.names, other.table, other.pair) == (
        1,
        ["a", "b"],
        {"k": 2.5},
        (1, 0.5),
    )
    assert torch.equal(other.mean, made.mean) and other.limit == 3
    assert isinstance(other.weight, nn.Parameter) and list(other.state_dict()) == ["weight", "mean"]
    assert other.reset() == 0
    again = torch.jit.load(io.BytesIO(archive_of(other)))
    assert close(plain(again(ramp(3))), plain(other(ramp(3))))


def test_shared_parameters_stay_shared():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    made = torch.jit.load(io.BytesIO(archive_of(torch.jit.script(Tied()))))
    assert made.a.weight is made.b.weight


def test_a_program_is_loaded_where_its_class_is_unknown(tmp_path):
    path = tmp_path / "model.pt"
    model().save(path)
    text = (
        "import sys, flambeau as torch\n"
        "made = torch.jit.load(sys.argv[1])\n"
        "print(made(torch.ones(2, 3), 2)[0].sum().item())\n"
    )
    command = [sys.executable, "-c", text, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=True)
    wanted = model()(torch.ones(2, 3), 2)[0].sum().item()
    assert abs(float(done.stdout) - wanted) < 1e-4


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "weights.pt"
    torch.save({"a": torch.ones(2)}, path)
    with pytest.raises(RuntimeError, match=r"constants.pkl"):
        torch.jit.load(path)
    with pytest.raises(RuntimeError, match="PytorchStreamReader failed"):
        torch.jit.load(io.BytesIO(b"nothing of that kind"))


def rewritten(archive, changes):
    """An archive with other records."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as source, zipfile.ZipFile(out, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            for ending, change in changes.items():
                if name.endswith(ending):
                    data = change(data)
            if data is not None:
                target.writestr(name, data)
    return io.BytesIO(out.getvalue())


HOSTILE = [
    ("code that calls Python", {"__torch__/jit_programs.py": lambda d: d.replace(
        b"return ", b"__import__('os').system('touch hacked')\n    return ", 1)}),
    ("code that imports", {"__torch__/jit_programs.py": lambda d: b"import os\n" + d.replace(
        b"    first = self.first", b"    import os")}),
    ("code with unknown ops", {"__torch__/jit_programs.py": lambda d: d.replace(
        b"torch.add", b"torch.system")}),
    ("code with unknown names", {"__torch__/jit_programs.py": lambda d: d.replace(
        b"torch.add", b"open")}),
    ("code with attributes of Python", {"__torch__/jit_programs.py": lambda d: d.replace(
        b"self.first", b"self.__class__")}),
    ("code that is no code", {"__torch__/jit_programs.py": lambda d: d[: len(d) // 2] + b"(("}),
    ("no code", {"__torch__/jit_programs.py": lambda d: None}),
    ("a pickle that calls", {"data.pkl": lambda d: (
        b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.")}),
    ("a pickle that evaluates", {"data.pkl": lambda d: (
        b"\x80\x02c__builtin__\neval\nX\x01\x00\x00\x001\x85R.")}),
    ("a pickle of another thing", {"data.pkl": lambda d: b"\x80\x02K\x01."}),
    ("a pickle that ends early", {"data.pkl": lambda d: d[:-40]}),
    ("no weights", {"data/0": lambda d: None}),
    ("short weights", {"data/0": lambda d: d[:-4]}),
    ("no constants", {"constants.pkl": lambda d: b"\x80\x02N."}),
]  # fmt: skip


@pytest.mark.parametrize("changes", [c for _, c in HOSTILE], ids=[n for n, _ in HOSTILE])
def test_hostile_archives_are_refused(changes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RuntimeError, match=r"cannot load this program|PytorchStreamReader|corrupt"):
        torch.jit.load(rewritten(archive_of(model()), changes))
    assert not os.listdir(tmp_path)


def test_damaged_archives_are_refused_or_right():
    whole = archive_of(model())
    wanted = plain(model()(ramp(2, 3), 1))
    state = 12345
    for _ in range(120):
        state = (state * 1103515245 + 12345) % 2**31
        place = state % len(whole)
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (state % 7)
        try:
            made = torch.jit.load(io.BytesIO(bytes(damaged)))
        except RuntimeError:
            continue
        assert close(plain(made(ramp(2, 3), 1)), wanted)


def test_text_in_place_of_bytes_is_refused_or_right():
    """The same inside of the code, where no checksum helps."""
    whole = archive_of(model())
    state = 7
    for _ in range(60):
        state = (state * 1103515245 + 12345) % 2**31

        def change(data, state=state):
            place = state % len(data)
            return data[:place] + bytes([32 + state % 90]) + data[place + 1 :]

        changed = rewritten(whole, {"__torch__/jit_programs.py": change})
        try:
            torch.jit.load(changed)
        except RuntimeError:
            continue


# -- with PyTorch ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def oracle():
    return pytest.importorskip("torch")


@pytest.mark.oracle
@pytest.mark.parametrize("name", NAMES)
def test_pytorch_loads_what_we_save_and_we_what_it_saves(name, oracle):
    theirs = programs("torch")
    inputs = dict(zip(NAMES, [i for _, i in ALL]))[name]
    their_inputs = dict(zip(NAMES, [i for _, i in [*theirs.FUNCTIONS, *theirs.MODULES]]))[name]

    def made(library, space):
        program = vars(space)[name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            whole = fill(program()).eval() if isinstance(program, type) else program
            return library.jit.script(whole)

    wanted = made(oracle, theirs)
    wanted = [plain(wanted(*copied_inputs(i))) for i in their_inputs()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = oracle.jit.load(io.BytesIO(made(torch, P).save_to_buffer()))
    assert close([plain(loaded(*copied_inputs(i))) for i in their_inputs()], wanted)
    ours = torch.jit.load(io.BytesIO(made(oracle, theirs).save_to_buffer()))
    assert close([plain(ours(*copied_inputs(i))) for i in inputs()], wanted)
    again = torch.jit.load(io.BytesIO(archive_of(ours)))
    assert list(again._type.methods) == list(ours._type.methods)


TRACED = {
    "ConvNet": ((2, 1, 8, 8), (3, 1, 8, 8)),
    "ResNet": ((1, 4, 5, 5), (2, 4, 6, 6)),
    "Mlp": ((2, 4), (5, 4)),
    "Attention": ((2, 5, 8), (3, 4, 8)),
    "Encoder": ((2, 3, 8), (2, 3, 8)),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", TRACED)
def test_recordings_are_exchanged_with_pytorch(name, oracle):
    theirs = programs("torch")
    first, second = TRACED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain_model = fill(vars(theirs)[name]()).eval()
        their_trace = oracle.jit.trace(plain_model, theirs.ramp(*first), check_trace=False)
        our_trace = torch.jit.trace(fill(vars(P)[name]()).eval(), ramp(*first))
        loaded = oracle.jit.load(io.BytesIO(our_trace.save_to_buffer()))
    ours = torch.jit.load(io.BytesIO(their_trace.save_to_buffer()))
    wanted = plain(plain_model(theirs.ramp(*second)))
    assert close(plain(loaded(theirs.ramp(*second))), wanted)
    assert close(plain(ours(ramp(*second))), wanted)
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in plain_model.named_parameters()]


@pytest.mark.oracle
def test_a_frozen_module_of_pytorch(oracle):
    theirs = programs("torch")
    whole = fill(theirs.ConvNet()).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frozen = oracle.jit.freeze(oracle.jit.script(whole))
    ours = torch.jit.load(io.BytesIO(frozen.save_to_buffer()))
    assert close(plain(ours(ramp(2, 1, 8, 8))), plain(whole(theirs.ramp(2, 1, 8, 8))), 1e-4)
    mine = torch.jit.freeze(torch.jit.script(fill(P.ConvNet()).eval()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = oracle.jit.load(io.BytesIO(mine.save_to_buffer()))
    assert close(plain(loaded(theirs.ramp(2, 1, 8, 8))), plain(mine(ramp(2, 1, 8, 8))), 1e-4)


def test_torch_load_hands_archives_on(tmp_path):
    path = tmp_path / "module.pt"
    module = torch.jit.script(torch.nn.Linear(3, 2))
    module.save(path)
    with pytest.raises(RuntimeError, match="Cannot use ``weights_only=True`` with TorchScript"):
        torch.load(path)
    x = torch.ones(3)
    said = "looks like a TorchScript archive dispatching to 'torch.jit.load'"
    with pytest.warns(UserWarning, match=said):
        assert torch.equal(torch.load(path, weights_only=False)(x), module(x))
    with open(path, "rb") as file, pytest.warns(UserWarning, match=said):
        assert torch.equal(torch.load(file, "cpu", weights_only=False)(x), module(x))
