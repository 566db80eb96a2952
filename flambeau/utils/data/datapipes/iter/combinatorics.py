"""Other orders of the samples."""

import random
from collections.abc import Iterator, Sized
from typing import Any, TypeVar

from ...sampler import Sampler, SequentialSampler, fresh_seed
from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from .utils import no_length

__all__ = ["SamplerIterDataPipe", "ShufflerIterDataPipe"]

_T_co = TypeVar("_T_co", covariant=True)


class SamplerIterDataPipe(IterDataPipe[_T_co]):
    """The indices that a sampler draws for a pipe.

    Args:
        datapipe: the source, with a length.
        sampler: the class of the sampler.
        sampler_args: its arguments after the source.
        sampler_kwargs: its keyword arguments.
    """

    datapipe: IterDataPipe[Any]
    sampler: Sampler[Any]

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        sampler: type[Sampler[Any]] = SequentialSampler,
        sampler_args: tuple[Any, ...] | None = None,
        sampler_kwargs: dict[str, Any] | None = None,
    ) -> None:
        if not isinstance(datapipe, Sized):
            raise AssertionError("Sampler class requires input datapipe implemented `__len__`")
        super().__init__()
        self.datapipe = datapipe
        self.sampler_args = () if sampler_args is None else sampler_args
        self.sampler_kwargs = {} if sampler_kwargs is None else sampler_kwargs
        self.sampler_kwargs["data_source"] = datapipe
        self.sampler = sampler(*self.sampler_args, **self.sampler_kwargs)

    def __iter__(self) -> Iterator[_T_co]:
        return iter(self.sampler)

    def __len__(self) -> int:
        if isinstance(self.sampler, Sized):
            return len(self.sampler)
        raise no_length(self)


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(IterDataPipe[_T_co]):
    """The samples in random order, out of a buffer (functional name: ``shuffle``).

    Once the buffer is full, each sample that comes takes the place of a random one, which is handed
    out. A buffer that holds everything gives all orders equally often.

    Args:
        datapipe: the source.
        buffer_size: how many samples wait.
        unbatch_level: how many levels of batches to open before, so that samples move between them.

    Example:
        >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(range(5)).shuffle().set_shuffle(False))
        [0, 1, 2, 3, 4]
    """

    datapipe: IterDataPipe[_T_co]
    buffer_size: int

    def __init__(
        self,
        datapipe: IterDataPipe[_T_co],
        *,
        buffer_size: int = 10000,
        unbatch_level: int = 0,
    ) -> None:
        super().__init__()
        self._buffer: list[Any] = []
        if buffer_size <= 0:
            raise AssertionError("buffer_size should be larger than 0")
        if unbatch_level:
            datapipe = datapipe.unbatch(unbatch_level=unbatch_level)
        self.datapipe, self.buffer_size = datapipe, buffer_size
        self._enabled = True
        self._seed: int | None = None
        self._rng = random.Random()

    def set_shuffle(self, shuffle: bool = True) -> "ShufflerIterDataPipe[_T_co]":
        """Whether to shuffle at all; a loader's `shuffle` says it."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> "ShufflerIterDataPipe[_T_co]":
        """What the next order is drawn from, instead of the default generator."""
        self._seed = seed
        return self

    def __iter__(self) -> Iterator[_T_co]:
        if not self._enabled:
            yield from self.datapipe
            return
        buffer, last = self._buffer, self.buffer_size - 1
        for sample in self.datapipe:
            if len(buffer) <= last:
                buffer.append(sample)
                continue
            place = self._rng.randint(0, last)
            chosen, buffer[place] = buffer[place], sample
            yield chosen
        while buffer:
            yield buffer.pop(self._rng.randint(0, len(buffer) - 1))

    def __len__(self) -> int:
        if isinstance(self.datapipe, Sized):
            return len(self.datapipe)
        raise no_length(self)

    def reset(self) -> None:
        self._buffer = []
        if self._enabled:
            self._rng.seed(fresh_seed(None) if self._seed is None else self._seed)
            self._seed = None

    def __getstate__(self) -> Any:
        return self._hooked(
            (
                self.datapipe,
                self.buffer_size,
                self._enabled,
                self._seed,
                self._buffer,
                self._rng.getstate(),
                self._valid_iterator_id,
                self._number_of_samples_yielded,
            )
        )

    def __setstate__(self, state: Any) -> None:
        (
            self.datapipe,
            self.buffer_size,
            self._enabled,
            self._seed,
            self._buffer,
            drawn,
            self._valid_iterator_id,
            self._number_of_samples_yielded,
        ) = state
        self._rng = random.Random()
        self._rng.setstate(drawn)
