"""One block of memory and who owns it.

A storage is shared by a tensor and its views; the version counter lives here and counts in-place
writes, so that autograd notices when a saved value has been overwritten.
"""

import importlib
import threading
from typing import Any

from flambeau._device import cpu


class Storage:
    """A block of memory. `give` returns it to its pool when the last tensor lets go.

    owner and quantizer (of quantized tensors, eager/quantized.py) are there if somebody set them.
    """

    __slots__ = ("pointer", "nbytes", "version", "give", "owner", "quantizer", "__weakref__")

    quantizer: Any

    def __del__(self):
        self.give(self.pointer)


# Note [Inference tensors]
# Whether a tensor was made in inference mode is told by the version of its memory: such memory
# begins with an Uncounted zero, so views, detached tensors and twins are inference tensors as well,
# and views of ordinary tensors are not. Every write says `version += 1` and everything that is
# saved for backward says `+version`, so both are refused there without a question being asked of
# ordinary tensors. `beginning` is per thread; native makers ask it only while `INSIDE` is not
# empty, which is while any thread is in inference mode.


class SavedInferenceTensorError(RuntimeError):
    """An inference tensor cannot be saved for backward; who does not need it may do without."""


class Uncounted(int):
    """The version of memory that was made in inference mode. Programs are not told of it."""

    __slots__ = ()

    def __add__(self, writes):
        if type(beginning.version) is not Uncounted:
            raise RuntimeError(
                "Inplace update to inference tensor outside InferenceMode is not allowed."
                "You can make a clone to get a normal tensor before doing inplace update."
                "See https://github.com/pytorch/rfcs/pull/17 for more details."
            )
        return Uncounted(int(self) + writes)

    def __pos__(self):
        raise SavedInferenceTensorError(
            "Inference tensors cannot be saved for backward. Please do not use Tensors created in "
            "inference mode in computation tracked by autograd. To work around this, you can make "
            "a clone to get a normal tensor and use it in autograd, or use `torch.no_grad()` "
            "instead of `torch.inference_mode()`."
        )


class _Beginning(threading.local):
    """What memory that this thread makes begins with, and why its views have no history."""

    version = 0
    view_kind = "no_grad"


beginning = _Beginning()
INSIDE: list = []  # one entry for each time that a thread has entered inference mode


def is_uncounted(storage):
    """Was this memory made in inference mode?"""
    return type(storage.version) is Uncounted


class Composed(Storage):
    """No memory of its own: other tensors hold the elements (sparse tensors, flambeau/_sparse/).

    held: a list with the value that names them, shared by all who look at this tensor.
    """

    __slots__ = ("held",)

    held: list


def nothing(pointer):
    """What gives memory back that is not ours."""


def composed(value):
    """A storage for a tensor whose elements a value made of other tensors holds."""
    self = object.__new__(Composed)
    self.pointer, self.nbytes, self.version = 0, 0, beginning.version
    self.give, self.owner, self.held = nothing, None, [value]
    return self


def new_storage(nbytes, device=cpu):
    """A fresh block of at least nbytes on a device."""
    self = object.__new__(Storage)
    self.give = nothing  # so that a failing allocation leaves nothing to free
    self.pointer, self.nbytes, self.version, self.owner = 0, nbytes, beginning.version, None
    pool = device.runtime.pool_for(nbytes)
    try:
        self.pointer = pool.pop()
    except IndexError:
        self.pointer = pool.grow()
    self.give = pool.give
    return self


LENT = object()  # the owner, in name, of memory that others look at by its address


def lend(storage):
    """Somebody outside looks at this memory: it may not move from now on."""
    if getattr(storage, "owner", None) is None:
        storage.owner = LENT


class Kept(list):
    """Blocks that a storage has outgrown, kept because its twins still look at them."""


def share(storage):
    """Others may write to this memory, and its version will not say so."""
    if getattr(storage, "owner", None) is None:
        storage.owner = Kept()


def root_of(storage):
    """The storage that owns the memory of a twin; other storages are their own."""
    owner = getattr(storage, "owner", None)
    return owner if type(owner) is Storage else storage


def twin(storage, version=0):
    """The same memory under a version counter of its own (what x.data gives)."""
    if is_uncounted(storage):
        version = Uncounted(version)
    elif type(version) is Uncounted:
        version = int(version)
    if type(storage) is Composed:
        copy = composed(None)
        copy.held, copy.version = storage.held, version
        return copy
    root = root_of(storage)
    share(root)
    copy = borrowed_storage(root.pointer, root.nbytes, root)
    copy.version = version
    quantizer = getattr(storage, "quantizer", None)
    if quantizer is not None:
        copy.quantizer = quantizer
    return copy


def brought(host, nbytes, device):
    """A block on another device with a copy of memory of the host: numbers, tables, lengths."""
    found = new_storage(nbytes, device)
    device.runtime.write(found.pointer, host, nbytes)
    return found


def borrowed_storage(pointer, nbytes, owner):
    """Memory that belongs to somebody else, who is kept alive."""
    self = object.__new__(Storage)
    self.pointer, self.nbytes, self.version = pointer, nbytes, beginning.version
    self.give, self.owner = nothing, owner
    return self


def grow_storage(storage, nbytes, device=cpu):
    """Make a storage on a device at least nbytes large; its old content stays."""
    if nbytes <= storage.nbytes:
        return
    owner = getattr(storage, "owner", None)
    if type(owner) is Storage and owner.pointer == storage.pointer:  # a twin: both grow
        grow_storage(owner, nbytes, device)
        storage.pointer, storage.nbytes = owner.pointer, owner.nbytes
        return
    if owner is not None and type(owner) is not Kept:
        raise RuntimeError("Trying to resize storage that is not resizable")
    bigger = new_storage(nbytes, device)
    if storage.nbytes and storage.pointer:
        device.runtime.copy(bigger.pointer, storage.pointer, storage.nbytes)
    # swap the blocks: the old one is freed with `bigger`
    storage.pointer, bigger.pointer = bigger.pointer, storage.pointer
    storage.give, bigger.give = bigger.give, storage.give
    storage.nbytes, bigger.nbytes = bigger.nbytes, storage.nbytes
    if owner is not None:
        owner.append(bigger)


_SEEN = {
    "_typed_storage": ("TypedStorage", "UntypedStorage", "_StorageBase"),
    "_storage_kinds": (
        "_LegacyStorage",
        "_dtype_to_storage_type_map",
        "_storage_type_to_dtype_map",
    ),
}


def __getattr__(name):
    """Storages as users see them."""
    for home, names in _SEEN.items():
        if name in names:
            return getattr(importlib.import_module(f"flambeau.{home}"), name)
    raise AttributeError(f"module 'flambeau.storage' has no attribute '{name}'")
