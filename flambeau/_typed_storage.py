"""Storages as users see them: `tensor.untyped_storage()` and the older typed `tensor.storage()`."""

import mmap
import os

from flambeau import _dtype
from flambeau._device import cpu, resolve
from flambeau._layout import Size, make_layout
from flambeau._tensor import make_tensor
from flambeau.errors import LARGEST
from flambeau.runtime.cpu import address_of, buffer_at
from flambeau.storage import (
    Storage,
    borrowed_storage,
    grow_storage,
    new_storage,
    root_of,
    share,
)


def _sharing():
    """Most programs share nothing, so this loads on first need."""
    from flambeau.runtime import shared_storage

    return shared_storage


def _long(value):
    """Integers of PyTorch have 64 bits."""
    if isinstance(value, int) and not -LARGEST - 1 <= value <= LARGEST:
        raise ValueError("Overflow when unpacking long long")
    return value


def _count(nbytes):
    if _long(nbytes) < 0:
        raise RuntimeError(
            "alloc_cpu() seems to have been called with negative number: "
            f"{int(nbytes) & (1 << 64) - 1}"
        )
    return int(nbytes)


def _bytes_of(numbers):
    for x in numbers:
        if not isinstance(x, int):
            raise RuntimeError(
                "torch.UntypedStorage(): tried to construct a storage from a sequence "
                f"({type(numbers).__name__}), but one of the items was of type {type(x).__name__} "
                "instead of int"
            )
    return bytes(x & 255 for x in numbers)


class _Mapping(mmap.mmap):
    """A file as memory, and its name if the two stay the same."""

    filename = None


class UntypedStorage:
    """A block of bytes."""

    def __init__(self, storage=0, *, device=None):
        self.device = resolve(device or cpu)
        values = None
        if isinstance(storage, (list, tuple)):
            values = _bytes_of(storage)
            storage = len(values)
        if isinstance(storage, (float, complex, str)):
            kind = type(storage).__name__
            raise RuntimeError(f"torch.UntypedStorage(): Expected a sequence type, but got {kind}")
        if not isinstance(storage, Storage):
            storage = new_storage(_count(storage), self.device)
        self._storage = storage
        if values:
            self._view()[:] = values

    def data_ptr(self):
        return self._storage.pointer

    def nbytes(self):
        return self._storage.nbytes

    size = __len__ = nbytes

    def __sizeof__(self):
        return object.__sizeof__(self) + self.nbytes()

    def untyped(self):
        return self

    def _view(self):
        return buffer_at(self._storage.pointer, self._storage.nbytes)

    def __getitem__(self, index):
        if not isinstance(index, slice):
            return self._view()[_long(index)]
        start, stop = self._range(index)
        share(self._storage)
        part = borrowed_storage(self._storage.pointer + start, max(stop - start, 0), self._storage)
        return UntypedStorage(part, device=self.device)

    def _range(self, part):
        start, stop, step = part.indices(self._storage.nbytes)
        if step != 1:
            raise RuntimeError(
                f"Trying to slice with a step of {step}, but only a step of 1 is supported"
            )
        return start, stop

    def __setitem__(self, index, value):
        if isinstance(value, int):
            value &= 255
            if isinstance(index, slice):
                start, stop = self._range(index)
                value = bytes((value,)) * max(stop - start, 0)
            elif not 0 <= index < self._storage.nbytes:
                raise RuntimeError("out of bounds")
        share(self._storage)
        self._view()[index] = value

    def fill_(self, value):
        """Every byte becomes value, a number of any size."""
        if not isinstance(value, int):
            raise RuntimeError(f"fill_ expects int, but got {type(value).__name__}")
        self[:] = value
        return self

    def copy_(self, source, non_blocking=None):
        """Take over the bytes of a storage of the same size."""
        if source.nbytes() != self.nbytes():
            raise RuntimeError(
                f"size does not match, self was {self.nbytes()} bytes but src was "
                f"{source.nbytes()} bytes"
            )
        if self.nbytes():
            share(self._storage)
            self._view()[:] = source.untyped()._view()
        return self

    def clone(self):
        return UntypedStorage(self.nbytes(), device=self.device).copy_(self)

    def new(self):
        return UntypedStorage(0, device=self.device)

    def cpu(self):
        return self

    def element_size(self):
        return 1

    def type(self, dtype=None, non_blocking=False):
        return "torch.storage.UntypedStorage"

    @classmethod
    def from_file(cls, filename, shared=False, nbytes=0):
        """The bytes of a file; with `shared`, what is written here is written to the file."""
        name, how = os.fspath(filename), "read-write" if shared else "read-only"
        try:
            descriptor = os.open(name, os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY, 0o600)
        except OSError as error:
            raise RuntimeError(
                f"unable to open file <{name}> in {how} mode: {error.strerror} ({error.errno})"
            ) from None
        try:
            size = os.fstat(descriptor).st_size
            if size < nbytes and not shared:
                raise RuntimeError(
                    f"file <{name}> size <{size}> is smaller than the required mapping size "
                    f"<{nbytes}>"
                )
            if size < nbytes:
                os.ftruncate(descriptor, nbytes)
            if not nbytes:
                return cls(0)
            access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
            mapping = _Mapping(descriptor, nbytes, access=access)
        finally:
            os.close(descriptor)
        mapping.filename = name if shared else None
        return cls(borrowed_storage(address_of(mapping), nbytes, mapping))

    @property
    def filename(self):
        """The file that is written with this memory, or None."""
        owner = getattr(root_of(self._storage), "owner", None)
        return owner.filename if isinstance(owner, _Mapping) else None

    def tolist(self):
        return self._view().tolist() if self._storage.nbytes else []

    def __eq__(self, other):
        return isinstance(other, UntypedStorage) and other._storage is self._storage

    def __hash__(self):
        return id(self._storage)

    def resize_(self, nbytes):
        if _count(nbytes) > self._storage.nbytes:
            grow_storage(self._storage, nbytes, self.device)
        else:
            self._storage.nbytes = nbytes
        return self

    def is_shared(self):
        """Does the memory belong to several processes?"""
        return _sharing().is_shared(self._storage)

    def share_memory_(self):
        """Move to memory that other processes see when they are sent the storage."""
        _sharing().share(self._storage)
        return self

    @classmethod
    def _new_shared(cls, size, *, device="cpu"):
        return cls(_sharing().new_shared(int(size)))

    def __repr__(self):
        lines = "\n ".join(map(str, self.tolist()))
        kind = f"torch.storage.UntypedStorage(device={self.device})"
        return f" {lines}\n[{kind} of size {self.nbytes()}]"


class TypedStorage:
    """A block of elements of one dtype."""

    def __init__(self, storage, dtype=_dtype.float32, device=None):
        self._untyped_storage, self.dtype = UntypedStorage(storage, device=device), dtype

    @property
    def device(self):
        return self._untyped_storage.device

    def untyped(self):
        return self._untyped_storage

    def data_ptr(self):
        return self._untyped_storage.data_ptr()

    def nbytes(self):
        return self._untyped_storage.nbytes()

    def size(self):
        return self.nbytes() // self.dtype.itemsize

    __len__ = size

    def _tensor(self):
        return make_tensor(
            make_layout(Size((self.size(),)), (1,), self.dtype, self.device),
            self._untyped_storage._storage,
            0,
        )

    def is_shared(self):
        return self._untyped_storage.is_shared()

    def share_memory_(self):
        self._untyped_storage.share_memory_()
        return self

    def _new_shared(self, size, *, device=None):
        return TypedStorage(_sharing().new_shared(int(size) * self.dtype.itemsize), self.dtype)

    def tolist(self):
        return self._tensor().tolist()

    def __getitem__(self, index):
        value = self._tensor()[index]
        return value.item() if value.ndim == 0 else value.storage()

    def __setitem__(self, index, value):
        self._tensor()[index] = value

    def __iter__(self):
        return iter(self.tolist())

    def __repr__(self):
        lines = "\n ".join(map(str, self.tolist()))
        kind = f"torch.storage.TypedStorage(dtype={self.dtype}, device={self.device})"
        return f" {lines}\n[{kind} of size {self.size()}]"
