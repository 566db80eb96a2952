"""safetensors files: bytes as the package writes them, and headers that lie.

HEADERS drives both the tests of our reader and, where PyTorch is, the comparison with the package;
bytes are compared with `safetensors.numpy`, which needs no PyTorch.
"""

import importlib.util
import json
import os
import struct
import subprocess
import sys

import numpy as np
import pytest

import flambeau
from flambeau.serialization import safetensors as s

DTYPES = (
    "float64 float32 float16 bfloat16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool "
    "complex64"
).split()
NAMES = ["a", "é", 'quote"', "back\\slash", "line\nfeed", "\x01", "\x7f", "/", "", "Z", "snow☃😀"]


def tensors(lib, dtypes=DTYPES):
    out = {
        f"{k % 3}.{name}": (lib.arange(k + 1) % 2).to(getattr(lib, name)).reshape(1, -1)
        for k, name in enumerate(dtypes)
    }
    out.update({name: lib.full((), k, dtype=lib.float32) for k, name in enumerate(NAMES)})
    out["empty"] = lib.zeros(0, 3)
    out["part"] = lib.arange(10.0)[3:5]
    return out


def arrays(found):
    return {name: t.numpy() for name, t in found.items()}


def file_of(header, data=b"", length=None):
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def same(a, b):
    assert list(a) == list(b) or set(a) == set(b)
    for name in a:
        assert a[name].dtype is b[name].dtype and a[name].shape == b[name].shape
        assert a[name].tolist() == b[name].tolist(), name


# bytes


@pytest.mark.parametrize("metadata", [None, {}, {"format": "pt"}, {"é\n": '"☃'}], ids=str)
def test_the_bytes_are_those_of_the_package(metadata, tmp_path):
    package = pytest.importorskip("safetensors.numpy")
    ours = tensors(flambeau, [name for name in DTYPES if name != "bfloat16"])
    want = package.save(arrays(ours), metadata=metadata)
    assert s.save(ours, metadata) == want
    s.save_file(ours, tmp_path / "x.safetensors", metadata)
    assert (tmp_path / "x.safetensors").read_bytes() == want


@pytest.mark.oracle
def test_the_bytes_are_those_of_the_package_for_every_dtype():
    torch, package = pytest.importorskip("torch"), pytest.importorskip("safetensors.torch")
    data = package.save(tensors(torch), {"a": "b"})
    assert s.save(tensors(flambeau), {"a": "b"}) == data
    assert {k: v.tolist() for k, v in package.load(data).items()} == {
        k: v.tolist() for k, v in s.load(data).items()
    }


def test_a_known_file():
    data = s.save({"b": flambeau.ones(1), "a": flambeau.ones(2, dtype=flambeau.int64)}, {"k": "v"})
    header = (
        b'{"__metadata__":{"k":"v"},"a":{"dtype":"I64","shape":[2],"data_offsets":[0,16]},'
        b'"b":{"dtype":"F32","shape":[1],"data_offsets":[16,20]}}'
    )
    header += b" " * (-len(header) % 8)
    assert data == file_of(header, struct.pack("<qqf", 1, 1, 1.0))
    assert s.save({}) == file_of(b"{}      ")


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_everything_comes_back(backend, tmp_path):
    path = tmp_path / "x.safetensors"
    s.save_file(tensors(flambeau), path, {"k": "v"})
    same(s.load_file(path, backend=backend), tensors(flambeau))
    same(s.load(path.read_bytes()), tensors(flambeau))
    with s.safe_open(path, framework="pt", backend=backend) as file:
        assert file.keys() == sorted(tensors(flambeau)) and file.metadata() == {"k": "v"}
        assert file.get_tensor("part").tolist() == [3.0, 4.0]
        with pytest.raises(s.SafetensorError, match="File does not contain tensor zz"):
            file.get_tensor("zz")
    with pytest.raises(s.SafetensorError, match="File is closed"):
        file.keys()


def test_large_tensors_in_several_pieces(tmp_path):
    big = {"a": flambeau.rand(1_500_001), "b": flambeau.rand(1 << 20).to(flambeau.float16)}
    s.save_file(big, tmp_path / "x")
    for backend in ("mmap", "pread"):
        back = s.load_file(tmp_path / "x", backend=backend)
        assert all(flambeau.equal(back[name], big[name]) for name in big)


def test_slices(tmp_path):
    base = flambeau.arange(24).reshape(2, 3, 4)
    s.save_file({"x": base}, tmp_path / "x")
    with s.safe_open(tmp_path / "x", "pt") as file, s.safe_open(tmp_path / "x", "np") as numbers:
        part = file.get_slice("x")
        assert part.get_shape() == [2, 3, 4] and part.get_dtype() == "I64"
        for index in (0, -1, slice(0, 1), (slice(None), 1), (..., slice(1, 3)), (0, [0, 2]), None):
            assert part[index].tolist() == base[index].tolist()
        with pytest.raises(IndexError):
            part[5]
        assert isinstance(numbers.get_tensor("x"), np.ndarray)
        assert np.array_equal(numbers.get_slice("x")[1], base[1].numpy())


def test_mapped_tensors_can_be_written_and_the_file_stays(tmp_path):
    s.save_file({"x": flambeau.zeros(1000)}, tmp_path / "x")
    t = s.load_file(tmp_path / "x")["x"]
    t += 1
    os.unlink(tmp_path / "x")
    assert t.sum().item() == 1000.0


def test_a_file_whose_tensors_are_not_aligned(tmp_path):
    header = b'{"x":{"dtype":"F64","shape":[2],"data_offsets":[0,16]}}' + b" " * 4
    (tmp_path / "x").write_bytes(file_of(header, struct.pack("<2d", 1, 2)))
    assert (8 + len(header)) % 8
    assert s.load_file(tmp_path / "x")["x"].tolist() == [1.0, 2.0]


# what is refused when writing


def test_tensors_that_share_memory_are_refused(tmp_path):
    t = flambeau.arange(6.0)
    for shared in ({"a": t, "b": t}, {"a": t, "b": t[2:]}, {"a": t[:4], "b": t[3:]}):
        with pytest.raises(RuntimeError, match="Some tensors share memory, this will lead to"):
            s.save(shared)
    apart = s.load(s.save({"a": t[:3], "b": t[3:]}))
    assert apart["b"].tolist() == [3.0, 4.0, 5.0]


@pytest.mark.parametrize(
    "given, error, said",
    [
        ([1], ValueError, r"Expected a dict of \[str, torch\.Tensor\] but received <class 'list'>"),
        ({"a": 1}, ValueError, "Key `a` is invalid, expected torch.Tensor but received <class"),
        ({1: flambeau.ones(1)}, TypeError, "argument 'tensor_dict'"),
        ({"a": flambeau.ones(2, 3).t()}, ValueError, "save a non contiguous tensor: `a` which is"),
        ({"a": flambeau.ones(2, dtype=flambeau.complex128)}, KeyError, "complex128"),
        ({"a": flambeau.ones(2, device="meta")}, NotImplementedError, "Cannot copy out of meta"),
        ({"\ud800": flambeau.ones(1)}, s.SafetensorError, "Error while serializing"),
    ],
    ids=str,
)
def test_what_cannot_be_written(given, error, said, tmp_path):
    with pytest.raises(error, match=said):
        s.save(given)
    with pytest.raises(error, match=said):
        s.save_file(given, tmp_path / "x")
    assert not os.listdir(tmp_path)


def test_metadata_must_be_strings():
    for metadata in ({"a": 1}, {1: "a"}):
        with pytest.raises(TypeError, match="argument 'metadata': 'int' object is not an instance"):
            s.save({"a": flambeau.ones(1)}, metadata)


def test_places_that_cannot_be_written(tmp_path):
    for place in (tmp_path, tmp_path / "no" / "x"):
        with pytest.raises(s.SafetensorError, match="Error while serializing: I/O error"):
            s.save_file({"a": flambeau.ones(1)}, place)
    with pytest.raises(FileNotFoundError):
        s.load_file(tmp_path / "no")
    with pytest.raises(IsADirectoryError):
        s.load_file(tmp_path)
    with pytest.raises(s.SafetensorError, match="framework tf is invalid"):
        s.safe_open(tmp_path / "x", "tf")


# headers that lie

F = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
EIGHT = b"\0" * 8
# name: (file, what is said or None, does the package agree)
HEADERS = {
    "empty": (b"", "header too small", True),
    "short": (b"abc", "header too small", True),
    "huge length": (file_of(b"{}", length=1 << 63), "header too large", True),
    "length over the limit": (file_of(b"{}", length=100_000_001), "header too large", True),
    "length beyond the end": (file_of(b"{}", length=50), "invalid header length", True),
    "no UTF-8": (file_of(b'{"\xff":1}'), "invalid UTF-8 in header", True),
    "no JSON": (file_of(b"{abc}"), "invalid JSON in header", True),
    "two values": (file_of(b"{}{}"), "invalid JSON in header", True),
    "a list": (file_of(b"[]"), "invalid JSON in header", True),
    "NaN": (file_of(b'{"a":NaN}'), "invalid JSON in header", True),
    "nothing": (file_of(b"{}"), None, True),
    "spaces around": (file_of(b" {} \n"), None, True),
    "data of nobody": (file_of(b"{}", b"xx"), "incomplete metadata, file not fully", True),
    "good": (file_of({"a": F}, EIGHT), None, True),
    "data missing": (file_of({"a": F}, EIGHT[1:]), "incomplete metadata, file not", True),
    "data left": (file_of({"a": F}, EIGHT + b"\0"), "incomplete metadata, file not", True),
    "dtype": (file_of({"a": {**F, "dtype": "F33"}}, EIGHT), "unknown variant", True),
    "dtype list": (file_of({"a": {**F, "dtype": ["F32"]}}, EIGHT), "unknown variant", False),
    "shape": (file_of({"a": {**F, "shape": [3]}}, EIGHT), "invalid shape, data type", True),
    "negative": (file_of({"a": {**F, "shape": [-2]}}, EIGHT), "invalid JSON in header", True),
    "fraction": (file_of({"a": {**F, "shape": [2.0]}}, EIGHT), "invalid JSON in header", True),
    "true": (file_of({"a": {**F, "shape": [True, 2]}}, EIGHT), "invalid JSON in header", True),
    "overflow": (file_of({"a": {**F, "shape": [1 << 40] * 2}}, EIGHT), "overflow computing", True),
    "empty overflow": (
        file_of({"a": {**F, "shape": [1 << 62, 1 << 62, 0], "data_offsets": [0, 0]}}),
        "overflow computing",
        True,
    ),
    "dimensions": (file_of({"a": {**F, "shape": [1] * 65 + [2]}}, EIGHT), "whole numbers", False),
    "backwards": (file_of({"a": {**F, "data_offsets": [8, 0]}}, EIGHT), "invalid offset", True),
    "gap": (
        file_of({"a": F, "b": {**F, "data_offsets": [12, 20]}}, b"\0" * 20),
        "invalid offset for tensor `b`",
        True,
    ),
    "gap at the start": (
        file_of({"a": {**F, "data_offsets": [8, 16]}}, b"\0" * 16),
        "invalid offset for tensor `a`",
        True,
    ),
    "overlap": (
        file_of({"a": F, "b": {**F, "data_offsets": [4, 12]}}, b"\0" * 12),
        "invalid offset for tensor `b`",
        True,
    ),
    "twice the same": (file_of({"a": F, "b": F}, EIGHT), "invalid offset for tensor", True),
    "another order": (
        file_of({"b": {**F, "data_offsets": [8, 16]}, "a": F}, b"\0" * 16),
        None,
        True,
    ),
    "a name twice": (
        file_of(b'{"a":%s,"a":%s}' % ((json.dumps(F).encode(),) * 2), EIGHT),
        "duplicate field `a`",
        False,
    ),
    "a field twice": (
        file_of(b'{"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}}', EIGHT),
        "duplicate field `dtype`",
        True,
    ),
    "more fields": (file_of({"a": {**F, "x": 1}}, EIGHT), None, True),
    "a field less": (file_of({"a": {"dtype": "F32", "shape": [2]}}, EIGHT), "missing field", True),
    "three offsets": (file_of({"a": {**F, "data_offsets": [0, 8, 9]}}, EIGHT), "JSON", True),
    "one offset": (file_of({"a": {**F, "data_offsets": [0]}}, EIGHT), "JSON", True),
    "huge offset": (file_of({"a": {**F, "data_offsets": [0, 1 << 64]}}, EIGHT), "JSON", True),
    "many digits": (file_of(b'{"a":' + b"9" * 9999 + b"}", EIGHT), "JSON", True),
    "metadata": (file_of({"__metadata__": {"k": "v"}, "a": F}, EIGHT), None, True),
    "null metadata": (file_of({"__metadata__": None, "a": F}, EIGHT), None, True),
    "metadata number": (file_of({"__metadata__": {"k": 1}, "a": F}, EIGHT), "JSON", True),
    "metadata list": (file_of({"__metadata__": [], "a": F}, EIGHT), "JSON", True),
    "deep": (file_of(b'{"a":' + b"[" * 90000 + b"]" * 90000 + b"}"), "JSON", True),
    "deep objects": (file_of(b'{"a":' * 90000 + b"1" + b"}" * 90000), "JSON", True),
    "a number": (file_of({"a": 3}), "JSON", True),
    "float 8": (
        file_of({"a": {"dtype": "F8_E4M3", "shape": [2], "data_offsets": [0, 2]}}, b"\0\0"),
        "tensor `a` has dtype F8_E4M3, which flambeau does not have yet",
        False,
    ),
    "float 4": (
        file_of({"a": {"dtype": "F4", "shape": [3], "data_offsets": [0, 2]}}, b"\0\0"),
        "does not end at a byte boundary",
        True,
    ),
    "truth beyond one": (
        file_of({"a": {"dtype": "BOOL", "shape": [2], "data_offsets": [0, 2]}}, b"\2\1"),
        None,
        True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADERS)
def test_headers(name, tmp_path):
    data, said, _ = HEADERS[name]
    (tmp_path / "x").write_bytes(data)
    for read in (lambda: s.load(data), lambda: s.load_file(tmp_path / "x")):
        if said is None:
            read()
        else:
            with pytest.raises(s.SafetensorError, match=said):
                read()


@pytest.mark.oracle
@pytest.mark.parametrize("name", [name for name in HEADERS if HEADERS[name][2]])
def test_the_package_agrees_on_headers(name):
    pytest.importorskip("torch")
    package = pytest.importorskip("safetensors")
    from safetensors.torch import load

    data, said, _ = HEADERS[name]
    if said is None:
        assert {k: v.tolist() for k, v in load(data).items()} == {
            k: v.tolist() for k, v in s.load(data).items()
        }
    else:
        with pytest.raises(package.SafetensorError):
            load(data)


def test_lies_cost_no_memory():
    """A header that promises a large tensor is refused before memory is taken."""
    entry = {"a": {"dtype": "F64", "shape": [1 << 37], "data_offsets": [0, 1 << 40]}}
    with pytest.raises(s.SafetensorError, match="not fully covered"):
        s.load(file_of(entry, EIGHT))


# models


def tied():
    model = flambeau.nn.Sequential(flambeau.nn.Linear(3, 3), flambeau.nn.Linear(3, 3))
    model[1].weight = model[0].weight
    return model


def test_models_with_tied_weights(tmp_path):
    source, target = tied(), tied()
    s.save_model(source, tmp_path / "m", {"format": "pt"})
    with s.safe_open(tmp_path / "m", "pt") as file:
        assert file.keys() == ["0.bias", "0.weight", "1.bias"]
        assert file.metadata() == {"format": "pt", "1.weight": "0.weight"}
    assert s.load_model(target, tmp_path / "m") == (set(), [])
    assert flambeau.equal(target[1].weight, source[0].weight)
    other = flambeau.nn.Linear(3, 3)
    with pytest.raises(RuntimeError, match=r"Missing key\(s\) in state_dict: \"bias\", \"weight\""):
        s.load_model(other, tmp_path / "m")
    missing, unexpected = s.load_model(other, tmp_path / "m", strict=False)
    assert missing == {"bias", "weight"} and len(unexpected) == 3


def test_a_model_whose_tensors_cover_no_whole_memory(tmp_path):
    model = flambeau.nn.Module()
    base = flambeau.ones(10)
    model.register_buffer("a", base[:6])
    model.register_buffer("b", base[4:])
    with pytest.raises(RuntimeError, match="None is covering the entire storage"):
        s.save_model(model, tmp_path / "m")


PROGRAM = """
import sys, torch
from safetensors import safe_open
from safetensors.torch import load, load_file, load_model, save, save_file, save_model
assert torch.__spec__.name == "flambeau"
path = sys.argv[1]
made = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(2, dtype=torch.bfloat16)}
save_file(made, path, {"format": "pt"})
for back in (load_file(path), load(save(made)), load_file(path, backend="pread")):
    assert all(torch.equal(back[name], made[name]) for name in made)
with safe_open(path, "pt") as file:
    assert file.get_slice("a")[:, 1:].tolist() == [[1.0, 2.0], [4.0, 5.0]]
save_model(torch.nn.Linear(2, 2), path)
assert load_model(torch.nn.Linear(2, 2), path) == (set(), [])
print("fine")
"""


@pytest.mark.skipif(importlib.util.find_spec("safetensors") is None, reason="no safetensors")
def test_the_package_itself_runs_on_flambeau(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "flambeau", "program.py", "x.safetensors"]
    root = os.path.dirname(os.path.dirname(flambeau.__file__))
    environment = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "fine", done.stderr


def test_storages_of_files(tmp_path):
    (tmp_path / "x").write_bytes(bytes(range(8)))
    kind = type(flambeau.ones(1).untyped_storage())
    private, shared = (kind.from_file(tmp_path / "x", flag, 8) for flag in (False, True))
    private[0] = 9
    assert (tmp_path / "x").read_bytes()[0] == 0
    shared[1] = 9
    assert (tmp_path / "x").read_bytes()[1] == 9
    assert private[2:4].tolist() == [2, 3]
    assert flambeau.asarray(private[4:], dtype=flambeau.uint8).tolist() == [4, 5, 6, 7]
    with pytest.raises(RuntimeError, match="is smaller than the required mapping size <9>"):
        kind.from_file(tmp_path / "x", False, 9)
    with pytest.raises(RuntimeError, match="unable to open file"):
        kind.from_file(tmp_path / "no", False, 9)
    with pytest.raises(RuntimeError, match="Trying to slice with a step of 2"):
        private[::2]
