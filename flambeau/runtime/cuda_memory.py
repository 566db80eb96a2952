"""Memory of a GPU, kept by size class as that of the host is.

Work on a stream runs in the order in which it was asked for, so a block may be used again as soon
as the tensor that had it is gone, even if its kernels are still to run. What is used on another
stream than the one it was made on has to be told (`record_stream`).
"""

import threading
from typing import Any

from flambeau.errors import OutOfMemoryError
from flambeau.runtime.allocator import EXACT, FEW, SMALL, Allocator, Pool

SLAB = 1 << 22
STEPS = 6  # bits of the size of a large block that are told apart: it wastes 3 % at most
MB, GB = 1 << 20, 1 << 30


def in_words(nbytes):
    """Bytes as PyTorch's complaints write them."""
    if nbytes >= GB:
        return f"{nbytes / GB:.2f} GiB"
    return f"{nbytes / MB:.2f} MiB"


_give: Any = vars(Pool)["give"].__get__  # the slot behind the property below


class Side(Pool):
    """What a pool is while a thread has another stream than the default one: there blocks come from
    a pool of that stream, and go back there. Native code leaves such pools to Python.
    """

    __slots__ = ()

    def own(self):
        branch, size = self.owner.branch, self.size
        if branch is None:  # another thread's affair
            return None
        found = branch.get(size)
        if found is None:
            found = branch[size] = Pool(size, self.owner)
        return found

    def pop(self):
        own = self.own()
        return list.pop(self if own is None else own)

    def grow(self):
        own = self.own()
        return self.owner.miss(self if own is None else own)

    @property
    def give(self):
        own = self.own()
        return _give(self) if own is None else own.give


IN_COPY = (
    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must "
    "use the 'spawn' start method"
)


class Gone(Pool):
    """What a pool is in a copy of the process: the driver does not work there."""

    __slots__ = ()

    def pop(self):
        raise RuntimeError(IN_COPY)

    grow = pop


class DeviceAllocator(Allocator):
    """All size classes of a device.

    The default stream has pools of its own, as has every other one (a branch), and every graph that
    was captured, whose memory nobody else may have as long as it can run.
    """

    def __init__(self, driver, index):
        super().__init__()
        self.driver, self.index = driver, index
        self.slab_bytes = 0
        self.slab_uses: dict = {}  # size class of slabs -> blocks that were cut
        self.fraction = 1.0
        self.retries = self.failures = self.taken = self.given_back = 0
        self.highest = self.most = 0
        self.chosen: dict = {}  # thread -> pools that it uses, where they are not the first
        self.branches: dict = {}  # stream, or ("graph", number) -> size -> pool
        self.waiting: list = []  # (event, address, give): blocks that other streams used
        self.givers: list = []  # functions that let go of what can be made again

    def pool_for(self, nbytes):
        """Classes of large blocks are close together: what they waste is memory of a GPU."""
        if nbytes < FEW or nbytes >= EXACT:
            return super().pool_for(nbytes)
        step = max(1 << (nbytes.bit_length() - STEPS), 512)
        size = (nbytes + step - 1) & -step
        pool = self.pools.get(size)
        return self._pool(size) if pool is None else pool

    # -- streams -----------------------------------------------------------------------------------
    @property
    def branch(self):
        """Pools by size that this thread uses; None for the first."""
        return self.chosen.get(threading.get_ident()) if self.chosen else None

    def choose(self, key, thread=None):
        """Whose pools this thread uses from now on: a stream's, a graph's, or (None) the first.

        Gives those that it used before, for `put_back`.
        """
        with self.lock:
            branch = None if key is None else self.branches.setdefault(key, {})
        return self.put_back(branch, thread)

    def put_back(self, branch, thread=None):
        """Use these pools, or (None) the first."""
        me = threading.get_ident() if thread is None else thread
        with self.lock:
            before = self.chosen.pop(me, None)
            if branch is not None:
                self.chosen[me] = branch
            kind = Side if self.chosen else Pool
            for pool in self.pools.values():
                pool.__class__ = kind
        return before

    def _pool(self, size):
        found = super()._pool(size)
        if self.chosen:
            found.__class__ = Side
        return found

    def forget(self, key):
        """A graph is gone: its blocks are anybody's."""
        for size, pool in self.branches.pop(key, {}).items():
            front = self._pool(size)
            while pool:
                list.append(front, pool.pop())

    def abandon(self):
        """This is a copy of the process: nothing more can be had."""
        for pool in self._all():
            pool.__class__ = Gone

    def used_by(self, storage, stream):
        """A stream uses a block, too: who gives it back waits until that work is done."""
        give, driver = storage.give, self.driver

        def later(address):
            event = driver.new_event(False)
            driver.record(event, stream)
            self.waiting.append((event, address, give))

        storage.give = later

    def _collect(self):
        """Blocks whose work on other streams is done are free again."""
        waiting, self.waiting = self.waiting, []
        for event, address, give in waiting:
            if self.driver.has_passed(event):
                self.driver.free_event(event)
                give(address)
            else:
                self.waiting.append((event, address, give))

    def miss(self, pool):
        if self.waiting:
            self._collect()
            if pool:
                return pool.pop()
        return super().miss(pool)

    def _all(self, private=True):
        """Pools of everybody; private: those of graphs, too."""
        yield from list(self.pools.values())
        for key, branch in list(self.branches.items()):
            if private or not isinstance(key, tuple):
                yield from list(branch.values())

    def cached(self):
        return sum(p.size * len(p) for p in self._all() if p.size > SMALL)

    def _near(self, size):
        branch = self.branch
        pools = self.pools if branch is None else branch
        for other in sorted(s for s, p in pools.items() if size < s <= size + size // 4 and p):
            try:
                return list.pop(pools[other])
            except IndexError:
                continue
        return None

    # -- what the host's allocator asks of the system ----------------------------------------------
    def _map(self, pool):
        near = self._near(pool.size)
        if near is not None:
            return near
        address = self._allocated(pool.size)
        self.maps[address] = None, pool.size
        self.mapped += pool.size
        self._look()
        return address

    def _cut(self, pool):
        count = max(1, min(SLAB // 4 // pool.size, 64))
        size = (pool.size + 511) & -512  # every block may be read by whole vectors
        total = count * size
        if not self.slabs or self.slabs[-1][1] < total:
            room = max(SLAB, total)
            self.slabs.append([self._allocated(room), room, None])
            self.slab_bytes += room
        slab = self.slabs[-1]
        start = slab[0]
        slab[0] += total
        slab[1] -= total
        self.slab_uses[pool.size] = self.slab_uses.get(pool.size, 0) + count
        pool.extend(start + k * size for k in range(count - 1, 0, -1))
        self._look()
        return start

    def _allocated(self, nbytes):
        self.taken += 1
        limit = self.fraction * self.driver.memory()[1] if self.fraction < 1 else None
        if limit is None or self.reserved() + nbytes <= limit:
            try:
                return self.driver.allocate(nbytes)
            except OutOfMemoryError:
                pass
        self.retries += 1
        self.driver.synchronize()
        self._release(1 << 62)
        if limit is None or self.reserved() + nbytes <= limit:
            try:
                return self.driver.allocate(nbytes)
            except OutOfMemoryError:
                pass
        self.failures += 1
        raise self._exhausted(nbytes)

    def _exhausted(self, nbytes):
        free, total = self.driver.memory()
        used = self.allocated()
        return OutOfMemoryError(
            f"CUDA out of memory. Tried to allocate {in_words(nbytes)}. GPU {self.index} has a "
            f"total capacity of {in_words(total)} of which {in_words(free)} is free. Of the "
            f"allocated memory {in_words(used)} is in use, and "
            f"{in_words(self.reserved() - used)} is reserved but unallocated."
        )

    def _release(self, nbytes):
        """Give cached large blocks back, largest first, until nbytes are free."""
        large = [p for p in self._all(private=False) if p.size > SMALL]
        for pool in sorted(large, key=lambda p: -p.size):
            while nbytes > 0:
                try:
                    address = list.pop(pool)
                except IndexError:
                    break
                _, mapped = self.maps.pop(address)
                self.driver.free(address)
                self.given_back += 1
                self.mapped -= mapped
                nbytes -= mapped
        return nbytes

    def empty_cache(self):
        for give in self.givers:
            give()
        with self.lock:
            self.driver.synchronize()
            self._release(1 << 62)

    # -- statistics --------------------------------------------------------------------------------
    def reserved(self):
        """Bytes that were taken from the driver."""
        return self.mapped + self.slab_bytes

    def allocated(self):
        """Bytes that tensors have, by size classes."""
        small = sum(n * size for size, n in self.slab_uses.items())
        cut = sum(p.size * len(p) for p in self._all() if p.size <= SMALL)
        return self.mapped - self.cached() + small - cut

    def peak_allocated(self):
        self._look()
        return self.highest

    def peak_reserved(self):
        return max(self.most, self.reserved())

    def _look(self):
        self.highest = max(self.highest, self.allocated())
        self.most = max(self.most, self.reserved())

    def reset_peak(self):
        """From now on only what is taken anew counts: cached blocks go, so that it is seen."""
        self.empty_cache()
        self.highest, self.most = self.allocated(), self.reserved()
