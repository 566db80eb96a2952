"""FLAMBEAU_CHECK: every launch is looked at before and after it happens.

Nothing of this is loaded unless the switch is on, and then all of it is Python: calls take several
times as long. Three things are checked. A tensor whose address is taken must lie inside its storage
(sizes, strides and offset against bytes). The operands of a pointwise nest must stay inside their
blocks for all sizes and strides in the words of the launch; of other kernels, all addresses must
lie in blocks that are in use. And what lies around those blocks must be as it was
(runtime/guards.py).
"""

import threading

from flambeau._layout import span
from flambeau._tensor import Tensor
from flambeau.codegen.descriptions import ITEM_BYTES
from flambeau.planning.nests import walk_of
from flambeau.runtime.guards import Guards
from flambeau.storage import Storage

SMALLEST = 1 << 16  # numbers below this are no addresses


class LaunchError(RuntimeError):
    """A kernel was about to leave the memory of its operands, or has done so."""


class _Asked(threading.local):
    """Where the tensor lies whose storage was asked for last: (id of it, layout, byte)."""

    place = None


_asked = _Asked()


class _StorageOfTensor:
    """In place of the slot `_storage`: remembers who was asked."""

    def __init__(self, slot):
        self.slot, self.asked = slot, _asked

    def __get__(self, tensor, cls=None):
        if tensor is None:
            return self
        storage = self.slot.__get__(tensor, cls)
        self.asked.place = id(storage), tensor._layout, tensor._offset
        return storage

    def __set__(self, tensor, storage):
        self.slot.__set__(tensor, storage)


class _PointerOfStorage:
    """In place of the slot `pointer`: looks at the tensor whose address is taken."""

    def __init__(self, slot):
        self.slot, self.asked = slot, _asked

    def __get__(self, storage, cls=None):
        if storage is None:
            return self
        place, self.asked.place = self.asked.place, None
        if place is not None and place[0] == id(storage):
            check_place(*place[1:], storage.nbytes)
        return self.slot.__get__(storage, cls)

    def __set__(self, storage, pointer):
        self.slot.__set__(storage, pointer)


def check_place(layout, start, room):
    """Does a tensor that begins at a byte stay inside a storage of so many bytes?"""
    if not layout.numel or not layout.device.runtime.computes:
        return
    low = sum((n - 1) * s for n, s in zip(layout.sizes, layout.strides) if s < 0)
    first, last = (start + k * layout.itemsize for k in (low, span(layout) - low))
    if first < 0 or last > room:
        raise LaunchError(
            f"{layout} at byte {start} reaches from byte {first} to {last} of a storage of {room} "
            "bytes"
        )


class Checks:
    """The switch, turned on."""

    def __init__(self, allocator, level):
        self.guards = Guards(allocator, fenced=level > 1)

    def install(self):
        """Let tensors be asked, and memory come with guards. Returns what gives pools of it."""
        Tensor._storage = _StorageOfTensor(Tensor._storage)
        Storage.pointer = _PointerOfStorage(Storage.pointer)
        return self.guards.pool_for

    def watched(self, kernel, name, nest=None):
        """A kernel that is checked whenever it is launched."""

        def launch(description, *arguments):
            self._before(name, nest, description, arguments)
            found = kernel(description, *arguments)
            self._after(name, arguments)
            return found

        launch.__name__ = launch.__qualname__ = name
        return launch

    def _before(self, name, nest, description, arguments):
        if self.guards.damage:
            raise LaunchError(f"before {name}: {self.guards.damage.pop()}")
        if nest is not None and type(description) is bytes:
            for k, (low, high) in enumerate(reaches(nest, description, arguments)):
                self._inside(name, f"operand {k}", arguments[k], low, high)
            return
        for k, address in enumerate(arguments):
            if type(address) is int and address > SMALLEST:
                self._inside(name, f"argument {k}", address, 0, 0)

    def _inside(self, name, what, address, low, high):
        block = self.guards.block_of(address)
        if block is None:
            return  # memory of others: arrays, files, shared blocks
        start, nbytes = block
        if address + low < start or address + high > start + nbytes:
            raise LaunchError(
                f"{name}: {what} reaches from byte {address + low - start} to "
                f"{address + high - start} of a block of {nbytes} bytes"
            )

    def _after(self, name, arguments):
        for address in arguments:
            if type(address) is int and address > SMALLEST:
                block = self.guards.block_of(address)
                hurt = block is not None and self.guards.hurt(block[0])
                if hurt:
                    raise LaunchError(f"{name}: {hurt}")


def reaches(nest, description, arguments):
    """(lowest byte, one past the highest) that a pointwise nest touches of each operand."""
    items = [ITEM_BYTES[code] for code, _ in (*nest.outputs, *nest.inputs)]
    walk = walk_of(nest, description, arguments[-1] if arguments else 0)
    if walk is None or 0 in walk[0]:
        return [(0, 0) for _ in items]
    sizes, steps = walk
    found = []
    for item, along in zip(items, steps):
        ends = [(n - 1) * step for n, step in zip(sizes, along)]
        found.append((sum(e for e in ends if e < 0), sum(e for e in ends if e > 0) + item))
    return found
