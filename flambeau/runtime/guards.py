"""Memory with something around it that shows when a kernel goes too far: FLAMBEAU_CHECK.

With 1, every block lies between guard bytes, which are looked at after each launch that was told of
the block and when the block is given back. With 2, every block has pages of its own and ends where
a page begins that nobody may touch: reading too far, or memory that was given back, stops the
process at the very instruction (`python -X faulthandler` shows the line of Python). Fresh memory
holds a pattern, so that reading it before it is written shows, too.
"""

import bisect
import contextlib
import ctypes
import mmap
import os
import threading
from typing import Any

from flambeau.runtime.allocator import NO_POOL

GUARD = 256  # bytes on either side
PATTERN = 0xA5
POISONED = 1 << 20  # bytes up to which fresh memory is filled
_WALL = bytes([PATTERN]) * GUARD
_NONE, _BOTH = 0, 3  # protection of pages: nothing is allowed, reading and writing are


class GuardedPool:
    """Gives blocks of one size, each with guards of its own."""

    __slots__ = ("size", "owner", "give")

    def __init__(self, size: int, owner: "Guards"):
        self.size, self.owner, self.give = size, owner, owner.give

    def pop(self) -> int:
        return self.owner.take(self.size)

    grow = pop

    def extend(self, addresses) -> None:
        for address in addresses:
            self.give(address)


class Guards:
    """All blocks that are in use, and what is around them."""

    def __init__(self, allocator: Any, fenced: bool = False):
        self.allocator, self.fenced = allocator, fenced
        self.pools: dict = {}
        self.live: dict = {}  # address -> (bytes, what gives the memory back)
        self.starts: list = []  # addresses of all of them, in order
        self.damage: list = []  # what was found when blocks were given back
        self.lock = threading.RLock()
        self.place_of = bisect.bisect_left  # here, because blocks come back while Python ends
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        """The thread that held the lock may not be in this process."""
        self.lock = threading.RLock()

    def pool_for(self, nbytes: int) -> Any:
        if not nbytes:
            return NO_POOL
        found = self.pools.get(nbytes)
        if found is None:
            found = self.pools[nbytes] = GuardedPool(nbytes, self)
        return found

    def take(self, nbytes: int) -> int:
        address, release = self._fenced(nbytes) if self.fenced else self._walled(nbytes)
        if nbytes <= POISONED:
            ctypes.memset(address, PATTERN, nbytes)
        with self.lock:
            self.live[address] = nbytes, release
            bisect.insort(self.starts, address)
        return address

    def give(self, address: int) -> None:
        if not address:
            return
        with self.lock:
            hurt = self.hurt(address)
            if hurt:
                self.damage.append(hurt)
            # in this order: who is interrupted in between leaves no start without its block
            del self.starts[self.place_of(self.starts, address)]
            _, release = self.live.pop(address)
        release()

    def block_of(self, address: int) -> tuple | None:
        """(first byte, bytes) of the block that an address lies in or right behind."""
        with self.lock:
            place = bisect.bisect_right(self.starts, address) - 1
            if place < 0:
                return None
            start = self.starts[place]
            nbytes = self.live[start][0]
        return (start, nbytes) if address <= start + nbytes else None

    def broken(self) -> list:
        """What is wrong with any block, in use or given back, since this was asked last."""
        with self.lock:
            found, self.damage[:] = self.damage[:], []
            return found + [hurt for start in self.starts if (hurt := self.hurt(start))]

    def hurt(self, start: int) -> str:
        """What is wrong with the guards of a block; empty if nothing is."""
        nbytes = self.live[start][0]
        if self.fenced:
            return ""
        for place, where in ((start - GUARD, "before"), (start + nbytes, "behind")):
            found = ctypes.string_at(place, GUARD)
            if found != _WALL:
                at = next(k for k in range(GUARD) if found[k] != PATTERN)
                distance = GUARD - at if where == "before" else at
                return f"written {distance} bytes {where} a block of {nbytes} bytes"
        return ""

    def _walled(self, nbytes: int) -> tuple:
        raw, give = self.allocator.take(nbytes + 2 * GUARD)
        for place in (raw, raw + GUARD + nbytes):
            ctypes.memmove(place, _WALL, GUARD)
        return raw + GUARD, lambda: give(raw)

    def _fenced(self, nbytes: int) -> tuple:
        page = mmap.PAGESIZE
        inner = (nbytes + page - 1) // page * page
        mapping = mmap.mmap(-1, inner + 2 * page, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        hold = ctypes.c_char.from_buffer(mapping)
        raw = ctypes.addressof(hold)
        del hold
        library = ctypes.CDLL(None)
        for place in (raw, raw + page + inner):
            library.mprotect(ctypes.c_void_p(place), ctypes.c_size_t(page), _NONE)

        def release():
            with contextlib.suppress(BufferError):  # somebody still looks at it
                mapping.close()

        return raw + page + inner - nbytes, release
