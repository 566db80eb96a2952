"""Writing programs of kernels: see codegen/templates/programs.py for what runs them.

`Command` is a planned kernel with its arguments; `run` repeats lists of commands, one list per
chunk of work, without coming back to Python in between.
"""

import struct
from array import array

from flambeau.eager.kernels import body_of, load_kernel, pool

_runner = None


def bits(number):
    """A float as the word that carries it."""
    return struct.unpack("q", struct.pack("d", number))[0]


class Command:
    """A kernel, its description, how many chunks it has, and its arguments with their increments.

    arguments: words after the description; steps: what each grows by after every step; spare:
    words that the kernel keeps for itself.
    """

    __slots__ = ("words",)

    def __init__(self, kernel, description, chunks, arguments, steps, spare=0):
        rest = [0] * (1 + spare)  # the status, and what else the kernel wants
        given = [description, *arguments, *rest]
        self.words = [body_of(kernel), chunks, len(given), *given, 0, *steps, *rest]


def run(programs, steps):
    """Repeat programs (equally long lists of commands) `steps` times, side by side."""
    global _runner
    if _runner is None:
        from flambeau.codegen.templates.programs import build  # with llvmlite, on first need

        _runner = load_kernel(build(), "program")
    flat = [[w for command in program for w in command.words] for program in programs]
    words = [len(programs), steps, len(flat[0]), len(programs[0])]
    for program in flat:
        words += program
    block = array("q", words)
    if len(programs) > 1:
        pool().ensure_workers()
    _runner(block.buffer_info()[0])
