"""Memory that is set apart: pools of its own for what runs inside a `with`."""

import contextlib
from collections.abc import Iterator
from typing import Any

from flambeau.cuda._devices import devices, part

__all__ = ["MemPool", "caching_allocator_disabled", "use_mem_pool"]


class MemPool:
    """Blocks that nobody else is given.

    Args:
        allocator: not taken: memory comes from the driver.
    """

    def __init__(
        self, allocator: Any = None, use_on_oom: bool = False, no_split: bool = False
    ) -> None:
        from flambeau.runtime.cuda_graphs import new_pool

        if devices() is None:
            raise RuntimeError("Tried to instantiate dummy base class MemPool")
        if allocator is not None:
            raise NotImplementedError("allocators of others are not called: see design 019")
        self._id = new_pool()
        self._users = 0

    @property
    def id(self) -> tuple:
        """The name of the pool, as graphs take it."""
        return self._id

    @property
    def allocator(self) -> None:
        return None

    def use_count(self) -> int:
        """How many use it at this moment, itself included."""
        return 1 + self._users

    def snapshot(self, include_traces: bool = True) -> list[dict[str, Any]]:
        """Sizes of its blocks that nobody has, and how many there are."""
        pools = part().allocator.branches.get(self._id, {})
        return [{"size": size, "free_blocks": len(pool)} for size, pool in sorted(pools.items())]


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: Any = None) -> Iterator[None]:
    """New tensors get memory of this pool."""
    runtime = part(device)
    before = runtime.allocator.choose(pool.id)
    pool._users += 1
    try:
        yield
    finally:
        pool._users -= 1
        runtime.allocator.put_back(before)


@contextlib.contextmanager
def caching_allocator_disabled() -> Iterator[None]:
    """Nothing is kept afterwards of what was freed inside."""
    try:
        yield
    finally:
        found = devices()
        for runtime in [] if found is None else list(found.parts.values()):
            runtime.allocator.empty_cache()
