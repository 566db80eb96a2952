"""Sliding blocks on a GPU: a thread per result, for the descriptions of templates/folding.py."""

from flambeau.codegen.descriptions_places import FoldedBlocks
from flambeau.codegen.gpu.pointwise import divided
from flambeau.codegen.llvm import load_element, store_element
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import Module

THREADS = 256
WORDS = len(FoldedBlocks._fields)


class _Blocks:
    """A kernel under construction."""

    def __init__(self, kinds, per_row):
        self.module, self.per_row = Module(), per_row
        self.kernel = kernel = Kernel(self.module, "p" + kinds, THREADS, words=WORDS)
        self.fn = kernel.fn
        self.d = FoldedBlocks(*[kernel.word(k) for k in range(WORDS)])
        self.arguments = [kernel.argument(1 + k) for k in range(len(kinds))]

    def results(self, visit):
        """visit(number, row, place in the row)"""
        fn, kernel = self.fn, self.kernel
        each = self.per_row(self.d)
        first, step = kernel.group * THREADS, kernel.groups * THREADS
        with (
            kernel.threads(last=True) as thread,
            fn.loop(first + thread, self.d.rows * each, step) as at,
        ):
            row = divided(fn, at, each)
            visit(at, row, at - row * each)
        kernel.done()

        def groups(fn, word):
            d = FoldedBlocks(*[word(k) for k in range(WORDS)])
            return (d.rows * self.per_row(d) + (THREADS - 1)) / THREADS

        add_host_entry(self.module, kernel, groups)
        return module_text(self.module)

    def parted(self, number, size):
        """(number / size, the rest)"""
        quotient = divided(self.fn, number, size)
        return quotient, number - quotient * size


def build_unfold(bits):
    """Both texts: (out, input)."""
    b, integer = _Blocks("pp", lambda d: d.blocks_high * d.blocks_wide), f"i{bits}"
    fn, d, (out, x) = b.fn, b.d, b.arguments

    def visit(at, row, place):
        rest, column = b.parted(row, d.kernel_wide)
        plane, line = b.parted(rest, d.kernel_high)
        block_y, block_x = b.parted(place, d.blocks_wide)
        y = block_y * d.stride_high - d.pad_high + line * d.dilation_high
        from_ = block_x * d.stride_wide - d.pad_wide + column * d.dilation_wide
        inside = y.below(d.height) & from_.below(d.width)

        def read():
            source = (plane * d.height + y) * d.width + from_
            return fn.load(fn.gep(x, source, integer), integer)

        value = fn.if_else(inside, read, lambda: fn.value(0, integer))
        fn.store(value, fn.gep(out, at, integer))

    return b.results(visit)


def build_fold(code):
    """Both texts: (out, columns, scratch); all blocks over a pixel are added up in order."""
    b = _Blocks("ppp", lambda d: d.width)
    fn, d, (out, columns, _) = b.fn, b.d, b.arguments
    type, memory = LLVM_TYPE[COMPUTE_TYPE[code]], MEMORY_TYPE[code]
    size = d.blocks_high * d.blocks_wide

    def visit(at, row, x):
        plane, y = b.parted(row, d.height)
        total = fn.var(fn.value(0, type))
        with fn.loop(0, d.kernel_high) as line:
            down = y + d.pad_high - line * d.dilation_high
            block_y, rest = b.parted(down, d.stride_high)
            met = (down >= 0) & (rest == 0) & (block_y < d.blocks_high)
            with fn.when(met), fn.loop(0, d.kernel_wide) as column:
                along = x + d.pad_wide - column * d.dilation_wide
                block_x, rest = b.parted(along, d.stride_wide)
                with fn.when((along >= 0) & (rest == 0) & (block_x < d.blocks_wide)):
                    number = (plane * d.kernel_high + line) * d.kernel_wide + column
                    place = number * size + block_y * d.blocks_wide + block_x
                    term = load_element(fn, fn.gep(columns, place, memory), code, 1, "c")
                    total.set(total.get() + term)
        store_element(fn, total.get(), fn.gep(out, at, memory), code, 1, "c")

    return b.results(visit)
