"""A batch as it travels: a short pickle, and the bytes of tensors and arrays beside it.

The pickle holds containers, texts and objects, and for each tensor its layout and the number of its
place. Bytes go into one block of shared memory (`worker_memory.py`), or into the message itself if
they are few. Tensors that share memory in the worker share it on arrival; of a small view into a
large storage only the part that it covers travels.
"""

import io
import pickle
import threading
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple

from flambeau import _dtype
from flambeau._device import cpu, meta
from flambeau._layout import Size, make_layout, span
from flambeau._tensor import Tensor, make_tensor
from flambeau._tensor.admission import admit
from flambeau._typed_storage import TypedStorage, UntypedStorage, typed
from flambeau.errors import OutOfMemoryError
from flambeau.multiprocessing.reductions import check_may_travel
from flambeau.nn.parameter import is_lazy
from flambeau.runtime.cpu import buffer_at, copy_bytes, owned_buffer
from flambeau.storage import borrowed_storage, new_storage, root_of

from .worker_memory import Arena, Landing, Room, aligned

INLINE = 4096  # bytes up to which data goes with the message
SMALL_BUFFER = 512  # arrays up to this size stay in the pickle


class Parcel(NamedTuple):
    """What is sent for a batch, beside the descriptor of a new block."""

    pickled: bytes
    spots: list  # for each tensor: (part, offset in bytes)
    parts: list  # for each part: (position, size)
    buffers: int  # how many of the last parts belong to arrays
    number: int  # of the block; -1 if there is none
    new_size: int  # of a block that is new; 0 for known ones
    dropped: tuple  # numbers of blocks that are no more
    inline: bytes | bytearray | None


# -- packing ---------------------------------------------------------------------------------------


class _Packer(pickle.Pickler):
    """Pickles a batch and remembers where the bytes of its tensors are."""

    dispatch_table: Any

    def __init__(self, file: io.BytesIO, buffers: list) -> None:
        def out_of_band(buffer):
            view = buffer.raw()
            if view.nbytes <= SMALL_BUFFER:
                return True
            buffers.append(view)
            return False

        super().__init__(file, pickle.HIGHEST_PROTOCOL, buffer_callback=out_of_band)
        self.dispatch_table = ForkingPickler(file).dispatch_table
        self.places: list = []  # (storage, first byte, one past the last)

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            if is_lazy(obj):
                return NotImplemented
            if obj.is_nested or obj._layout.strides is None:  # their parts travel
                return obj.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
            return self._tensor(obj)
        if isinstance(obj, UntypedStorage):
            return _whole_storage, (obj.nbytes(), self._bytes(obj), None)
        if isinstance(obj, TypedStorage):
            return _whole_storage, (obj.nbytes(), self._bytes(obj.untyped()), obj.dtype.name)
        return NotImplemented

    def _bytes(self, storage):
        inner = storage._storage
        layout = make_layout(Size((inner.nbytes,)), (1,), _dtype.uint8, cpu)
        return make_tensor(layout, inner, 0)

    def _tensor(self, t):
        check_may_travel(t)
        layout, kind, number = t._layout, type(t), -1
        if layout.device.runtime.computes:
            number = len(self.places)
            root = root_of(t._storage)
            start = t._offset + t._storage.pointer - root.pointer
            self.places.append((root, start, start + span(layout) * layout.itemsize))
        named = (
            number,
            tuple(layout.shape),
            layout.strides,
            layout.dtype.name,
        )
        if kind is Tensor and not t._requires_grad and not t.__dict__:
            return _land, named
        return _land_special, (
            *named,
            None if kind is Tensor else kind,
            t._requires_grad,
            t.__dict__ or None,
        )


def pack(obj: Any, arena: Arena | None) -> tuple[Parcel, int]:
    """(a parcel, the descriptor of a block that the parent does not know yet, or -1)"""
    file, views = io.BytesIO(), []  # type: ignore[var-annotated]
    packer = _Packer(file, views)
    try:
        packer.dump(obj)
    except Exception as error:
        error.add_note("raised while a batch was pickled, as all that leaves a worker must be")
        raise
    spots, sources = _gathered(packer.places)
    parts, total = [], 0
    for source in (*sources, *views):
        nbytes = source[1] if type(source) is tuple else source.nbytes
        parts.append((total, nbytes))
        total += aligned(nbytes)
    described = file.getvalue(), spots, parts, len(views)
    room = _room(arena, total)
    if room is None:
        inline = bytearray(total)
        _fill(memoryview(inline), parts, sources, views)
        return Parcel(*described, -1, 0, (), inline), -1
    _fill(room.mapping, parts, sources, views)
    new_size = room.mapping.nbytes if room.descriptor >= 0 else 0
    return Parcel(*described, room.number, new_size, room.dropped, None), room.descriptor


def _room(arena: Arena | None, total: int) -> Room | None:
    if arena is None or total <= INLINE:
        return None
    try:
        return arena.take(total)
    except OutOfMemoryError:
        return None  # there may be memory of the ordinary kind


def _gathered(places):
    """(for each place its part and offset, the parts as (address, size)): overlaps are joined."""
    spots, sources, whole = [], [], {}
    if len({id(storage) for storage, _, _ in places}) == len(places):
        for storage, start, stop in places:
            spots.append((len(sources), 0))
            sources.append((storage.pointer + start, stop - start))
        return spots, sources
    order = sorted(range(len(places)), key=lambda k: (id(places[k][0]), places[k][1]))
    spots = [(0, 0)] * len(places)
    for k in order:
        storage, start, stop = places[k]
        known = whole.get(id(storage))
        if known is None or start > known[2]:
            known = whole[id(storage)] = [len(sources), start, stop]
            sources.append(None)
        known[2] = max(known[2], stop)
        sources[known[0]] = (storage.pointer + known[1], known[2] - known[1])
        spots[k] = known[0], start - known[1]
    return spots, sources


def _fill(target, parts, sources, views):
    """Write all parts, to a mapping or a buffer."""
    for (position, nbytes), source in zip(parts, (*sources, *views)):
        if not nbytes:
            continue
        if isinstance(target, memoryview):
            data = buffer_at(*source) if type(source) is tuple else source
            target[position : position + nbytes] = data
        elif type(source) is tuple:
            copy_bytes(target.address + position, source[0], nbytes)
        else:
            buffer_at(target.address + position, nbytes)[:] = source


# -- unpacking -------------------------------------------------------------------------------------


class _Arriving(threading.local):
    """The parcel that this thread is unpacking."""

    load: Any = None


_arriving = _Arriving()


class _Load:
    """The memory of a parcel: storages over a leased block, or copies of their own."""

    __slots__ = ("spots", "parts", "storages", "lease", "source", "base")

    def __init__(self, parcel, lease, base, source):
        self.spots, self.parts = parcel.spots, parcel.parts
        self.storages = [None] * len(parcel.parts)
        self.lease, self.base, self.source = lease, base, source

    def storage(self, part):
        found = self.storages[part]
        if found is None:
            position, nbytes = self.parts[part]
            if self.lease is not None:
                found = borrowed_storage(self.base + position, nbytes, self.lease)
            else:
                found = new_storage(nbytes)
                if nbytes and self.source is not None:
                    data = self.source[position : position + nbytes]
                    buffer_at(found.pointer, nbytes)[:] = data
                elif nbytes:
                    copy_bytes(found.pointer, self.base + position, nbytes)
            self.storages[part] = found
        return found

    def buffer(self, part):
        position, nbytes = self.parts[part]
        if self.lease is not None:
            return owned_buffer(self.base + position, nbytes, self.lease)
        if self.source is not None:
            return bytearray(self.source[position : position + nbytes])
        return bytearray(buffer_at(self.base + position, nbytes))


def unpack(parcel: Parcel, landing: Landing) -> Any:
    """The batch of a parcel whose block has landed."""
    lease, base, source = None, 0, None
    if parcel.number >= 0:
        lease = landing.lease(parcel.number)
        base = lease.mapping.address
        held = lease  # until everything is copied
        if landing.is_crowded():
            lease = None
    else:
        held, source = None, memoryview(parcel.inline or b"")
    load = _Load(parcel, lease, base, source)
    first = len(parcel.parts) - parcel.buffers
    buffers = [load.buffer(k) for k in range(first, len(parcel.parts))] if parcel.buffers else None
    before, _arriving.load = _arriving.load, load
    try:
        return pickle.loads(parcel.pickled, buffers=buffers)
    finally:
        _arriving.load = before
        del held


def _land(number, shape, strides, dtype):
    if number < 0:
        return make_tensor(
            make_layout(Size(shape), strides, _dtype.BY_NAME[dtype], meta), new_storage(0), 0
        )
    load = _arriving.load
    part, offset = load.spots[number]
    layout = make_layout(Size(shape), strides, _dtype.BY_NAME[dtype], cpu)
    return admit(layout, load.storage(part), offset)


def _land_special(number, shape, strides, dtype, kind, requires_grad, attributes):
    out = _land(number, shape, strides, dtype)
    if kind is not None:
        out = make_tensor(out._layout, out._storage, out._offset, kind)
    out._requires_grad = requires_grad
    if attributes:
        out.__dict__.update(attributes)
    return out


def _whole_storage(nbytes, data, dtype):
    if dtype is None:
        return UntypedStorage(data._storage)
    return typed(data._storage, _dtype.BY_NAME[dtype])
