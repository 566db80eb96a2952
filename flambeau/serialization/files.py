"""Where bytes go: paths are written whole or not at all, file objects as they come.

A path is written beside its place under another name, flushed to the disk and then renamed, so a
crash or a full disk leaves the file of before. Devices and pipes cannot be renamed over and are
written directly.
"""

import contextlib
import errno
import io
import os
import secrets
import stat
import threading

LARGE = 1 << 20


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
        folder = os.path.dirname(os.fspath(f)) or "."
        if not os.path.isdir(folder):
            raise RuntimeError(f"Parent directory {folder} does not exist.")
        if os.path.isdir(f):
            raise RuntimeError(f"open file failed with strerror: Is a directory: {os.fspath(f)}")
        if os.path.exists(f) and not os.access(f, os.W_OK):
            raise PermissionError(13, "Permission denied", os.fspath(f))
    elif not hasattr(f, "write"):
        raise AttributeError(
            "expected 'f' to be string, path, or a file-like object with a 'write' attribute"
        )


@contextlib.contextmanager
def opened_for_writing(f):
    """A file object whose content takes the place of a path when all went well."""
    if not is_path(f):
        yield f
        return
    path = os.path.realpath(f)  # a link stays a link
    mode = os.stat(path).st_mode if os.path.exists(path) else None
    if mode is not None and not stat.S_ISREG(mode):
        with open(path, "wb") as file:
            yield file
        return
    with _replacing(path, mode) as file:
        yield file


@contextlib.contextmanager
def _replacing(path, mode):
    folder, name = os.path.split(path)
    other = os.path.join(folder, f".{name[:100]}.{secrets.token_hex(6)}.tmp")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(other, flags, 0o666)
    except OSError as error:
        why = f"{error.strerror}; a file is first written beside its place, in this folder"
        raise type(error)(error.errno, why, folder) from None
    try:
        with io.BufferedWriter(_Own(descriptor, "wb")) as file:
            yield file
            file.flush()
            if mode is not None:
                os.chmod(other, stat.S_IMODE(mode))
            os.fsync(descriptor)
        with _old_file(path, mode):
            os.replace(other, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(other)
        if type(error) is OSError and error.errno in _FULL and error.filename is None:
            kept = "" if mode is None else "; the file that was there is unchanged"
            raise OSError(error.errno, f"{error.strerror}{kept}", path) from None
        raise
    _flush_folder(folder)


_FULL = {
    getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EFBIG", "EIO") if hasattr(errno, name)
}


@contextlib.contextmanager
def _old_file(path, mode):
    """Hold a large file that is about to go: freeing its blocks takes long, and nobody waits."""
    held = None
    if mode is not None and hasattr(os, "pwrite"):  # other systems do not replace what is open
        with contextlib.suppress(OSError):
            if os.stat(path).st_size >= LARGE:
                held = os.open(path, os.O_RDONLY)
    try:
        yield
    finally:
        if held is not None:
            try:
                threading.Thread(target=os.close, args=(held,), daemon=True).start()
            except RuntimeError:  # the interpreter is about to end
                os.close(held)


def _flush_folder(folder):
    """The new name is safe too; some systems cannot do that, and the content is safe anyway."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


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
