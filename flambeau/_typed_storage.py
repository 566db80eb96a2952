"""Storages as users see them: `tensor.untyped_storage()` and the older typed `tensor.storage()`."""

import mmap
import os
import sys

from flambeau import _dtype
from flambeau._device import cpu, resolve
from flambeau._layout import Size, make_layout
from flambeau._tensor import Tensor, make_tensor
from flambeau._tensor.nested import from_data
from flambeau.errors import LARGEST
from flambeau.runtime.cpu import address_of, place_of
from flambeau.storage import (
    Kept,
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


_CASTS = {  # methods that convert, and the dtypes they give
    **{name: name for name in "bool bfloat16 half float double short int long".split()},
    "byte": "uint8",
    "char": "int8",
    "complex_float": "complex64",
    "complex_double": "complex128",
    **{name: name for name in _dtype.FLOAT8 if name != "float8_e8m0fnu"},
}


class _StorageBase:
    """What both kinds of storages are asked alike."""

    is_sparse = is_sparse_csr = is_hpu = False

    def __len__(self):
        return self.size()

    def __repr__(self):
        name = type(self).__name__
        kind = f"dtype={self.dtype}, " if name == "TypedStorage" else ""
        hidden = self.device.type == "meta"
        lines = "..." if hidden else " " + "\n ".join(map(str, self.tolist()))
        told = f"torch.storage.{name}({kind}device={self.device})"
        return f"{lines}\n[{told} of size {self.size()}]"

    def __iter__(self):
        return iter(self.tolist())

    def __sizeof__(self):
        return object.__sizeof__(self) + self.nbytes()

    def __copy__(self):
        return self.clone()

    def __reduce__(self):
        """With its bytes; `torch.save` has a better way."""
        block, data = self.untyped(), bytearray()
        if block.device.runtime.computes and block.nbytes():
            data = bytearray(block.nbytes())
            block.device.runtime.read(address_of(data), block.data_ptr(), len(data))
        dtype = self.dtype if isinstance(self, TypedStorage) else None
        return _restored, (block.nbytes(), bytes(data), dtype, str(block.device))

    def __deepcopy__(self, memo):
        key = "storage", id(self._storage)  # as copies of tensors look it up
        found = memo.get(key)
        if found is None:
            found = memo[key] = self.untyped().clone()._storage
        return self._of(UntypedStorage(found, device=self.device))

    @property
    def is_cuda(self):
        return self.device.type == "cuda"

    def get_device(self):
        """The number of the GPU; None on the CPU."""
        return self.device.index if self.is_cuda else None

    def clone(self):
        """A copy."""
        source = self.untyped()
        return self._of(UntypedStorage(source.nbytes(), device=self.device).copy_(source))

    def to(self, *, device, non_blocking=False):
        """The storage on a device: itself, if it is there."""
        place = resolve(device)
        if place == self.device:
            return self
        if self.device.type == "meta":
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        source = self.untyped()
        found = UntypedStorage(source.nbytes(), device=place)
        return self._of(found.copy_(source, non_blocking))

    def cpu(self):
        """The storage in the memory of the host."""
        return self.to(device="cpu")

    def cuda(self, device=None, non_blocking=False):
        """The storage on a GPU."""
        return self.to(device="cuda" if device is None else device, non_blocking=non_blocking)

    def is_pinned(self, device="cuda"):
        """Is this memory of the host that a GPU copies from without help?"""
        return self.untyped()._bytes().is_pinned()

    def pin_memory(self, device="cuda"):
        """The storage in memory of the host that a GPU copies from without help."""
        if self.device is not cpu:
            raise TypeError(
                "cannot pin 'torch.storage.UntypedStorage' only CPU memory can be pinned"
            )
        pinned = self.untyped()._bytes().pin_memory()
        return self._of(UntypedStorage(pinned._storage))

    @property
    def filename(self):
        """The file that is written with this memory, or None."""
        owner = getattr(root_of(self._storage), "owner", None)
        return owner.filename if isinstance(owner, _Mapping) else None

    def is_shared(self):
        """Does the memory belong to several processes?"""
        return self.is_cuda or _sharing().is_shared(self._storage)

    def share_memory_(self):
        """Move to memory that other processes see when they are sent the storage."""
        if self.device.type not in ("cpu", "cuda"):
            raise RuntimeError("_share_fd_: only available on CPU")
        if self.device is cpu:
            _sharing().share(self._storage)
        return self

    @property
    def _cdata(self):
        return id(self._storage)


def _cast(name, dtype):
    def convert(self):
        return self._converted(dtype)

    convert.__name__ = name
    convert.__doc__ = f"The elements as {dtype}, in a storage of that type."
    return convert


for _name, _kind in _CASTS.items():
    setattr(_StorageBase, _name, _cast(_name, _dtype.ALIASES.get(_kind) or _dtype.named(_kind)))


class StorageBase:
    """What storages of bytes are instances of; typed ones are not."""

    def __init__(self, *args, **kwargs):
        raise RuntimeError(
            "Cannot directly construct StorageBase; subclass it and then construct that"
        )


class UntypedStorage(_StorageBase, StorageBase):
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
        if values and storage.pointer:
            self.device.runtime.write(storage.pointer, place_of(values), len(values))

    def _of(self, untyped):
        return untyped

    def data_ptr(self):
        return self._storage.pointer

    def nbytes(self):
        return self._storage.nbytes

    size = __len__ = nbytes

    def untyped(self):
        return self

    def _bytes(self):
        """The bytes as a tensor. Writes to it are not counted by tensors that lie here."""
        layout = make_layout(Size((self.nbytes(),)), (1,), _dtype.named("uint8"), self.device)
        share(self._storage)
        looking = borrowed_storage(self._storage.pointer, self.nbytes(), self._storage)
        return make_tensor(layout, looking, 0)

    def _readable(self):
        if self.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type")
        return self._bytes()

    def __getitem__(self, index):
        if not isinstance(index, slice):
            size = self.nbytes()
            place = _long(index)
            if self.device.type != "meta" and not -size <= place < size:
                raise IndexError(f"index {place} out of range for storage of size {size}")
            return self._readable()[place].item()
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
        if not isinstance(value, int):
            kind = "torch.storage.UntypedStorage"
            raise RuntimeError(
                f"can only set storage content with a int types, but got "
                f"{kind if isinstance(value, UntypedStorage) else type(value).__name__} instead"
            )
        if isinstance(index, slice):
            start, stop = self._range(index)
            self._bytes()[start : max(start, stop)] = value & 255
        elif not 0 <= index < self.nbytes():
            raise RuntimeError("out of bounds")
        else:
            self._bytes()[index] = value & 255

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
        if self.nbytes() and self.device.type != "meta":
            self._bytes().copy_(source.untyped()._bytes(), non_blocking=bool(non_blocking))
        return self

    def new(self):
        return UntypedStorage(0, device=self.device)

    def element_size(self):
        return 1

    def type(self, dtype=None, non_blocking=False):
        """The name of the class; with a dtype, the elements of that type."""
        if dtype is None:
            return "torch.storage.UntypedStorage"
        return self._converted(dtype)

    def _converted(self, dtype):
        return _typed_of(self._bytes().to(dtype))

    def byteswap(self, dtype):
        """Turn the bytes of each element around."""
        size = dtype.itemsize // (1 + dtype.is_complex)
        whole = self._bytes()[: self.nbytes() // size * size].view(-1, size)
        whole.copy_(whole.flip(1))

    def resizable(self):
        """Can the memory grow? Not when somebody outside of PyTorch looks at it."""
        owner = getattr(self._storage, "owner", None)
        return owner is None or isinstance(owner, (Kept, Storage))

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
                return UntypedStorage(0)
            access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
            mapping = _Mapping(descriptor, nbytes, access=access)
        finally:
            os.close(descriptor)
        mapping.filename = name if shared else None
        return UntypedStorage(borrowed_storage(address_of(mapping), nbytes, mapping))

    def tolist(self):
        return self._readable().tolist()

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

    @classmethod
    def _new_shared(cls, size, *, device="cpu"):
        return UntypedStorage(_sharing().new_shared(int(size)))


_WAYS = "TypedStorage.__init__ received an invalid combination of arguments. Expected one of:\n" + (
    " * (*, torch.device device, torch.dtype dtype)\n"
    " * (int size, *, torch.device device, torch.dtype dtype)\n"
    " * (Sequence data, *, torch.device device, torch.dtype dtype)\n"
    " * (*, UntypedStorage wrap_storage, torch.dtype dtype)\n"
)


NAMES = {  # of the classes that are made for a dtype
    _dtype.named(name): f"{_dtype.named(name).scalar_name}Storage"
    for name in (
        "float64 float32 float16 int64 int32 int16 int8 uint8 bool bfloat16 complex128 complex64 "
        "qint8 qint32 quint8 quint4x2 quint2x4"
    ).split()
}


def _restored(nbytes, data, dtype, device):
    storage = UntypedStorage(nbytes, device=device)
    if data:
        storage.device.runtime.write(storage.data_ptr(), place_of(data), nbytes)
    return storage if dtype is None else TypedStorage(wrap_storage=storage, dtype=dtype)


def typed(storage, dtype, device=cpu):
    """A block as elements of a dtype."""
    untyped = UntypedStorage(storage, device=device)
    return TypedStorage(wrap_storage=untyped, dtype=dtype)


def _typed_of(t):
    return typed(t._storage, t.dtype, t._layout.device)


class TypedStorage(_StorageBase):
    """A block of elements of one dtype."""

    def __init__(self, *args, device=None, dtype=None, wrap_storage=None, _internal=False):
        if wrap_storage is not None:
            if args:
                raise RuntimeError(
                    f"{_WAYS}\nNo positional arguments should be given when using 'wrap_storage'"
                )
            if dtype is None:
                raise RuntimeError(f"{_WAYS}\nArgument 'dtype' must be specified")
            if not isinstance(dtype, _dtype.dtype):
                raise TypeError(f"{_WAYS}\nArgument 'dtype' must be torch.dtype, not {type(dtype)}")
            if device is not None:
                raise RuntimeError(
                    f"{_WAYS}\nArgument 'device' should not be specified when 'wrap_storage' is "
                    "given"
                )
            if not isinstance(wrap_storage, UntypedStorage):
                raise TypeError(
                    f"{_WAYS}\nArgument 'wrap_storage' must be UntypedStorage, but got "
                    f"{type(wrap_storage)}"
                )
            self._untyped_storage, self._dtype = wrap_storage, dtype
            return
        self._dtype = _dtype.default_dtype() if dtype is None else dtype
        try:
            place = resolve(device or cpu)
        except RuntimeError:
            place = None
        if place is None or place.type not in ("cpu", "cuda", "meta"):
            raise RuntimeError(f"{_WAYS}\nStorage device not recognized: {device}")
        if place.type == "cuda" and self._dtype in _dtype.QUANTIZED:
            raise RuntimeError("Cannot create CUDA storage with quantized dtype")
        if len(args) > 1:
            raise RuntimeError(f"{_WAYS}\nToo many positional arguments")
        first = args[0] if args else 0
        if hasattr(first, "__index__") and not isinstance(first, Tensor):
            size = int(first) * self._dtype.itemsize
            self._untyped_storage = UntypedStorage(size, device=place)
        elif isinstance(first, (list, tuple)):
            self._untyped_storage = UntypedStorage(len(first) * self._dtype.itemsize, device=place)
            if place.type != "meta" and first:
                self._tensor().copy_(from_data(list(first), self._tensor().dtype, cpu))
        else:
            raise TypeError(f"{_WAYS}\nArgument type not recognized: {type(first)}")

    def _of(self, untyped):
        return TypedStorage(wrap_storage=untyped, dtype=self._dtype)

    @property
    def dtype(self):
        return self._dtype

    @property
    def device(self):
        return self._untyped_storage.device

    @property
    def _storage(self):
        return self._untyped_storage._storage

    def untyped(self):
        return self._untyped_storage

    def data_ptr(self):
        return self._untyped_storage.data_ptr()

    def nbytes(self):
        return self._untyped_storage.nbytes()

    def element_size(self):
        return self._dtype.itemsize

    def size(self):
        return self.nbytes() // self._dtype.itemsize

    def _tensor(self):
        """The elements as a tensor, quantized ones as the integers they are."""
        dtype = _dtype.QUANTIZED.get(self._dtype, self._dtype)
        layout = make_layout(Size((self.size(),)), (1,), dtype, self.device)
        return make_tensor(layout, self._storage, 0)

    def new(self):
        return TypedStorage(dtype=self._dtype, device=self.device)

    def _new_shared(self, size, *, device=None):
        shared = _sharing().new_shared(int(size) * self._dtype.itemsize)
        return self._of(UntypedStorage(shared))

    def _readable(self):
        if self.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type")
        return self._tensor()

    def tolist(self):
        return self._readable().tolist()

    def __getitem__(self, index):
        elements = self._readable()
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not isinstance(index, int):
            raise RuntimeError(f"can't index a TypedStorage with {type(index)}")
        size = self.size()
        if not -size <= index < size:
            raise IndexError(f"index {index} out of range for storage of size {size}")
        return elements[index].item()

    def __setitem__(self, index, value):
        if not isinstance(index, (int, slice)):
            raise RuntimeError(f"can't index a TypedStorage with {type(index)}")
        if isinstance(value, _StorageBase):
            raise RuntimeError(f"cannot set item with value type {type(value)}")
        self._tensor()[index] = value

    def fill_(self, value):
        """Every element becomes value."""
        self[:] = value
        return self

    def copy_(self, source, non_blocking=None):
        """Take over the bytes of a storage of the same size."""
        self._untyped_storage.copy_(source.untyped(), non_blocking)
        return self

    def resizable(self):
        """Can the memory grow?"""
        return self._untyped_storage.resizable()

    def resize_(self, size):
        """Have room for so many elements."""
        self._untyped_storage.resize_(_long(size) * self._dtype.itemsize)

    def type(self, dtype=None, non_blocking=False):
        """The name of the class; with a dtype, the elements as that type."""
        if dtype is not None:
            return self._converted(getattr(dtype, "dtype", dtype))
        name = self.pickle_storage_type()
        return f"torch.cuda.{name}" if self.is_cuda else f"torch.{name}"

    def _converted(self, dtype):
        return _typed_of(self._tensor().to(dtype, copy=True))

    def pickle_storage_type(self):
        """The name of the class that is made for this dtype."""
        if self._dtype not in NAMES:
            raise KeyError(f"dtype {self._dtype} is not recognized")
        return NAMES[self._dtype]

    @classmethod
    def from_file(cls, filename, shared=False, size=0):
        """The elements of a file; with `shared`, what is written here is written to the file."""
        if cls is TypedStorage:
            raise RuntimeError("from_file can only be called on derived classes")
        untyped = UntypedStorage.from_file(filename, shared, size * cls.dtype.itemsize)
        return TypedStorage(wrap_storage=untyped, dtype=cls.dtype)

    @classmethod
    def from_buffer(cls, buffer, byte_order=sys.byteorder, count=-1, offset=0):
        """A copy of the elements of an object with the buffer protocol."""
        if byte_order == "native":
            byte_order = sys.byteorder
        if byte_order not in ("little", "big"):
            raise ValueError(
                f"invalid byte_order '{byte_order}' (expected 'big', 'little', or 'native')"
            )
        size = cls.dtype.itemsize
        found = bytes(memoryview(buffer).cast("B"))
        if offset < 0 or offset > len(found):
            raise ValueError(
                f"offset must be non-negative and no greater than buffer length ({len(found)}), "
                f"but got {offset}"
            )
        if count < 0:
            if (len(found) - offset) % size:
                raise ValueError(
                    f"buffer size ({len(found)}) must be a multiple of element size ({size})"
                )
            count = (len(found) - offset) // size
        if offset + count * size > len(found):
            raise ValueError(
                f"buffer has only {len(found) - offset} elements after offset {offset}, but "
                f"specified a size of {count}"
            )
        untyped = UntypedStorage(list(found[offset : offset + count * size]))
        if byte_order != sys.byteorder:
            untyped.byteswap(cls.dtype)
        return TypedStorage(wrap_storage=untyped, dtype=cls.dtype)

    # the same under the names that PyTorch's own files use
    _size, _nbytes, _data_ptr, _resize_ = size, nbytes, data_ptr, resize_
    _element_size, _setitem, _deepcopy = element_size, __setitem__, _StorageBase.__deepcopy__
    _is_shared, _share_memory_ = _StorageBase.is_shared, _StorageBase.share_memory_
    _pickle_storage_type = pickle_storage_type
