"""Unpack archives that came from elsewhere, trusting nothing that they say.

Names that lead out of the folder, links to outside, devices, contents that are out of all
proportion to the archive, and archives that are cut short are errors. Files take their names when
they are complete, so an interrupted call leaves no half of one behind.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import os
import pathlib
import secrets
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any

Path = str | os.PathLike[str]

MOST_FILES = 20_000_000
# Datasets shrink to a tenth at best; an archive may unfold to this many times its size. What is
# small anyway needs no limit.
MOST_TIMES = 200
ALWAYS_ALLOWED = 1 << 28
PIECE = 1 << 20

# what the readers of the standard library say of broken files and of headers full of nonsense
_DAMAGE = (
    EOFError,
    IndexError,
    KeyError,
    MemoryError,
    NotImplementedError,
    OverflowError,
    ValueError,
    lzma.LZMAError,
    struct.error,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)


def extract_archive(
    from_path: Path, to_path: Path | None = None, remove_finished: bool = False
) -> Path:
    """Unpack an archive, or decompress a single file; its name tells which.

    Args:
        from_path: an archive (.tar, .zip, .tgz, ...) or a compressed file (.gz, .xz, .bz2).
        to_path: the folder to unpack to; that of the archive if None.
        remove_finished: delete the archive afterwards.

    Returns:
        The folder, or the path of the decompressed file; a string if `from_path` is one.
    """
    here, name = os.path.split(from_path)
    folder = here if to_path is None else to_path
    ending, kind, compression = _detect_file_type(from_path)
    if kind is None:
        made = _decompress(
            from_path, os.path.join(folder, name.replace(ending, "")), remove_finished
        )
    else:
        unpack = {".zip": _extract_zip, ".tar": _extract_tar}[kind]
        unpack(from_path, folder, compression)
        made = pathlib.Path(folder)
        if remove_finished:
            os.remove(from_path)
    return os.fspath(made) if isinstance(from_path, str) else made


# -- what a name says ------------------------------------------------------------------------------

_COMPRESSED_FILE_OPENERS: dict[str, Callable[..., Any]] = {
    ".bz2": bz2.open,
    ".gz": gzip.open,
    ".xz": lzma.open,
}
_ARCHIVES = (".tar", ".zip")
_FILE_TYPE_ALIASES = {
    short: (".tar", compression)
    for short, compression in ((".tbz", ".bz2"), (".tbz2", ".bz2"), (".tgz", ".gz"))
}


def _detect_file_type(file: Path) -> tuple[str, str | None, str | None]:
    """The ending, the kind of archive and the compression that it stands for."""
    *others, last = ["", *pathlib.Path(file).suffixes]
    if not last:
        raise RuntimeError(
            f"File '{file}' has no suffixes that could be used to detect the archive type and "
            "compression."
        )
    inner = others[-1] if others and others[-1] in _ARCHIVES else ""
    meanings = {
        **{kind: (kind, kind, None) for kind in _ARCHIVES},
        **{kind: (inner + kind, inner or None, kind) for kind in _COMPRESSED_FILE_OPENERS},
        **{short: (short, *meaning) for short, meaning in _FILE_TYPE_ALIASES.items()},
    }
    if last not in meanings:
        raise RuntimeError(
            f"Unknown compression or archive type: '{last}'.\n"
            f"Known suffixes are: '{sorted(meanings)}'."
        )
    return meanings[last]


# -- limits and damage -----------------------------------------------------------------------------


class _Allowance:
    """Counts what an archive unfolds to, and stops it in time."""

    def __init__(self, archive: Path) -> None:
        self.archive = archive
        size = os.path.getsize(archive)
        if size == 0:
            raise EOFError("the file is empty")
        self.left = max(ALWAYS_ALLOWED, MOST_TIMES * size)
        self.files = MOST_FILES

    def spend(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise RuntimeError(
                f"{self.archive} unfolds to more than {MOST_TIMES} times its size: refused, since "
                "datasets are not packed like that"
            )

    def one_more_file(self) -> None:
        self.files -= 1
        if self.files < 0:
            raise RuntimeError(f"{self.archive} holds more than {MOST_FILES} files: refused")


@contextlib.contextmanager
def _damage_reported(archive: Path) -> Iterator[None]:
    """Turn the many ways in which archives are broken into one."""
    try:
        yield
    except _DAMAGE as error:
        reason = f"{type(error).__name__}: {error}"
    except OSError as error:
        if error.errno is not None:  # the disk's fault; gzip reports damage without a number
            raise
        reason = str(error)
    else:
        return
    raise RuntimeError(
        f"{archive} is cut short or damaged ({reason}); delete it and download it again"
    )


def _copy(source: IO[bytes], target: str, allowance: _Allowance) -> None:
    """Write a file; it gets its name when it is complete."""
    folder, name = os.path.split(target)
    other = os.path.join(folder, f".{name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        with open(other, "xb") as file:
            while piece := source.read(PIECE):
                allowance.spend(len(piece))
                file.write(piece)
        os.replace(other, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(other)
        raise


def _decompress(
    from_path: Path, to_path: Path | None = None, remove_finished: bool = False
) -> pathlib.Path:
    """Decompress a single file, by default beside it and under its name without the ending."""
    ending, kind, compression = _detect_file_type(from_path)
    if compression is None:
        raise RuntimeError(f"Couldn't detect a compression from suffix {ending}.")
    shorter = os.fspath(from_path).replace(ending, kind or "")
    target = pathlib.Path(shorter if to_path is None else to_path)
    with (
        _damage_reported(from_path),
        _COMPRESSED_FILE_OPENERS[compression](from_path, "rb") as source,
    ):
        _copy(source, str(target), _Allowance(from_path))
    if remove_finished:
        os.remove(from_path)
    return target


# -- archives --------------------------------------------------------------------------------------


class _Folder:
    """A folder that nothing is written out of."""

    def __init__(self, path: Path) -> None:
        os.makedirs(path, exist_ok=True)
        self.path = os.path.realpath(path)

    def place(self, name: str, archive: Path) -> str:
        """Where a member goes; its folder is made, and lies inside in truth, links followed."""
        slashed = name.replace(os.sep, "/")
        parts = [part for part in slashed.split("/") if part not in ("", ".")]
        rooted = slashed.startswith("/") or os.path.splitdrive(name)[0]
        if rooted or ".." in parts or "\0" in name:
            raise RuntimeError(f"{archive} holds a file that lies outside of it: {name!r}: refused")
        target = os.path.join(self.path, *parts)
        folder = os.path.dirname(target) if parts else target
        self.check_inside(folder, name, archive)
        os.makedirs(folder, exist_ok=True)
        return target

    def check_inside(self, path: str, name: str, archive: Path) -> None:
        real = os.path.realpath(path)
        if real != self.path and os.path.commonpath([real, self.path]) != self.path:
            raise RuntimeError(f"{archive} leads out of the folder at {name!r}: refused")


def _clear(target: str) -> None:
    """Make room for a file; a link is replaced rather than followed."""
    if os.path.islink(target):
        os.unlink(target)


def _extract_tar(from_path: Path, to_path: Path, compression: str | None) -> None:
    folder = _Folder(to_path)
    mode: Any = f"r:{compression[1:]}" if compression else "r:"
    with _damage_reported(from_path), tarfile.open(from_path, mode) as tar:
        allowance = _Allowance(from_path)
        for member in tar:
            allowance.one_more_file()
            target = folder.place(member.name, from_path)
            if member.isdir():
                folder.check_inside(target, member.name, from_path)
                os.makedirs(target, exist_ok=True)
            elif member.isreg():
                source = tar.extractfile(member)
                assert source is not None
                _clear(target)
                with source:
                    _copy(source, target, allowance)
            elif member.issym() or member.islnk():
                _link(folder, member, target, from_path, allowance)
            else:
                raise RuntimeError(f"{from_path} holds a device, {member.name!r}: refused")
        _read_to_the_end(tar, compression, allowance)


def _read_to_the_end(tar: tarfile.TarFile, compression: str | None, allowance: _Allowance) -> None:
    """After the last member there is a block of zeros, and a checksum if it is compressed."""
    file: Any = tar.fileobj
    if compression:
        while piece := file.read(PIECE):
            allowance.spend(len(piece))
    else:
        file.seek(tar.offset)
        if file.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
            raise tarfile.ReadError("unexpected end of data")


def _link(
    folder: _Folder,
    member: tarfile.TarInfo,
    target: str,
    archive: Path,
    allowance: _Allowance,
) -> None:
    """Links may point to what is inside; a hard link becomes a copy."""
    _clear(target)
    if member.islnk():
        origin = folder.place(member.linkname, archive)
        folder.check_inside(origin, member.name, archive)
        if not os.path.isfile(origin):
            raise tarfile.ReadError(f"a link to {member.linkname!r}, which is not there")
        with open(origin, "rb") as source:
            _copy(source, target, allowance)
        return
    pointed = os.path.join(os.path.dirname(target), member.linkname)
    folder.check_inside(pointed, member.name, archive)
    if os.path.lexists(target):
        raise RuntimeError(f"{archive} wants to replace {target} by a link: refused")
    os.symlink(member.linkname, target)


def _extract_zip(from_path: Path, to_path: Path, compression: str | None) -> None:
    folder = _Folder(to_path)
    with _damage_reported(from_path), zipfile.ZipFile(from_path) as archive:
        members = archive.infolist()
        # what it says of itself first, then what really comes out
        _Allowance(from_path).spend(sum(member.file_size for member in members))
        allowance = _Allowance(from_path)
        for member in members:
            allowance.one_more_file()
            target = folder.place(member.filename, from_path)
            if member.is_dir():
                folder.check_inside(target, member.filename, from_path)
                os.makedirs(target, exist_ok=True)
                continue
            if member.flag_bits & 1:
                raise RuntimeError(f"{from_path} is encrypted")
            _clear(target)
            with archive.open(member) as source:
                _copy(source, target, allowance)
