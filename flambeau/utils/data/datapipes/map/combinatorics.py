"""Samples with indices in random order."""

import random
from collections.abc import Iterator
from typing import Any, TypeVar

from ...sampler import fresh_seed
from ..datapipe import IterDataPipe, MapDataPipe

__all__ = ["ShufflerIterDataPipe"]

_T_co = TypeVar("_T_co", covariant=True)


class ShufflerIterDataPipe(IterDataPipe[_T_co]):
    """The samples of a pipe with indices, in random order (functional name: ``shuffle``).

    Args:
        datapipe: the source.
        indices: of the samples; 0, 1, 2, ... if not given.

    Example:
        >>> from flambeau.utils.data.datapipes.map import SequenceWrapper
        >>> sorted(SequenceWrapper(range(4)).shuffle())
        [0, 1, 2, 3]
    """

    datapipe: Any

    def __init__(self, datapipe: MapDataPipe[_T_co], *, indices: list[Any] | None = None) -> None:
        super().__init__()
        self.datapipe = datapipe
        self.indices = list(range(len(self.datapipe))) if indices is None else indices
        self._enabled = True
        self._seed: int | None = None
        self._rng = random.Random()
        self._shuffled_indices: list[Any] = self.indices

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
            for index in self.indices:
                yield self.datapipe[index]
            return
        while self._shuffled_indices:
            yield self.datapipe[self._shuffled_indices.pop()]

    def reset(self) -> None:
        if self._enabled:
            self._rng.seed(fresh_seed(None) if self._seed is None else self._seed)
            self._seed = None
        self._shuffled_indices = self._rng.sample(self.indices, len(self.indices))

    def __len__(self) -> int:
        return len(self.datapipe)

    def __getstate__(self) -> Any:
        return self._hooked(
            (
                self.datapipe,
                self.indices,
                self._enabled,
                self._seed,
                self._rng.getstate(),
                self._shuffled_indices,
                self._valid_iterator_id,
                self._number_of_samples_yielded,
            )
        )

    def __setstate__(self, state: Any) -> None:
        (
            self.datapipe,
            self.indices,
            self._enabled,
            self._seed,
            drawn,
            self._shuffled_indices,
            self._valid_iterator_id,
            self._number_of_samples_yielded,
        ) = state
        self._rng = random.Random()
        self._rng.setstate(drawn)


MapDataPipe.register_datapipe_as_function("shuffle", ShufflerIterDataPipe)
