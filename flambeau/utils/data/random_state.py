"""Where the random streams of a process are, so that a loader can go back there.

A `RandomState` holds the default generator, further generators by their place in a list, Python's
`random` and NumPy's global stream, if somebody uses NumPy. Taking one costs microseconds; as plain
data (`plain`, `from_plain`) it can be saved with tensors and read by `load(weights_only=True)`.
"""

import random
import sys
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

            numpy.random.set_state(self.numpy)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RandomState):
            return NotImplemented
        return (
            self.marks == other.marks
            and self.python == other.python
            and _comparable(self.numpy) == _comparable(other.numpy)
        )

    __hash__ = None  # type: ignore[assignment]

    def plain(self) -> dict[str, Any]:
        """The same as tensors, tuples and numbers."""
        states = []
        for mark in self.marks:
            generator = Generator()
            generator._go_back(mark)
            states.append(generator.get_state())
        return {
            "generators": states,
            "python": self.python,
            "numpy": None if self.numpy is None else _comparable(self.numpy),
        }

    @classmethod
    def from_plain(cls, data: dict[str, Any]) -> "RandomState":
        marks = [Generator().set_state(state)._mark() for state in data["generators"]]
        python, numpy = data["python"], data["numpy"]
        if python is not None:
            version, words, waiting = python
            python = version, tuple(words), waiting
        if numpy is not None:
            name, words, *rest = numpy
            import numpy as np

            numpy = (name, np.array(words, dtype=np.uint32), *rest)
        return cls(marks, python, numpy)

    def __reduce__(self) -> tuple[Any, ...]:
        return RandomState, (self.marks, self.python, self.numpy)


def _numpy_state() -> Any:
    numpy = sys.modules.get("numpy")
    # A program may still be importing NumPy on another thread.
    stream = getattr(numpy, "random", None) if numpy is not None else None
    if stream is None:
        return None
    state = stream.get_state()
    return state if isinstance(state, tuple) else None  # a dict: not NumPy's usual generator


def _comparable(state: Any) -> Any:
    if state is None:
        return None
    name, words, *rest = state
    return (name, tuple(words.tolist()), *rest)
