"""Files: round trips, files of PyTorch (recorded, and live both ways), hostile and broken ones.

What is saved is made by saved_objects.py. The hostile files are written by hand with `pickle` and
`zipfile`; nothing that they name may be called.
"""

import collections
import contextlib
import errno
import importlib.util
import io
import os
import pickle
import struct
import warnings
import zipfile
import zoneinfo
from pathlib import Path

import pytest

import flambeau
from flambeau.serialization import pickling
from tests.saved_objects import DTYPES, make, seen

GOLDEN = Path(__file__).parent / "golden"


def saved(obj, lib=flambeau, **options):
    file = io.BytesIO()
    lib.save(obj, file, **options)
    return file.getvalue()


def loaded(data, lib=flambeau, **options):
    return lib.load(io.BytesIO(data), **options)


def same_memory(tensors):
    return len({t.untyped_storage().data_ptr() for t in tensors}) == 1


# round trips


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_everything_comes_back(weights_only, protocol):
    obj = make(flambeau)
    back = loaded(saved(obj, pickle_protocol=protocol), weights_only=weights_only)
    assert seen(back) == seen(obj)
    assert same_memory(back["views"])
    back["views"][0][0, 0] = 99.0
    assert back["views"][1][0, 0].item() == 99.0
    assert all(isinstance(t, flambeau.nn.Buffer) for t in back["buffers"])
    assert back["buffers"][1].persistent is False
    assert type(back["parameters"][0]) is flambeau.nn.Parameter


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_and_size(name, tmp_path):
    dtype = getattr(flambeau, name)
    for shape in ((), (0,), (3,), (5, 7), (2, 3, 4), (1000,)):
        t = (flambeau.arange(flambeau.Size(shape).numel()) % 100).reshape(shape).to(dtype)
        flambeau.save(t, tmp_path / "t.pt")
        for mmap in (False, True):
            back = flambeau.load(tmp_path / "t.pt", mmap=mmap)
            assert back.dtype is dtype and back.shape == t.shape
            assert back.tolist() == t.tolist()


def test_what_was_one_object_is_one_object():
    t = flambeau.ones(2)
    p = flambeau.nn.Parameter(t)
    a, b, c, d = loaded(saved([t, t, p, p]))
    assert a is b and c is d and same_memory([a, c])


def test_data_and_detached_tensors_share_memory_in_files():
    t = flambeau.ones(3, requires_grad=True)
    assert same_memory(loaded(saved([t, t.data, t.detach()])))


def test_results_of_ops_become_leaves():
    t = flambeau.ones(2, requires_grad=True) * 3
    back = loaded(saved(t))
    assert back.requires_grad and back.is_leaf and back.tolist() == [3.0, 3.0]


def test_one_memory_as_two_dtypes_is_refused():
    t = flambeau.ones(2)
    with pytest.raises(RuntimeError, match="Cannot save multiple tensors or storages that view"):
        saved([t, t.view(flambeau.int32)])


def test_storages_alone():
    t = flambeau.arange(4)
    untyped, typed = loaded(saved([flambeau.ones(2).untyped_storage(), t.storage()]))
    assert untyped.nbytes() == 8 and typed.tolist() == [0, 1, 2, 3]


def test_a_small_view_keeps_its_whole_storage_as_in_pytorch():
    assert loaded(saved(flambeau.arange(100.0)[:2])).untyped_storage().nbytes() == 400


def test_the_same_object_gives_the_same_bytes():
    assert saved(make(flambeau)) == saved(make(flambeau))


def test_deep_nesting():
    obj = flambeau.ones(1)
    for _ in range(100):
        obj = [obj]
    back = loaded(saved(obj))
    for _ in range(100):
        (back,) = back
    assert back.item() == 1.0


def test_a_whole_model(tmp_path):
    model = flambeau.nn.Sequential(flambeau.nn.Linear(3, 4), flambeau.nn.ReLU())
    flambeau.save(model, tmp_path / "m.pt")
    with pytest.raises(pickle.UnpicklingError, match="Unsupported global"):
        flambeau.load(tmp_path / "m.pt")
    back = flambeau.load(tmp_path / "m.pt", weights_only=False)
    x = flambeau.rand(2, 3)
    assert flambeau.equal(model(x), back(x))


def test_parameters_without_a_shape():
    for t in (flambeau.nn.UninitializedParameter(), flambeau.nn.UninitializedBuffer()):
        back = loaded(saved(t), weights_only=False)
        assert type(back) is type(t) and back.requires_grad == t.requires_grad


class Noted(flambeau.Tensor):
    pass


def test_subclasses_of_tensor():
    t = flambeau.ones(2).as_subclass(Noted) if hasattr(flambeau.Tensor, "as_subclass") else None
    if t is None:
        pytest.skip("no as_subclass")
    t.note = 1
    data = saved(t)
    with pytest.raises(pickle.UnpicklingError, match="Noted was not an allowed global"):
        loaded(data)
    with flambeau.serialization.safe_globals([Noted]):
        back = loaded(data)
    assert type(back) is Noted and back.note == 1


# files and places


def test_paths_strings_and_file_objects(tmp_path):
    for f in (tmp_path / "a.pt", str(tmp_path / "b"), tmp_path / ".hidden"):
        flambeau.save([1], f)
        assert flambeau.load(f) == [1]
    with open(tmp_path / "c.pt", "wb") as file:
        flambeau.save(flambeau.ones(2), file)
    with open(tmp_path / "c.pt", "rb") as file:
        assert flambeau.load(file).tolist() == [1.0, 1.0]


class Plain:
    """A file object with no more than must be."""

    def __init__(self, data):
        inner = io.BytesIO(data)
        self.seek, self.tell, self.read = inner.seek, inner.tell, inner.read
        self.seekable = inner.seekable


def test_a_file_object_without_readinto():
    with pytest.raises(
        AttributeError, match=r"You can only torch\.load from a file that is seekable"
    ):
        flambeau.load(3)
    assert flambeau.load(Plain(saved(flambeau.arange(3)))).tolist() == [0, 1, 2]


def test_records_are_laid_out_as_pytorch_lays_them(tmp_path):
    flambeau.save({"a": flambeau.ones(3), "b": flambeau.ones(5)}, tmp_path / "some.name.pt")
    data = (tmp_path / "some.name.pt").read_bytes()
    with zipfile.ZipFile(tmp_path / "some.name.pt") as archive:
        assert archive.testzip() is None
        names = [info.filename for info in archive.infolist()]
        for info in archive.infolist():
            lengths = struct.unpack_from("<HH", data, info.header_offset + 26)
            assert (info.header_offset + 30 + sum(lengths)) % 64 == 0
            assert info.compress_type == zipfile.ZIP_STORED
    tail = "data.pkl .format_version .storage_alignment byteorder data/0 data/1 version"
    assert names == [f"some.name/{n}" for n in [*tail.split(), ".data/serialization_id"]]


@pytest.mark.parametrize("limit", [0, 50, 5000])
def test_numbers_of_64_bits(limit, monkeypatch):
    """What files over 4 GB need, at sizes that are quick to write."""
    monkeypatch.setattr(flambeau.serialization.archive, "LARGE", limit)
    obj = make(flambeau)
    data = saved(obj)
    assert seen(loaded(data)) == seen(obj)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
    if importlib.util.find_spec("torch"):
        assert seen(loaded(data, pytest.importorskip("torch"))) == seen(obj)


def test_many_records():
    file = io.BytesIO()
    writer = flambeau.serialization.archive.ArchiveWriter(file, "archive")
    writer.add("data.pkl", pickle.dumps("found", 2))
    for key in range(66000):
        writer.add(f"data/{key}", b"")
    writer.close()
    assert loaded(file.getvalue()) == "found"
    assert len(zipfile.ZipFile(file).namelist()) == 66002


def test_map_location():
    data = saved({"x": flambeau.arange(3.0)})
    for place in (None, "cpu", flambeau.device("cpu"), {"cuda:0": "cpu"}, lambda s, l: None):
        assert loaded(data, map_location=place)["x"].tolist() == [0.0, 1.0, 2.0]
    for place in ("meta", {"cpu": "meta"}, flambeau.device("meta")):
        assert loaded(data, map_location=place)["x"].is_meta
    asked = []
    loaded(data, map_location=lambda storage, place: asked.append((storage.nbytes(), place)))
    assert asked == [(12, "cpu")]
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
        loaded(data, map_location="cuda")
    with pytest.raises(RuntimeError, match="don't know how to restore data location"):
        loaded(data, map_location="foo")


def test_a_file_from_a_gpu():
    data = edited(saved(flambeau.ones(2)), lambda p: p.replace(text("cpu"), text("cuda:1")))
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
        loaded(data)
    assert loaded(data, map_location="cpu").tolist() == [1.0, 1.0]
    assert loaded(data, map_location={"cuda:1": "cpu"}).tolist() == [1.0, 1.0]


def test_mapped_tensors_can_be_written_and_the_file_stays(tmp_path):
    flambeau.save(flambeau.zeros(1000), tmp_path / "z.pt")
    before = (tmp_path / "z.pt").read_bytes()
    t = flambeau.load(tmp_path / "z.pt", mmap=True)
    t += 1
    os.unlink(tmp_path / "z.pt")
    assert t.sum().item() == 1000.0
    (tmp_path / "z.pt").write_bytes(before)
    assert flambeau.load(tmp_path / "z.pt").sum().item() == 0.0
    with pytest.raises(ValueError, match="f must be a file path in order to use the mmap argument"):
        flambeau.load(io.BytesIO(before), mmap=True)


# writes that fail


class Unpicklable:
    def __reduce__(self):
        raise OSError("no")


@pytest.mark.parametrize("failure", ["pickling", "disk full", "rename"])
def test_the_file_of_before_survives(tmp_path, monkeypatch, failure):
    path = tmp_path / "w.pt"
    flambeau.save("before", path)
    count = 1 << 18 if failure == "disk full" else 10  # large files are waited for
    obj = [flambeau.ones(count), Unpicklable() if failure == "pickling" else 1]
    if failure == "rename":
        monkeypatch.setattr(os, "replace", full)
    elif failure == "disk full":
        monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError):
        flambeau.save(obj, path)
    monkeypatch.undo()
    assert flambeau.load(path) == "before"
    assert os.listdir(tmp_path) == ["w.pt"]


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_tensors_are_the_same_whether_written_at_once_or_part_by_part(monkeypatch, protocol):
    base = flambeau.arange(300.0).reshape(3, 100)
    obj = {str(k): flambeau.full((k + 1, 70000 // 4), k, dtype=flambeau.int8) for k in range(3)}
    obj |= {"base": base, "view": base[1:, ::7], "again": base, "scalar": flambeau.tensor(2.5)}
    obj |= {"wide": flambeau.zeros(2, 1, 3, 1, 2, requires_grad=True), "empty": flambeau.empty(0)}
    obj["parameter"] = flambeau.nn.Parameter(flambeau.ones(2))
    files = []
    for at_once in (True, False):
        if not at_once:
            monkeypatch.setattr(pickling.Pickler, "save", pickling.pickle._Pickler.save)
        files.append(io.BytesIO())
        flambeau.save(obj, files[-1], pickle_protocol=protocol)
    assert protocol == 4 or len(files[0].getvalue()) < len(files[1].getvalue())
    for file in files:
        found = flambeau.load(io.BytesIO(file.getvalue()))
        assert list(found) == list(obj) and found["again"] is found["base"]
        assert found["view"].data_ptr() == found["base"].data_ptr() + 400
        for name, tensor in obj.items():
            assert found[name].equal(tensor) and found[name].stride() == tensor.stride()
            assert found[name].requires_grad == tensor.requires_grad
            assert type(found[name]) is type(tensor)


def full(*arguments):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_links_and_modes_stay(tmp_path):
    (tmp_path / "real.pt").touch(0o600)
    (tmp_path / "link.pt").symlink_to("real.pt")
    flambeau.save(1, tmp_path / "link.pt")
    assert (tmp_path / "link.pt").is_symlink()
    assert flambeau.load(tmp_path / "real.pt") == 1
    assert (tmp_path / "real.pt").stat().st_mode & 0o777 == 0o600


def test_places_that_cannot_be_written():
    with pytest.raises(RuntimeError, match=r"Parent directory /nowhere/at does not exist\."):
        flambeau.save(1, "/nowhere/at/all.pt")
    with pytest.raises(RuntimeError, match="Is a directory"):
        flambeau.save(1, os.path.dirname(__file__))
    with pytest.raises(AttributeError, match="expected 'f' to be string, path, or a file-like"):
        flambeau.save(1, 3)
    with pytest.raises(FileNotFoundError):
        flambeau.load("/nowhere/at/all.pt")
    flambeau.save(1, "/dev/null")


# files of PyTorch


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("name", ["files.pt", "files_legacy.pt"])
def test_recorded_files_load(name, weights_only):
    back = flambeau.load(GOLDEN / name, weights_only=weights_only)
    assert seen(back) == seen(make(flambeau))
    assert same_memory(back["views"])


def test_a_recorded_model_loads():
    model = flambeau.load(GOLDEN / "files_model.pt", weights_only=False).eval()
    want = flambeau.nn.functional.gelu(flambeau.tensor([1.0, 2.25, 3.5]))
    assert flambeau.allclose(model(flambeau.ones(2)), want)


@pytest.mark.oracle
@pytest.mark.parametrize("weights_only", [True, False])
def test_pytorch_reads_our_files_and_we_read_its(tmp_path, weights_only):
    torch = pytest.importorskip("torch")
    for writer, reader in ((flambeau, torch), (torch, flambeau)):
        obj = make(writer)
        writer.save(obj, tmp_path / "x.pt")
        for mmap in (False, True):
            back = reader.load(tmp_path / "x.pt", weights_only=weights_only, mmap=mmap)
            assert seen(back) == seen(make(reader)) == seen(obj)
            assert same_memory(back["views"])


def readable(lib):
    """What PyTorch reads from the older format: not all it writes."""
    obj = make(lib)
    for name in ("uint16", "uint32", "uint64"):
        del obj["dtypes"][name]
    return obj


@pytest.mark.oracle
@pytest.mark.parametrize("weights_only", [True, False])
def test_pytorch_reads_our_files_of_the_older_format(weights_only):
    torch = pytest.importorskip("torch")
    data = saved(readable(flambeau), _use_new_zipfile_serialization=False)
    for lib in (torch, flambeau):
        back = loaded(data, lib, weights_only=weights_only)
        assert seen(back) == seen(readable(lib))
        assert same_memory(back["views"])


@pytest.mark.oracle
def test_lazily_conjugated_tensors_load():
    torch = pytest.importorskip("torch")
    t = torch.tensor([1 + 2j, 3 - 1j])
    conj, neg = (loaded(saved(x, torch)) for x in (t.conj(), t.conj().imag))
    assert conj.tolist() == [1 - 2j, 3 + 1j] and neg.tolist() == [-2.0, 1.0]


@pytest.mark.oracle
def test_models_cross_over():
    torch = pytest.importorskip("torch")
    for writer, reader in ((flambeau, torch), (torch, flambeau)):
        model = writer.nn.Sequential(writer.nn.Conv1d(1, 2, 3), writer.nn.BatchNorm1d(2)).eval()
        back = loaded(saved(model, writer), reader, weights_only=False)
        got, want = back(reader.ones(1, 1, 5)), model(writer.ones(1, 1, 5))
        assert got.flatten().tolist() == pytest.approx(want.flatten().tolist(), rel=1e-5)


# hostile files


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def archive(pickled, records=()):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as zipped:
        zipped.writestr("archive/data.pkl", pickled)
        for name, data in dict(records).items():
            zipped.writestr(f"archive/{name}", data)
    return file.getvalue()


def edited(data, change, compression=zipfile.ZIP_STORED):
    """An archive whose pickle has been changed."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", compression) as new:
        for info in old.infolist():
            content = old.read(info)
            changed = change(content) if info.filename.endswith("data.pkl") else content
            new.writestr(info.filename, changed)
    return out.getvalue()


class Calls:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


HOSTILE = {
    "system": pickle.dumps(Calls(os.system, "touch /tmp/never"), 2),
    "eval": pickle.dumps(Calls(eval, "1 + 1"), 2),
    "eval 4": pickle.dumps(Calls(eval, "1 + 1"), 4),
    "getattr": pickle.dumps(Calls(getattr, flambeau.Size, "__class__"), 2),
    "open": pickle.dumps(Calls(open, "/tmp/never", "w"), 2),
    "inst": b"(S'1'\nibuiltins\neval\n.",
    "obj": b"(cbuiltins\neval\nX\x01\x00\x00\x001o.",
    "extension": b"\x82\x01.",
    "a builtin as argument": b"\x80\x02cbuiltins\nset\ncbuiltins\nlen\n\x85R.",
    "calling a result": b"\x80\x02ccollections\nOrderedDict\n)R)R.",
    "calling a dtype": b"\x80\x02ctorch\nfloat32\n)R.",
    "state for a function": b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n}K\x01K\x01sb.",
    "state for a class": b"\x80\x02ccollections\nOrderedDict\n}X\x01\x00\x00\x00aK\x01sb.",
    "new function": b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n)\x81.",
    "huge bytearray": b"\x80\x02c__builtin__\nbytearray\n\x8a\x06\x00\x00\x00\x00\x00\x01\x85R.",
    "bomb codec": b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x03\x00\x00\x00zip\x86R.",
    "lying length": b"\x80\x02X\xff\xff\xff\x7fabc.",
    "lying long length": b"\x80\x04\x8d" + b"\xff" * 8 + b"abc.",
    "empty stack": b"\x80\x02R.",
    "no mark": b"\x80\x02K\x01t.",
    "unknown memo": b"\x80\x02h\x05.",
    "items of a number": b"\x80\x02K\x01K\x02a.",
    "attribute path": b"\x80\x04\x8c\x05torch\x8c\x0aTensor.add\x93.",
    "deep attribute": b"\x80\x02ctorch\nserialization.os.system\n.",
    "our own module": b"\x80\x02cflambeau.serialization\nload\n.",
    "unhashable": b"\x80\x02}]]s.",
    "device of a list": b"\x80\x02ctorch\ndevice\n]\x85R.",
    "unknown protocol": b"\x80\x09N.",
    "no end": b"\x80\x02N",
    "nothing": b"",
    "persistent id": b"\x80\x02K\x01Q.",
    "persistent module": b"\x80\x02X\x06\x00\x00\x00moduleK\x01\x86Q.",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pickles_are_refused(name):
    with pytest.raises((pickle.UnpicklingError, EOFError)):
        loaded(archive(HOSTILE[name]))
    assert not os.path.exists("/tmp/never")


def test_what_is_said_of_refused_globals():
    said = r"Weights only load failed\..*posix.system whose module posix is blocked\."
    with pytest.raises(pickle.UnpicklingError, match=said):
        loaded(archive(HOSTILE["system"]))
    said = (
        r"(?s)Weights only load failed\. This file can still be loaded.*Unsupported global: GLOBAL "
        r"eval was not an allowed global by default\. Please use "
        r"`torch.serialization.add_safe_globals\(\[eval\]\)`"
    )
    with pytest.raises(pickle.UnpicklingError, match=said):
        loaded(archive(HOSTILE["eval"]))


class Config:
    def __init__(self, size):
        self.size = size


def test_safe_globals():
    s = flambeau.serialization
    data = saved({"config": Config(4)})
    name = f"{Config.__module__}.Config"
    assert s.get_unsafe_globals_in_checkpoint(io.BytesIO(data)) == [name]
    with pytest.raises(pickle.UnpicklingError, match=f"GLOBAL {name} was not an allowed"):
        loaded(data)
    with s.safe_globals([Config]):
        assert s.get_safe_globals() == [Config]
        assert loaded(data)["config"].size == 4
        assert s.get_unsafe_globals_in_checkpoint(io.BytesIO(data)) == []
    assert s.get_safe_globals() == []
    s.add_safe_globals([(Config, name)])
    assert loaded(data)["config"].size == 4
    s.clear_safe_globals()
    with pytest.raises(pickle.UnpicklingError):
        loaded(data)
    with pytest.raises(RuntimeError, match="Can not safely load weights when explicit pickle_mod"):
        loaded(data, pickle_module=pickle, weights_only=True)
    assert loaded(data, pickle_module=pickle)["config"].size == 4


def tensor_pickle(
    offset=0, size=(2,), stride=(1,), numel=4, kind="FloatStorage", key="0", marks=None
):
    """The pickle of one tensor, with whatever facts."""
    numbers = [pickle.dumps(v, 2)[2:-1] for v in (numel, offset, size, stride)]
    storage = b"(" + text("storage") + f"ctorch\n{kind}\n".encode() + text(key) + text("cpu")
    head = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n("
    tail = b"\x89)" + (pickle.dumps(marks, 2)[2:-1] if marks else b"") + b"tR."
    return head + storage + numbers[0] + b"tQ" + b"".join(numbers[1:]) + tail


@pytest.mark.parametrize(
    "facts",
    [
        {"offset": 3},
        {"offset": -1},
        {"offset": 1 << 62},
        {"size": (5,)},
        {"size": (2, 2), "stride": (3, 1)},
        {"size": (-1,)},
        {"size": (1 << 40, 1 << 40), "stride": (0, 0)},
        {"size": (2,) * 70, "stride": (0,) * 70},
        {"size": (2, 2)},
        {"stride": (-1,)},
        {"stride": (4,)},
        {"stride": (1.0,)},
        {"size": "ab"},
        {"numel": 3},
        {"numel": 5},
        {"numel": 1 << 60},
        {"numel": -4},
        {"kind": "DoubleStorage"},
        {"kind": "float32"},
        {"key": "7"},
        {"key": "../data.pkl"},
    ],
    ids=str,
)
def test_lies_about_tensors_are_refused(facts):
    with pytest.raises((pickle.UnpicklingError, RuntimeError)):
        loaded(archive(tensor_pickle(**facts), {"data/0": b"\0" * 16}))


def test_the_truth_about_a_tensor_is_not():
    data = archive(tensor_pickle(1, (3,)), {"data/0": struct.pack("4f", 1, 2, 3, 4)})
    assert loaded(data).tolist() == [2.0, 3.0, 4.0]
    far = archive(tensor_pickle(0, (3, 1 << 40), (1, 0)), {"data/0": b"\0" * 16})
    assert loaded(far).shape == (3, 1 << 40)
    big = {"data/0": struct.pack(">4f", 1, 2, 3, 4), "byteorder": b"big"}
    assert loaded(archive(tensor_pickle(), big)).tolist() == [1.0, 2.0]


def test_compressed_archives_load_and_bombs_do_not():
    data = edited(saved(flambeau.zeros(10000)), lambda p: p, zipfile.ZIP_DEFLATED)
    assert len(data) < 5000 and loaded(data).shape == (10000,)
    # a directory that promises more than deflate can do
    place = data.rindex(b"archive/data/0") - 46
    size = struct.pack("<I", 1 << 30)
    lying = data[: place + 24] + size + data[place + 28 :]
    with pytest.raises(RuntimeError, match="larger than the archive can hold"):
        loaded(lying.replace(struct.pack("<H", 10000), struct.pack("<H", 10000)))


def test_marks_take_no_more_memory_than_the_file():
    marked = tensor_pickle(0, (1 << 40, 2), (0, 1), marks={"neg": True})
    found = loaded(archive(marked, {"data/0": struct.pack("4f", 1, 2, 3, 4)}))
    assert found.shape == (1 << 40, 2) and found[7].tolist() == [-1.0, -2.0]


def test_of_records_with_one_name_the_first_is_read(tmp_path):
    path = tmp_path / "x.pt"
    path.write_bytes(archive(tensor_pickle(), {"data/0": struct.pack("4f", 1, 2, 3, 4)}))
    with warnings.catch_warnings(), zipfile.ZipFile(path, "a") as file:
        warnings.simplefilter("ignore")  # zipfile says that the name is there already
        file.writestr("archive/data/0", struct.pack("4f", 5, 6, 7, 8))
    assert flambeau.load(path).tolist() == [1.0, 2.0]
    with flambeau.PyTorchFileReader(str(path)) as reader:
        assert reader.get_record("data/0") == struct.pack("4f", 1, 2, 3, 4)


def test_records_that_overlap_are_refused():
    pickled = b"\x80\x02]("
    for key in range(50):
        pickled += tensor_pickle(key=str(key), numel=2500)[2:-1]
    data = bytearray(archive(pickled + b"e.", {f"data/{k}": b"\0" * 10000 for k in range(50)}))
    first = data.index(b"archive/data/0") - 30
    with zipfile.ZipFile(io.BytesIO(data)) as zipped:
        assert len(zipped.namelist()) == 51
    # every entry of the directory points at the same record, and most of the file is cut out
    end = data.rindex(b"PK\5\6")
    start = struct.unpack_from("<I", data, end + 16)[0]
    place, body = start, bytearray(data[: first + 20000])
    directory = bytearray(data[start:end])
    place = 0
    while place < len(directory):
        lengths = struct.unpack_from("<HHH", directory, place + 28)
        if struct.unpack_from("<I", directory, place + 42)[0]:
            struct.pack_into("<I", directory, place + 42, first)
        place += 46 + sum(lengths)
    tail = bytearray(data[end:])
    struct.pack_into("<I", tail, 16, len(body))
    with pytest.raises(RuntimeError, match="records overlap"):
        loaded(bytes(body + directory + tail))


# broken files


def test_truncated_archives():
    data = saved({"x": flambeau.arange(100.0)})
    for length in range(4, len(data), 7):
        with pytest.raises(RuntimeError, match="PytorchStreamReader failed"):
            loaded(data[:length])


@pytest.mark.parametrize("name", ["files.pt", "files_legacy.pt"])
def test_changed_bytes_give_clean_errors_or_data(name, rng):
    data = (GOLDEN / name).read_bytes()
    for _ in range(300):
        changed = bytearray(data)
        for place in rng.integers(0, len(data), rng.integers(1, 4)):
            changed[place] = rng.integers(256)
        with contextlib.suppress(RuntimeError, pickle.UnpicklingError, EOFError):
            loaded(bytes(changed))


def test_truncated_legacy_files():
    data = (GOLDEN / "files_legacy.pt").read_bytes()
    for length in [*range(1, len(data), 97), len(data) - 3]:
        with pytest.raises((RuntimeError, pickle.UnpicklingError, EOFError)):
            loaded(data[:length])
    with pytest.raises(RuntimeError, match="unexpected EOF, expected 3 more bytes"):
        loaded(data[:-3])


def test_files_of_others(tmp_path):
    with pytest.raises(EOFError):
        loaded(b"")
    for data in (b"hello world", b"\x89PNG\r\n\x1a\n" + b"\0" * 50, pickle.dumps({"a": 1}), b"\0"):
        with pytest.raises(RuntimeError, match=r"Invalid magic number; corrupt file\?"):
            loaded(data)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as zipped:
        zipped.writestr("word/document.xml", "<a/>")
    with pytest.raises(RuntimeError, match=r"locating file data\.pkl: file not found"):
        loaded(file.getvalue())


def test_a_flipped_bit_in_the_data_is_noticed():
    data = bytearray(saved(flambeau.full((64,), 7.0)))
    place = data.index(struct.pack("<f", 7.0) * 64)
    data[place + 9] ^= 1
    with pytest.raises(RuntimeError, match="checksum does not match"):
        loaded(bytes(data))


def test_counters_and_ordered_dictionaries_keep_their_types():
    back = loaded(saved([collections.Counter("ab"), collections.OrderedDict(a=1)]))
    assert [type(b) for b in back] == [collections.Counter, collections.OrderedDict]


# what programs do around save and load


def test_a_file_object_can_be_read_by_its_name_after_save(tmp_path):
    for legacy in (False, True):
        with open(tmp_path / "x.pt", "wb") as file:
            flambeau.save(flambeau.arange(3), file, _use_new_zipfile_serialization=not legacy)
            assert flambeau.load(tmp_path / "x.pt").tolist() == [0, 1, 2]


_PYTHON_2 = (
    b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}q\x01(U\x10"
    b"protocol_versionq\x02M\xe9\x03U\rlittle_endianq\x03\x88U\ntype_sizesq\x04}q\x05(U\x05shortq\x06K\x02U\x03intq"
    b"\x07K\x04U\x04longq\x08K\x04uu.\x80\x02]q\x01(U\x02\xc5\xbcq\x02ctorch._utils\n"
    b"_rebuild_tensor_v2\nq\x03((U\x07storageq\x04ctorch\nFloatStorage\nq\x05U\x0845640624q\x06U\x03"
    b"cpuq\x07\x8a\x01\x01NtQK\x00K\x01\x85K\x01\x85\x89NtRq\x08K\x02e.\x80\x02]q\x01U\x0845640624q"
    b"\x02a.\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80?"
)


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("encoding, text", [("utf-8", "ż"), ("bytes", b"\xc5\xbc")])
@pytest.mark.filterwarnings("ignore:pickle_load_args")
def test_files_of_python_2(weights_only, encoding, text):
    found = loaded(_PYTHON_2, weights_only=weights_only, encoding=encoding)
    assert found[0] == text and found[1].tolist() == [1.0] and found[2] == 2


def _with_views(*views):
    """A file of the first years: FloatStorages that are parts of one of two elements."""
    head = b"".join(pickle.dumps(part, 2) for part in (0x1950A86A20F9469CFC6C, 1001))
    facts = pickle.dumps({"protocol_version": 1001, "little_endian": True, "type_sizes": {}}, 2)
    names = b"X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu"
    body = b"".join(
        b"(" + names + b"K\x02X\x01\x00\x00\x00" + bytes([97 + i]) + struct.pack("<cB", b"K", start)
        + struct.pack("<cB", b"K", count) + b"\x87tQ"
        for i, (start, count) in enumerate(views)
    )  # fmt: skip
    keys, data = pickle.dumps(["0"], 2), struct.pack("<q2f", 2, 5.0, 7.0)
    return head + facts + b"\x80\x02(" + body + b"t." + keys + data


def test_views_of_storages_in_old_files():
    first, second = loaded(_with_views((0, 1), (1, 1)))
    assert list(first) == [5.0] and list(second) == [7.0]
    assert first.data_ptr() + 4 == second.data_ptr()
    with pytest.raises(pickle.UnpicklingError, match="ends after it"):
        loaded(_with_views((1, 2)))


@pytest.mark.parametrize("legacy", [False, True])
def test_a_slice_of_a_storage_travels_alone(legacy):
    whole = flambeau.arange(4.0)
    part = whole.untyped_storage()[4:12]
    over = flambeau.empty(0).set_(part)
    for obj in (part, [whole, part]):
        data = saved(obj, _use_new_zipfile_serialization=not legacy)
        if legacy or obj is part:
            back = loaded(data)
            assert bytes(back if obj is part else back[1]) == struct.pack("2f", 1, 2)
    back = loaded(saved([whole, over], _use_new_zipfile_serialization=not legacy))
    assert back[0].tolist() == [0, 1, 2, 3] and back[1].tolist() == over.tolist()
    again = pickle.loads(pickle.dumps(part))
    assert bytes(again) == struct.pack("2f", 1, 2)
    assert list(pickle.loads(pickle.dumps(whole.storage()))) == [0, 1, 2, 3]


class WithSlots(flambeau.Tensor):
    __slots__ = ("part",)


class WithState(flambeau.Tensor):
    def __getstate__(self):
        return ("mine", self.__dict__)

    def __setstate__(self, state):
        word, self.__dict__ = state
        assert word == "mine"
        self.restored = True


@pytest.mark.parametrize("weights_only", [True, False])
def test_slots_and_states_of_subclasses(weights_only):
    import copy

    t = flambeau.ones(2).as_subclass(WithSlots)
    t.part, t.other = flambeau.arange(2), "x"
    with flambeau.serialization.safe_globals([WithSlots, WithState]):
        back = loaded(saved(t), weights_only=weights_only)
        for found in (back, copy.copy(t), copy.deepcopy(t), pickle.loads(pickle.dumps(t))):
            assert type(found) is WithSlots and found.other == "x"
            assert found.part.tolist() == [0, 1]
        t = flambeau.ones(2).as_subclass(WithState)
        t.other = "x"
        for found in (loaded(saved(t), weights_only=weights_only), pickle.loads(pickle.dumps(t))):
            assert found.restored and found.other == "x" and found.tolist() == [1, 1]


def test_dtypes_without_kernels_are_named_in_files():
    data = saved([flambeau.uint4, flambeau.int4])
    assert loaded(data) == [flambeau.uint4, flambeau.int4]
    assert b"ctorch\nuint4\n" in data


def test_what_is_blocked_stays_so_when_it_was_allowed():
    data = saved(os.execv)
    blocked = pytest.raises(pickle.UnpicklingError, match="module posix is blocked")
    with flambeau.serialization.safe_globals([os.execv]), blocked:
        loaded(data)


def test_bytes_that_come_after_the_file(tmp_path):
    path = tmp_path / "x.pt"
    with flambeau.serialization.skip_data():
        flambeau.save({"a": flambeau.ones(2)}, path)
    with flambeau.serialization._open_zipfile_reader(str(path)) as reader:
        place, size = reader.get_record_offset("data/0"), reader.get_record_size("data/0")
    assert size == 8
    with open(path, "r+b") as file:
        file.seek(place)
        file.write(struct.pack("2f", 3, 4))
    assert flambeau.load(path)["a"].tolist() == [3, 4]


def test_records_by_name(tmp_path):
    s = flambeau.serialization
    for target in (str(tmp_path / "x.zip"), io.BytesIO()):
        with s._open_zipfile_writer(target) as writer:
            writer.write_record("a", b"12345", 3)
            writer.write_record("c/d", flambeau.ones(1).untyped_storage(), 4)
            writer.write_record_metadata("later", 4)
            with pytest.raises(RuntimeError, match="twice"):
                writer.write_record("a", b"", 0)
        if not isinstance(target, str):
            target.seek(0)
        with s._open_zipfile_reader(target) as reader:
            assert reader.get_record("a") == b"123"
            assert reader.get_record("c/d") == struct.pack("f", 1)
            assert reader.get_record_size("later") == 4
    with s._open_file_like(str(tmp_path / "x.zip"), "rb") as file:
        assert s._is_zipfile(file)
        assert s._is_zipfile(file)  # it stays where it is


def test_forced_to_run_what_files_say(monkeypatch):
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with pytest.warns(UserWarning, match="forcing weights_only=False"):
        assert loaded(saved([1])) == [1]


@pytest.mark.parametrize("values", [[], [1], 3])
def test_storages_are_not_made_of_tensors(values):
    for make_one in (flambeau.FloatStorage, flambeau.TypedStorage):
        with pytest.raises(TypeError, match="received an invalid combination of arguments"):
            make_one(flambeau.tensor(values))


def test_tensors_loaded_onto_meta_know_their_storage():
    whole = flambeau.ones(4, 4)
    a, b = loaded(saved([whole, whole[1:]]), map_location="meta")
    assert a.untyped_storage().nbytes() == b.untyped_storage().nbytes() == 64
    assert b.storage_offset() == 4 and b.device.type == "meta"
    again = loaded(saved(flambeau.empty(3, 2, device="meta")))
    assert again.untyped_storage().nbytes() == 24


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("narrow", [False, True])
def test_jagged_tensors_are_weights(weights_only, narrow):
    pieces = [flambeau.ones(2, 3), flambeau.full((1, 3), 2.0)]
    t = flambeau.nested.nested_tensor(pieces, layout=flambeau.jagged, requires_grad=not narrow)
    if narrow:
        starts, lengths = flambeau.tensor([0, 1]), flambeau.tensor([1, 2])
        t = flambeau.nested.narrow(flambeau.ones(2, 4, 3), 1, starts, lengths, flambeau.jagged)
    back = loaded(saved({"t": t}), weights_only=weights_only)["t"]
    assert back.is_nested and back.layout is flambeau.jagged
    assert back.requires_grad is t.requires_grad
    assert [p.tolist() for p in back.unbind()] == [p.tolist() for p in t.unbind()]


def test_jagged_tensors_stay_within_their_values():
    t = flambeau.nested.nested_tensor([flambeau.ones(2), flambeau.ones(1)], layout=flambeau.jagged)
    for offsets in ([0, 2, 4], [-1, 2, 3], [0, 3, 2], []):
        t._offsets = flambeau.tensor(offsets, dtype=flambeau.int64)
        with pytest.raises(pickle.UnpicklingError, match="a jagged tensor that is none"):
            loaded(saved(t))


@pytest.mark.oracle
def test_jagged_tensors_go_to_pytorch_and_back():
    torch = pytest.importorskip("torch")
    pieces = [[[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]]
    ours = flambeau.nested.nested_tensor([*map(flambeau.tensor, pieces)], layout=flambeau.jagged)
    theirs = torch.load(io.BytesIO(saved(ours)), weights_only=False)
    assert [p.tolist() for p in theirs.unbind()] == pieces and theirs.layout is torch.jagged
    file = io.BytesIO()
    torch.save(theirs, file)
    for weights_only in (True, False):
        back = loaded(file.getvalue(), weights_only=weights_only)
        assert [p.tolist() for p in back.unbind()] == pieces


@pytest.mark.parametrize("method", [dict.fromkeys, zoneinfo.ZoneInfo("UTC"), len, str.maketrans])
def test_methods_written_in_c_are_pickled(method):
    assert loaded(saved(method), weights_only=False) == method


def test_load_reads_safetensors(tmp_path):
    path = tmp_path / "net.safetensors"
    flambeau.serialization.safetensors.save_file({"a": flambeau.arange(3)}, path)
    for place in (None, "cpu", flambeau.device("cpu")):
        assert flambeau.load(path, map_location=place)["a"].tolist() == [0, 1, 2]
    for kind, place in (("dict", {"cpu": "meta"}), ("callable", lambda storage, _: storage)):
        with pytest.raises(RuntimeError, match=f"with {kind} map_location is not supported"):
            flambeau.load(str(path), map_location=place)


def test_what_skip_data_cannot_skip():
    with flambeau.serialization.skip_data():
        with pytest.raises(RuntimeError, match="Cannot serialize nested tensor under skip_data"):
            saved(flambeau.nested.nested_tensor([flambeau.ones(2)]))
        with pytest.warns(UserWarning, match="under skip_data context manager is a no-op"):
            saved(flambeau.ones(2, device="meta"))
        with pytest.raises(RuntimeError, match="Cannot use skip_data=True with"):
            saved(flambeau.ones(2), _use_new_zipfile_serialization=False)


@pytest.mark.parametrize(
    "items, words",
    [
        (b"K\x01K\x02s.", "SETITEM for dict, collections.OrderedDict, collections.Counter"),
        (b"(K\x01K\x02u.", "SETITEMS for dict, collections.OrderedDict, collections.Counter"),
        (b"(K\x01K\x02e.", "extend lists"),
    ],
)
def test_only_containers_get_items(items, words):
    with pytest.raises(pickle.UnpicklingError, match=f"Can only {words}, but got <class 'int'>"):
        loaded(archive(b"\x80\x02K\x05" + items))


def test_only_storages_are_persistent():
    said = "Only persistent_load of storage is allowed, but got <class 'int'>"
    with pytest.raises(pickle.UnpicklingError, match=said):
        loaded(archive(b"\x80\x02K*\x85Q."))
