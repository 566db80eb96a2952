"""Storages as users see them: `tensor.untyped_storage()` and the older typed `tensor.storage()`."""

from flambeau import _dtype
from flambeau._device import cpu
from flambeau._layout import Size, make_layout
from flambeau._tensor import make_tensor
from flambeau.runtime.cpu import buffer_at
from flambeau.storage import Storage, grow_storage, new_storage


class UntypedStorage:
    """A block of bytes."""

    def __init__(self, storage=0, *, device=None):
        self._storage = storage if isinstance(storage, Storage) else new_storage(int(storage))

    def data_ptr(self):
        return self._storage.pointer

    def nbytes(self):
        return self._storage.nbytes

    size = __len__ = nbytes

    def _view(self):
        return buffer_at(self._storage.pointer, self._storage.nbytes)

    def __getitem__(self, index):
        return self._view()[index]

    def __setitem__(self, index, value):
        self._view()[index] = value

    def tolist(self):
        return self._view().tolist() if self._storage.nbytes else []

    def __eq__(self, other):
        return isinstance(other, UntypedStorage) and other._storage is self._storage

    def __hash__(self):
        return id(self._storage)

    @property
    def device(self):
        return cpu

    def resize_(self, nbytes):
        if nbytes > self._storage.nbytes:
            grow_storage(self._storage, nbytes)
        else:
            self._storage.nbytes = nbytes
        return self

    def __repr__(self):
        lines = "\n ".join(map(str, self.tolist()))
        return f" {lines}\n[torch.storage.UntypedStorage(device=cpu) of size {self.nbytes()}]"


class TypedStorage:
    """A block of elements of one dtype."""

    def __init__(self, storage, dtype=_dtype.float32):
        self._untyped_storage, self.dtype = UntypedStorage(storage), dtype

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
            make_layout(Size((self.size(),)), (1,), self.dtype, cpu),
            self._untyped_storage._storage,
            0,
        )

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
        kind = f"torch.storage.TypedStorage(dtype={self.dtype}, device=cpu)"
        return f" {lines}\n[{kind} of size {self.size()}]"
