"""Where bytes go: paths are written whole or not at all, file objects as they come.

A path is written beside its place under another name and then renamed, so a crash of the program or
a full disk leaves the file of before. Large files are brought to the disk before that, which also
makes them survive a loss of power; for small ones this would take longer than all the rest, and
common file systems (ext4, btrfs) write the content before the new name by themselves. The folder is
not flushed: the old file may be there again then, but whole. Devices and pipes cannot be renamed
over and are written directly.
"""

import contextlib
import errno
import io
import os
import secrets
import stat
import threading

LARGE = 1 << 20
BUFFER = 1 << 16  # bytes that are written at once


class _Own(io.FileIO):
    """A file that nobody else has open, written from its beginning."""


def own_descriptor(file):
    """The descriptor of a file of `opened_for_writing`; None for the files of others."""
    return file.fileno() if isinstance(getattr(file, "raw", None), _Own) else None


def descriptor_of(file):
    """The descriptor of a file on a disk that can be read at any place; None for other objects."""
    if type(file) is not io.BufferedReader or type(file.raw) is not io.FileIO:
        return None  # compressed files have a descriptor, too, but other bytes
    descriptor = file.fileno()
    return descriptor if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def is_path(f):
    return isinstance(f, (str, os.PathLike))


def check_writable(f):
    """Complain, before any work is done, of what cannot be written to."""
    if is_path(f):
        found = _status(f)
        if found is None:
            folder = os.path.dirname(os.fspath(f)) or "."
            if not os.path.isdir(folder):
                raise RuntimeError(f"Parent directory {folder} does not exist.")
            return
        if stat.S_ISDIR(found.st_mode):
            raise RuntimeError(f"open file failed with strerror: Is a directory: {os.fspath(f)}")
        if not os.access(f, os.W_OK):
            raise PermissionError(13, "Permission denied", os.fspath(f))
    elif not hasattr(f, "write"):
        raise AttributeError(
            "expected 'f' to be string, path, or a file-like object with a 'write' attribute"
        )


def _status(path):
    """What the system knows of a file, or None if there is none."""
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


@contextlib.contextmanager
def opened_for_writing(f):
    """A file object whose content takes the place of a path when all went well."""
    if not is_path(f):
        yield f
        flush = getattr(f, "flush", None)
        if flush is not None:
            flush()  # others may read the file by its name now
        return
    path = os.path.realpath(f) if os.path.islink(f) else os.fspath(f)  # a link stays a link
    old = _status(path)
    if old is not None and not stat.S_ISREG(old.st_mode):
        with open(path, "wb") as file:
            yield file
        return
    with _replacing(path, old) as file:
        yield file


@contextlib.contextmanager
def _replacing(path, old):
    folder, name = os.path.split(path)
    other = os.path.join(folder, f".{name[:100]}.{secrets.token_hex(6)}.tmp")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(other, flags, 0o666 if old is None else stat.S_IMODE(old.st_mode))
    except OSError as error:
        why = f"{error.strerror}; a file is first written beside its place, in this folder"
        raise type(error)(error.errno, why, folder) from None
    try:
        with io.BufferedWriter(_Own(descriptor, "wb"), BUFFER) as file:
            yield file
            file.flush()
            if old is not None and os.fstat(descriptor).st_mode != old.st_mode:  # as umask said
                os.chmod(other, stat.S_IMODE(old.st_mode))
            if file.tell() >= LARGE:
                os.fsync(descriptor)
        with _old_file(path, old):
            os.replace(other, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(other)
        if type(error) is OSError and error.errno in _FULL and error.filename is None:
            kept = "" if old is None else "; the file that was there is unchanged"
            raise OSError(error.errno, f"{error.strerror}{kept}", path) from None
        raise


_FULL = {
    getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EFBIG", "EIO") if hasattr(errno, name)
}


@contextlib.contextmanager
def _old_file(path, old):
    """Hold a large file that is about to go: freeing its blocks takes long, and nobody waits."""
    held = None
    # other systems do not replace what is open
    if old is not None and old.st_size >= LARGE and hasattr(os, "pwrite"):
        with contextlib.suppress(OSError):
            held = os.open(path, os.O_RDONLY)
    try:
        yield
    finally:
        if held is not None:
            try:
                threading.Thread(target=os.close, args=(held,), daemon=True).start()
            except RuntimeError:  # the interpreter is about to end
                os.close(held)


@contextlib.contextmanager
def opened_for_reading(f):
    """A seekable file object for a path or a file object."""
    if is_path(f):
        with open(f, "rb") as file:
            yield file
        return
    for attribute in ("seek", "tell", "read"):
        if not hasattr(f, attribute):
            raise AttributeError(
                f"'{type(f).__name__}' object has no attribute '{attribute}'. {_SEEKABLE}"
            )
    yield f


_SEEKABLE = (
    "You can only torch.load from a file that is seekable. Please pre-load the data into a buffer "
    "like io.BytesIO and try to load from it instead."
)


def first_bytes(file, count):
    """The next bytes of a file, which stays where it is."""
    try:
        here = file.tell()
        found = file.read(count)
        file.seek(here)
    except io.UnsupportedOperation as error:
        raise type(error)(f"{error}. {_SEEKABLE}") from None
    if not isinstance(found, (bytes, bytearray)):
        raise TypeError(
            f"Expected bytes, got {type(found).__name__}: open the file in binary mode, 'rb'"
        )
    return found


def size_of(file):
    """Bytes in a file, whatever its position."""
    here = file.tell()
    size = file.seek(0, os.SEEK_END)
    size = file.tell() if size is None else size
    file.seek(here)
    return size


def read_into(file, target):
    """Fill a memoryview from a file; the number of bytes that there were."""
    done, readinto = 0, getattr(file, "readinto", None)
    while done < len(target):
        if readinto is not None:
            count = readinto(target[done:])
        else:
            piece = file.read(min(len(target) - done, 1 << 24))
            count = len(piece)
            target[done : done + count] = piece
        if not count:
            break
        done += count
    return done
