"""`torch.backends.cuda.cufft_plan_cache`: how many plans of transforms a GPU keeps.

Plans that are not kept are made again when they are needed (runtime/cufft.py).
"""

from typing import Any

import flambeau
from flambeau._device import device
from flambeau.runtime.cufft import MOST

_wanted: dict[int, int] = {}  # GPU -> plans that it may keep, where it has no library


class PlanCache:
    """The plans of one GPU; of the current one where no number is given."""

    def __init__(self, index: int | None = None) -> None:
        self.__dict__["_index"] = index

    def _runtime(self) -> Any:
        flambeau.cuda.init()
        return device("cuda", self._index).runtime if self._index is not None else _current()

    @property
    def size(self) -> int:
        """How many plans there are."""
        library = self._runtime().transforms.library()
        return 0 if library is None else len(library.plans)

    @property
    def max_size(self) -> int:
        """How many plans there may be."""
        runtime = self._runtime()
        library = runtime.transforms.library()
        return _wanted.get(runtime.index, MOST) if library is None else library.most

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "size":
            raise RuntimeError(
                ".size is a read-only property showing the number of plans currently in the cache. "
                "To change the cache capacity, set cufft_plan_cache.max_size."
            )
        if name != "max_size":
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        if value < 0:
            raise RuntimeError(f"cuFFT planner cache: max_size must be non-negative, but got {value}")
        runtime = self._runtime()
        library = runtime.transforms.library()
        if library is None:
            _wanted[runtime.index] = value
        else:
            library.keep(value)

    def clear(self) -> None:
        """Forget all plans."""
        library = self._runtime().transforms.library()
        if library is not None:
            library.clear()


class PlanCaches(PlanCache):
    """The same, and by number or name of a GPU."""

    def __getitem__(self, place: Any) -> PlanCache:
        index = place if isinstance(place, int) else device(place).index
        count = flambeau.cuda.device_count()
        if index is None:
            return PlanCache()
        if not 0 <= index < count:
            raise RuntimeError(
                f"cufft_plan_cache: expected 0 <= device index < {count}, but got device with "
                f"index {index}"
            )
        return PlanCache(index)


def _current():
    return device("cuda", flambeau.cuda.current_device()).runtime
