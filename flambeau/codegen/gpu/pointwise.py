"""The pointwise nest on a GPU: a thread takes a few elements side by side, then goes on.

Arguments and description are those of `codegen/build.py`. Where every operand lies side by side (or
is one value for all) and everything is aligned, a thread moves 16 bytes at a time; elsewhere it
takes element by element, neighbours in memory going to neighbouring threads.
"""

from flambeau.codegen.build import (
    HEADER,
    PointwiseBody,
    _describe_run,
    _mentions,
    _parts,
    kernel_kinds,
)
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I32, I64, Module, bytes_of

THREADS = 256
LINE = 16  # bytes that a thread moves at once


def build(nest):
    """(both texts of a nest, the nest)."""
    module = Module()
    body = GpuPointwise(module, nest)
    body.write()
    accesses = [access for _, access in nest.outputs + nest.inputs]
    is_run = nest.rank == 0 and set(accesses) == {"c"}
    add_host_entry(module, body.kernel, body.grid, _describe_run(len(accesses)) if is_run else None)
    return module_text(module), nest


def lanes_of(nest):
    """Elements that a thread takes at once where all lie side by side."""
    sizes = [bytes_of(MEMORY_TYPE[d]) * (2 if d[0] == "c" else 1) for d, _ in nest.inputs]
    sizes += [bytes_of(MEMORY_TYPE[d]) * (2 if d[0] == "c" else 1) for d, _ in nest.outputs]
    widest = max(sizes)
    computed = max(bytes_of(LLVM_TYPE[COMPUTE_TYPE[d]]) for d, _ in nest.inputs + nest.outputs)
    return max(1, min(LINE // widest, 32 // computed, 8))


class GpuPointwise(PointwiseBody):
    """Writes the kernel; the words of the description are read as the host's kernel reads them."""

    def __init__(self, module, nest):
        words = HEADER + nest.rank + (1 + nest.rank) * len(nest.outputs + nest.inputs)
        self.kernel = Kernel(module, kernel_kinds(nest), THREADS, words=words)
        self.fn, self.nest = self.kernel.fn, nest
        self.block = self.kernel.block
        self.operands = nest.outputs + nest.inputs
        self.lanes = lanes_of(nest)
        self.width = 1
        self.uses_coordinates = any(_mentions(v, "coordinate") for v in _parts(nest.values))
        self.description = self.kernel.description

    def grid(self, fn, word):
        """Groups of threads for so many rows of so many elements."""
        return (word(4) * word(5) + (self.lanes * THREADS - 1)) / (self.lanes * THREADS)

    def write(self):
        nest, kernel = self.nest, self.kernel
        self.bases = [kernel.argument(1 + k) for k in range(len(self.operands))]
        first = 1 + len(self.operands)
        self.scalars = [kernel.argument(first + k) for k in range(len(nest.scalars))]
        self.status = kernel.status
        words = HEADER + nest.rank
        self.inner_strides, self.outer_strides = [], []
        for _ in self.operands:
            self.inner_strides.append(self._word(words))
            self.outer_strides.append([self._word(words + 1 + d) for d in range(nest.rank)])
            words += 1 + nest.rank
        self.rows, self.length = self._word(4), self._word(5)
        self.sizes = [self._word(HEADER + d) for d in range(nest.rank)]
        self.uniform = self._hoist_uniform()
        total = self.rows * self.length
        with kernel.threads(last=True) as thread:
            index = kernel.group * THREADS + thread
            self.walk(index, kernel.groups * THREADS, total, thread)
        self.finish()
        kernel.done()

    def walk(self, index, step, total, thread):
        """What a thread does: elements from its own on, a step apart."""
        if self.lanes > 1 and self._may_be_wide():
            self.fn.if_else(
                self._is_aligned(),
                lambda: self._wide(index, step, total),
                lambda: self._each(index, step, total),
            )
        else:
            self._each(index, step, total)

    def finish(self):
        """What follows when all threads are done."""

    def _may_be_wide(self):
        return not self.uses_coordinates and all(access in "cs" for _, access in self.operands)

    def _is_aligned(self):
        """Do all vectors start at multiples of their size?"""
        fn, bits = self.fn, None
        for k, (dtype, access) in enumerate(self.operands):
            if access == "s":
                continue
            item = bytes_of(MEMORY_TYPE[dtype]) * (2 if dtype[0] == "c" else 1)
            place = fn.pure(f"ptrtoint {self.bases[k]} to i64", I64)
            for stride in self.outer_strides[k]:
                place = place | stride
            place = place & (item * self.lanes - 1)
            bits = place if bits is None else bits | place
        aligned = bits == 0
        rest = self.length & (self.lanes - 1) if self.nest.rank else None
        return aligned if rest is None else aligned & (rest == 0)

    def _wide(self, index, step, total):
        fn, n = self.fn, self.lanes
        whole = (total / n) * n if self.nest.rank == 0 else total
        fn.vector_align = LINE
        with fn.loop(index * n, whole, step * n) as at:
            bases, column, coordinates = self._place(at)
            self.width = n
            self._step(bases, column, None, coordinates)
            self.width = 1
        fn.vector_align = None
        if self.nest.rank == 0:
            with fn.loop(whole + index, total, step) as at:
                self._step(self.bases, at, None, [])

    def _each(self, index, step, total):
        fn = self.fn
        with fn.loop(index, total, step) as at:
            bases, column, coordinates = self._place(at)
            self._step(bases, column, None, coordinates)

    def _place(self, at):
        """(where the row of an element starts, the element's place in it, the row's coordinates)"""
        if self.nest.rank == 0:
            return self.bases, at, []
        fn, rest, found = self.fn, at, []
        for size in (self.length, *reversed(self.sizes[1:])):
            quotient = divided(fn, rest, size)
            found.append(rest - quotient * size)
            rest = quotient
        found.append(rest)
        column, coordinates = found[0], found[1:]
        bases = []
        for base, strides in zip(self.bases, self.outer_strides):
            for c, stride in zip(coordinates, reversed(strides)):
                base = fn.gep(base, c * stride, "i8")
            bases.append(base)
        return bases, column, coordinates


def divided(fn, a, b):
    """a / b of numbers that are not negative: 32 bits are divided much faster than 64."""
    high = (a | b) >> 32

    def short():
        x, y = fn.convert("trunc", a, I32), fn.convert("trunc", b, I32)
        return fn.convert("zext", fn.pure(f"udiv {x}, {y.name}", I32), I64)

    return fn.if_else(high == 0, short, lambda: fn.pure(f"udiv {a}, {b.name}", I64))
