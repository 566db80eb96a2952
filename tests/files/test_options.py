"""Settings of save and load, kinds of file objects, and places, as `torch.serialization` has them.

Also writes that fail: a full disk, folders that cannot be written, files in the way.
"""

import gzip
import importlib.util
import io
import os
import pickle
import resource
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
import zlib
from pathlib import Path

import pytest

import flambeau
from flambeau import serialization as s
from flambeau.serialization import checksums, files, pieces
from flambeau.serialization.safetensors import SafetensorError, save_file
from flambeau.utils.training_state import training_state

LIBRARIES = [flambeau]
if importlib.util.find_spec("torch"):
    LIBRARIES.append(pytest.param("torch", marks=pytest.mark.oracle))


@pytest.fixture(params=LIBRARIES, ids=["flambeau", "torch"][: len(LIBRARIES)])
def lib(request):
    """flambeau, and PyTorch where it is: what is said here is true of both."""
    return flambeau if request.param is flambeau else pytest.importorskip("torch")


def saved(obj, lib=flambeau, **options):
    file = io.BytesIO()
    lib.save(obj, file, **options)
    return file.getvalue()


# settings


@pytest.mark.oracle
def test_all_public_names_are_there():
    torch = pytest.importorskip("torch")
    assert set(torch.serialization.__all__) <= set(s.__all__)
    assert all(hasattr(s, name) for name in torch.serialization.__all__)


def test_files_without_checksums(lib):
    options = lib.serialization
    assert options.get_crc32_options() is True
    options.set_crc32_options(False)
    try:
        data = saved({"x": lib.arange(5.0)}, lib)
    finally:
        options.set_crc32_options(True)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert {info.CRC for info in archive.infolist()} == {0}
    assert flambeau.load(io.BytesIO(data))["x"].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert lib.load(io.BytesIO(data))["x"].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_files_without_checksums_by_path(tmp_path):
    s.set_crc32_options(False)
    try:
        flambeau.save(flambeau.ones(10), tmp_path / "x.pt")
    finally:
        s.set_crc32_options(True)
    with zipfile.ZipFile(tmp_path / "x.pt") as archive:
        assert {info.CRC for info in archive.infolist()} == {0}
    assert flambeau.load(tmp_path / "x.pt").sum().item() == 10.0


def test_skipped_data(lib, tmp_path):
    with lib.serialization.skip_data():
        lib.save({"x": lib.ones(100), "n": 3}, tmp_path / "x.pt")
    back = lib.load(tmp_path / "x.pt")
    assert back["x"].sum().item() == 0.0 and back["n"] == 3
    # the room is where the data would be
    lib.save({"x": lib.ones(100), "n": 3}, tmp_path / "y.pt")
    assert os.path.getsize(tmp_path / "x.pt") == os.path.getsize(tmp_path / "y.pt")
    with lib.serialization.skip_data():
        assert lib.load(tmp_path / "y.pt")["x"].shape == (100,)


def test_byte_order_of_files_that_do_not_say_it():
    options = s
    data = saved(flambeau.tensor([1.0, 2.0]), _disable_byteorder_record=True)
    big = struct.pack("<2f", 1.0, 2.0), struct.pack(">2f", 1.0, 2.0)
    turned = data.replace(*big)
    turned = turned.replace(*(struct.pack("<I", zlib.crc32(part)) for part in big))
    assert options.get_default_load_endianness() is None
    options.set_default_load_endianness(options.LoadEndianness.BIG)
    try:
        assert flambeau.load(io.BytesIO(turned)).tolist() == [1.0, 2.0]
    finally:
        options.set_default_load_endianness(None)
    assert flambeau.load(io.BytesIO(data)).tolist() == [1.0, 2.0]
    with pytest.raises(TypeError, match="Invalid argument type in function set_default_load_end"):
        options.set_default_load_endianness("big")


def test_shared_mappings_write_to_the_file(lib, tmp_path):
    options, path = lib.serialization, str(tmp_path / "x.pt")
    lib.save(lib.zeros(4), path)
    assert options.get_default_mmap_options() == options.MAP_PRIVATE
    lib.load(path, mmap=True)[0] = 7.0
    assert lib.load(path)[0].item() == 0.0
    with options.set_default_mmap_options(options.MAP_SHARED):
        t = lib.load(path, mmap=True)
        t[0] = 7.0
        del t
    assert options.get_default_mmap_options() == options.MAP_PRIVATE
    with zipfile.ZipFile(path) as archive:
        raw = Path(path).read_bytes()
        name = next(n for n in archive.namelist() if n.endswith("data/0"))
        start = archive.getinfo(name).header_offset
    lengths = struct.unpack_from("<HH", raw, start + 26)
    assert struct.unpack_from("<f", raw, start + 30 + sum(lengths)) == (7.0,)
    with pytest.raises(ValueError, match=r"expected mmap\.MAP_PRIVATE or .*, but got 5"):
        options.set_default_mmap_options(5)


def test_small_functions(lib):
    options = lib.serialization
    assert options.location_tag(lib.ones(1).untyped_storage()) == "cpu"
    with pytest.raises(RuntimeError, match=r"don't know how to restore data location of torch\.st"):
        options.default_restore_location(lib.ones(1).untyped_storage(), "foo")
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
        options.validate_cuda_device("cuda:0")
    with pytest.raises(RuntimeError, match="The HPU device module is not registered"):
        options.validate_hpu_device("hpu:0")
    assert options.check_module_version_greater_or_equal(pytest, (1, 2))
    assert not options.check_module_version_greater_or_equal(pytest, (1000, 2))
    with options.mkdtemp() as folder:
        assert os.path.isdir(folder)
    assert not os.path.exists(folder)


def test_places_of_others(monkeypatch):
    monkeypatch.setattr(s.locations, "_packages", [])
    mine = []

    def tagger(storage):
        return "attic" if storage.nbytes() == 12 else None

    def fetch(storage, location):
        if location == "attic":
            mine.append(storage.nbytes())
            return storage

    s.register_package(5, tagger, fetch)
    data = saved([flambeau.arange(3.0), flambeau.ones(1)])
    for place in (None, "attic", {"cpu": "attic"}):
        back = flambeau.load(io.BytesIO(data), map_location=place)
        assert [t.tolist() for t in back] == [[0.0, 1.0, 2.0], [1.0]]
    assert mine == [12, 12, 4, 12, 4]
    monkeypatch.setattr(s.locations, "_packages", [])
    with pytest.raises(RuntimeError, match=r"\(tagged with attic\)"):
        flambeau.load(io.BytesIO(data))


# file objects


class Bare:
    """A file object that can only be read forwards, as a socket's can."""

    def __init__(self, data):
        self.read = io.BytesIO(data).read


class Refusing(Bare):
    def seek(self, *place):
        raise io.UnsupportedOperation("seek")

    def tell(self):
        raise io.UnsupportedOperation("tell")


def test_file_objects_that_cannot_seek(lib):
    data = saved(flambeau.ones(2))
    said = r"You can only torch\.load from a file that is seekable"
    with pytest.raises(AttributeError, match=f"'Bare' object has no attribute 'seek'. {said}"):
        lib.load(Bare(data))
    with pytest.raises(io.UnsupportedOperation, match=said):
        lib.load(Refusing(data))
    for f in (3, None, b"x.pt"):
        with pytest.raises(AttributeError, match="has no attribute 'seek'"):
            lib.load(f)


class Place:
    def __init__(self, path):
        self.path = path

    def __fspath__(self):
        return str(self.path)


def test_file_objects_of_all_kinds(lib, tmp_path):
    obj = {"x": lib.arange(1000.0), "n": 1}

    def check(back):
        assert back["x"].tolist() == obj["x"].tolist() and back["n"] == 1

    with gzip.open(tmp_path / "x.gz", "wb") as file:
        lib.save(obj, file)
    with gzip.open(tmp_path / "x.gz", "rb") as file:
        check(lib.load(file))
    lib.save(obj, Place(tmp_path / "p.pt"))
    check(lib.load(Place(tmp_path / "p.pt")))
    check(lib.load(Place(tmp_path / "p.pt"), mmap=True))
    with tempfile.SpooledTemporaryFile(max_size=100) as file:
        lib.save(obj, file)
        file.seek(0)
        check(lib.load(file))
    with open(tmp_path / "p.pt", "rb", buffering=0) as file:
        check(lib.load(file))
    with open(tmp_path / "r.pt", "w+b") as file:
        lib.save(obj, file)
        file.seek(0)
        check(lib.load(file))


def test_text_is_no_binary_file(tmp_path):
    with pytest.raises(TypeError, match="Expected bytes, got str"):
        flambeau.load(io.StringIO("abc"))
    with pytest.raises(TypeError):
        flambeau.save(1, io.StringIO())


def test_a_file_object_is_written_where_it_stands(tmp_path):
    """What a user opened is written through, not replaced, also when records are large."""
    with open(tmp_path / "x", "wb") as file:
        file.write(b"head")
        flambeau.save(flambeau.ones(1 << 20), file)
    data = (tmp_path / "x").read_bytes()
    assert data[:4] == b"head"
    assert flambeau.load(io.BytesIO(data[4:])).sum().item() == 1 << 20


class Writer:
    """No more than `write`."""

    def __init__(self):
        self.data = b""

    def write(self, data):
        self.data += bytes(data)


def test_write_is_enough(lib):
    file = Writer()
    flambeau.save([lib.ones(2).tolist(), flambeau.ones(3)], file)
    assert flambeau.load(io.BytesIO(file.data))[1].tolist() == [1.0, 1.0, 1.0]


def test_arguments_of_pickle(lib):
    data = saved({"x": 1})
    with pytest.raises(RuntimeError, match="Can not safely load weights when explicit pickle_mod"):
        lib.load(io.BytesIO(data), pickle_module=pickle, weights_only=True)
    assert lib.load(io.BytesIO(data), pickle_module=pickle) == {"x": 1}
    assert lib.load(io.BytesIO(data), weights_only=False, encoding="latin1") == {"x": 1}
    with pytest.raises(TypeError, match="foo"):
        lib.load(io.BytesIO(data), weights_only=False, foo=1)
    with pytest.warns(UserWarning, match="pickle_load_args only works if `weights_only=False`"):
        assert lib.load(io.BytesIO(data), encoding="latin1") == {"x": 1}


# pieces


@pytest.mark.parametrize("size", [0, 1, 63, 64, 1 << 10, (1 << 21) - 1, (1 << 21) + 5])
def test_pieces_have_the_checksum_of_the_whole(size, tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", 1 << 18)
    tensors = [flambeau.randint(0, 256, (n,), dtype=flambeau.uint8) for n in (size, 7, 300_000)]
    flambeau.save(tensors, tmp_path / "x.pt")
    with zipfile.ZipFile(tmp_path / "x.pt") as archive:
        assert archive.testzip() is None
    raw = (tmp_path / "x.pt").read_bytes()
    for source in (tmp_path / "x.pt", io.BytesIO(raw)):
        back = flambeau.load(source)
        assert all(flambeau.equal(a, b) for a, b in zip(tensors, back, strict=True))
    stream = saved(tensors)
    assert stream.replace(b"archive/", b"x/")[:10] == raw[:10]


@pytest.mark.parametrize("count", [1 << 17, (1 << 17) + 1, 200_063, 1 << 20, 3_000_000])
def test_the_kernel_gives_the_same_checksums(count, rng, monkeypatch):
    flambeau.ones(3) + 1  # the compiler is there
    monkeypatch.setattr(checksums, "_kernel", checksums._Kernel())
    monkeypatch.setattr(checksums, "WORTH", 0)
    data = bytearray(rng.bytes(count + 3))
    for start in range(3):
        view = memoryview(data)[start : start + count]
        assert checksums.crc32(view) == zlib.crc32(view)
        data[rng.integers(count)] ^= 1
        assert checksums.crc32(view) == zlib.crc32(view)
    if checksums.can_fold(checksums._Kernel.features()):
        assert checksums._kernel.function is not None


def test_joined_checksums(rng):
    for _ in range(50):
        a, b = (rng.bytes(int(rng.integers(0, 3000))) for _ in range(2))
        assert checksums.joined(zlib.crc32(a), zlib.crc32(b), len(b)) == zlib.crc32(a + b)


def test_a_large_damaged_record_is_noticed(tmp_path):
    flambeau.save(flambeau.zeros(3 << 20), tmp_path / "x.pt")
    with open(tmp_path / "x.pt", "r+b") as file:
        file.seek(9 << 20)
        file.write(b"\1")
    with pytest.raises(RuntimeError, match="data/0: checksum does not match"):
        flambeau.load(tmp_path / "x.pt")


def test_errors_of_any_thread_arrive():
    def work(number):
        if number == 7:
            raise OSError(28, "No space left on device")
        return number

    assert pieces.shared(work, list(range(7))) == list(range(7))
    before = threading.active_count()
    with pytest.raises(OSError, match="No space left"):
        pieces.shared(work, list(range(20)))
    assert threading.active_count() == before


def test_threads_that_cannot_be_had(tmp_path, monkeypatch):
    """As when a program saves while the interpreter ends."""

    def refuse(self):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    t = flambeau.rand(1 << 21)
    for _ in range(2):
        flambeau.save(t, tmp_path / "x.pt")
        assert flambeau.equal(flambeau.load(tmp_path / "x.pt"), t)
    assert flambeau.equal(flambeau.load(io.BytesIO(saved(t))), t)


def test_saving_while_the_interpreter_ends(tmp_path):
    code = (
        "import atexit, flambeau\n"
        "t = flambeau.ones(1 << 21)\n"
        f"atexit.register(flambeau.save, t, {str(tmp_path / 'x.pt')!r})\n"
    )
    root = os.path.dirname(os.path.dirname(flambeau.__file__))
    environment = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert flambeau.load(tmp_path / "x.pt").sum().item() == 1 << 21


def test_an_interrupt_waits_for_the_other_threads():
    running = []

    def work(number):
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        running.append(number)
        time.sleep(0.05)
        running.remove(number)

    with pytest.raises(KeyboardInterrupt):
        pieces.shared(work, list(range(50)))
    assert running == []


# writes that fail


def writers():
    big = {"x": flambeau.ones(1 << 20)}
    return {
        "save": (lambda path: flambeau.save(big, path), OSError),
        "older format": (
            lambda path: flambeau.save(big, path, _use_new_zipfile_serialization=False),
            OSError,
        ),
        "safetensors": (lambda path: save_file(big, path), SafetensorError),
        "training state": (lambda path: training_state(**big).save(path), OSError),
    }


@pytest.mark.parametrize("name", ["save", "older format", "safetensors", "training state"])
@pytest.mark.parametrize("limit", [0, 1000, 3_000_000])
def test_a_full_disk_leaves_the_file_of_before(name, limit, tmp_path):
    """A limit on the size of files stands for the disk: writing fails in the same places."""
    write, error = writers()[name]
    path = tmp_path / "w.pt"
    flambeau.save("before", path)
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(error, match=r"File too large.*w\.pt") as caught:
            write(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "the file that was there is unchanged" in str(caught.value)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["w.pt"]
    write(path)
    assert path.read_bytes() != before and os.listdir(tmp_path) == ["w.pt"]


def test_a_disk_that_is_really_full(tmp_path):
    """/dev/full takes nothing; it is no file that could be replaced."""
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    with pytest.raises(OSError, match="No space left on device"):
        flambeau.save(flambeau.ones(1 << 20), "/dev/full")


def as_nobody(code, folder):
    """Run code without the rights of the administrator, to whom every folder is open."""
    root = os.path.dirname(os.path.dirname(flambeau.__file__))
    change = "import os\nif os.getuid() == 0: os.setuid(65534)\n"
    return subprocess.run(
        [sys.executable, "-c", f"import flambeau, sys\nflambeau.serialization\n{change}{code}"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": root, "FLAMBEAU_CACHE_DIR": ""},
        capture_output=True,
        text=True,
    )


def test_a_folder_that_cannot_be_written(tmp_path):
    folder = Path(tempfile.mkdtemp())
    try:
        flambeau.save("before", folder / "w.pt")
        os.chmod(folder / "w.pt", 0o666)
        os.chmod(folder, 0o555)
        done = as_nobody(f"flambeau.save('after', {str(folder / 'w.pt')!r})", folder)
        assert "PermissionError" in done.stderr and "Permission denied" in done.stderr
        assert "a file is first written beside its place" in done.stderr
        assert os.listdir(folder) == ["w.pt"] and flambeau.load(folder / "w.pt") == "before"
        os.chmod(folder, 0o777)
        os.chmod(folder / "w.pt", 0o444)
        done = as_nobody(f"flambeau.save('after', {str(folder / 'w.pt')!r})", folder)
        assert "PermissionError" in done.stderr and flambeau.load(folder / "w.pt") == "before"
    finally:
        os.chmod(folder, 0o777)
        (folder / "w.pt").unlink()
        folder.rmdir()


def test_folders_missing_or_in_the_way(lib, tmp_path):
    with pytest.raises(RuntimeError, match=f"Parent directory {tmp_path}/no does not exist."):
        lib.save(1, str(tmp_path / "no" / "x.pt"))
    with pytest.raises(RuntimeError, match="Is a directory"):
        lib.save(1, str(tmp_path))
    with pytest.raises(IsADirectoryError):
        lib.load(str(tmp_path))
    (tmp_path / "file").touch()
    with pytest.raises((RuntimeError, NotADirectoryError)):
        lib.save(1, str(tmp_path / "file" / "x.pt"))


def test_killed_while_writing(tmp_path):
    """The process dies in the middle: the file of before is whole."""
    path = tmp_path / "w.pt"
    flambeau.save("before", path)
    code = (
        "import os\n"
        "from flambeau.serialization import pieces\n"
        "def die(*a): os.kill(os.getpid(), 9)\n"
        "pieces.begin_writeback = die\n"
        f"flambeau.save(flambeau.ones(1 << 20), {str(path)!r})"
    )
    root = os.path.dirname(os.path.dirname(flambeau.__file__))
    done = subprocess.run(
        [sys.executable, "-c", f"import flambeau\n{code}"],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
    )
    assert done.returncode == -9
    assert flambeau.load(path) == "before"


def test_large_files_are_replaced_many_times(tmp_path):
    """The old file is let go on another thread; nothing of it is left."""
    path = tmp_path / "w.pt"
    for k in range(5):
        flambeau.save(flambeau.full((1 << 19,), float(k)), path)
        assert flambeau.load(path)[-1].item() == k
    assert os.listdir(tmp_path) == ["w.pt"]
    mode = stat.S_IMODE(path.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    assert mode == 0o666 & ~umask


def test_descriptors_are_closed(tmp_path):
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("no /proc")
    path = tmp_path / "w.pt"
    flambeau.save(flambeau.ones(1 << 19), path)

    def opened():
        links = [f"/proc/self/fd/{n}" for n in os.listdir("/proc/self/fd")]
        return [n for n in links if os.path.islink(n) and "w.pt" in os.readlink(n)]

    for _ in range(3):
        flambeau.save(flambeau.ones(1 << 19), path)
        flambeau.load(path)
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.daemon:
            thread.join(0.2)
    assert opened() == []
    assert files.own_descriptor(io.BytesIO()) is None


@pytest.mark.slow  # writes a file of one gigabyte
def test_mapping_a_gigabyte_takes_no_time(tmp_path):
    flambeau.save({"x": flambeau.ones(1 << 28)}, tmp_path / "big.pt")
    times = []
    for _ in range(5):
        start = time.perf_counter()
        back = flambeau.load(tmp_path / "big.pt", mmap=True)
        times.append(time.perf_counter() - start)
    assert back["x"][-1].item() == 1.0 and min(times) < 0.05


def test_kinds_of_tensors_that_are_not_here_are_named():
    for name in ("float4_e2m1fn_x2", "Bits16Storage"):
        module, _, last = f"torch.{name}".replace(" ", ".").rpartition(".")
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("x/data.pkl", f"c{module}\n{last}\n.".encode())
        with pytest.raises(pickle.UnpicklingError, match="kind that flambeau does not have yet"):
            flambeau.load(io.BytesIO(file.getvalue()))


def test_small_and_large_records_in_turns(tmp_path):
    """Small records are written in runs between the large ones."""
    sizes = [3, 0, 100_000, 5, 7, 200_000, 70_000, 1]
    tensors = [flambeau.rand(n) for n in sizes]
    flambeau.save(tensors, tmp_path / "x.pt")
    with zipfile.ZipFile(tmp_path / "x.pt") as archive:
        assert archive.testzip() is None
    back = flambeau.load(tmp_path / "x.pt")
    assert all(flambeau.equal(a, b) for a, b in zip(tensors, back, strict=True))
    if importlib.util.find_spec("torch"):
        torch = pytest.importorskip("torch")
        assert [t.tolist() for t in torch.load(tmp_path / "x.pt")] == [t.tolist() for t in tensors]
