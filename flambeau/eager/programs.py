"""Writing programs of kernels: see codegen/templates/programs.py for what runs them.

`Command` is a planned kernel with its arguments; a `Program` repeats lists of commands, one list
per chunk of work, without coming back to Python in between.
"""

import struct
from array import array

from flambeau.eager.kernels import body_of, pool
from flambeau.runtime.cpu import place_of


def bits(number):
    """A float as the word that carries it."""
    return struct.unpack("q", struct.pack("d", number))[0]


def chunks_of(description):
    """The number of chunks of a packed description."""
    return struct.unpack_from("q", description)[0]


class Command:
    """A kernel, its description, how many chunks it has, and its arguments with their increments.

    arguments: words after the description; steps: what each grows by after every step; spare:
    words that the kernel keeps for itself.
    """

    __slots__ = ("words", "kept")

    def __init__(self, kernel, description, chunks, arguments, steps, spare=0):
        rest = [0] * (1 + spare)  # the status, and what else the kernel wants
        self.kept = description
        place = place_of(description) if type(description) is bytes else description
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
        self.words = array("q", words)
        self.kept = [command.kept for commands in lists for command in commands]
        if len(lists) > 1:
            pool().ensure_workers()

    def run(self, steps):
        """Repeat the commands so many times."""
        self.words[1] = steps
        self.runner(self.words.buffer_info()[0])

    def places(self, low, high):
        """Where the words are that hold addresses from low up to high."""
        return [k for k, word in enumerate(self.words) if low <= word < high]

    def move(self, places, distance):
        """Add a distance to some addresses."""
        for k in places:
            self.words[k] += distance
