"""Files changed at random, and files made to hurt: only clean errors, quickly, and nothing run.

The short test changes 2,000 files of each format, the slow one 20,000; a failure names the format
and the number of the file, with which `variant` makes it again.
"""

import contextlib
import io
import json
import os
import pickle
import resource
import struct
import subprocess
import sys
import time
import zipfile
import zlib

import numpy as np
import pytest

import flambeau
from flambeau.serialization import inspecting
from flambeau.serialization import safetensors as s
from flambeau.serialization.checksums import joined
from flambeau.vision.datasets import idx, pickled_arrays
from tests.fuzz import files as fuzzing

CLEAN = {
    "zip": {RuntimeError, pickle.UnpicklingError, EOFError},
    "pickle": {RuntimeError, pickle.UnpicklingError, EOFError},
    "legacy": {RuntimeError, pickle.UnpicklingError, EOFError},
    "safetensors": {s.SafetensorError},
    "idx": {RuntimeError},
    "cifar": {RuntimeError},
}
MOST_SECONDS = 5.0  # of the processor, for one file
MOST_MEMORY = 400 << 20


def read(format, data, path=None, number=0):
    """Read bytes, or a file with these bytes in one of the ways that there are for files."""
    if path is not None and number % 4 == 0 and format in ("zip", "pickle", "safetensors"):
        path.write_bytes(data)
        if format == "safetensors":
            return s.load_file(path, backend="mmap" if number % 8 else "pread")
        return flambeau.load(path, mmap=bool(number % 8))
    if format == "safetensors":
        return s.load(data)
    if format == "idx":
        return idx.read_sn3_pascalvincent_tensor(io.BytesIO(data))
    if format == "cifar":
        return pickled_arrays.parse_pickle(data, "batch")
    return flambeau.load(io.BytesIO(data))


def touch(found, depth=0):
    """Look at every element, so that a tensor beyond its memory would be noticed."""
    if isinstance(found, flambeau.Tensor):
        if found.device.type == "cpu" and 0 < found.numel() < 1000:
            found.detach().clone().tolist()
    elif depth < 5 and isinstance(found, (dict, list, tuple)):
        for item in found.values() if isinstance(found, dict) else found:
            touch(item, depth + 1)


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def fuzz(format, count, first, tmp_path):
    """How many files were refused, of `count`."""
    files = fuzzing.seeds()[format]
    inspected = tmp_path / "f"
    for number in range(len(files)):  # valid ones first: everything that loads late is there
        whole = fuzzing.archive(*files[number]) if format == "pickle" else files[number]
        touch(read(format, whole))
        inspected.write_bytes(whole)
        if format != "idx":  # weights are no pictures
            inspecting.inspect(inspected)
    refused, before = 0, peak()
    for number in range(first, first + count):
        data = fuzzing.variant(format, files, number, np.random.default_rng(number))
        start = time.process_time()
        with fuzzing.watched() as done:
            try:
                found = read(format, data, inspected, number)
            except Exception as error:
                assert type(error) in CLEAN[format], f"{format} {number}: {error!r}"
                refused, found = refused + 1, None
        done = [(event, what) for event, what in done if str(inspected) not in what]
        assert not done, f"{format} {number}: {done}"
        touch(found)
        if number % 8 == 0:
            inspected.write_bytes(data)
            try:
                inspecting.inspect(inspected)
            except inspecting.Unknown:
                pass
            except Exception as error:
                raise AssertionError(f"inspect, {format} {number}") from error
        took = time.process_time() - start
        assert took < MOST_SECONDS, f"{format} {number}: {took:.1f} s"
    assert peak() - before < MOST_MEMORY
    return refused


@pytest.mark.parametrize("format", CLEAN)
def test_changed_files_give_clean_errors_or_data(format, tmp_path):
    refused = fuzz(format, 2000, 0, tmp_path)
    assert refused > 700  # most changes matter


@pytest.mark.slow  # about a minute per format
@pytest.mark.parametrize("format", CLEAN)
def test_many_changed_files_give_clean_errors_or_data(format, tmp_path):
    assert fuzz(format, 20_000, 10_000, tmp_path) > 7_000


def test_every_truncation():
    for format, files in fuzzing.seeds().items():
        if format == "pickle":
            continue
        data = min(files, key=len)
        for length in range(0, len(data), 3):
            with pytest.raises(tuple(CLEAN[format])):
                read(format, data[:length])


def test_every_byte_of_a_header():
    data = s.save({"a": flambeau.ones(2)}, {"k": "v"})
    head = 8 + struct.unpack("<Q", data[:8])[0]
    for place in range(head):
        for value in (0, 0x22, 0x2C, 0x39, 0x5B, 0x7B, 0xFF, data[place] ^ 1):
            changed = data[:place] + bytes([value]) + data[place + 1 :]
            try:
                s.load(changed)
            except s.SafetensorError:
                continue


# files made to hurt


@pytest.mark.parametrize("name", fuzzing.length_bombs())
def test_bombs_in_pickles(name, tmp_path):
    bomb = fuzzing.length_bombs()[name]
    before, start = peak(), time.process_time()
    with contextlib.suppress(RuntimeError):
        pickled_arrays.parse_pickle(bomb, "batch")
    for data in (fuzzing.archive(bomb, {}), legacy_around(bomb)):
        try:
            flambeau.load(io.BytesIO(data))
        except Exception as error:
            assert type(error) in CLEAN["pickle"], repr(error)
        (tmp_path / "f").write_bytes(data)
        try:
            inspecting.inspect(tmp_path / "f")
        except inspecting.Unknown:
            continue
    assert time.process_time() - start < MOST_SECONDS * 2
    assert peak() - before < MOST_MEMORY


def legacy_around(pickled):
    data = saved_legacy([1])
    start = data.index(b"type_sizes")
    place = data.index(b".", start) + 1  # after the facts about the machine
    return data[:place] + pickled + pickle.dumps([], 2)


def saved_legacy(obj):
    return fuzzing.saved(obj, _use_new_zipfile_serialization=False)


LIMITED = """
import resource, sys
import flambeau
from flambeau.serialization import inspecting, safetensors
paths = sys.argv[2:]
read = safetensors.load_file if sys.argv[1] == "safetensors" else flambeau.load
flambeau.save(flambeau.ones(3), paths[0] + ".warm")
flambeau.load(paths[0] + ".warm")
with open("/proc/self/statm") as file:
    now = int(file.read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (now + (600 << 20),) * 2)
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
for path in paths:
    for action in (read, inspecting.inspect):
        try:
            action(path)
            print("data")
        except Exception as error:
            print(type(error).__name__, str(error)[:300].replace("\\n", " "))
"""


def in_a_small_machine(*paths, kind="load"):
    """What load and inspect said of each file, with 600 MB and 20 seconds."""
    root = os.path.dirname(os.path.dirname(flambeau.__file__))
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, kind, *map(str, paths)],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) == 2 * len(paths), done.stderr
    return lines


def tensor_pickle(numel, size, stride, offset=0):
    def text(value):
        return b"X" + struct.pack("<I", len(value)) + value.encode()

    numbers = [pickle.dumps(v, 2)[2:-1] for v in (numel, offset, size, stride)]
    storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu")
    head = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n("
    return head + storage + numbers[0] + b"tQ" + b"".join(numbers[1:]) + b"\x89)tR."


def zip_of(records, compression=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as new:
        for name, data in records.items():
            new.writestr(f"archive/{name}", data)
    return out.getvalue()


def deflated(head, zeros, tail):
    """(deflate stream, checksum, size) of bytes around a great many zeros, without making them."""
    piece, packer = bytes(1 << 24), zlib.compressobj(9, zlib.DEFLATED, -15)
    first = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    middle = packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH)
    last = packer.compress(tail) + packer.flush()
    checksum = zlib.crc32(head)
    for _ in range(zeros):
        checksum = joined(checksum, zlib.crc32(piece), len(piece))
    checksum = joined(checksum, zlib.crc32(tail), len(tail))
    size = len(head) + zeros * len(piece) + len(tail)
    return first + middle * zeros + last, checksum, size


def zip_of_streams(records):
    """An archive of {name: (deflate stream, checksum, size)}."""
    body, directory = b"", b""
    for name, (stream, checksum, size) in records.items():
        encoded = f"archive/{name}".encode()
        facts = struct.pack("<HHHIIIHH", 8, 0, 0, checksum, len(stream), size, len(encoded), 0)
        directory += b"PK\1\2" + struct.pack("<HHH", 20, 20, 0) + facts
        directory += struct.pack("<HHHII", 0, 0, 0, 0, len(body)) + encoded
        body += b"PK\3\4" + struct.pack("<HH", 20, 0) + facts + encoded + stream
    count = len(records)
    tail = (0x06054B50, 0, 0, count, count, len(directory), len(body), 0)
    return body + directory + struct.pack("<IHHHHIIH", *tail)


def test_zip_bombs(tmp_path):
    """A gigabyte in a megabyte, all of it true: refused rather than unpacked."""
    zeros = 64
    count = zeros << 22
    pickled = tensor_pickle(count, (count,), (1,))
    text = b"\x80\x02B" + struct.pack("<I", zeros << 24)
    bombs = {
        "tensor": {"data.pkl": deflated(pickled, 0, b""), "data/0": deflated(b"", zeros, b"")},
        "pickle": {"data.pkl": deflated(text, zeros, b".")},
        "small": {
            "data.pkl": deflated(tensor_pickle(1 << 22, (1 << 22,), (1,)), 0, b""),
            "data/0": deflated(b"", 1, b""),
        },
    }
    for name, records in bombs.items():
        (tmp_path / name).write_bytes(zip_of_streams(records))
    assert os.path.getsize(tmp_path / "tensor") < 2 << 20
    told = in_a_small_machine(*(tmp_path / name for name in bombs))
    assert told[0].startswith("RuntimeError") and "zip bomb" in told[0] and told[1] == "data"
    assert told[2].startswith("RuntimeError") and "zip bomb" in told[2]
    assert told[3].startswith("Unknown")
    assert told[4:] == ["data", "data"]  # what is compressed is not yet a bomb


@pytest.mark.parametrize(
    "facts",
    [
        dict(numel=1 << 60, size=(1 << 60,), stride=(1,)),
        dict(numel=4, size=(1 << 60,), stride=(1,)),
        dict(numel=4, size=(1 << 31, 1 << 31), stride=(1 << 31, 1)),
        dict(numel=4, size=(4,), stride=(1,), offset=1 << 62),
        dict(numel=4, size=(4,), stride=(-1,), offset=3),
        dict(numel=4, size=(-4,), stride=(1,)),
        dict(numel=-4, size=(4,), stride=(1,)),
    ],
    ids=str,
)
def test_huge_tensors_over_tiny_storages(facts, tmp_path):
    (tmp_path / "x.pt").write_bytes(
        zip_of({"data.pkl": tensor_pickle(**facts), "data/0": b"\0" * 16})
    )
    before = peak()
    with pytest.raises((RuntimeError, pickle.UnpicklingError)):
        flambeau.load(tmp_path / "x.pt")
    with contextlib.suppress(inspecting.Unknown):
        inspecting.text_of(inspecting.inspect(tmp_path / "x.pt"))
    assert peak() - before < MOST_MEMORY


def test_many_claims_on_one_record(tmp_path):
    """A directory in which a thousand records are one: each would take its size again."""
    names = [f"data/{k}" for k in range(1000)]
    body = b"\x80\x02]("
    for k in range(1000):
        one = tensor_pickle(1 << 18, (1 << 18,), (1,))
        body += one[2:-1].replace(b"X\x01\x00\x00\x000", b"X%s%s" % (
            struct.pack("<I", len(str(k))), str(k).encode()))  # fmt: skip
    data = bytearray(zip_of({"data.pkl": body + b"e.", "data/0": bytes(1 << 20)}))
    end = data.rindex(b"PK\5\6")
    start = struct.unpack_from("<I", data, end + 16)[0]
    first = data.rindex(b"PK\1\2")
    entry = bytes(data[first:end])
    entries = [
        entry[:28] + struct.pack("<H", len(f"archive/{name}")) + entry[30:46]
        + f"archive/{name}".encode()
        for name in names
    ]  # fmt: skip
    directory = bytes(data[start:first]) + b"".join(entries)
    tail = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 1001, 1001, len(directory), start, 0)
    (tmp_path / "x.pt").write_bytes(bytes(data[:start]) + directory + tail)
    load, inspect = in_a_small_machine(tmp_path / "x.pt")
    assert load.startswith("RuntimeError") and "overlap" in load and inspect == "data"


def test_names_that_lead_elsewhere(tmp_path, monkeypatch):
    """Names of records are keys; no path is made of them."""
    monkeypatch.chdir(tmp_path)
    records = {"data.pkl": pickle.dumps(1, 2), "../../etc/x": b"1", "/abs": b"2", "data/../y": b"3"}
    assert flambeau.load(io.BytesIO(zip_of(records))) == 1
    body = tensor_pickle(4, (4,), (1,)).replace(
        b"X\x01\x00\x00\x000", b"X\x0b\x00\x00\x00../data.pkl"
    )
    with pytest.raises((RuntimeError, pickle.UnpicklingError)):
        flambeau.load(io.BytesIO(zip_of({"data.pkl": body, "data/0": bytes(16)})))
    assert os.listdir(tmp_path) == []


def test_safetensors_headers_that_hurt(tmp_path):
    big = {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}
    headers = {
        "promises": json.dumps({"a": big}).encode(),
        "numbers": b'{"a":{"dtype":"F32","shape":[' + b"1," * 3_000_000 + b"1]}}",
        "lists": b'{"a":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}",
        "objects": b'{"a":' * 500_000 + b"1" + b"}" * 500_000,
        "texts": b'{"__metadata__":{"a":"' + b"x" * 20_000_000 + b'"}}',
        "names": b"{" + b",".join(b'"%d":1' % k for k in range(300_000)) + b"}",
    }
    for name, header in headers.items():
        (tmp_path / name).write_bytes(struct.pack("<Q", len(header)) + header)
    told = in_a_small_machine(*(tmp_path / name for name in headers), kind="safetensors")
    for name, load in zip(headers, told[::2]):
        assert load.startswith("SafetensorError") or (name == "texts" and load == "data"), load


@pytest.mark.parametrize("name", ["zip", "legacy"])
def test_sparse_files_do_not_hurt(name, tmp_path):
    """A file of four gigabytes with nothing in it."""
    path = tmp_path / "x.pt"
    data = fuzzing.saved([1]) if name == "zip" else saved_legacy(flambeau.ones(2))
    path.write_bytes(data)
    os.truncate(path, 4 << 30)
    load, inspect = in_a_small_machine(path)
    assert load.split()[0] in ("RuntimeError", "UnpicklingError", "EOFError", "data"), load
    assert inspect.split()[0] in ("Unknown", "data")
