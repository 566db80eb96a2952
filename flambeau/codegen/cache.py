"""Compiled kernels on disk.

The key is a hash of the IR and of everything else the object depends on (LLVM's version, the host's
features, ours). Entries carry a checksum of the key and the object, so one that was damaged, or put
in place of another, is compiled again. They are written under a temporary name and renamed, so two
processes may race.

What is read here will be executed, so nobody else may be able to write it: directories are made
for this user alone, and one that belongs to somebody else, or that others may write to, is not
used. All names are looked up from directories that are open already, and only regular files are
read: a link, a pipe or a device in place of an entry is no entry. Wherever the cache cannot be
used, kernels live in memory only.
"""

import contextlib
import hashlib
import os
import secrets
import stat
import warnings

from flambeau import config

_CHECKSUM = 32  # bytes of it, before the object
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_refused: set = set()  # directories that the user has been told of
_is_possible = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")


class Untrusted(OSError):
    """Somebody else may write here."""


def key_of(ir, identity):
    return hashlib.sha256(f"{identity}\n{ir}".encode()).hexdigest()[:40]


def read(key):
    """The cached object, or None if there is none, it is damaged, or others may have written it."""
    data = _try(_read, key) or b""
    checksum, image = data[:_CHECKSUM], data[_CHECKSUM:]
    return image if image and _checksum(key, image) == checksum else None


def write(key, image):
    """Keep an object; failing to is not an error: the kernel then lives in memory only."""
    _try(_write, key, _checksum(key, image) + image)


def forget(key):
    """Remove an entry that turned out to be of no use."""
    _try(_forget, key)


def _checksum(key, image):
    return hashlib.blake2b(image, key=key.encode(), digest_size=_CHECKSUM).digest()


def _try(act, key, *rest):
    """act(directory, name of the entry, ...), where there is a directory; trouble means None."""
    root = config.cache_dir() if _is_possible else None
    if root is None:
        return None
    try:
        making = act is _write
        with (
            _opened(root, making, follow=True) as top,
            _opened(key[:2], making, at=top) as folder,
        ):
            return act(folder, key[2:], *rest)
    except Untrusted:
        _warn(root)
    except (OSError, ValueError):  # missing, read-only, full, a file; a path that no file can have
        pass
    return None


@contextlib.contextmanager
def _opened(path, making, at=None, follow=False):
    """A directory of ours, open; made if it is missing. follow: may the path be a link?"""
    flags = os.O_RDONLY | os.O_DIRECTORY | (0 if follow else os.O_NOFOLLOW)
    try:
        handle = os.open(path, flags, dir_fd=at)
    except FileNotFoundError:
        if not making:
            raise
        if at is None:
            os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with contextlib.suppress(FileExistsError):  # another process was quicker
            os.mkdir(path, 0o700, dir_fd=at)
        handle = os.open(path, flags, dir_fd=at)
    try:
        _check(os.fstat(handle))
        yield handle
    finally:
        os.close(handle)


def _check(facts):
    if facts.st_uid != os.geteuid() or facts.st_mode & _OTHERS_WRITE:
        raise Untrusted


def _read(folder, name):
    # without O_NONBLOCK a pipe would make us wait for somebody who writes
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    with os.fdopen(handle, "rb") as file:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode):
            return None
        _check(facts)
        return file.read(facts.st_size)


def _write(folder, name, data):
    temporary = f"new-{secrets.token_hex(8)}"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:  # interrupted, or no room: leave no litter behind
        _forget(folder, temporary)
        raise


def _forget(folder, name):
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=folder)


def _warn(root):
    if root not in _refused:
        _refused.add(root)
        warnings.warn(
            f"flambeau: {root} belongs to another user, or others may write to it, so compiled "
            "kernels are neither read from there nor kept there (see FLAMBEAU_CACHE_DIR)",
            stacklevel=2,
        )
