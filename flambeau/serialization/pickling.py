"""From objects to a pickle that PyTorch reads, and the storages that go beside it.

The pickle names PyTorch's functions and types, never ours: modules of flambeau are spoken of as
torch. Tensors become a call of a rebuilding function on a storage, and storages become persistent
ids, so that tensors which share memory still share it when they are read.
"""

import io
import pickle
import struct
import sys
import types
import warnings
from collections import OrderedDict

from flambeau import _dtype
from flambeau._device import cpu, device
from flambeau._memory_format import jagged, layout
from flambeau._qscheme import qscheme
from flambeau._tensor import Tensor
from flambeau._tensor.pickling import state_of
from flambeau._typed_storage import TypedStorage, UntypedStorage
from flambeau.serialization import rebuilding as r
from flambeau.serialization.locations import has_packages, location_tag
from flambeau.serialization.options import settings
from flambeau.storage import new_storage, root_of

_AS_DIFFERENT_TYPES = (
    "Cannot save multiple tensors or storages that view the same data as different types"
)
_NAMED = (_dtype.dtype, qscheme, r.StorageKind, types.FunctionType, types.BuiltinFunctionType)


class Storages:
    """The storages met while pickling: each gets a number, and keeps one dtype."""

    def __init__(self, tail=()):
        self.tail = tail  # what the older format says after the size
        self.keys = {}  # id of a storage -> its key
        self.found = []  # the storages in the order of their keys
        self.dtypes = {}  # address -> dtype
        self.copies = {}  # id of a storage on a GPU -> its copy, itself

    def _on_host(self, storage, device):
        """A copy of a GPU's storage; tensors that share the storage share the copy."""
        found = self.copies.get(id(storage))
        if found is None:
            copy = new_storage(storage.nbytes)
            device.runtime.read(copy.pointer, storage.pointer, storage.nbytes)
            found = self.copies[id(storage)] = copy, storage
        return found[0]

    def numbered(self, storage, device=cpu):
        """(key, storage that owns the memory, on the host)."""
        root = root_of(storage)
        if (root.pointer, root.nbytes) != (storage.pointer, storage.nbytes):
            root = storage  # a slice travels alone
        if device is not cpu:
            root = self._on_host(root, device)
        key = self.keys.get(id(root))
        if key is None:
            key = self.keys[id(root)] = str(len(self.found))
            self.found.append(root)
        return key, root

    def persistent_id(self, storage, dtype, device=cpu):
        """What a pickle says of a storage; dtype is None for bytes."""
        key, root = self.numbered(storage, device)
        if root.pointer and self.dtypes.setdefault(root.pointer, dtype) is not dtype:
            raise RuntimeError(_AS_DIFFERENT_TYPES)
        place = str(device)
        if device is cpu and has_packages():
            place = location_tag(UntypedStorage(root))
        place = sys.intern(place)  # one object, which a pickle names once
        if dtype is None:
            return ("storage", r.UNTYPED, key, place, root.nbytes, *self.tail)
        count = root.nbytes // dtype.itemsize
        return ("storage", r.KINDS[dtype], key, place, count, *self.tail)


class _Place:
    """A storage within the reduction of a tensor; the pickler turns it into a persistent id."""

    __slots__ = ("storage", "dtype", "device")

    def __init__(self, storage, dtype, device):
        self.storage, self.dtype, self.device = storage, dtype, device


def _plain(t):
    """Function and arguments that rebuild a tensor's values."""
    lay, requires_grad = t._layout, bool(t._requires_grad)
    size, stride = tuple(lay.shape), lay.strides
    if stride is None:
        return r.rebuild_sparse, _sparse_state(t)
    if not lay.device.runtime.computes:
        return r.rebuild_meta_tensor, (lay.dtype, size, stride, requires_grad)
    if t._offset % lay.itemsize or t._storage.nbytes % lay.itemsize:
        t = t.detach().clone()  # its elements do not lie where a file could say
        stride = t._layout.strides
    offset = t._offset // lay.itemsize
    if lay.dtype in _dtype.QUANTIZED:
        from flambeau.eager.quantized import parts_of  # few programs have such tensors

        place = _Place(t._storage, lay.dtype, lay.device)
        rest = (offset, size, stride, parts_of(t), requires_grad, OrderedDict())
        return r.rebuild_quantized, (place, *rest)
    if lay.dtype in r.KINDS:
        place = _Place(t._storage, lay.dtype, lay.device)
        return r.rebuild_tensor_v2, (place, offset, size, stride, requires_grad, OrderedDict())
    place = _Place(t._storage, None, lay.device)
    rest = (offset, size, stride, requires_grad, OrderedDict(), lay.dtype)
    return r.rebuild_tensor_v3, (place, *rest)


def _sparse_state(t):
    """(layout, parts, size) of a sparse tensor as files have them."""
    parts = tuple(t._storage.held[0])
    if type(parts[-1]) is bool:  # coordinates, values, coalesced
        return t._layout.kind, (*parts[:2], t._layout.shape, parts[2])
    return t._layout.kind, (*parts, t._layout.shape)


def _reduce_tensor(t):
    cls, parameters = type(t), sys.modules.get("flambeau.nn.parameter")
    if cls is Tensor and not t.__dict__:
        return _plain(t)
    if hasattr(cls, "saved_parts"):  # nested tensors
        if t.layout is jagged:
            return r.rebuild_from_type, (r.rebuild_jagged, cls, t.saved_parts(), {})
        return r.rebuild_nested, t.saved_parts()
    if parameters is not None:
        if isinstance(t, parameters.UninitializedTensorMixin):
            usual = t.dtype is _dtype.default_dtype() and t.device.type == "cpu"
            return cls, (t.requires_grad,) if usual else (t.requires_grad, t.device, t.dtype)
        if cls is parameters.Parameter:
            # the detached tensor is kept alive by the pickler, which remembers objects by address
            parts = (t.detach(), bool(t._requires_grad), OrderedDict())
            if t.__dict__:
                return r.rebuild_parameter_with_state, (*parts, dict(t.__dict__))
            return r.rebuild_parameter, parts
    state = state_of(t)
    state = dict(state) if isinstance(state, dict) else state
    return r.rebuild_from_type, (*_of_type(t, cls), state)


def _tell_of_skipping(t):
    if hasattr(type(t), "saved_parts"):
        raise RuntimeError("Cannot serialize nested tensor under skip_data context manager")
    if not t._layout.device.runtime.computes:
        warnings.warn(
            "Serializing tensors on the meta device under skip_data context manager is a no-op",
            UserWarning,
            stacklevel=2,
        )


def _is_method(obj):
    """A method written in C, such as dict.fromkeys; functions of modules have names."""
    if not isinstance(obj, types.BuiltinMethodType):
        return False
    return obj.__self__ is not None and not isinstance(obj.__self__, types.ModuleType)


def _of_type(t, cls):
    function, arguments = _plain(t)
    return function, cls, arguments


class Pickler(pickle._Pickler):
    """Python's pickler with PyTorch's names; the one written in C insists on importing them.

    Plain tensors are written in one go: what the pickler would say of their parts, one by one, is
    known beforehand. (Nothing refers to those parts again, so they are not numbered either.)
    """

    def __init__(self, file, protocol):
        super().__init__(file, protocol=protocol)
        self.storages = Storages()
        # those of others, and protocols with frames, write all parts one by one
        self.at_once = type(self) is Pickler and self.proto < 4

    def save(self, obj, save_persistent_id=True):
        if type(obj) is Tensor and self.at_once and id(obj) not in self.memo:
            function, arguments = _reduce_tensor(obj)
            if function is r.rebuild_tensor_v2 and type(arguments[0]) is _Place:
                return self._save_tensor(obj, *arguments)
        return super().save(obj, save_persistent_id)

    def _save_tensor(self, tensor, place, offset, size, stride, requires_grad, hooks):
        named = self.storages.persistent_id(place.storage, place.dtype, place.device)
        word, kind, key, where, count, *tail = named
        if tail:
            return super().save(tensor)
        truth = pickle.NEWTRUE if requires_grad else pickle.NEWFALSE
        shape = _number(offset) + _numbers(size) + _numbers(stride) + truth
        written = []
        for common, own in (
            (r.rebuild_tensor_v2, b"(("), (word, b""), (kind, _text(key)),
            (where, _number(count) + b"tQ" + shape), (type(hooks), b")RtR"),
        ):  # fmt: skip
            known = self.memo.get(id(common))
            if known is None:  # the first that speaks of it
                self.write(b"".join(written))
                written.clear()
                super().save(common)
            else:
                written.append(self.get(known[0]))
            written.append(own)
        self.write(b"".join(written))
        self.memoize(tensor)

    def persistent_id(self, obj):
        kind = type(obj)
        if kind is _Place:
            return self.storages.persistent_id(obj.storage, obj.dtype, obj.device)
        if kind is UntypedStorage:
            return self.storages.persistent_id(obj._storage, None, obj.device)
        if kind is TypedStorage:
            return self.storages.persistent_id(obj._untyped_storage._storage, obj.dtype, obj.device)
        return None

    def reducer_override(self, obj):
        if isinstance(obj, Tensor):
            if settings.skips_data:
                _tell_of_skipping(obj)
            return _reduce_tensor(obj)
        if _is_method(obj):
            return getattr, (obj.__self__, obj.__name__)
        if isinstance(obj, _NAMED):
            return getattr(obj, "__qualname__", None) or obj.name
        if isinstance(obj, device):
            parts = (obj.type,) if obj.index is None else (obj.type, obj.index)
            return device, parts
        if isinstance(obj, layout):
            return r.get_layout, (repr(obj),)
        return NotImplemented

    def save_global(self, obj, name=None):
        spoken = r.spoken_name(obj, name)
        if spoken is None:
            return super().save_global(obj, name)
        module, name = spoken
        if self.proto >= 4:
            self.save(module)
            self.save(name)
            self.write(pickle.STACK_GLOBAL)
        else:
            self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
        self.memoize(obj)


def _number(n):
    if 0 <= n < 256:
        return _BYTE.pack(b"K", n)
    if n < 1 << 31:
        return _WORD.pack(b"J", n)
    return b"\x8a\x08" + n.to_bytes(8, "little")  # a long of 8 bytes, and of positive sign


def _numbers(items):
    """A tuple of integers."""
    parts, count = b"".join([_number(n) for n in items]), len(items)
    return parts + _TUPLES[count] if count < 4 else b"(" + parts + b"t"


def _text(text):
    encoded = text.encode()
    return _WORD.pack(b"X", len(encoded)) + encoded


_TUPLES = (pickle.EMPTY_TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3)
_BYTE, _WORD = struct.Struct("<cB"), struct.Struct("<cI")


def dumps(obj, protocol, pickle_module, tail=()):
    """(pickle, storages in the order of their keys, the dtype of each address)"""
    file = io.BytesIO()
    pickler = _class_for(pickle_module)(file, protocol)
    pickler.storages = storages = Storages(tail)
    pickler.dump(obj)
    return file.getvalue(), storages.found, storages.dtypes


def _class_for(pickle_module):
    if pickle_module is None or pickle_module is pickle:
        return Pickler
    base = getattr(pickle_module, "Pickler", None)
    if not (isinstance(base, type) and issubclass(base, pickle._Pickler)):
        raise ValueError(
            f"pickle_module {getattr(pickle_module, '__name__', pickle_module)!r} has no Pickler "
            "that is written in Python, so PyTorch's names cannot be given to it"
        )
    return type("Pickler", (Pickler, base), {})
