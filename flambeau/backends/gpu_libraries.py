"""What programs may say about libraries of GPUs: how many plans of transforms are kept
(`torch.backends.cuda.cufft_plan_cache`), and which library they would like to be used.

Plans that are not kept are made again when they are needed (runtime/cufft.py). Of libraries there
is one for each kind of work, so a wish is remembered, and no more.
"""

import enum
from typing import Any

import flambeau
from flambeau._device import device
from flambeau.runtime.cufft import MOST

_wanted: dict[int, int] = {}  # GPU -> plans that it may keep, where it has no library


class cuFFTPlanCache:
    """The plans of one GPU; of the current one where no number is given."""

    _index: int | None

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
            raise RuntimeError(f"cuFFT plan cache size must be non-negative, but got {value}")
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


class cuFFTPlanCacheManager(cuFFTPlanCache):
    """The same, and by number or name of a GPU."""

    def __getitem__(self, place: Any) -> cuFFTPlanCache:
        index = place if isinstance(place, int) else device(place).index
        if index is None:
            raise ValueError(
                "Expected a torch.device with a specified index or an integer, but got:"
                + str(place)
            )
        count = flambeau.cuda.device_count()
        if not 0 <= index < count:
            raise RuntimeError(
                f"cufft_plan_cache: expected 0 <= device index < {count}, but got device with "
                f"index {index}"
            )
        return cuFFTPlanCache(index)


def _current():
    return device("cuda", flambeau.cuda.current_device()).runtime


class _LinalgBackend(enum.IntEnum):
    """Libraries that factor matrices."""

    Default, Cusolver, Magma = range(3)


class _BlasBackend(enum.IntEnum):
    """Libraries that multiply matrices."""

    Default, Cublas, Cublaslt, Ck = range(4)


class Wish:
    """Which of several libraries a program would like to be used.

    names: what it may say; kind: what it is told. Libraries of a GPU are refused without one.
    """

    def __init__(self, kind: Any, chosen: Any, names: dict[str, Any]) -> None:
        self.kind, self.first, self.chosen, self.names = kind, chosen, chosen, names

    def __call__(self, backend: Any = None) -> Any:
        if backend is None:
            return self.chosen
        if isinstance(backend, str):
            if backend not in self.names:
                names = ", ".join(self.names)
                raise RuntimeError(f"Unknown input value. Choose from: {names}.")
            backend = self.names[backend]
        elif not isinstance(backend, self.kind):
            raise RuntimeError("Unknown input value type.")
        said = REFUSED.get(backend.name)
        if said is not None and not flambeau.cuda.is_available():
            raise RuntimeError(
                f"Cannot set preferred backend to {said} if PyTorch has not been compiled with "
                f"{said}."
            )
        self.chosen = self.first if backend == 0 else backend
        return self.chosen


REFUSED = {"Cusolver": "cuSOLVER", "Magma": "MAGMA", "Cublaslt": "cuBLASLt"}
_LINALG, _BLAS = _LinalgBackend, _BlasBackend
linalg_library = Wish(
    _LINALG,
    _LINALG.Default,
    {"default": _LINALG.Default, "cusolver": _LINALG.Cusolver, "magma": _LINALG.Magma},
)
blas_library = Wish(
    _BLAS,
    _BLAS.Cublas,
    {
        "default": _BLAS.Default, "cublas": _BLAS.Cublas, "hipblas": _BLAS.Cublas,
        "cublaslt": _BLAS.Cublaslt, "hipblaslt": _BLAS.Cublaslt, "ck": _BLAS.Ck,
    },
)  # fmt: skip
