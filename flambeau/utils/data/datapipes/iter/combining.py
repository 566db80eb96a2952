"""Several pipes as one, and one as several.

`fork` and `demux` give children of one hidden main pipe, which reads the source once and keeps what
some of the children have not had yet. An iteration belongs to all children together: a child that
is iterated again begins a new one for everybody.
"""

import copy as copying
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sized
from typing import Any, Literal, TypeVar

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from ..utils.common import StreamWrapper, _check_unpickable_fn
from .utils import no_length

__all__ = [
    "ConcaterIterDataPipe",
    "DemultiplexerIterDataPipe",
    "ForkerIterDataPipe",
    "MultiplexerIterDataPipe",
    "ZipperIterDataPipe",
]

_T_co = TypeVar("_T_co", covariant=True)

# attributes of main pipes that do not travel
PROGRESS = frozenset("_source _read_out _ended _buffer _first _places _buffers".split())


@functional_datapipe("concat")
class ConcaterIterDataPipe(IterDataPipe[Any]):
    """Pipes one after the other (functional name: ``concat``).

    Args:
        datapipes: the pipes.

    Example:
        >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(range(3)).concat(IterableWrapper(range(2))))
        [0, 1, 2, 0, 1]
    """

    datapipes: tuple[IterDataPipe[Any], ...]

    def __init__(self, *datapipes: IterDataPipe[Any]) -> None:
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError("Expected all inputs to be `IterDataPipe`")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for pipe in self.datapipes:
            yield from pipe

    def __len__(self) -> int:
        return sum(_lengths(self))


@functional_datapipe("mux")
class MultiplexerIterDataPipe(IterDataPipe[Any]):
    """A sample of each pipe in turn, until one has no more (functional name: ``mux``).

    Args:
        datapipes: the pipes.

    Example:
        >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(range(3)).mux(IterableWrapper("ab")))
        [0, 'a', 1, 'b']
    """

    def __init__(self, *datapipes: IterDataPipe[Any]) -> None:
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for turn in zip(*self.datapipes):
            yield from turn

    def __len__(self) -> int:
        return min(_lengths(self)) * len(self.datapipes)


@functional_datapipe("zip")
class ZipperIterDataPipe(IterDataPipe[tuple[Any, ...]]):
    """Tuples of a sample of each pipe, until one has no more (functional name: ``zip``).

    Args:
        datapipes: the pipes.

    Example:
        >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(range(3)).zip(IterableWrapper("ab")))
        [(0, 'a'), (1, 'b')]
    """

    datapipes: tuple[IterDataPipe[Any], ...]

    def __init__(self, *datapipes: IterDataPipe[Any]) -> None:
        if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError("All inputs are required to be `IterDataPipe` for `ZipIterDataPipe`.")
        super().__init__()
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        yield from zip(*self.datapipes)

    def __len__(self) -> int:
        return min(_lengths(self))


def _lengths(pipe: Any) -> list[int]:
    if all(isinstance(source, Sized) for source in pipe.datapipes):
        return [len(source) for source in pipe.datapipes]
    raise no_length(pipe)


@functional_datapipe("fork")
class ForkerIterDataPipe(IterDataPipe[Any]):
    """Several pipes with the samples of one (functional name: ``fork``).

    Args:
        datapipe: the source.
        num_instances: how many pipes.
        buffer_size: how many samples the fastest may be before the slowest; -1 for no bound.
        copy: "shallow" or "deep" gives each pipe copies of its own.

    Example:
        >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
        >>> one, two = IterableWrapper(range(3)).fork(2)
        >>> list(one), list(two)
        ([0, 1, 2], [0, 1, 2])
    """

    def __new__(
        cls,
        datapipe: IterDataPipe[Any],
        num_instances: int,
        buffer_size: int = 1000,
        copy: Literal["shallow", "deep"] | None = None,
    ) -> Any:
        _check_instances(num_instances)
        if num_instances == 1:
            return datapipe
        return _children(_ForkerIterDataPipe(datapipe, num_instances, buffer_size, copy))


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(IterDataPipe[Any]):
    """Several pipes that share out the samples of one (functional name: ``demux``).

    Args:
        datapipe: the source.
        num_instances: how many pipes.
        classifier_fn: the number of the pipe that a sample goes to.
        drop_none: whether samples for which it says None are left out; else they are errors.
        buffer_size: how many samples may wait for other pipes; -1 for no bound.

    Example:
        >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
        >>> low, high = IterableWrapper("aBc").demux(2, str.isupper)
        >>> list(low), list(high)
        (['a', 'c'], ['B'])
    """

    def __new__(
        cls,
        datapipe: IterDataPipe[Any],
        num_instances: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> Any:
        _check_instances(num_instances)
        _check_unpickable_fn(classifier_fn)
        return _children(
            _DemultiplexerIterDataPipe(
                datapipe, num_instances, classifier_fn, drop_none, buffer_size
            )
        )


def _check_instances(count: int) -> None:
    if count < 1:
        raise ValueError(f"Expected `num_instances` larger than 0, but {count} is found")


def _children(main: Any) -> list[Any]:
    return [_ChildDataPipe(main, number) for number in range(main.num_instances)]


class _ContainerTemplate(ABC):
    """What a main pipe answers to its children."""

    @abstractmethod
    def get_next_element_by_instance(self, instance_id: int) -> Iterator[Any]: ...

    @abstractmethod
    def is_every_instance_exhausted(self) -> bool: ...

    @abstractmethod
    def reset(self) -> None: ...

    @abstractmethod
    def get_length_by_instance(self, instance_id: int) -> int: ...


class _MainPipe(IterDataPipe[Any], _ContainerTemplate):
    """A source that is read once for several children."""

    main_datapipe: IterDataPipe[Any]
    num_instances: int
    buffer_size: int
    name: str

    def _start(self) -> None:
        """As before the first sample."""
        self._source: Iterator[Any] | None = None
        self._read_out = False  # whether the source has come to its end
        self._ended = [True] * self.num_instances

    def _check_bounded(self) -> None:
        if self.buffer_size < 0:
            warnings.warn(
                f"Unlimited buffer size is set for `{self.name}`, please be aware of OOM at "
                "random places",
                stacklevel=5,
            )

    def get_next_element_by_instance(self, instance_id: int) -> Iterator[Any]:
        ended = self._ended
        if self._source is None and all(ended):
            self._source = iter(self.main_datapipe)
            ended[:] = [False] * self.num_instances
        try:
            while not ended[instance_id]:
                try:
                    value = self._next_of(instance_id)
                except StopIteration:
                    return
                yield value
        finally:
            ended[instance_id] = True
            if ended is self._ended and all(ended):
                self._source = None
                self._cleanup()

    def _next_of(self, instance_id: int) -> Any:
        """The next sample of a child; StopIteration if it has had all."""
        raise NotImplementedError

    def _read(self) -> Any:
        if self._source is None or self._read_out:
            raise StopIteration
        try:
            return next(self._source)
        except StopIteration:
            self._read_out = True
            raise

    def _waiting(self) -> Iterator[Any]:
        """What some child has not had yet."""
        raise NotImplementedError

    def is_every_instance_exhausted(self) -> bool:
        return self._read_out and all(self._ended)

    def get_length_by_instance(self, instance_id: int) -> int:
        raise TypeError

    def _cleanup(self) -> None:
        for value in self._waiting():
            StreamWrapper.close_streams(value)

    def reset(self) -> None:
        self._cleanup()
        self._start()

    def __getstate__(self) -> Any:
        return self._hooked({k: v for k, v in self.__dict__.items() if k not in PROGRESS})

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)
        self._start()

    def __del__(self) -> None:
        if "_ended" in self.__dict__:
            self._cleanup()


class _ForkerIterDataPipe(_MainPipe):
    """Keeps what the slowest child has not had, and how far each has come."""

    name = "fork"

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        num_instances: int,
        buffer_size: int = 1000,
        copy: Literal["shallow", "deep"] | None = None,
    ) -> None:
        self.main_datapipe, self.num_instances = datapipe, num_instances
        self.buffer_size = buffer_size
        self._start()
        self._check_bounded()
        ways = {None: _no_op, "shallow": copying.copy, "deep": copying.deepcopy}
        if copy not in ways:
            raise ValueError(
                f"Unknown copy method `{copy}` requested, choose one of None, `shallow` or `deep`."
            )
        self.copy_fn: Callable[[Any], Any] = ways[copy]

    def _start(self) -> None:
        super()._start()
        self._buffer: deque[Any] = deque()
        self._first = 0  # the number of the sample at the left of the buffer
        self._places = [0] * self.num_instances

    def _next_of(self, instance_id: int) -> Any:
        buffer, places = self._buffer, self._places
        place = places[instance_id]
        if place < self._first + len(buffer):
            value = buffer[place - self._first]
        else:
            slowest = min(places)
            if 0 <= self.buffer_size <= place - slowest:
                raise BufferError(
                    "ForkerIterDataPipe buffer overflow,"
                    f"buffer size {self.buffer_size} is insufficient."
                )
            value = self._read()
            buffer.append(value)
        places[instance_id] += 1
        if place == self._first:
            for _ in range(min(places) - self._first):
                buffer.popleft()
                self._first += 1
        return self.copy_fn(value)

    def _waiting(self) -> Iterator[Any]:
        while self._buffer:
            yield self._buffer.popleft()

    def get_length_by_instance(self, instance_id: int) -> int:
        return len(self.main_datapipe)

    def __len__(self) -> int:
        return len(self.main_datapipe)


def _no_op(value: Any) -> Any:
    return value


class _DemultiplexerIterDataPipe(_MainPipe):
    """Keeps for each child what others found while they looked for theirs."""

    name = "demux"

    def __init__(
        self,
        datapipe: IterDataPipe[_T_co],
        num_instances: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool,
        buffer_size: int,
    ) -> None:
        self.main_datapipe, self.num_instances = datapipe, num_instances
        self.buffer_size = buffer_size
        self._start()
        self._check_bounded()
        self.classifier_fn, self.drop_none = classifier_fn, drop_none

    def _start(self) -> None:
        super()._start()
        self._buffers: list[deque[Any]] = [deque() for _ in range(self.num_instances)]

    def _next_of(self, instance_id: int) -> Any:
        if self._buffers[instance_id]:
            return self._buffers[instance_id].popleft()
        while True:
            value = self._read()
            number = self.classifier_fn(value)
            if number is None and self.drop_none:
                StreamWrapper.close_streams(value)
                continue
            if number is None or not 0 <= number < self.num_instances:
                raise ValueError(
                    "Output of the classification fn should be between 0 and "
                    f"{self.num_instances - 1}. {number} is returned."
                )
            if number == instance_id:
                return value
            self._buffers[number].append(value)
            if 0 <= self.buffer_size < sum(map(len, self._buffers)):
                raise BufferError(
                    "DemultiplexerIterDataPipe buffer overflow, buffer size "
                    f"{self.buffer_size} is insufficient."
                )

    def _waiting(self) -> Iterator[Any]:
        for buffer in self._buffers:
            while buffer:
                yield buffer.popleft()


class _ChildDataPipe(IterDataPipe[Any]):
    """One of several pipes with one source."""

    _is_child_datapipe = True

    def __init__(self, main_datapipe: Any, instance_id: int) -> None:
        if not isinstance(main_datapipe, _ContainerTemplate):
            raise AssertionError("main_datapipe must implement `_ContainerTemplate`")
        self.main_datapipe: Any = main_datapipe
        self.instance_id = instance_id

    def __iter__(self) -> Iterator[Any]:
        return self.main_datapipe.get_next_element_by_instance(self.instance_id)

    def __len__(self) -> int:
        return self.main_datapipe.get_length_by_instance(self.instance_id)

    def _set_main_datapipe_valid_iterator_id(self) -> int:
        """Join the iteration of the other children, or begin a new one for all."""
        main = self.main_datapipe
        if main._valid_iterator_id is None:
            main._valid_iterator_id = 0
        elif self._valid_iterator_id == main._valid_iterator_id:
            main._valid_iterator_id += 1
            if not main.is_every_instance_exhausted():
                warnings.warn(
                    "Some child DataPipes are not exhausted when __iter__ is called. We are "
                    "resetting the buffer and each child DataPipe will read from the start again.",
                    stacklevel=2,
                )
            main.reset()
        self._valid_iterator_id = main._valid_iterator_id
        self._number_of_samples_yielded = 0
        return main._valid_iterator_id

    def _check_valid_iterator_id(self, iterator_id: int) -> bool:
        return iterator_id == self._valid_iterator_id == self.main_datapipe._valid_iterator_id
