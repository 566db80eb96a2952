"""Compiled kernels on disk.

The key is a hash of the IR and of everything else the object depends on (LLVM's version, the host's
features, ours). Entries carry a checksum, are written under a temporary name and renamed, so two
processes may race and a damaged entry is simply compiled again. A directory that cannot be written
means compiling in memory.
"""

import contextlib
import hashlib
import os
import tempfile

from flambeau import config

_CHECKSUM = 32  # bytes of it, before the object


def key_of(ir, identity):
    return hashlib.sha256(f"{identity}\n{ir}".encode()).hexdigest()[:40]


def path_of(key):
    """Where an entry is or would be; None when the cache is switched off."""
    directory = config.cache_dir()
    return None if directory is None else os.path.join(directory, key[:2], key[2:])


def read(key):
    """The cached object, or None if there is none or it is damaged."""
    path = path_of(key)
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            data = file.read()
    except (OSError, ValueError):  # ValueError: a path that no file can have
        return None
    checksum, image = data[:_CHECKSUM], data[_CHECKSUM:]
    return image if image and hashlib.sha256(image).digest() == checksum else None


def write(key, image):
    """Keep an object; failing to is not an error: the kernel then lives in memory only."""
    path = path_of(key)
    if path is None:
        return
    temporary = None
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix="new-")
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(image).digest() + image)
        os.replace(temporary, path)
    except (OSError, ValueError):
        _discard(temporary)  # the directory is read-only or full, or is a file
    except BaseException:  # interrupted: leave no litter behind
        _discard(temporary)
        raise


def forget(key):
    """Remove an entry that turned out to be of no use."""
    _discard(path_of(key))


def _discard(path):
    if path is not None:
        with contextlib.suppress(OSError):
            os.unlink(path)
