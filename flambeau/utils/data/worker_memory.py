"""The memory that batches travel in, from a worker to the process that asked for them.

A worker has an `Arena`: blocks of shared memory that it fills, one per batch. Its parent maps each
block once, and a `Lease` keeps the block from being filled again as long as anything of the batch
is alive; then the number of the block goes back with the next task. So a long epoch needs a handful
of blocks, no descriptor stays open, and what a batch costs here does not depend on its size.
"""

import itertools
import os
from collections import deque

from flambeau.runtime import shared_memory

ALIGN = 64
ROUND = 1 << 16  # sizes of blocks are multiples of this, so that batches of like sizes fit
SPARE = 8  # a block may be larger than a batch by this share (an eighth)


def aligned(nbytes):
    return nbytes + ALIGN - 1 & -ALIGN


# -- the worker's side -----------------------------------------------------------------------------


class Room:
    """Where a batch goes: a block by its number, and what the parent has to be told of it."""

    __slots__ = ("number", "mapping", "descriptor", "dropped")

    def __init__(self, number, mapping):
        self.number, self.mapping = number, mapping
        self.descriptor = -1  # of a block that the parent does not know yet
        self.dropped = ()  # numbers of blocks that are no more


class Arena:
    """The blocks of one worker."""

    def __init__(self):
        self._blocks = {}  # by number
        self._free = []  # numbers
        self._numbers = itertools.count()

    def take(self, nbytes):
        """Room for a batch."""
        fitting = [n for n in self._free if self._blocks[n].nbytes >= nbytes]
        if fitting:
            number = min(fitting, key=lambda n: self._blocks[n].nbytes)
            self._free.remove(number)
            return Room(number, self._blocks[number])
        size = nbytes + nbytes // SPARE + ROUND - 1 & -ROUND
        descriptor = shared_memory.open_anonymous(size)
        try:
            # the pages are there already: have them in the table at once, not fault by fault
            mapping = shared_memory.Mapping(descriptor, size, populate=True)
        except BaseException:
            os.close(descriptor)
            raise
        room = Room(next(self._numbers), mapping)
        room.descriptor = descriptor
        if self._free:  # all too small; one goes for the one that comes
            room.dropped = (min(self._free, key=lambda n: self._blocks[n].nbytes),)
            self._free.remove(room.dropped[0])
            del self._blocks[room.dropped[0]]
        self._blocks[room.number] = mapping
        return room

    def give_back(self, numbers):
        """Blocks that may be filled again; of negative ones (~number) somebody still knows."""
        for number in numbers:
            if number >= 0:
                self._free.append(number)
            else:
                del self._blocks[~number]


# -- the parent's side -----------------------------------------------------------------------------

_forks = 0  # a child that was forked sees the batches of that moment for as long as it lives


def _count_fork():
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_count_fork)


class Lease(shared_memory.Owner):
    """A block while a batch lies in it."""

    __slots__ = ("number", "mapping", "_returned", "_forks", "__weakref__")

    def __init__(self, number, mapping, returned):
        self.number, self.mapping, self._returned = number, mapping, returned
        self._forks = _forks

    def __del__(self):
        self._returned.append(self.number if self._forks == _forks else ~self.number)


class Landing:
    """The blocks of one worker as its parent sees them."""

    # Batches that are kept rather than used up would pin a block each; beyond this many they are
    # copied to memory of our own.
    MOST_LEASES = 24

    def __init__(self):
        self.mappings = {}  # by number
        self.returned = deque()  # numbers for the worker to use again
        self.leased = 0

    def add(self, number, descriptor, nbytes):
        """A block that the worker has told of; its descriptor is used up."""
        try:
            self.mappings[number] = shared_memory.Mapping(descriptor, nbytes)
        finally:
            os.close(descriptor)

    def drop(self, numbers):
        for number in numbers:
            del self.mappings[number]

    def lease(self, number):
        self.leased += 1
        return Lease(number, self.mappings[number], self.returned)

    def is_crowded(self):
        """Do too many batches live in blocks?"""
        return self.leased - len(self.returned) > self.MOST_LEASES

    def returns(self):
        """The numbers to send with a task."""
        numbers = []
        while self.returned:
            number = self.returned.popleft()
            self.leased -= 1
            if number < 0:
                self.mappings.pop(~number, None)
            numbers.append(number)
        return numbers
