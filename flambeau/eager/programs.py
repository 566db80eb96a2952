"""Writing programs of kernels: see codegen/templates/programs.py for what runs them.

`Command` is a planned kernel with its arguments; a `Program` repeats lists of commands, one list
per chunk of work, without coming back to Python in between.
"""

import struct
from array import array

from flambeau import _dtype
from flambeau._device import device
from flambeau._layout import dense_layout
from flambeau._tensor import empty_like_layout
from flambeau.eager.kernels import body_of, pool
from flambeau.runtime.cpu import place_of

HEADER = 4  # words before the programs


def bits(number):
    """A float as the word that carries it."""
    return struct.unpack("q", struct.pack("d", number))[0]


def plain_words(count):
    """Memory for so many words."""
    return empty_like_layout(dense_layout((count,), _dtype.int64, device("cpu")))


def chunks_of(description):
    """The number of chunks of a packed description."""
    return struct.unpack_from("q", description)[0]


_descriptions: dict = {}


class Command:
    """A kernel, its description, how many chunks it has, and its arguments with their increments.

    arguments: words after the description; steps: what each grows by after every step; spare:
    words that the kernel keeps for itself.
    """

    __slots__ = ("words",)

    def __init__(self, kernel, description, chunks, arguments, steps, spare=0):
        rest = [0] * (1 + spare)  # the status, and what else the kernel wants
        # kept for good, as tapes launch programs again; there are few, whatever the sizes
        place = description
        if type(description) is bytes:
            place = place_of(_descriptions.setdefault(description, description))
        given = [place, *arguments, *rest]
        self.words = [body_of(kernel), chunks, len(given), *given, 0, *steps, *rest]


class Program:
    """Lists of commands (equally long ones), one per chunk of work.

    Arguments stand, after every run, where the next step would begin, so that a program may go on
    later; `move` takes some of them elsewhere.
    """

    def __init__(self, lists, runtime):
        self.runner = runtime.kernel("program", "programs:build")
        flat = [[w for command in commands for w in command.words] for commands in lists]
        words = [len(lists), 0, len(flat[0]), len(lists[0])]
        for program in flat:
            words += program
        self.words, self.gone = array("q", words), 0
        self.growth = _growing(words, len(lists[0]) * len(lists))
        self.copies = plain_words(len(words) - HEADER)
        if len(lists) > 1:
            pool().ensure_workers()

    def run(self, steps):
        """Repeat the commands so many times."""
        self._advance()
        self.words[1] = self.gone = steps
        self.runner(self.words.tobytes(), self.copies._storage.pointer)

    def _advance(self):
        """Take arguments to where the last run left them: it worked on a copy."""
        if self.gone:
            for k, step in self.growth:
                self.words[k] += self.gone * step
            self.gone = 0

    def places(self, low, high):
        """Where the words are that hold addresses from low up to high."""
        self._advance()
        return [k for k, word in enumerate(self.words) if low <= word < high]

    def move(self, places, distance):
        """Add a distance to some addresses."""
        self._advance()
        for k in places:
            self.words[k] += distance


def _growing(words, commands):
    """(place, increment) of all arguments that grow."""
    found, at = [], HEADER
    for _ in range(commands):
        count, first = words[at + 2], at + 3
        steps = words[first + count : first + 2 * count]
        found += [(first + k, step) for k, step in enumerate(steps) if step]
        at = first + 2 * count
    return found
