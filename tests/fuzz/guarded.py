"""Memory with guard bytes: every block of the host lies between two of them, exactly as large.

`guard()` takes the place of the host's pools for the rest of the process; `broken()` names blocks
whose guards somebody wrote over. Blocks are filled with a pattern when they are handed out, so what
is read before it is written shows.
"""

import ctypes

from flambeau import _layout
from flambeau._device import cpu
from flambeau.runtime.allocator import NO_POOL, Pool

GUARD = 128
PATTERN, FRESH = b"\x5a" * GUARD, 0xA5
LIMIT = 1 << 30  # bytes of one block
live: dict = {}  # address -> (bytes, owner of the memory)
found: list = []


class GuardedPool(Pool):
    """Blocks of one size in bytes; none is used twice in a row."""

    __slots__ = ("nbytes",)

    def __init__(self, nbytes):
        super().__init__(nbytes, None)
        self.nbytes, self.give = nbytes, self.check

    def pop(self, *place):
        raise IndexError

    def grow(self):
        if self.nbytes > LIMIT:
            raise RuntimeError(
                f"[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory: "
                f"you tried to allocate {self.nbytes} bytes."
            )
        owner = ctypes.create_string_buffer(self.nbytes + 2 * GUARD + 64)
        address = ctypes.addressof(owner) + GUARD
        address += -address % 64
        ctypes.memset(address, FRESH, self.nbytes)
        for guard in (address - GUARD, address + self.nbytes):
            ctypes.memmove(guard, PATTERN, GUARD)
        live[address] = self.nbytes, owner
        return address

    def check(self, address):
        _look(address)
        live.pop(address, None)


def _look(address):
    nbytes, _ = live[address]
    for guard in (address - GUARD, address + nbytes):
        if ctypes.string_at(guard, GUARD) != PATTERN:
            found.append((address, nbytes, "before" if guard < address else "after"))
            ctypes.memmove(guard, PATTERN, GUARD)


def broken():
    """Blocks whose guards were written over since the last time."""
    for address in list(live):
        _look(address)
    result = found[:]
    found.clear()
    return result


def guard():
    """Give the host guarded memory from here on."""
    pools: dict = {}

    def pool_for(nbytes):
        if not nbytes:
            return NO_POOL
        if nbytes not in pools:
            if len(pools) > 4096:
                pools.clear()
            pools[nbytes] = GuardedPool(nbytes)
        return pools[nbytes]

    cpu.runtime.pool_for = pool_for
    _layout.POOLS.clear()
    _layout.LAYOUTS.clear()
    _layout.OLDER.clear()
