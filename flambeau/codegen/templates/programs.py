"""Programs of kernels: a fixed list of kernels, run again and again with addresses that advance.

A recurrent layer does the same few kernels at every step, each time further along in its matrices.
A command is a kernel, the words of its arguments and what is added to each of them after a step;
the loop over steps and commands is native. Several programs run side by side, one per chunk.

The words are read only: each program is copied to memory of the call's own, where its addresses
advance. So a call can be made again with the same words (compiler/recording.py).

Words: 0 programs  1 steps  2 words of a program  3 commands of a program, then the programs. A
command: address of its kernel, chunks of it, number of argument words n, then the n words and their
n increments. eager/programs.py writes all this.
"""

from flambeau.codegen.llvm_cpu import add_entry, argument_word, module_text
from flambeau.codegen.loops import I64, PTR, Module

HEADER = 4
COMMAND = 3


def build():
    """IR of the runner."""
    module = Module()
    fn = module.function("body", [(PTR, "block"), (I64, "chunk")], internal=True)
    block, chunk = fn.params
    words, copies = argument_word(fn, block, 0, "p"), argument_word(fn, block, 1, "p")

    def word(pointer, k):
        return fn.load(fn.gep(pointer, k, I64), I64, 8)

    steps, length, commands = (word(words, k) for k in (1, 2, 3))
    given = fn.gep(words, chunk * length + HEADER, I64)
    program = fn.gep(copies, chunk * length, I64)
    with fn.loop(0, length) as k:
        fn.store(word(given, k), fn.gep(program, k, I64), 8)
    with fn.loop(0, steps):
        at = fn.var(program)
        with fn.loop(0, commands):
            command = at.get()
            kernel = fn.load(command, PTR, 8)
            chunks, count = word(command, 1), word(command, 2)
            arguments = fn.gep(command, COMMAND, I64)
            increments = fn.gep(arguments, count, I64)
            with fn.loop(0, chunks) as k:
                fn.line(f"call void {kernel.name}({arguments}, {k})")
            with fn.loop(0, count) as k:
                place = fn.gep(arguments, k, I64)
                fn.store(fn.load(place, I64, 8) + word(increments, k), place, 8)
            at.set(fn.gep(increments, count, I64))
    fn.ret()
    add_entry(module, "pp")
    return module_text(module)
