"""Compiled kernels on disk.

The key is a hash of the IR and of everything else the object depends on (LLVM's version, the host's
features, ours). Entries carry a checksum, are written under a temporary name and renamed, so two
processes may race and a damaged entry is simply compiled again. A directory that cannot be written
means compiling in memory.
"""

import hashlib
import os
import tempfile

from flambeau import config


def key_of(ir, identity):
    return hashlib.sha256(f"{identity}\n{ir}".encode()).hexdigest()[:40]


def _path(directory, key):
    return os.path.join(directory, key[:2], key[2:])


def read(key):
    """The cached object, or None if there is none or it is damaged."""
    directory = config.cache_dir()
    if directory is None:
        return None
    try:
        with open(_path(directory, key), "rb") as file:
            data = file.read()
    except OSError:
        return None
    checksum, image = data[:32], data[32:]
    return image if hashlib.sha256(image).digest() == checksum else None


def write(key, image):
    """Keep an object; failing to is not an error."""
    directory = config.cache_dir()
    if directory is None:
        return
    path = _path(directory, key)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path))
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(image).digest() + image)
        os.replace(temporary, path)
    except OSError:
        pass  # read-only or full: the kernel lives in memory only
