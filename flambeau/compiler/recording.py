"""Recording what a piece of a program launches, so that it can be launched again natively.

A run is recorded with memory of its own: the free lists of all pools are exchanged for those of the
*arena*, so that what the run frees again belongs to the arena, and to nobody else, for good. When
it is over, every address that a kernel was given must lie in one of

- a *base*: a tensor that is handed in at each replay (an argument, something saved), at some
  distance from its beginning;
- a *fresh* block: memory that was taken during the run and not given back (a result, or what a
  derivative will need). Each replay brings new memory for it;
- the arena: temporaries; they lie where they lay;
- memory that stays where it is: the state of the generator.

Anything else spoils the recording, and so does whatever touches memory without being a kernel or
gives a number to Python. A program whose recording is spoiled runs op by op.

All tapes share the arena, and one of them runs at a time; a second thread runs op by op meanwhile.
"""

import bisect
import ctypes
import os
import struct
import threading
from typing import Any, NamedTuple

from flambeau import random as _random
from flambeau._tensor import Tensor
from flambeau.compiler import fusing
from flambeau.eager import kernels
from flambeau.runtime import cpu, tapes, touching
from flambeau.runtime.allocator import host_allocator
from flambeau.storage import Storage

LOWEST = 1 << 32  # integers below this are no addresses

_lock = threading.Lock()  # one recording at a time


class Place(NamedTuple):
    """Where an address lies: in base number `base`, so many bytes behind its beginning."""

    base: int
    offset: int


class Block(NamedTuple):
    """Memory from a pool."""

    start: int
    size: int


class Spoiled(Exception):
    """A run cannot be repeated by its launches."""


class _Arena:
    """Memory of temporaries of all tapes."""

    def __init__(self):
        self.free: dict = {}  # pool -> addresses
        self.busy = ctypes.c_int64(0)
        self.addresses: dict = {}
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)

    def _forked(self):
        """Who ran in the parent does not run here."""
        self.busy.value = 0

    def native(self, name):
        """The address of a native function of tapes."""
        if not self.addresses:
            of_tensor, of_storage = cpu.slot_offsets(Tensor), cpu.slot_offsets(Storage)
            ir = tapes.tape_ir(
                of_tensor["_storage"],
                of_tensor["_offset"],
                of_storage["pointer"],
                cpu.FUNCTION,
                cpu.ENTRY,
            )
            self.addresses = kernels.load_functions(ir, tapes.NAMES)
        return self.addresses[f"flambeau_tape_{name}"]


ARENA = _Arena()


def can_record() -> bool:
    """Are there tapes on this machine, in this process?"""
    return kernels.CHECKS is None and tapes.integers_are_known() and not cpu.on_new


class Recording:
    """One run, with what it launched and where memory lay.

    bases: (begin, first byte of its memory, bytes) of every tensor that will be handed in.
    """

    def __init__(self, bases: list):
        self.bases = bases
        self.spoiled: str | None = None
        self.launches: list = []
        self.fresh: list = []  # blocks
        self.result: Any = None

    def run(self, function: Any) -> Any:
        """Run function(), recorded; Spoiled if it cannot be repeated."""
        recorder_address, none_address = ARENA.native("recorder"), ARENA.native("none")
        with _lock:
            if ARENA.busy.value or cpu.on_new:
                raise Spoiled("others run or are timed at this moment")
            ARENA.busy.value = 1
            blocks: set = set()
            saved = self._exchange_pools(blocks)
            thread = threading.get_ident()
            recorder = tapes.Recorder(ARENA.addresses, thread)
            self._thread = thread
            touching.told.append(self._touched)
            divert = _diverting(recorder_address)
            cpu.on_new.append(divert)
            for definition in list(cpu.definitions()):
                definition.function = recorder_address
            natives = cpu.others("joined")  # it copies by itself, or answers None
            for definition in natives:
                definition.function = none_address
            try:
                self.result = function()
            finally:
                for definition in natives:
                    definition.function = definition.entry
                cpu.on_new.remove(divert)
                for definition in list(cpu.definitions()):
                    definition.function = definition.entry
                touching.told.remove(self._touched)
                launches = recorder.launches()
                self._restore_pools(saved, blocks)
                ARENA.busy.value = 0
        if launches is None:
            raise Spoiled("there are too many launches")
        if self.spoiled:
            raise Spoiled(self.spoiled)
        self.launches = launches
        return self.result

    def _touched(self):
        if threading.get_ident() == self._thread:
            self.spoiled = "memory is read or written outside of kernels"

    def _exchange_pools(self, blocks):
        """Hand out the arena's memory from now on. Blocks go one by one: threads may be at it."""
        saved = {}
        for pool in list(host_allocator.pools.values()):
            saved[pool.size] = pool, _drained(pool)
            mine = ARENA.free.pop(pool.size, [])
            blocks.update((start, pool.size) for start in mine)
            pool.extend(mine)

        def miss(pool):
            start = type(host_allocator).miss(host_allocator, pool)
            blocks.add((start, pool.size))
            blocks.update((more, pool.size) for more in list(pool))
            return start

        host_allocator.miss = miss
        return saved

    def _restore_pools(self, saved, blocks):
        del host_allocator.miss
        free = set()
        for pool in list(host_allocator.pools.values()):
            mine = _drained(pool)
            ARENA.free[pool.size] = mine
            free.update((start, pool.size) for start in mine)
            if pool.size in saved:
                pool.extend(saved[pool.size][1])
        self.fresh = [Block(*b) for b in sorted(blocks - free)]
        self.arena = [Block(*b) for b in sorted(free)]

    # -- where addresses lie -----------------------------------------------------------------------

    def moves(self) -> list:
        """(base, bytes, launch, argument) of all addresses that follow a base or a fresh block.

        Fresh blocks are counted behind the bases. Spoiled if an address is unknown.
        """
        found = []
        fixed = _Ranges([(b.start, b.size) for b in self.arena])
        fresh = _Ranges([(b.start, b.size) for b in self.fresh])
        given = _Ranges([(first, size) for _, first, size in self.bases])
        for k, launch in enumerate(self.launches):
            if not launch.quiet:
                raise Spoiled(f"{cpu.name_of(launch.definition)} gives a number to Python")
            for place, value in enumerate(launch.arguments):
                if type(value) is bytes and any(
                    r.find(word) is not None
                    for word in struct.unpack(f"{len(value) // 8}Q", value[: len(value) & -8])
                    for r in (given, fresh, fixed)
                    if word >= LOWEST
                ):
                    raise Spoiled(f"{cpu.name_of(launch.definition)} has an address among its words")
                if type(value) is not int or value < LOWEST:
                    continue
                which = given.find(value)
                if which is not None:
                    found.append((which, value - self.bases[which][0], k, place))
                    continue
                which = fresh.find(value)
                if which is not None:
                    by = value - self.fresh[which].start
                    found.append((len(self.bases) + which, by, k, place))
                elif fixed.find(value) is None and value != _random.default_generator.pointer:
                    raise Spoiled(
                        f"{cpu.name_of(launch.definition)} is given memory that nobody knows"
                    )
        return found

    def plan(self, names: list, fresh_name: str) -> fusing.Plan:
        """The launches in groups. Blocks are (what a base is called, ...), (fresh_name, number)."""
        arena = _Ranges([(b.start, b.size) for b in self.arena])
        fresh = _Ranges([(b.start, b.size) for b in self.fresh])
        given = _Ranges([(first, size) for _, first, size in self.bases])

        def block_of(address):
            if address < LOWEST:
                return None
            which = given.find(address)
            if which is not None:
                return names[which]
            for kind, ranges in ((fresh_name, fresh), ("arena", arena)):
                which = ranges.find(address)
                if which is not None:
                    return kind, which
            return "unknown", 0

        return fusing.Plan(self.launches, block_of)

    def find(self, t: Tensor) -> Place | None:
        """Where a tensor of the result lies; None if it does not move (a constant)."""
        address = t._storage.pointer + t._offset
        for k, (begin, first, size) in enumerate(self.bases):
            if first <= t._storage.pointer < first + max(size, 1):
                return Place(k, address - begin)
        for k, block in enumerate(self.fresh):
            if block.start <= address < block.start + block.size:
                return Place(len(self.bases) + k, address - block.start)
        return None

    def tape(
        self, whole: list, places: dict, number: dict | None = None, own: int | None = None
    ) -> tapes.Tape:
        """The launches as a tape.

        Its bases are ours (or what `number` says: base -> (base of the tape, bytes behind), `own`
        of them), then the fresh blocks in `whole`, then one piece of memory in which the other
        fresh blocks lie at `places`.
        """
        count = len(self.bases)
        own = count if own is None else own
        where = {k: (k, 0) for k in range(count)} if number is None else dict(number)
        where |= {count + which: (own + k, 0) for k, which in enumerate(whole)}
        where |= {count + which: (own + len(whole), at) for which, at in places.items()}
        moves = []
        for base, by, launch, place in self.moves():
            to, shift = where[base]
            moves.append((to, by + shift, launch, place))
        total = own + len(whole) + bool(places)
        replay, busy = ARENA.native("replay"), ctypes.addressof(ARENA.busy)
        return tapes.Tape(replay, busy, self.launches, moves, total)


def _drained(pool):
    """All free blocks of a pool, taken one by one."""
    found = []
    while True:
        try:
            found.append(pool.pop())
        except IndexError:
            return found


def _diverting(address):
    def divert(definition):
        definition.function = address

    return divert


class _Ranges:
    """Which of some pieces of memory an address lies in: the first of those given."""

    def __init__(self, ranges):
        self.order = sorted(range(len(ranges)), key=lambda k: ranges[k])
        self.starts = [ranges[k][0] for k in self.order]
        self.ranges = ranges

    def find(self, address):
        k = bisect.bisect_right(self.starts, address) - 1
        if k < 0:
            return None
        start, size = self.ranges[self.order[k]]
        if address >= start + size:
            return None
        while k > 0 and self.starts[k - 1] == start:
            k -= 1
        return self.order[k]


def base_of(t: Tensor) -> tuple:
    """(address of the first element, first byte, bytes) of what is handed in."""
    storage = t._storage
    return storage.pointer + t._offset, storage.pointer, storage.nbytes
