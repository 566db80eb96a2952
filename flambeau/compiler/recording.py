"""Recording what a piece of a program launches, so that it can be launched again natively.

A run is recorded with memory of its own: the free lists of all pools are emptied for its time, so
that a block that is free at the end was used for temporaries of the run and for nothing else, and
none is handed out twice (lifetimes.py). When it is over, every address that a kernel was given must
lie in one of

- a *base*: a tensor that is handed in at each replay (an argument, something saved), at some
  distance from its beginning;
- a *fresh* block: memory that was taken during the run and not given back (a result, or what a
  derivative will need). Each replay brings new memory for it;
- a *temporary* block: it was given back. Temporaries of all tapes lie in the *arena*, one piece of
  memory that every tape lays out for itself, by the launches between which a block is in use;
- memory that stays where it is: the state of the generator.

Anything else spoils the recording, and so does whatever touches memory without being a kernel or
gives a number to Python. A program whose recording is spoiled runs op by op.

One tape plays at a time, because of the arena; a second thread runs op by op meanwhile.

A run is on one device, whose pools are exchanged and whose memory the arena is. What is different
on GPUs is in on_gpus.py.
"""

import bisect
import contextlib
import gc
import importlib
import os
import threading
from typing import Any, NamedTuple

from flambeau import _dtype
from flambeau import random as _random
from flambeau._device import device
from flambeau._layout import dense_layout
from flambeau._tensor import Tensor, empty_like_layout
from flambeau.compiler.accesses import is_known
from flambeau.compiler.lifetimes import IMAGINED, LINE, Returned, imagined, laid_out, padded
from flambeau.compiler.plan import LOWEST, UNKNOWN, Plan
from flambeau.eager import kernels
from flambeau.runtime import cpu, tapes, touching
from flambeau.runtime.allocator import host_allocator
from flambeau.storage import Storage

_GPUS = "flambeau.compiler.on_gpus"  # with the first recording there
NEVER = 1 << 62  # a launch that does not come
ROOM = 1 << 29  # bytes of temporaries from which a recording hands blocks out again
CPU = device("cpu")

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
    """A run cannot be repeated by its launches. again: it may be worth another try."""

    def __init__(self, why: str, again: bool = False) -> None:
        super().__init__(why)
        self.again = again


class Unheard(Exception):
    """There is a kernel that a recording must run."""


class Room:
    """Memory of temporaries of all tapes of a device."""

    def __init__(self, place):
        self.place = place
        self.stream = 0  # where it was last used
        self.memory = None  # a tensor of bytes

    def is_recording_here(self):
        """Does this very thread record? Then it must not wait for a tape to end."""
        return ARENA.thread == threading.get_ident()

    def reserve(self, nbytes):
        """Let there be room for a tape."""
        if self.memory is None or self.memory._storage.nbytes < nbytes:
            self.memory = empty_like_layout(plain_bytes(max(nbytes, LINE), self.place))


class _Arena(Room):
    """That of the host, and whose turn it is."""

    def __init__(self):
        super().__init__(CPU)
        self.busy = tapes.Flag()
        self.addresses: dict = {}
        self.thread: int | None = None  # who records
        if hasattr(os, "register_at_fork"):
            # no other thread may be recording while the process is copied: all pools are its own
            os.register_at_fork(
                before=_lock.acquire,
                after_in_parent=_lock.release,
                after_in_child=self._forked,
            )

    def _forked(self):
        """Who ran in the parent does not run here."""
        _lock.release()
        self.busy.lower()

    def forget_thread(self):
        self.thread = None

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


def is_active() -> bool:
    """Does somebody record at this moment?"""
    return _lock.locked()


def can_record() -> bool:
    """Are there tapes on this machine, in this process?"""
    return kernels.CHECKS is None and tapes.integers_are_known() and not cpu.on_new


class Recording:
    """One run, with what it launched and where memory lay.

    bases: (begin, first byte of its memory, bytes) of every tensor that will be handed in; place:
    the device that it runs on.
    """

    def __init__(self, bases: list, place: Any = CPU):
        self.bases = bases
        self.gpu = None if place == CPU else importlib.import_module(_GPUS).Gpu(place)
        self.arena = ARENA if self.gpu is None else self.gpu.arena
        self.allocator: Any = host_allocator if self.gpu is None else self.gpu.allocator
        self.spoiled: str | None = None
        self.launches: list = []
        self.fresh: list = []  # blocks
        self.temporary: list = []
        self._ranges: _Ranges | None = None
        self._moves: tuple | None = None  # of which launches, and where
        self._returned: dict = {}  # by size of a pool
        self.result: Any = None
        self.silent = self.imagines = False

    def run(self, function: Any, silent: bool = False) -> Any:
        """Run function(), recorded; Spoiled if it cannot be repeated.

        silent: run no kernel, only note it; Unheard if there is one that has to run.
        """
        recording, none = ARENA.native("recorder"), ARENA.native("none")
        unknown = ARENA.native("refuser") if silent else recording
        self.silent, self.imagines = silent, silent and self.gpu is not None
        saved: dict = {}  # what was free in pools, by size
        blocks: set = set()  # what was handed out
        with _lock, contextlib.ExitStack() as undo:
            if ARENA.busy.is_up() or cpu.on_new:
                raise Spoiled("others run or are timed at this moment", True)
            undo.callback(ARENA.busy.lower)
            ARENA.busy.put_up()
            if self.gpu is not None:
                undo.enter_context(self.gpu.recorded())
            undo.callback(self._restore_pools, saved, blocks)
            self._exchange_pools(saved, blocks)
            if gc.isenabled():  # what it frees would be handed out, as if it were of the run
                undo.callback(gc.enable)
                gc.disable()
            self._thread = ARENA.thread = threading.get_ident()
            undo.callback(ARENA.forget_thread)
            recorder = tapes.Recorder(ARENA.addresses, self._thread, silent)
            undo.callback(recorder.stop)
            undo.enter_context(_diverted(recording, unknown, none))
            touching.told.append(self._touched)
            undo.callback(touching.told.remove, self._touched)
            self._perform(function, recorder)
            # cycles that the run left: their memory is free, not held (all are young: see above)
            gc.collect(0)
        launches = recorder.launches()
        if launches is None:
            raise Spoiled("there are too many launches")
        if self.spoiled:
            raise Spoiled(self.spoiled)
        self.launches = launches
        return self.result

    def _perform(self, function, recorder):
        try:
            self.result = function()
        except Exception as error:
            if not self.silent:
                raise
            if self.spoiled:
                raise Spoiled(self.spoiled) from None
            # a real run tells what is wrong, if anything is
            raise Unheard(self._refused(recorder) or str(error)) from None
        if recorder.refused():
            raise Unheard(self._refused(recorder))

    def _refused(self, recorder):
        place = recorder.refused()
        return f"{cpu.name_of(place)} has to run" if place else ""

    def _touched(self):
        if threading.get_ident() == self._thread:
            self.spoiled = "memory is read or written outside of kernels"
            if self.silent:  # there is nothing in it
                raise Spoiled(self.spoiled)

    def _exchange_pools(self, saved, blocks):
        """Empty the pools, block by block: other threads may be at it."""
        allocator, returned = self.allocator, self._returned
        for pool in list(allocator.pools.values()):
            saved[pool.size] = _drained(pool)
            returned[pool.size] = Returned(pool, self.silent)
        taken = 0

        def miss(pool):
            nonlocal taken
            given_back = returned.get(pool.size)
            if given_back is None:
                given_back = returned[pool.size] = Returned(pool, self.silent)
            if self.imagines:
                start = imagined(pool.size)
                blocks.add((start, pool.size))
                return start
            if taken > ROOM and given_back.blocks:
                return given_back.blocks.pop()
            start = type(allocator).miss(allocator, pool)
            more = [start, *pool]
            blocks.update((x, pool.size) for x in more)
            taken += len(more) * pool.size
            return start

        # nothing is given back to the system, nor to another size, while it may be on the tape
        allocator.miss = miss
        allocator._release = lambda nbytes: nbytes
        allocator._near = lambda size: None

    def _restore_pools(self, saved, blocks):
        for name in ("miss", "_release", "_near"):
            self.allocator.__dict__.pop(name, None)
        free = set()
        for pool in list(self.allocator.pools.values()):
            if pool.size in self._returned:
                free.update((start, pool.size) for start in self._returned[pool.size].end())
            left = _drained(pool)
            free.update((start, pool.size) for start in left)
            pool.extend(start for start in left if start < IMAGINED)
            pool.extend(saved.get(pool.size, ()))
        self.fresh = [Block(*b) for b in sorted(blocks - free)]
        self.temporary = [Block(*b) for b in sorted(free)]

    # -- where addresses lie -----------------------------------------------------------------------

    def moves(self) -> list:
        """(base, bytes, launch, argument, word) of all addresses; word: see `tapes.Tape`.

        Fresh blocks are counted behind the bases, temporary ones behind those. Spoiled if an
        address is unknown.
        """
        if self._moves is None or self._moves[0] is not self.launches:
            self._moves = self.launches, self._found_moves()
        return self._moves[1]

    def _found_moves(self):
        found = []
        for k, launch in enumerate(self.launches):
            if not launch.quiet:
                raise Spoiled(f"{cpu.name_of(launch.definition)} gives a number to Python")
            for place, value in enumerate(launch.arguments):
                if type(value) is bytes:
                    for word, number in enumerate(cpu.words_of(value)):
                        if number >= LOWEST and (at := self.place_of(number)) is not None:
                            found.append((*at, k, place, word))
                elif type(value) is int and value >= LOWEST:
                    at = self.place_of(value)
                    if at is not None:
                        found.append((*at, k, place, None))
                    elif not self._stays(value):
                        name = cpu.name_of(launch.definition)
                        raise Spoiled(f"{name} is given memory that nobody knows", True)
        return found

    def _stays(self, address):
        """Is it memory that is where it is at every replay: the state of the generator?"""
        if self.gpu is not None:
            return self.gpu.holds(address)
        return address == _random.default_generator.pointer

    def draws(self) -> bool:
        """Were random numbers drawn?"""
        if self.gpu is not None:
            return self.gpu.draws.used > 0
        state = _random.default_generator.pointer
        return any(type(a) is int and a == state for x in self.launches for a in x.arguments)

    def place_of(self, address):
        """(number of a base or block, bytes behind its beginning) of an address."""
        if self._ranges is None:
            spans = [(first, size) for _, first, size in self.bases]
            spans += [(b.start, b.size) for b in (*self.fresh, *self.temporary)]
            self._ranges = _Ranges(spans)
        which = self._ranges.find(address)
        if which is None:
            return None
        begins = self.bases[which][0] if which < len(self.bases) else self._ranges.spans[which][0]
        return which, address - begins

    def add_base(self, t: Tensor) -> None:
        """One more tensor that is handed in, behind the others."""
        self.bases = [*self.bases, base_of(t)]
        self._ranges = self._moves = None

    def plan(self, names: list, fresh_name: str) -> Plan:
        """The launches in groups. Blocks are called as the bases are, or (fresh_name, number)."""
        names = names + [(fresh_name, k) for k in range(len(self.fresh))]
        names += [("arena", k) for k in range(len(self.temporary))]

        def block_of(address):
            if address < LOWEST:
                return None
            at = self.place_of(address)
            return UNKNOWN if at is None else names[at[0]]

        return Plan(self.launches, block_of)

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
        self, whole: list, places: dict, number: dict | None = None, own: int | None = None,
        spare: Any = None,
    ) -> tapes.Tape:  # fmt: skip
        """The launches as a tape.

        Its bases are ours (or what `number` says: base -> (base of the tape, bytes behind), `own`
        of them), then the fresh blocks in `whole`, then one piece of memory in which the other
        fresh blocks lie at `places`, and the arena. spare: (base of the tape, its bytes, {base:
        place in it}, those that are kept) of memory that nobody needs after the last launch that is
        given it; temporaries lie there where they fit.
        """
        count = len(self.bases)
        own = count if own is None else own
        where = {k: (k, 0) for k in range(count)} if number is None else dict(number)
        where |= {count + which: (own + k, 0) for k, which in enumerate(whole)}
        where |= {count + which: (own + len(whole), at) for which, at in places.items()}
        arena = own + len(whole) + bool(places)
        found, moves = self.moves(), []
        lives = self.lives(found)
        for there, taken, most in self._gaps(found, places, arena - 1, spare):
            inside, _ = laid_out(lives, taken, most)
            where |= {base: (there, at) for base, at in inside.items()}
            lives = {base: life for base, life in lives.items() if base not in inside}
        room, size = laid_out(lives)
        where |= {base: (arena, at) for base, at in room.items()}
        for base, by, *place in found:
            to, shift = where[base]
            moves.append((to, by + shift, *place))
        self.arena.reserve(size)
        made = tapes.Tape(ARENA.native("replay"), ARENA.busy, self.launches, moves, arena + 1)
        return made if self.gpu is None else self.gpu.tape(made)

    def _gaps(self, moves, places, own, spare):
        """(base of the tape, what lies there and when, bytes) of memory with room for temporaries:
        what is handed in and not needed any more, what is made and not there yet.

        On the host pools hold such blocks one by one, and pages have been touched.
        """
        if self.gpu is None:
            return
        first: dict = {}
        last: dict = {}
        for base, _, launch, *_ in moves:
            first.setdefault(base, launch)
            last[base] = launch
        if spare is not None:
            there, most, held, kept = spare
            taken = [
                (at, at + padded(self.bases[b][2]), -1, NEVER if b in kept else last.get(b, -1))
                for b, at in held.items()
            ]
            yield there, taken, most
        if places:
            count = len(self.bases)
            taken = [
                (at, at + padded(self.fresh[k].size), first.get(count + k, -1), NEVER)
                for k, at in places.items()
            ]
            yield own, taken, max(end for _, end, *_ in taken)

    def lives(self, moves: list) -> dict:
        """Number of a temporary block -> (bytes, first launch, last launch) that is given it."""
        found: dict = {}
        first = len(self.bases) + len(self.fresh)
        for base, _, launch, *_ in moves:
            if base >= first:
                size = padded(self.temporary[base - first].size)
                _, begins, _ = found.get(base, (size, launch, launch))
                found[base] = size, begins, launch
        return found


def plain_bytes(count: int, place: Any = CPU) -> Any:
    """The layout of so many bytes."""
    return dense_layout((count,), _dtype.uint8, place)


def _drained(pool):
    """All free blocks of a pool, taken one by one."""
    found = []
    while True:
        try:
            found.append(pool.pop())
        except IndexError:
            return found


@contextlib.contextmanager
def _diverted(recorder, unknown, none):
    """Known kernels lead to the recorder, others elsewhere; what copies says that it cannot."""

    def divert(definition):
        is_usual = is_known(cpu.place_of_definition(definition))
        definition.function = recorder if is_usual else unknown

    natives = cpu.others("joined")
    try:
        cpu.on_new.append(divert)
        for definition in list(cpu.definitions()):
            divert(definition)
        for definition in natives:
            definition.function = none
        yield
    finally:
        cpu.on_new.remove(divert)
        for definition in (*cpu.definitions(), *natives):
            definition.function = definition.entry


class _Ranges:
    """Which of some pieces of memory an address lies in: the first of those given."""

    def __init__(self, spans):
        self.spans = spans
        self.order = sorted(range(len(spans)), key=lambda k: spans[k][0])
        self.starts = [spans[k][0] for k in self.order]

    def find(self, address):
        k = bisect.bisect_right(self.starts, address) - 1
        found = None
        while k >= 0:
            start, size = self.spans[self.order[k]]
            if address < start + size and (found is None or self.order[k] < found):
                found = self.order[k]
            if k == 0 or (self.starts[k - 1] != start and size):
                return found
            k -= 1
        return None


def base_of(t: Tensor) -> tuple:
    """(address of the first element, first byte, bytes) of what is handed in."""
    storage = t._storage
    return storage.pointer + t._offset, storage.pointer, storage.nbytes
