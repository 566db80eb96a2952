"""`python -m flambeau inspect`: what is told of files of every format, and that nothing is run."""

import io
import json
import os
import pickle
import re
import zipfile
from collections import OrderedDict, defaultdict, deque
from pathlib import Path

import numpy as np
import pytest

import flambeau
from flambeau.serialization.inspecting import Unknown, human, inspect, main, text_of
from flambeau.serialization.safetensors import save_file
from tests.saved_objects import make

GOLDEN = Path(__file__).parent.parent / "golden"


def told(capsys, *arguments):
    main([str(a) for a in arguments])
    return capsys.readouterr().out


def row(page, name):
    """The cells of the line of a tensor."""
    lines = [line for line in page.splitlines() if line.startswith(f"{name} ")]
    assert len(lines) == 1, page
    return re.split(r"\s{2,}", lines[0].strip())


def test_a_checkpoint(tmp_path, capsys):
    base = flambeau.arange(24.0).reshape(4, 6)
    model = flambeau.nn.Sequential(flambeau.nn.Linear(3, 4))
    obj = {"model": model.state_dict(), "views": [base, base.t(), base[1:]], "epoch": 3}
    obj["rates"] = [0.1, 0.2]
    flambeau.save(obj, tmp_path / "a.pt")
    page = told(capsys, tmp_path / "a.pt")
    assert page.startswith(f"{tmp_path / 'a.pt'}: archive of torch.save, ")
    assert row(page, "model.0.weight") == ["model.0.weight", "[4, 3]", "float32", "48 B"]
    want = ["views.1", "[6, 4]", "float32", "96 B", "strides [1, 6], shares storage 2"]
    assert row(page, "views.1") == want
    assert row(page, "views.2")[4] == "offset 6, shares storage 2"
    assert "5 tensors, 82 elements, 328 B in 3 storages of 160 B" in page
    assert "  epoch = 3\n" in page and "  rates = [0.1, 0.2]\n" in page
    assert "    torch._utils._rebuild_tensor_v2\n" in page and "refused" not in page


@pytest.mark.parametrize("name", ["files.pt", "files_legacy.pt"])
def test_recorded_files_of_pytorch(name):
    found = inspect(GOLDEN / name)
    wanted = flambeau.load(GOLDEN / name)
    tensors = {t.name: t for t in found.tensors}
    for dtype, t in wanted["dtypes"].items():
        facts = tensors[f"dtypes.{dtype}"]
        assert facts.shape == t.shape and facts.dtype == dtype
        assert facts.nbytes == t.numel() * t.element_size()
    for k, t in enumerate(wanted["views"]):
        facts = tensors[f"views.{k}"]
        assert (facts.shape, facts.stride) == (t.shape, t.stride())
        assert facts.offset == t.storage_offset()
    assert [names for names in found.shared.values() if "views.0" in names] == [
        [f"views.{k}" for k in range(6)]
    ]
    assert tensors["parameters.0"].kind == "parameter" and tensors["buffers.0"].kind == "buffer"
    assert found.refused == [] and "collections.Counter" in found.globals
    assert sum(found.storages.values()) > 0


def test_a_whole_model_has_its_names():
    found = inspect(GOLDEN / "files_model.pt")
    names = {t.name for t in found.tensors}
    model = flambeau.load(GOLDEN / "files_model.pt", weights_only=False)
    assert names == set(model.state_dict())
    assert "torch.nn.modules.container.Sequential" in found.refused
    assert "!" in text_of(found) and "only if you trust" in text_of(found)


class Evil:
    def __reduce__(self):
        return os.system, ("touch inspected",)


@pytest.mark.parametrize("protocol", range(6))
def test_plain_pickles_run_nothing(protocol, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    obj = {"a": Evil(), "b": [1, 2.5, "x", b"y", None, True], "d": deque([1]), "s": {1, 2}}
    obj |= {"o": OrderedDict(a=1), "f": defaultdict(list, k=[Evil()]), "big": 1 << 5000}
    obj |= {"text": "é\x1b[31m", "path": Path("/x"), "n": np.arange(3)}
    Path("p.pkl").write_bytes(pickle.dumps(obj, protocol))
    page = told(capsys, "p.pkl")
    assert page.startswith("p.pkl: pickle, ") and "  ! posix.system\n" in page
    assert "\x1b" not in page and "an integer of 5001 bits" in page
    assert os.listdir() == ["p.pkl"]


def test_hostile_archives_run_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flambeau.save({"w": flambeau.ones(2), "e": Evil()}, "e.pt")
    with pytest.raises(SystemExit) as ended:
        main(["--safe", "e.pt"])
    assert ended.value.code == 1
    page = capsys.readouterr().out
    assert "  ! posix.system\n" in page and row(page, "w")[1] == "[2]"
    assert os.listdir() == ["e.pt"]


def test_safetensors(tmp_path, capsys):
    tensors = {"a": flambeau.ones(2, 3, dtype=flambeau.bfloat16), "b": flambeau.ones(())}
    save_file(tensors, tmp_path / "x", {"format": "pt"})
    page = told(capsys, tmp_path / "x")
    assert ": safetensors, " in page and row(page, "a") == ["a", "[2, 3]", "BF16", "12 B"]
    assert "  format = pt\n" in page


def test_numpy_files(tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.ones((3, 4)).T)
    np.savez_compressed(tmp_path / "y.npz", a=np.ones(3), b=np.arange(3, dtype="int8"))
    np.save(tmp_path / "o.npy", np.array([{}], dtype=object))
    x, y, o = (inspect(tmp_path / name) for name in ("x.npy", "y.npz", "o.npy"))
    assert [(t.shape, t.dtype, t.nbytes, t.kind) for t in x.tensors] == [
        ((4, 3), "<f8", 96, "by columns")
    ]
    assert [(t.name, t.shape, t.nbytes) for t in y.tensors] == [("a", (3,), 24), ("b", (3,), 3)]
    assert o.refused == ["a pickle of objects"]
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-1])
    with pytest.raises(Unknown, match="ends before its array does"):
        inspect(tmp_path / "x.npy")


@pytest.mark.oracle
def test_torchscript(tmp_path, capsys):
    torch = pytest.importorskip("torch")
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(torch.nn.Linear(2, 3)).save(str(tmp_path / "s.pt"))
    page = told(capsys, tmp_path / "s.pt")
    assert ": TorchScript archive, " in page and row(page, "weight")[1] == "[3, 2]"
    with pytest.raises(RuntimeError, match="Cannot use ``weights_only=True`` with TorchScript"):
        flambeau.load(tmp_path / "s.pt")
    with pytest.warns(UserWarning, match="looks like a TorchScript archive dispatching to"):
        loaded = flambeau.load(tmp_path / "s.pt", weights_only=False)
    assert isinstance(loaded, flambeau.jit.ScriptModule) and loaded.weight.shape == (3, 2)
    said = "Expected input to be a checkpoint returned by torch.save but got a torchscript"
    with pytest.raises(ValueError, match=said):
        flambeau.serialization.get_unsafe_globals_in_checkpoint(tmp_path / "s.pt")


def test_json(tmp_path, capsys):
    flambeau.save(make(flambeau), tmp_path / "a.pt")
    flambeau.save({"x": float("nan"), "w": flambeau.ones(2)}, tmp_path / "b.pt")
    found = json.loads(told(capsys, "--json", tmp_path / "a.pt"))
    assert found["format"] == "archive of torch.save" and len(found["tensors"]) > 30
    assert found["refused"] == []
    both = json.loads(told(capsys, "--json", tmp_path / "a.pt", tmp_path / "b.pt"))
    assert [page["path"] for page in both] == [str(tmp_path / "a.pt"), str(tmp_path / "b.pt")]
    assert both[1]["tensors"][0]["shape"] == [2]


def test_long_lists_are_cut(tmp_path, capsys):
    flambeau.save({f"t{k}": flambeau.ones(1) for k in range(300)}, tmp_path / "a.pt")
    assert "... and 100 more (--all shows them)" in told(capsys, tmp_path / "a.pt")
    assert "\nt299 " in told(capsys, "--all", tmp_path / "a.pt")


FOREIGN = {
    "empty": (b"", "the file is empty"),
    "text": (b"hello world, this is text\n", "no file of weights"),
    "one dot": (b".", "no file of weights"),
    "gzip": (b"\x1f\x8b\x08" + bytes(30), "a gzip file: unpack it first"),
    "page": (b"<!DOCTYPE html><html>", "a text in HTML or XML"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    "cut zip": (b"PK\3\4" + bytes(50), "a zip archive that is damaged or cut off"),
    "zeros": (bytes(1000), "no file of weights"),
    "broken pickle": (b"\x80\x02}q\x00X\xff\xff\xff\x7fabc.", "damaged"),
    "broken safetensors": (b"\x08" + bytes(7) + b'{"a":1} ', "damaged"),
    "pickle of loops": (b"\x80\x02]q\x00h\x00a.", None),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_and_broken_files(name, tmp_path, capsys):
    data, said = FOREIGN[name]
    (tmp_path / "f").write_bytes(data)
    if said is None:
        assert inspect(tmp_path / "f").format == "pickle"
        return
    with pytest.raises(SystemExit) as ended:
        main([str(tmp_path / "f")])
    out = capsys.readouterr()
    assert ended.value.code == 1 and re.search(said, out.err) and not out.out


def test_other_archives_and_places(tmp_path, capsys):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as zipped:
        zipped.writestr("word/document.xml", "<a/>")
    (tmp_path / "f").write_bytes(file.getvalue())
    for path, said in ((tmp_path / "f", "zip archive without weights"), (tmp_path, "directory")):
        with pytest.raises(SystemExit):
            main([str(path)])
        assert said in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([str(tmp_path / "missing")])
    assert "No such file or directory" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 2


def test_sizes_in_words():
    sizes = {0: "0 B", 999: "999 B", 1000: "1.0 KB", 1536: "1.5 KB", 99_960: "100 KB"}
    sizes |= {40_000_000: "40.0 MB", 999_960: "1.0 MB", 123_456_789: "123 MB", 5 * 10**12: "5.0 TB"}
    assert {count: human(count) for count in sizes} == sizes


def test_billion_laughs_are_told_in_a_moment(tmp_path):
    """Forty lists, each of which holds the one before twice: 2**40 leaves, if one counted them."""
    body = b"\x80\x02]q\x00"
    for k in range(40):
        body += b"](h" + bytes([k]) + b"h" + bytes([k]) + b"eq" + bytes([k + 1])
    (tmp_path / "f").write_bytes(body + b".")
    assert inspect(tmp_path / "f").tensors == []
