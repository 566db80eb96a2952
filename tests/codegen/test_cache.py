"""The kernel cache is a convenience: whatever happens to it, results stay right."""

import os
import pathlib
import stat
import subprocess
import sys
import warnings

import numpy as np
import pytest

import flambeau as torch
from flambeau.codegen import cache, object_files
from flambeau.eager import kernels
from flambeau.ops.table import TABLE

ROOT = pathlib.Path(__file__).parents[2]
IDENTITY, IR, IMAGE = "host", "define void @f() { ret void }", bytes(range(256)) * 4
posix = pytest.mark.skipif(os.name != "posix", reason="modes and owners of POSIX")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def entry(folder):
    """The path of one entry, written."""
    key = cache.key_of(IR, IDENTITY)
    cache.write(key, IMAGE)
    return key, folder / key[:2] / key[2:]


def test_what_is_written_can_be_read(entry):
    key, path = entry
    assert path.is_file() and cache.read(key) == IMAGE
    assert os.listdir(path.parent) == [path.name]


def test_the_key_depends_on_the_ir_and_on_the_host():
    keys = {cache.key_of(ir, host) for ir in ("a", "b") for host in ("x", "y")}
    assert len(keys) == 4 and cache.key_of("a", "x") in keys


def test_a_missing_entry_is_none(folder):
    assert cache.read("0" * 40) is None


@pytest.mark.parametrize("length", [0, 1, 31, 32, 33, 500])
def test_a_truncated_entry_is_none(entry, length):
    key, path = entry
    path.write_bytes(path.read_bytes()[:length])
    assert cache.read(key) is None


@pytest.mark.parametrize("place", [0, 31, 32, 700, -1])
def test_a_flipped_byte_is_noticed(entry, place):
    key, path = entry
    data = bytearray(path.read_bytes())
    data[place] ^= 0x10
    path.write_bytes(data)
    assert cache.read(key) is None


def test_bytes_added_at_the_end_are_noticed(entry):
    key, path = entry
    path.write_bytes(path.read_bytes() + b"x")
    assert cache.read(key) is None


def test_a_damaged_entry_is_replaced(entry):
    key, path = entry
    path.write_bytes(b"")
    cache.write(key, IMAGE)
    assert cache.read(key) == IMAGE


def test_an_entry_can_be_forgotten(entry):
    key, path = entry
    cache.forget(key)
    cache.forget(key)
    assert not path.exists()


def test_an_empty_name_switches_the_cache_off(monkeypatch, tmp_path):
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", "")
    monkeypatch.chdir(tmp_path)
    cache.write("1" * 40, IMAGE)
    assert cache.read("1" * 40) is None and os.listdir(tmp_path) == []


def test_a_file_in_place_of_the_directory_does_no_harm(monkeypatch, tmp_path):
    (tmp_path / "cache").write_text("I was here first")
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(tmp_path / "cache"))
    cache.write("1" * 40, IMAGE)
    assert cache.read("1" * 40) is None
    assert (tmp_path / "cache").read_text() == "I was here first"


def test_a_directory_in_place_of_an_entry_does_no_harm(entry):
    key, path = entry
    path.unlink()
    path.mkdir()
    cache.write(key, IMAGE)
    assert cache.read(key) is None
    assert os.listdir(path.parent) == [path.name]


def test_a_name_no_file_can_have_does_no_harm(monkeypatch):
    monkeypatch.setattr(cache.config, "cache_dir", lambda: "a\0b")
    cache.write("1" * 40, IMAGE)
    assert cache.read("1" * 40) is None


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_directory_does_no_harm(folder):
    folder.mkdir()
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        cache.write("1" * 40, IMAGE)
        assert cache.read("1" * 40) is None
    finally:
        folder.chmod(stat.S_IRWXU)


def test_a_refusal_to_write_does_no_harm(folder, monkeypatch):
    def refuse(*args, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "mkdir", refuse)
    cache.write("1" * 40, IMAGE)
    assert cache.read("1" * 40) is None


def test_a_full_disk_leaves_no_litter(folder, monkeypatch):
    def full(source, target, **places):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    cache.write("1" * 40, IMAGE)
    assert [f for _, _, files in os.walk(folder) for f in files] == []


def test_an_interruption_leaves_no_litter(folder, monkeypatch):
    def interrupt(source, target, **places):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        cache.write("1" * 40, IMAGE)
    assert [f for _, _, files in os.walk(folder) for f in files] == []


# -- who may write it ------------------------------------------------------------------------------


def test_two_entries_that_change_places_are_noticed(entry, folder):
    key, path = entry
    other = key[:2] + "f" * 38
    cache.write(other, IMAGE[::-1])
    data, place = path.read_bytes(), path.parent / other[2:]
    path.write_bytes(place.read_bytes())
    place.write_bytes(data)
    assert cache.read(key) is None and cache.read(other) is None


@posix
@pytest.mark.parametrize("mask", [0, 0o022, 0o077])
def test_directories_are_for_this_user_alone(folder, mask):
    before = os.umask(mask)
    try:
        cache.write("1" * 40, IMAGE)
    finally:
        os.umask(before)
    assert cache.read("1" * 40) == IMAGE
    modes = [stat.S_IMODE(p.stat().st_mode) for p in (folder, *folder.rglob("*"))]
    assert modes == [0o700, 0o700, 0o600]


@posix
@pytest.mark.parametrize("mode", [0o777, 0o720, 0o702, 0o1777])
@pytest.mark.parametrize("which", ["root", "part"])
def test_a_directory_that_others_may_write_is_refused_with_one_warning(entry, mode, which):
    key, path = entry
    (path.parent if which == "part" else path.parent.parent).chmod(mode)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert [cache.read(key), cache.read(key)] == [None, None]
        cache.write("1" * 40, IMAGE)
    assert len(said) == 1 and "others may write" in str(said[0].message)


@posix
def test_a_directory_of_another_user_is_refused(entry, monkeypatch):
    key, _ = entry
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.warns(UserWarning, match="belongs to another user"):
        assert cache.read(key) is None


@posix
def test_a_file_that_others_may_write_is_refused(entry):
    key, path = entry
    path.chmod(0o666)
    with pytest.warns(UserWarning, match="others may write"):
        assert cache.read(key) is None


@posix
@pytest.mark.parametrize("kind", ["pipe", "endless", "link", "missing", "folder"])
def test_only_regular_files_are_entries(entry, kind, tmp_path):
    key, path = entry
    aside = tmp_path / "aside"
    path.rename(aside)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to({"endless": "/dev/zero", "link": aside, "missing": "nowhere"}[kind])
    assert cache.read(key) is None
    cache.write(key, IMAGE)
    assert cache.read(key) == (None if kind == "folder" else IMAGE)


@posix
def test_a_link_to_ones_own_directory_may_be_the_cache(folder, tmp_path):
    (tmp_path / "real").mkdir(0o700)
    folder.symlink_to(tmp_path / "real")
    cache.write("1" * 40, IMAGE)
    assert cache.read("1" * 40) == IMAGE


# -- with real kernels -----------------------------------------------------------------------------


def compute_anew(n):
    """(result, hits of the disk cache) of something computed with no kernel in memory.

    What plans remember of kernels is forgotten, too.
    """
    calls = TABLE["bitwise_xor"].runtime
    for variant in calls.variants.values() if calls is not None else ():
        family = variant.family
        for kept in (family.kinds, family.plans, family.sorts, family.shaped, family.into):
            kept.clear()
    runtime = torch.device("cpu").runtime
    x = torch.arange(2 * n)[::2]
    saved, runtime.kernels = runtime.kernels, {}
    kernels.compile_log = log = []
    try:
        result = (x ^ x).tolist()
    finally:
        runtime.kernels, kernels.compile_log = saved, None
    return result, [hit for _, hit in log]


def test_a_kernel_is_compiled_once_and_read_from_then_on(folder):
    result, hits = compute_anew(1001)
    assert result == [0] * 1001 and not any(hits)
    result, hits = compute_anew(1002)
    assert result == [0] * 1002 and hits and all(hits)


@pytest.mark.parametrize("damage", [b"", b"short", b"x" * 5000], ids=["empty", "short", "wrong"])
def test_kernels_survive_a_damaged_cache(folder, damage):
    size = 1100 + len(damage)
    compute_anew(size)
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    for path in files:
        path.write_bytes(damage)
    result, hits = compute_anew(size + 1)
    assert result == [0] * (size + 1) and not any(hits)
    _, hits = compute_anew(size + 2)
    assert hits and all(hits)


def damaged(image, k):
    """An object with a right checksum that cannot be loaded."""
    if k < 4:
        return (b"x" * 500, image[:100], image[: len(image) // 2], b"\x7fELF" + bytes(300))[k]
    changed = bytearray(image)
    random = np.random.default_rng(k)
    for place in (*random.integers(0, 64, 2), *random.integers(len(image) - 640, len(image), 3)):
        changed[place] ^= 1 << random.integers(8)
    return bytes(changed)


def test_a_right_checksum_around_a_bad_object_is_never_fatal(folder):
    compute_anew(1201)
    paths = [path for path in folder.rglob("*") if path.is_file()]
    images = [path.read_bytes()[32:] for path in paths]
    for k in range(12):
        for path, image in zip(paths, images):
            bad = damaged(image, k)
            if k < 4 or not object_files.is_whole(bad):
                cache.write(path.parent.name + path.name, bad)
        assert compute_anew(1202 + k)[0] == [0] * (1202 + k)


def test_what_the_compiler_writes_is_whole(folder):
    compute_anew(1301)
    images = [path.read_bytes()[32:] for path in folder.rglob("*") if path.is_file()]
    assert images and all(map(object_files.is_whole, images))


SCRIPT = """
import flambeau as torch
x = torch.arange(9.)
print(((x * 3 + 1) / 2).sum().item(), torch.arange(5).tolist())
"""


def start(**environment):
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def finish(process):
    out, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    return out


def test_processes_may_race_for_a_cold_cache(tmp_path):
    processes = [start(FLAMBEAU_CACHE_DIR=str(tmp_path / "cold")) for _ in range(2)]
    assert {finish(p) for p in processes} == {"58.5 [0, 1, 2, 3, 4]\n"}
    names = [f for _, _, files in os.walk(tmp_path / "cold") for f in files]
    assert names and not [n for n in names if n.startswith("new-")]


def test_a_process_runs_without_a_cache(tmp_path):
    (tmp_path / "file").touch()
    for directory in ("", str(tmp_path / "file")):
        assert finish(start(FLAMBEAU_CACHE_DIR=directory)) == "58.5 [0, 1, 2, 3, 4]\n"
