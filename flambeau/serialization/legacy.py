"""Files from before PyTorch 1.6: pickles one after the other, then the bytes of the storages.

The pickle of the object names its storages; a list of their keys follows, then each storage as a
count and its elements. Tensors are therefore made over memory that is filled afterwards.
"""

import os
import pickle
import struct
import sys

from flambeau._typed_storage import UntypedStorage, typed
from flambeau.runtime.cpu import buffer_at
from flambeau.serialization import files, locations
from flambeau.serialization.options import settings
from flambeau.serialization.pickling import dumps
from flambeau.serialization.reading import parts_of
from flambeau.serialization.rebuilding import MetaStorage, brief, wrong
from flambeau.serialization.restricted import Machine
from flambeau.serialization.unrestricted import unpickle
from flambeau.storage import borrowed_storage, new_storage, share

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001
_NOT_OURS = (
    "Invalid magic number; corrupt file? It is neither a zip archive nor one of the older format "
    "that torch.save wrote"
)


class _Storages:
    """Storages by key, empty at first."""

    def __init__(self, limit, map_location):
        self.limit, self.map_location = limit, map_location
        self.known = {}  # key -> (storage, itemsize, kept on the meta device)

    def __call__(self, identity):
        if _is_module(identity):
            return identity[1]  # a class with its source code, from the first years
        kind, key, location, numel = parts_of(identity)
        itemsize = kind.dtype.itemsize if kind.dtype is not None else 1
        if key not in self.known:
            self.known[key] = self._make(location, numel * itemsize), itemsize
        storage, place = self.known[key][0]
        if storage.nbytes != numel * itemsize:
            raise wrong(f"storage {key!r:.40} has two sizes")
        if len(identity) > 5 and identity[5] is not None:
            storage = _part(storage, identity[5], numel, itemsize)
        if place == "meta":
            return MetaStorage(storage.nbytes, kind.dtype)
        return UntypedStorage(storage) if kind.dtype is None else typed(storage, kind.dtype)

    def _make(self, location, nbytes):
        self.limit -= nbytes
        if self.limit < 0:
            raise RuntimeError(
                "unexpected EOF: the storages are larger than the file. The file might be "
                "corrupted."
            )
        place = locations.place_of(location, self.map_location)
        storage = new_storage(nbytes)
        if place is None:
            storage, _ = locations.ask(self.map_location, storage, location)
            if storage.nbytes != nbytes:
                raise TypeError("map_location must return a storage of the same size")
        return storage, place

    def fill(self, file, keys):
        known = isinstance(keys, list) and all(isinstance(key, (str, int)) for key in keys)
        if not known or {*keys} != {*self.known}:
            raise wrong("the list of storages is not that of the object")
        for key in keys:
            (storage, _), itemsize = self.known[key]
            count = file.read(8)
            if len(count) < 8:
                raise _ended(8 - len(count))
            nbytes = struct.unpack("<q", count)[0] * itemsize
            if nbytes != storage.nbytes:
                raise wrong(f"storage {key!r:.40} has two sizes")
            if settings.skips_data:
                file.seek(nbytes, os.SEEK_CUR)
            elif nbytes:
                done = files.read_into(file, buffer_at(storage.pointer, nbytes))
                if done < nbytes:
                    raise _ended(nbytes - done)


def _part(storage, view, numel, itemsize):
    """A part of a storage, as the first versions had: (its key, where it begins, its length)."""
    known = isinstance(view, tuple) and len(view) == 3
    if not known or not all(type(number) is int and number >= 0 for number in view[1:]):
        raise wrong("an unknown view of a storage")
    _, start, count = view
    if start + count > numel:
        raise wrong("a view of a storage ends after it")
    share(storage)
    return borrowed_storage(storage.pointer + start * itemsize, count * itemsize, storage)


def _is_module(identity):
    if not isinstance(identity, tuple) or len(identity) < 2:
        return False
    return identity[0] in ("module", b"module")


def _ended(missing):
    return RuntimeError(
        f"unexpected EOF, expected {missing} more bytes. The file might be corrupted."
    )


def read_legacy(file, map_location, pickle_module, weights_only, arguments):
    """What a file of the older format holds."""
    storages = _Storages(files.size_of(file) - file.tell(), map_location)

    def read():
        if weights_only:
            return Machine(file, storages, **arguments).load()
        return unpickle(file, storages, pickle_module or pickle, arguments)

    _check_head(file)
    found = read()
    storages.fill(file, Machine(file, storages).load())
    return found


def write_legacy(obj, f, pickle_module, protocol):
    """Write a file as PyTorch did before version 1.6."""
    pickled, storages, dtypes = dumps(obj, protocol, pickle_module, tail=(None,))
    facts = {
        "protocol_version": PROTOCOL,
        "little_endian": sys.byteorder == "little",
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    with files.opened_for_writing(f) as file:
        for part in (MAGIC, PROTOCOL, facts):
            file.write(pickle.dumps(part, protocol))
        file.write(pickled)
        file.write(pickle.dumps([str(key) for key in range(len(storages))], protocol))
        for storage in storages:
            dtype = dtypes.get(storage.pointer)
            itemsize = 1 if dtype is None else dtype.itemsize
            file.write(struct.pack("<q", storage.nbytes // itemsize))
            if storage.nbytes:
                file.write(buffer_at(storage.pointer, storage.nbytes // itemsize * itemsize))


def _check_head(file):
    """Magic number, version and facts about the machine; data, whoever wrote the rest."""
    try:
        magic = Machine(file, _no_storage).load()
        if type(magic) is not int or magic != MAGIC:
            raise pickle.UnpicklingError
    except EOFError:
        raise
    except pickle.UnpicklingError:
        raise RuntimeError(_NOT_OURS) from None
    version = Machine(file, _no_storage).load()
    if type(version) is not int or version != PROTOCOL:
        raise RuntimeError(f"Invalid protocol version: {brief(version)}")
    facts = Machine(file, _no_storage).load()
    if not isinstance(facts, dict) or facts.get("little_endian") is not True:
        raise RuntimeError("the file was written on a machine with another order of bytes")


def _no_storage(identity):
    raise wrong("a storage where there is none")
