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

PAGE = mmap.PAGESIZE
SMALL = 1 << 15  # storages up to this size share a block, so that large models need few descriptors
SLAB = 1 << 18
ALIGN = 64


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
    fd = -1
    if hasattr(os, "memfd_create"):
        with contextlib.suppress(OSError):  # some sandboxes do not know it
            fd = os.memfd_create("flambeau", os.MFD_CLOEXEC)
    if fd < 0:
        fd, path = tempfile.mkstemp(prefix="flambeau-")
        with contextlib.suppress(OSError):  # Windows keeps files that are open
            os.unlink(path)
    return _sized(fd, nbytes)


def _sized(fd, nbytes):
    try:
        if nbytes and hasattr(os, "posix_fallocate"):
            # memory that is not there is an error here, and would be a crash when it is written
            try:
                os.posix_fallocate(fd, 0, nbytes)
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS):
                    raise
                os.ftruncate(fd, nbytes)
        else:
            os.ftruncate(fd, nbytes)
    except OSError as error:
        os.close(fd)
        raise _no_memory(nbytes, error) from None
    return fd


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


def new_block(nbytes, folder=None):
    """A fresh block; with a folder it gets a name in there."""
    nbytes = max(nbytes + PAGE - 1 & -PAGE, PAGE)
    name = secrets.token_hex(8)
    if folder is None:
        return Block(name, nbytes, open_anonymous(nbytes))
    path = os.path.join(folder, name)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    return Block(name, nbytes, _sized(os.open(path, flags, 0o600), nbytes), path)


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


def take(nbytes):
    """A slice of shared memory. It is never used twice: others may still look at it."""
    if nbytes == 0:
        return Slice(None, 0)
    if nbytes > SMALL:
        return Slice(new_block(nbytes, folder), 0)
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
