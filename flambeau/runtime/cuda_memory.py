"""Memory of a GPU, kept by size class as that of the host is.

Work on a stream runs in the order in which it was asked for, so a block may be used again as soon
as the tensor that had it is gone, even if its kernels are still to run. What is used on another
stream than the one it was made on has to be told (`record_stream`).
"""

from flambeau.errors import OutOfMemoryError
from flambeau.runtime.allocator import SMALL, Allocator

SLAB = 1 << 22
MB, GB = 1 << 20, 1 << 30


def in_words(nbytes):
    """Bytes as PyTorch's complaints write them."""
    if nbytes >= GB:
        return f"{nbytes / GB:.2f} GiB"
    return f"{nbytes / MB:.2f} MiB"


class DeviceAllocator(Allocator):
    """All size classes of a device."""

    def __init__(self, driver, index):
        super().__init__()
        self.driver, self.index = driver, index
        self.slab_bytes = 0
        self.slab_uses: dict = {}  # size class of slabs -> blocks that were cut
        self.fraction = 1.0
        self.retries = self.failures = self.taken = self.given_back = 0
        self.highest = 0

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
        for size in sorted((s for s in self.pools if s > SMALL), reverse=True):
            pool = self.pools[size]
            while nbytes > 0:
                try:
                    address = pool.pop()
                except IndexError:
                    break
                _, mapped = self.maps.pop(address)
                self.driver.free(address)
                self.given_back += 1
                self.mapped -= mapped
                nbytes -= mapped
        return nbytes

    def empty_cache(self):
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
        cut = sum(size * len(p) for size, p in list(self.pools.items()) if size <= SMALL)
        return self.mapped - self.cached() + small - cut

    def peak_allocated(self):
        self._look()
        return self.highest

    def _look(self):
        self.highest = max(self.highest, self.allocated())

    def reset_peak(self):
        """From now on only what is taken anew counts: cached blocks go, so that it is seen."""
        self.empty_cache()
        self.highest = self.allocated()
