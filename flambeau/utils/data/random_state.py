"""Where the random streams of a process are, so that a loader can go back there.

A `RandomState` holds the default generator, further generators by their place in a list, Python's
`random` and NumPy's global stream, if somebody uses NumPy. Taking one costs microseconds; as plain
data (`plain`, `from_plain`) it can be saved with tensors and read by `load(weights_only=True)`.
"""

import random
import sys
from array import array
from collections.abc import Sequence
from typing import Any

from flambeau import Generator, default_generator


class RandomState:
    """The state of all streams at one moment."""

    __slots__ = ("marks", "python", "numpy")

    def __init__(self, marks: Sequence[bytes], python: Any, numpy: Any) -> None:
        self.marks = list(marks)  # of the default generator, then of the others
        self.python = python
        self.numpy = numpy

    @classmethod
    def now(cls, generators: Sequence[Generator] = (), foreign: bool = True) -> "RandomState":
        """The present state; `foreign` says whether Python's and NumPy's streams count."""
        marks = [generator._mark() for generator in (default_generator, *generators)]
        if not foreign:
            return cls(marks, None, None)
        return cls(marks, random.getstate(), _numpy_state())

    def restore(self, generators: Sequence[Generator] = ()) -> None:
        """Put the streams back to this state; those that it does not know stay."""
        for generator, mark in zip((default_generator, *generators), self.marks):
            generator._go_back(mark)
        if self.python is not None:
            random.setstate(self.python)
        if self.numpy is not None:
            import numpy

            name, words, *rest = self.numpy
            numpy.random.set_state((name, numpy.frombuffer(words, numpy.uint32), *rest))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RandomState):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def plain(self) -> dict[str, Any]:
        """The same as tensors, tuples and numbers."""
        states = []
        for mark in self.marks:
            generator = Generator()
            generator._go_back(mark)
            states.append(generator.get_state())
        numpy = self.numpy
        if numpy is not None:
            name, words, *rest = numpy
            numpy = (name, tuple(array("I", words)), *rest)
        return {"generators": states, "python": self.python, "numpy": numpy}

    @classmethod
    def from_plain(cls, data: dict[str, Any]) -> "RandomState":
        marks = [Generator().set_state(state)._mark() for state in data["generators"]]
        python, numpy = data["python"], data["numpy"]
        if python is not None:
            version, words, waiting = python
            python = version, tuple(words), waiting
        if numpy is not None:
            name, words, *rest = numpy
            numpy = (name, array("I", words).tobytes(), *rest)
        return cls(marks, python, numpy)

    def __reduce__(self) -> tuple[Any, ...]:
        python = self.python
        if python is not None:  # many small integers are slow to pickle
            version, words, waiting = python
            python = version, array("I", words).tobytes(), waiting
        return _unpickled, (self.marks, python, self.numpy)


def _unpickled(marks: list[bytes], python: Any, numpy: Any) -> RandomState:
    if python is not None:
        version, words, waiting = python
        python = version, tuple(array("I", words)), waiting
    return RandomState(marks, python, numpy)


def _numpy_state() -> Any:
    numpy = sys.modules.get("numpy")
    # A program may still be importing NumPy on another thread.
    stream = getattr(numpy, "random", None) if numpy is not None else None
    if stream is None:
        return None
    state = stream.get_state()
    if not isinstance(state, tuple):
        return None  # a dict: not NumPy's usual generator
    name, words, *rest = state
    return (name, words.tobytes(), *rest)
