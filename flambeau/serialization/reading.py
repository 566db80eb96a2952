"""Reading an archive: its pickle, and storages when the pickle asks for them."""

import importlib
import io
import mmap as memory_maps
import pickle
import sys
import warnings
from array import array

from flambeau._typed_storage import UntypedStorage, typed
from flambeau.runtime.cpu import address_of, buffer_at
from flambeau.serialization import locations
from flambeau.serialization.archive import ArchiveReader, corrupt
from flambeau.serialization.options import (
    MAP_SHARED,
    LoadEndianness,
    get_default_load_endianness,
    get_default_mmap_options,
    settings,
)
from flambeau.serialization.rebuilding import MetaStorage, StorageKind, wrong
from flambeau.serialization.restricted import Machine
from flambeau.serialization.safe_names import get_safe_globals
from flambeau.serialization.unrestricted import unpickle
from flambeau.storage import borrowed_storage, new_storage


class StorageReader:
    """Answers persistent ids with storages; each record is read once.

    Where nothing can look at values before the whole pickle is read, the bytes are read after it,
    all at once (`at_once` is false, and `fill` follows).
    """

    def __init__(self, archive, map_location, mapping=None, at_once=True, folder="data"):
        self.archive, self.map_location, self.mapping = archive, map_location, mapping
        self.folder = folder  # programs keep their constants in another one
        self.known = {}
        self.at_once = at_once
        self.waiting = []  # (name, storage, dtype)
        order = archive.read("byteorder") if "byteorder" in archive.records else b""
        if order not in (b"", b"little", b"big"):
            raise corrupt("reading file byteorder: unknown byte order")
        self.foreign = (order.decode() or _assumed_order()) != sys.byteorder

    def __call__(self, identity):
        kind, key, location, numel = parts_of(identity)
        itemsize = kind.dtype.itemsize if kind.dtype is not None else 1
        known = self.known.get(key)
        if known is None:
            known = self.known[key] = self._find(key, location, numel * itemsize, kind.dtype)
        (found, where), size = known
        if size != numel * itemsize:
            raise wrong(f"storage {key!r:.40} has two sizes")
        if found is None:
            return MetaStorage(size, kind.dtype)
        if kind.dtype is None:
            storage = UntypedStorage(found, device=where)
        else:
            storage = typed(found, kind.dtype, where)
        storage.fill = self.fill
        return storage

    def _find(self, key, location, nbytes, dtype):
        """((storage or None for the meta device, its device), size)"""
        size = self.archive.size_of(f"{self.folder}/{key}")
        if size != nbytes:
            raise RuntimeError(
                f"record size ({size} bytes) does not match expected size ({nbytes} bytes) for "
                f"storage {key}; the file is corrupted"
            )
        place = locations.place_of(location, self.map_location)
        if place == "meta":
            return (None, None), size
        storage = self._mapped(key, size) or self._read(key, size, dtype)
        if place is None:
            self.fill()
            return locations.ask(self.map_location, storage, location), size
        if place != "cpu":
            self.fill()
        return locations.moved(storage, place), size

    def _mapped(self, key, size):
        if self.mapping is None or not size or self.foreign:
            return None
        start = self.archive.start_of(f"{self.folder}/{key}")
        if start is None:
            return None
        return borrowed_storage(address_of(self.mapping) + start, size, self.mapping)

    def _read(self, key, size, dtype):
        self.archive.reserve(f"{self.folder}/{key}")
        storage = new_storage(size)
        if size:
            if not settings.skips_data:
                self.waiting.append((f"{self.folder}/{key}", storage, dtype))
            if self.at_once:
                self.fill()
        return storage

    def fill(self):
        """Read what has been asked for."""
        if not self.waiting:
            return
        waiting, self.waiting = self.waiting, []
        buffers = [buffer_at(storage.pointer, storage.nbytes) for _, storage, _ in waiting]
        try:
            self.archive.fill([(name, data) for (name, *_), data in zip(waiting, buffers)])
        finally:
            self.archive.close()  # until here a thread may look at the storages
        if self.foreign:
            for (_, _, dtype), data in zip(waiting, buffers):
                if dtype is not None:
                    _swap(data, dtype)


def _assumed_order():
    """The byte order of files that do not say it."""
    assumed = get_default_load_endianness()
    named = {LoadEndianness.LITTLE: "little", LoadEndianness.BIG: "big"}
    return named.get(assumed, sys.byteorder)


def parts_of(identity):
    """(kind, key, location, numel) of a storage, as a pickle gives them."""
    known = isinstance(identity, tuple) and len(identity) > 4
    if known:  # texts of Python 2 are bytes with encoding="bytes"
        identity = [part.decode() if isinstance(part, bytes) else part for part in identity]
    if not known or not isinstance(identity[0], str) or identity[0] != "storage":
        kind = type(identity[0] if isinstance(identity, (tuple, list)) and identity else identity)
        raise wrong(f"Only persistent_load of storage is allowed, but got {kind}")
    kind, key, location, numel = identity[1:5]
    if not isinstance(kind, StorageKind) or not isinstance(location, str):
        raise wrong("a storage of an unknown kind")
    if type(numel) is not int or numel < 0 or not isinstance(key, (str, int)):
        raise wrong("a storage without a size")
    return kind, key, location, numel


def _swap(target, dtype):
    """Turn the bytes of each number around, in place."""
    width = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
    if width > 1:
        numbers = array({2: "H", 4: "I", 8: "Q"}[width], bytes(target))
        numbers.byteswap()
        target[:] = numbers.tobytes()


_TORCHSCRIPT_WEIGHTS = (
    "Cannot use ``weights_only=True`` with TorchScript archives passed to ``torch.load``. "
    "With `weights_only=False` they are handed to `torch.jit.load`, which compiles the programs "
    "they hold: do it only if you trust the source of the file."
)
_TORCHSCRIPT = (
    "'torch.load' received a zip file that looks like a TorchScript archive dispatching to "
    "'torch.jit.load' (call 'torch.jit.load' directly to silence this warning)"
)


def _mapping_of(file):
    if get_default_mmap_options() != MAP_SHARED:
        return memory_maps.mmap(file.fileno(), 0, access=memory_maps.ACCESS_COPY)
    with open(file.name, "r+b") as writable:
        return memory_maps.mmap(writable.fileno(), 0, access=memory_maps.ACCESS_WRITE)


def read_archive(file, map_location, pickle_module, weights_only, mmap, arguments):
    """What a zip archive holds."""
    start = file.tell()
    archive = ArchiveReader(file)
    if archive.is_torchscript:
        if weights_only:
            raise RuntimeError(_TORCHSCRIPT_WEIGHTS)
        warnings.warn(_TORCHSCRIPT, UserWarning, stacklevel=3)
        file.seek(start)
        return importlib.import_module("flambeau.jit").load(file, map_location)
    mapping = None
    if mmap:
        mapping = _mapping_of(file)
    at_once = not weights_only or bool(get_safe_globals())
    storages = StorageReader(archive, map_location, mapping, at_once)
    data = io.BytesIO(archive.read("data.pkl"))
    if weights_only:
        found = Machine(data, storages, **arguments).load()
    else:
        found = unpickle(data, storages, pickle_module or pickle, arguments)
    storages.fill()
    del storages.archive, storages.mapping  # storages that were saved as such still know `fill`
    return found
