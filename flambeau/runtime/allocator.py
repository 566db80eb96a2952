"""A caching allocator: blocks are kept by size class and reused.

A size class is a `Pool`, a list of free addresses: taking a block is `pool.pop()`, giving it back
is `pool.append`, and nothing else happens on the hot path. Only a miss does bookkeeping: it maps
new memory and first releases cached blocks if the total would pass the most that was ever in use at
once. Small blocks are cut from slabs; large ones are mapped one by one, with huge pages advised.
(Not for slabs: the first touch of a huge page stops a call for milliseconds while the system finds
one, and calls with many different sizes touch many slabs.)
"""

import contextlib
import ctypes
import functools
import itertools
import mmap
import os
import threading

from flambeau import config
from flambeau.runtime import forking as forking  # before locks are registered for forks

SMALL = 1 << 20  # blocks up to this size are cut from slabs
SLAB = 1 << 22
EXACT = 1 << 34  # blocks from this size on waste nothing, and errors name the very number
HUGE = 1 << 21
FEW = 1 << 20  # bytes below which a table knows the pool
HUGEST = 1 << 31  # bytes from which it is worth asking how many there are
SLACK = 96 << 20  # bytes of large blocks that may be cached above the peak in use

# Blocks that all start at the same place in a page make loads wait for unrelated stores whose
# addresses agree in the low twelve bits, so starts are staggered by an odd number of cache lines.
STAGGER = 5 * 64
PAGE = 4096


def size_class(nbytes):
    """Round up: multiples of 64 at first, then eight steps per doubling, then not at all."""
    if nbytes <= 1024:
        return (nbytes + 63) & -64
    if nbytes >= EXACT:
        return nbytes
    step = max(1 << (nbytes.bit_length() - 4), 64)
    size = (nbytes + step - 1) & -step
    return size + STAGGER if PAGE <= size <= SMALL else size


def room_in(size):
    """The most bytes that come from the pool of a size."""
    return size - STAGGER if PAGE < size <= SMALL + STAGGER else size


class Pool(list):
    """Free blocks of one size."""

    __slots__ = ("size", "give", "owner")

    def __init__(self, size, owner):
        list.__init__(self)
        self.size, self.owner = size, owner
        self.give = self.append

    def grow(self):
        """A block when none is free."""
        return self.owner.miss(self)


class NoPool:
    """Blocks that need no memory: empty tensors and the meta device."""

    give = staticmethod(lambda pointer: None)

    @staticmethod
    def pop():
        return 0


NO_POOL = NoPool()


class Allocator:
    """All size classes of host memory."""

    def __init__(self):
        self.pools = {}
        self.few = [None] * (FEW // 64 + 1)  # the pools of small sizes, by cache lines
        self.lock = threading.Lock()
        self.maps = {}  # address of a large block -> its mapping
        self.mapped = 0  # bytes in large blocks, in use or cached
        self.peak = 0  # most large bytes ever in use at once
        self.slabs = []
        if hasattr(os, "register_at_fork"):
            # a thread that held the lock while the process is copied would hold it for good there
            lock = self.lock
            os.register_at_fork(
                before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
            )

    def pool_for(self, nbytes):
        if nbytes < FEW:
            pool = self.few[(nbytes + 63) >> 6]
            return self._new_few(nbytes) if pool is None else pool
        size = size_class(nbytes)
        pool = self.pools.get(size)
        return self._pool(size) if pool is None else pool

    def _pool(self, size):
        with self.lock:
            pool = self.pools.get(size)
            if pool is None:
                pool = self.pools[size] = Pool(size, self)
        return pool

    def _new_few(self, nbytes):
        """The pool of a size, entered for all sizes of its class."""
        if not nbytes:
            self.few[0] = NO_POOL
            return NO_POOL
        place = first = last = (nbytes + 63) >> 6
        size = size_class(place << 6)
        pool = self._pool(size)
        while first > 1 and size_class((first - 1) << 6) == size:
            first -= 1
        while last + 1 < len(self.few) and size_class((last + 1) << 6) == size:
            last += 1
        self.few[first : last + 1] = [pool] * (last + 1 - first)
        return pool

    def take(self, nbytes):
        """(address, function to give it back)"""
        pool = self.pool_for(nbytes)
        try:
            return pool.pop(), pool.give
        except IndexError:
            return pool.grow(), pool.give

    def miss(self, pool):
        with self.lock:
            return self._map(pool) if pool.size > SMALL else self._cut(pool)

    def cached(self):
        return sum(size * len(p) for size, p in self.pools.items() if size > SMALL)

    def _map(self, pool):
        in_use = self.mapped - self.cached() + pool.size
        peak = max(self.peak, in_use)
        near = self._near(pool.size)
        if near is not None:
            self.peak = peak
            return near
        # Sizes that take turns would push each other out if only the peak were allowed, so there is
        # some room above it; a block that is mapped anew costs a page fault per page.
        limit = min(peak + max(peak >> 4, SLACK), in_use + config.cache_bytes())
        if self.mapped + pool.size > limit:
            self._release(self.mapped + pool.size - limit)
        try:
            address, mapping = _map_block(pool.size)
        except RuntimeError:
            if not self.cached():
                raise
            self._release(1 << 62)
            address, mapping = _map_block(pool.size)
        self.maps[address] = mapping, pool.size
        self.mapped += pool.size
        self.peak = peak  # only now: a block that could not be had was never in use
        return address

    def _near(self, size):
        """A cached block that is at most a quarter larger; it belongs to this size from now on."""
        for other in sorted(s for s, p in self.pools.items() if size < s <= size + size // 4 and p):
            try:
                return self.pools[other].pop()
            except IndexError:
                continue  # somebody else was quicker
        return None

    def _cut(self, pool):
        """Cut a slab (or part of one) into blocks of this class."""
        count = max(1, min(SLAB // 4 // pool.size, 256))
        total = count * pool.size
        if not self.slabs or self.slabs[-1][1] < total:
            address, mapping = _map_block(max(SLAB, total), huge=False)
            self.slabs.append([address, max(SLAB, total), mapping])
        slab = self.slabs[-1]
        start = slab[0]
        slab[0] += total
        slab[1] -= total
        pool.extend(start + k * pool.size for k in range(count - 1, 0, -1))
        return start

    def _release(self, nbytes):
        """Unmap cached large blocks, largest first, until nbytes are freed."""
        for size in sorted((s for s in self.pools if s > SMALL), reverse=True):
            pool = self.pools[size]
            while nbytes > 0:
                try:
                    address = pool.pop()
                except IndexError:
                    break
                mapping, mapped = self.maps.pop(address)
                mapping.close()
                self.mapped -= mapped
                nbytes -= mapped
        return nbytes

    def empty_cache(self):
        """Give every cached large block back to the operating system."""
        with self.lock:
            self._release(1 << 62)
            self.peak = self.mapped


# Python maps shared memory unless told otherwise: a forked child would write into its parent's
# tensors, and huge pages would not be had for the asking.
_PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
_mappings = itertools.count(1)


class _Mapping:
    """An anonymous mapping with the address of its first aligned byte."""

    def __init__(self, size, align):
        self.map = mmap.mmap(-1, size + align, **_PRIVATE)
        hold = ctypes.c_char.from_buffer(self.map)
        start = ctypes.addressof(hold)
        del hold
        self.address = (start + align - 1) & -align if align else start

    def close(self):
        self.map.close()


@functools.cache
def _whole_memory():
    """Bytes that this machine has, with what it swaps to; more cannot be had, whatever it says.

    Some systems promise any amount, and kill processes that take them at their word.
    """
    try:
        with open("/proc/meminfo") as file:
            facts = dict(line.split(":") for line in file)
        return sum(int(facts[name].split()[0]) << 10 for name in ("MemTotal", "SwapTotal"))
    except (OSError, KeyError, ValueError):
        return 1 << 62


def _map_block(size, huge=True):
    try:
        if size > HUGEST and size > _whole_memory():
            raise MemoryError
        mapping = _Mapping(size + PAGE, HUGE if size >= HUGE else 0)
    except (OSError, OverflowError, ValueError, MemoryError):
        raise RuntimeError(
            "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate "
            f"memory: you tried to allocate {size} bytes. Error code 12 (Cannot allocate memory)"
        ) from None
    if huge and size >= HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without transparent huge pages
            mapping.map.madvise(mmap.MADV_HUGEPAGE)
    return mapping.address + next(_mappings) * STAGGER % PAGE, mapping


host_allocator = Allocator()
