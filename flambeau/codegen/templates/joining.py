"""The kernel that lists the places of a triangle: row numbers, then column numbers.

It writes runs of numbers one after the other, so it is a short serial loop. Everything else that
joins and rearranges tensors is done with copies (eager/joining.py).
"""

from flambeau.codegen.llvm_cpu import add_entry, argument_word, module_text
from flambeau.codegen.loops import I64, PTR, Module


def build_triangle(type):
    """Words: chunks, rows, columns, offset, lower?, count. Writes integers of a type."""
    module = Module()
    fn = module.function("body", [(PTR, "block"), (I64, "chunk")], internal=True)
    words, out = (argument_word(fn, fn.params[0], k, "p") for k in range(2))
    rows, columns, offset, lower, count = (
        fn.load(fn.gep(words, k, I64), I64, 8) for k in range(1, 6)
    )
    size, zero = 8 if type == I64 else 4, fn.value(0, I64)
    place = fn.var(zero)
    with fn.loop(0, rows) as row:
        edge = fn.max(fn.min(row + offset + lower, columns), zero)
        begin, end = fn.select(lower != 0, zero, edge), fn.select(lower != 0, edge, columns)
        first = place.get() - begin
        with fn.loop(begin, end) as column:
            for number, at in ((row, first + column), (column, first + column + count)):
                number = number if type == I64 else fn.convert("trunc", number, type)
                fn.store(number, fn.gep(out, at, type), size)
        place.set(first + end)
    fn.ret()
    add_entry(module, "pp")
    return module_text(module)
