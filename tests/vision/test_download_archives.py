"""Unpacking archives: what they hold comes out, and what they try does not happen."""

import bz2
import gzip
import io
import lzma
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from flambeau.vision.datasets import archives
from flambeau.vision.datasets.archives import extract_archive

FILES = {"a.txt": b"first", "folder/b.bin": bytes(range(256)) * 20, "folder/deep/c": b""}
PACKERS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
TAR_MODES = {
    ".tar": "w:",
    ".tar.gz": "w:gz",
    ".tgz": "w:gz",
    ".tar.bz2": "w:bz2",
    ".tbz": "w:bz2",
    ".tbz2": "w:bz2",
    ".tar.xz": "w:xz",
}


def tar_bytes(mode="w:", files=FILES, members=()):
    """An archive of these files and of members that were made by hand."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode=mode) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        for name, kind, target in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            tar.addfile(info)
    return content.getvalue()


def zip_bytes(files=FILES, compression=zipfile.ZIP_DEFLATED):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return content.getvalue()


def found(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture
def place(tmp_path):
    """A folder for the archive, and beside it the one it is unpacked to."""
    (tmp_path / "out").mkdir()
    return tmp_path


def unpack(place, name, content):
    path = place / name
    path.write_bytes(content)
    extract_archive(path, place / "out")
    return found(place / "out")


# -- what should work ------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", TAR_MODES)
def test_tar_files_are_unpacked(place, suffix):
    assert unpack(place, f"data{suffix}", tar_bytes(TAR_MODES[suffix])) == FILES


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_zip_files_are_unpacked(place, method):
    assert unpack(place, "data.zip", zip_bytes(compression=method)) == FILES


@pytest.mark.parametrize("suffix", PACKERS)
def test_single_files_are_decompressed(place, suffix):
    assert unpack(place, f"a.txt{suffix}", PACKERS[suffix](b"text")) == {"a.txt": b"text"}


def test_the_result_is_a_path_of_the_kind_that_was_given(place):
    path = place / "a.txt.gz"
    path.write_bytes(gzip.compress(b"text"))
    assert extract_archive(str(path)) == str(place / "a.txt")
    assert extract_archive(path, place / "out", remove_finished=True) == place / "out/a.txt"
    assert not path.exists()
    path = place / "a.zip"
    path.write_bytes(zip_bytes())
    assert extract_archive(str(path), str(place / "out"), True) == str(place / "out")
    assert not path.exists()
    assert archives._decompress(_packed(place)) == place / "b"


def _packed(place):
    (place / "b.xz").write_bytes(lzma.compress(b"text"))
    return place / "b.xz"


def test_folders_and_links_inside_are_kept(place):
    members = [
        ("empty", tarfile.DIRTYPE, ""),
        ("folder/soft", tarfile.SYMTYPE, "../a.txt"),
        ("hard", tarfile.LNKTYPE, "folder/b.bin"),
    ]
    files = unpack(place, "data.tar", tar_bytes(members=members))
    assert files == {**FILES, "folder/soft": b"first", "hard": FILES["folder/b.bin"]}
    assert (place / "out/empty").is_dir() and (place / "out/folder/soft").is_symlink()


def test_modes_of_files_are_not_taken_over(place):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        info = tarfile.TarInfo("a")
        info.mode, info.size = 0o6777, 1
        tar.addfile(info, io.BytesIO(b"x"))
    unpack(place, "data.tar", content.getvalue())
    assert not stat.S_IMODE(os.stat(place / "out/a").st_mode) & 0o6111


def test_unpacking_again_replaces(place):
    unpack(place, "data.tar", tar_bytes())
    (place / "out/a.txt").write_bytes(b"changed")
    assert unpack(place, "data.tar", tar_bytes()) == FILES


@pytest.mark.oracle
@pytest.mark.parametrize(
    "name", ["a", "a.tar", "a.b.tar.gz", "a.tgz", "a.gz", "a.zip", "a.rar", ".x"]
)
def test_names_mean_what_they_mean_to_torchvision(name):
    pytest.importorskip("torch")
    theirs = pytest.importorskip("torchvision").datasets.utils
    answers = []
    for function in (archives._detect_file_type, theirs._detect_file_type):
        try:
            answers.append(function(name))
        except RuntimeError as error:
            answers.append(str(error))
    assert answers[0] == answers[1]


# -- what must not happen --------------------------------------------------------------------------

OUTSIDE = ["../evil", "/tmp/evil-flambeau", "folder/../../evil", "..", "a/../../evil", "//evil"]


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_names_that_lead_outside_are_refused(place, name, kind):
    pack = {"tar": lambda files: tar_bytes(files=files), "zip": zip_bytes}[kind]
    before = set(place.iterdir()) | {place / f"data.{kind}"}
    with pytest.raises(RuntimeError, match=r"refused$"):
        unpack(place, f"data.{kind}", pack({name: b"evil"}))
    assert set(place.iterdir()) == before and not Path("/tmp/evil-flambeau").exists()


LINKS = {
    "a link outside": [("x", tarfile.SYMTYPE, "../secret")],
    "an absolute link": [("x", tarfile.SYMTYPE, "/etc/passwd")],
    "a hard link outside": [("x", tarfile.LNKTYPE, "../secret")],
    "an absolute hard link": [("x", tarfile.LNKTYPE, "/etc/passwd")],
    "a link to the folder above": [("x", tarfile.SYMTYPE, "..")],
    "a link through a link": [
        ("sub", tarfile.DIRTYPE, ""),
        ("x", tarfile.SYMTYPE, "sub"),
        ("y", tarfile.SYMTYPE, "x/../../secret"),
    ],
    "a device": [("x", tarfile.CHRTYPE, "")],
    "a pipe": [("x", tarfile.FIFOTYPE, "")],
}


@pytest.mark.parametrize("name", LINKS)
def test_links_to_outside_and_devices_are_refused(place, name):
    (place / "secret").write_bytes(b"secret")
    with pytest.raises(RuntimeError, match=r"refused$"):
        unpack(place, "data.tar", tar_bytes(files={}, members=LINKS[name]))
    assert b"secret" not in found(place / "out").values()
    assert not (place / "out/x").is_fifo()


def test_nothing_is_written_through_a_link_that_was_there(place):
    (place / "elsewhere").mkdir()
    (place / "out/folder").symlink_to(place / "elsewhere")
    with pytest.raises(RuntimeError, match="leads out of the folder"):
        unpack(place, "data.tar", tar_bytes())
    assert not list((place / "elsewhere").iterdir())
    (place / "out/a.txt").unlink()
    (place / "out/folder").unlink()
    (place / "kept").write_bytes(b"kept")
    (place / "out/a.txt").symlink_to(place / "kept")
    assert unpack(place, "data.tar", tar_bytes()) == FILES
    assert (place / "kept").read_bytes() == b"kept"


@pytest.mark.parametrize("kind", ["gz", "zip", "tar.gz", "tar.bz2", "xz"])
def test_what_unfolds_without_end_is_stopped(place, monkeypatch, kind):
    monkeypatch.setattr(archives, "ALWAYS_ALLOWED", 1 << 16)
    zeros = bytes(20_000_000)
    content = {
        "gz": lambda: gzip.compress(zeros),
        "xz": lambda: lzma.compress(zeros),
        "zip": lambda: zip_bytes({"a": zeros}),
        "tar.gz": lambda: tar_bytes("w:gz", {"a": zeros}),
        "tar.bz2": lambda: tar_bytes("w:bz2", {"a": zeros}),
    }[kind]()
    with pytest.raises(RuntimeError, match="unfolds to more than 200 times its size: refused"):
        unpack(place, f"data.{kind}", content)
    assert not found(place / "out")


def test_too_many_files_are_stopped(place, monkeypatch):
    monkeypatch.setattr(archives, "MOST_FILES", 2)
    for name, content in (("a.tar", tar_bytes()), ("a.zip", zip_bytes())):
        with pytest.raises(RuntimeError, match="holds more than 2 files: refused"):
            unpack(place, name, content)


@pytest.mark.parametrize("suffix", [*TAR_MODES, ".zip", *PACKERS])
def test_archives_that_are_cut_short_are_noticed(place, suffix, rng):
    files = {"a": rng.bytes(3000), "b": rng.bytes(3000)}
    if suffix in TAR_MODES:
        content = tar_bytes(TAR_MODES[suffix], files)
        if suffix == ".tar":
            content = content[: content.rindex(files["b"]) + 3000 + 600]  # up to the zeros
    else:
        content = zip_bytes(files) if suffix == ".zip" else PACKERS[suffix](files["a"])
    for size in (len(content) - 700, len(content) // 2, 40, 0):
        with pytest.raises(RuntimeError, match="is cut short or damaged"):
            unpack(place, f"data{suffix}", content[:size])
        kept = found(place / "out")
        assert all(files.get(name) == data for name, data in kept.items())  # whole or not at all


def test_a_tar_file_cut_between_members_is_noticed(place):
    content = tar_bytes(files={"a": b"x" * 512, "b": b"y" * 512})
    with pytest.raises(RuntimeError, match="is cut short or damaged"):
        unpack(place, "data.tar", content[:1024])


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".zip", ".gz"])
def test_no_change_of_an_archive_does_worse_than_an_error(place, suffix, rng):
    files = {"a": b"text", "f/b": rng.bytes(40)}
    if suffix in TAR_MODES:
        content = tar_bytes(TAR_MODES[suffix], files, [("s", tarfile.SYMTYPE, "a")])
    else:
        content = zip_bytes(files) if suffix == ".zip" else gzip.compress(rng.bytes(60))
    before = set(place.iterdir()) | {place / f"data{suffix}"}
    refused = 0
    for _ in range(150):
        changed = bytearray(content)
        for _ in range(rng.integers(1, 5)):
            # most of a tar file is padding: change what is not
            changed[rng.integers(min(len(changed), 700))] = rng.integers(256)
        try:
            unpack(place, f"data{suffix}", changed)
        except (RuntimeError, OSError):  # a name may be too long, or a folder where a file was
            refused += 1
        assert set(place.iterdir()) == before
    assert refused


def test_encrypted_archives_are_named(place):
    content = bytearray(zip_bytes({"a": b"text"}))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + offset] |= 1
    with pytest.raises(RuntimeError, match="is encrypted"):
        unpack(place, "data.zip", content)
