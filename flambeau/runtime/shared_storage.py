"""Storages in shared memory: moving one there, and knowing it when it comes back.

A storage keeps its identity: its memory is exchanged for a slice of a shared block, and views and
twins follow. One that arrives from another process is the one that is known here already, if there
is one.
"""

import gc
import importlib
import sys
import threading
import weakref

from flambeau.runtime import shared_memory
from flambeau.storage import LENT, Storage, borrowed_storage, new_storage, root_of

_arrived: "weakref.WeakValueDictionary[tuple, Storage]" = weakref.WeakValueDictionary()
_lock = threading.RLock()


def is_shared(storage):
    """Does the memory of a storage belong to several processes?"""
    return isinstance(getattr(root_of(storage), "owner", None), shared_memory.Owner)


def slice_of(storage):
    """The slice of a shared block that a storage lies in, or None."""
    owner = getattr(root_of(storage), "owner", None)
    return owner if type(owner) is shared_memory.Slice else None


def share(storage, anew=False):
    """Move a storage to shared memory, unless it is there (then only `anew`); returns its slice."""
    with _lock:
        root = root_of(storage)
        found = slice_of(root)
        if found is not None and not anew:
            return found
        # from now on tensors travel as shared ones, also through Python's own multiprocessing
        importlib.import_module("flambeau.multiprocessing")
        place = shared_memory.take(root.nbytes, root.pointer)
        alone = storage is root and sys.getrefcount(root) <= _references_of_one()
        twins, others = ([], False) if alone else _watchers(root)
        old_pointer, old_give, old_owner = root.pointer, root.give, getattr(root, "owner", None)
        others = others or (old_owner is LENT and not alone)  # arrays are in no list of objects
        root.pointer, root.give, root.owner = place.address, _nothing, place
        for twin in twins:  # a twin may begin further on
            twin.pointer += place.address - old_pointer
        if others:
            # NumPy arrays, for example, still look at the old memory
            place.kept = old = borrowed_storage(old_pointer, root.nbytes, old_owner)
            old.give = old_give
        else:
            old_give(old_pointer)
        _remember(root, place)
        return place


def _nothing(pointer):
    pass


def _watchers(root):
    """(twins of a storage, does anything else than tensors know it)"""
    twins, others = [], False
    for found in gc.get_referrers(root):
        if type(found) is Storage:
            if getattr(found, "owner", None) is root:
                twins.append(found)
        elif getattr(found, "_storage", None) is not root and not hasattr(found, "f_code"):
            others = True
    for twin in twins:
        others = others or any(
            getattr(found, "_storage", None) is not twin and not hasattr(found, "f_code")
            for found in gc.get_referrers(twin)
            if found is not twins
        )
    return twins, others


class _Holder:
    """Stands for a tensor when references are counted."""

    __slots__ = ("_storage",)


_references = 0


def _references_of_one():
    """What getrefcount says in `share` of a storage that one tensor holds."""
    global _references
    if not _references:
        holder = _Holder()
        holder._storage = new_storage(0)
        _references = _count(holder._storage)
    return _references


def _count(storage):
    with _lock:
        root = root_of(storage)
        return sys.getrefcount(root)


def new_shared(nbytes):
    """A fresh storage in shared memory."""
    return _over(shared_memory.take(nbytes), nbytes)


def arrived(block, offset, nbytes):
    """The storage over a slice that another process has sent."""
    with _lock:
        key = (block.name, offset) if block is not None else None
        found = _arrived.get(key) if key is not None else None
        if found is not None:
            return found
        return _over(shared_memory.Slice(block, offset), nbytes)


def _over(place, nbytes):
    storage = borrowed_storage(place.address, nbytes, place)
    _remember(storage, place)
    return storage


def _remember(storage, place):
    if place.block is not None:
        _arrived[place.block.name, place.offset] = storage


def _after_fork():
    global _lock
    _lock = threading.RLock()


shared_memory.at_fork(_after_fork)
