"""Memory that several processes map: blocks of it, and slices of blocks for small tensors.

A block is reached by a file descriptor (an anonymous file in memory, which vanishes with the last
process that has it) or, where descriptors cannot travel, by the name of a temporary file; nothing
lives in /dev/shm. A named file has one hard link per holder, so its directory entries count the
holders. Which storages lie in shared memory is told in shared_storage.py; how blocks reach other
processes in flambeau/multiprocessing.
"""

import contextlib
import ctypes
import errno
import mmap
import os
import secrets
import tempfile
import threading
import weakref

from flambeau import errors
from flambeau.runtime.cpu import buffer_at, copy_bytes

PAGE = mmap.PAGESIZE
SMALL = 1 << 15  # storages up to this size share a block, so that large models need few descriptors
SLAB = 1 << 18
ALIGN = 64
WRITE_AT_ONCE = 1 << 30  # bytes; systems refuse more than two of these


class Owner:
    """What keeps the memory of a storage alive, if other processes see that memory too."""

    __slots__ = ()


def _no_memory(nbytes, error):
    return errors.OutOfMemoryError(
        f"unable to allocate {nbytes} bytes of shared memory: {error.strerror} ({error.errno})"
    )


# -- files -----------------------------------------------------------------------------------------


def open_anonymous(nbytes):
    """The descriptor of a file without a name, as large as asked for and all zero."""
    return _sized(_nameless(), nbytes)


def _nameless():
    fd = -1
    if hasattr(os, "memfd_create"):
        with contextlib.suppress(OSError):  # some sandboxes do not know it
            fd = os.memfd_create("flambeau", os.MFD_CLOEXEC)
    if fd < 0:
        fd, path = tempfile.mkstemp(prefix="flambeau-")
        with contextlib.suppress(OSError):  # Windows keeps files that are open
            os.unlink(path)
    return fd


def _sized(fd, nbytes):
    """Make a file so large, with memory for all of it."""
    try:
        # memory that is not there is an error here, and would be a crash when it is written
        os.posix_fallocate(fd, 0, nbytes)
        return fd
    except AttributeError:  # no such function
        pass
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS):
            os.close(fd)
            raise _no_memory(nbytes, error) from None
    os.ftruncate(fd, nbytes)
    return fd


def _filled(fd, nbytes, source):
    """Make a file of the bytes at an address."""
    # quicker than writing to a mapping: no page is cleared first, and none faults
    view, done = buffer_at(source, nbytes), 0
    try:
        while done < nbytes:
            done += os.pwrite(fd, view[done : done + WRITE_AT_ONCE], done)
    except OSError as error:
        os.close(fd)
        raise _no_memory(nbytes, error) from None
    os.ftruncate(fd, _whole_pages(nbytes))
    return fd


def _whole_pages(nbytes):
    return nbytes + PAGE - 1 & -PAGE


# -- mappings --------------------------------------------------------------------------------------


if os.name == "posix":
    _libc = ctypes.CDLL(None, use_errno=True)
    _mmap, _munmap = _libc.mmap, _libc.munmap
    _mmap.restype = ctypes.c_void_p
    _mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_ssize_t]
    _munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

    def _map(fd, nbytes, populate):
        # Python's own mmap would keep a second descriptor open for each mapping
        flags = mmap.MAP_SHARED | (getattr(mmap, "MAP_POPULATE", 0) if populate else 0)
        address = _mmap(None, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, flags, fd, 0)
        if address == ctypes.c_void_p(-1).value:
            number = ctypes.get_errno()
            raise _no_memory(nbytes, OSError(number, os.strerror(number)))
        return address, None

else:

    def _map(fd, nbytes, populate):
        opened = mmap.mmap(fd, nbytes)
        hold = ctypes.c_char.from_buffer(opened)
        return ctypes.addressof(hold), (opened, hold)

    def _munmap(address, nbytes):  # type: ignore[misc]
        pass


class Mapping:
    """A file in the memory of this process, until the last reference goes."""

    __slots__ = ("address", "nbytes", "_hold", "__weakref__")

    def __init__(self, fd, nbytes, populate=False):
        self.address, self._hold = 0, None
        self.nbytes = nbytes
        self.address, self._hold = _map(fd, nbytes, populate)

    def __del__(self, unmap=_munmap):
        if self.address:
            unmap(self.address, self.nbytes)


# -- blocks ----------------------------------------------------------------------------------------


class Block:
    """Mapped memory that knows how others find it: by `fd`, or by `path` if that is not None."""

    __slots__ = ("name", "mapping", "fd", "path", "used", "_process", "__weakref__")

    def __init__(self, name, nbytes, fd, path=None):
        self.name, self.fd, self.path, self.used = name, fd, path, 0
        self._process = os.getpid()
        self.mapping = Mapping(fd, nbytes)
        if path is not None:
            os.close(fd)
            self.fd = -1
        known_blocks[name] = self

    @property
    def address(self):
        return self.mapping.address

    @property
    def nbytes(self):
        return self.mapping.nbytes

    def new_link(self):
        """Another name for the file; whoever gets it removes it."""
        link = os.path.join(os.path.dirname(self.path), secrets.token_hex(8))
        os.link(self.path, link)
        return link

    def __del__(self, close=os.close, unlink=os.unlink, getpid=os.getpid):
        if self.fd >= 0:
            with contextlib.suppress(OSError):
                close(self.fd)
        if self.path is not None and self._process == getpid():  # a forked copy owns no link
            with contextlib.suppress(OSError):
                unlink(self.path)


# every block this process has mapped, so that one that arrives twice is mapped once
known_blocks: "weakref.WeakValueDictionary[str, Block]" = weakref.WeakValueDictionary()


def new_block(nbytes, folder=None, source=0):
    """A fresh block; with a folder it gets a name in there, with an address a copy of its bytes."""
    name, path = secrets.token_hex(8), None
    if folder is None:
        fd = _nameless()
    else:
        path = os.path.join(folder, name)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        fd = os.open(path, flags, 0o600)
    size, by_writing = _whole_pages(nbytes), source and hasattr(os, "pwrite")
    try:
        fd = _filled(fd, nbytes, source) if by_writing else _sized(fd, size)
    except BaseException:
        if path is not None:
            os.unlink(path)
        raise
    block = Block(name, size, fd, path)
    if source and not by_writing:
        copy_bytes(block.address, source, nbytes)
    return block


def open_block(name, nbytes, fd=-1, path=None):
    """The block that another process has told of; fd or path belong to this process now."""
    found = known_blocks.get(name)
    if found is not None:
        if path is not None:
            with contextlib.suppress(OSError):
                os.unlink(path)
        else:
            os.close(fd)
        return found
    if path is not None:
        fd = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
    return Block(name, nbytes, fd, path)


# -- slices ----------------------------------------------------------------------------------------


class Slice(Owner):
    """A piece of a block, for one storage. The block is None for storages without any bytes."""

    __slots__ = ("block", "offset", "kept", "__weakref__")

    def __init__(self, block, offset):
        self.block, self.offset, self.kept = block, offset, None

    @property
    def address(self):
        return self.block.address + self.offset if self.block is not None else 0


folder: str | None = None  # where new blocks get a name; None: they are known by descriptors
_slabs: dict = {}  # by folder: the block that small slices are cut from
_lock = threading.Lock()


def take(nbytes, source=0):
    """A slice of shared memory, with the bytes at an address if there is one.

    It is never used twice: others may still look at it.
    """
    if nbytes == 0:
        return Slice(None, 0)
    if nbytes > SMALL:
        return Slice(new_block(nbytes, folder, source), 0)
    place = _cut(nbytes)
    if source:
        copy_bytes(place.address, source, nbytes)
    return place


def _cut(nbytes):
    with _lock:
        slab = _slabs.get(folder)
        if slab is None or slab.used + nbytes > slab.nbytes:
            slab = _slabs[folder] = new_block(SLAB, folder)
        offset = slab.used
        slab.used = offset + nbytes + ALIGN - 1 & -ALIGN
        return Slice(slab, offset)


def _after_fork():
    """What the child cuts from its parent's blocks, the parent would cut as well."""
    global _lock
    _lock = threading.Lock()
    _slabs.clear()


def at_fork(after_in_child):
    """Have something done in every forked child, where there is such a thing."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=after_in_child)


at_fork(_after_fork)
