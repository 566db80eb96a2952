"""Totals: the value of a pointwise nest, summed over all elements and divided by a number.

The nest is walked as any other (`codegen/build.py`: rows, vectors, masked rests, turned operands),
but nothing is stored on the way. Values of four vectors are added as they are, such sums in double
precision; every chunk leaves one number beside the arguments of the call, and the thread that made
the call adds these in order when all are there. So a loss is one launch, without scratch memory,
and has the same bits for any number of threads.
"""

from flambeau.codegen.build import PointwiseBody, kernel_kinds
from flambeau.codegen.llvm import Emitter, convert, load_element, to_memory
from flambeau.codegen.llvm_cpu import add_entry, argument_word, module_text
from flambeau.codegen.llvm_names import COMPUTE_TYPE
from flambeau.codegen.loops import I64, PTR, Module, V, vector

MOST_CHUNKS = 64  # numbers that the block of a call has room for
TOGETHER = 4  # vectors that are added before they meet the total


def build_total(nest):
    """The IR of a total; the last scalar argument is what the sum is divided by.

    The only output of the nest is the result; its access is s, one place for all.
    """
    module = Module()
    fn = module.function("body", [(PTR, "block"), (I64, "chunk")], internal=True)
    kinds = kernel_kinds(nest)
    _TotalBody(fn, nest, len(kinds) + 1).write()
    fn.ret()
    last = module.function("last", [(PTR, "block")], internal=True)
    _write_last(last, kinds, nest.outputs[0][0])
    add_entry(module, kinds, spare=MOST_CHUNKS, last="last")
    return module_text(module)


def _write_last(fn, kinds, dtype):
    """Add what the chunks left, divide, store."""
    (block,) = fn.params
    chunks = fn.load(argument_word(fn, block, 0, "p"), I64, 8)
    total = fn.var(fn.value(0.0, "double"))
    with fn.loop(0, chunks) as chunk:
        total.set(total.get() + fn.load(fn.gep(block, chunk + len(kinds) + 1, I64), "double"))
    result = total.get() / argument_word(fn, block, len(kinds) - 1, "f")
    result = convert(fn, result, "f64", COMPUTE_TYPE[dtype])
    fn.store(to_memory(fn, result, dtype), argument_word(fn, block, 1, "p"))
    fn.ret()


class _TotalBody(PointwiseBody):
    """A walk that adds values up; `place` is the first word for what chunks leave."""

    def __init__(self, fn, nest, place):
        super().__init__(fn, nest)
        self.place = place

    def write(self):
        fn, w = self.fn, self.width
        zero = V(fn, vector("double", w), "zeroinitializer" if w > 1 else "0.0")
        self.total = fn.var(zero)
        super().write()
        lanes = self.total.get()
        while w > 1:
            w //= 2
            if w == 1:
                lanes = fn.extract(lanes, 0) + fn.extract(lanes, 1)
            else:
                low, high = range(w), range(w, 2 * w)
                lanes = fn.shuffle(lanes, None, low) + fn.shuffle(lanes, None, high)
        fn.store(lanes, fn.gep(self.block, self.chunk + self.place, I64), 8)

    def _unroll(self):
        return TOGETHER

    def _row(self, bases, begin, end, coordinates, cuts=None):
        fn, w = self.fn, self.width
        start, whole, mask = cuts or self._cuts(begin, end)
        with fn.loop(begin, start, w * TOGETHER) as i:
            parts = [self._value(bases, i + k * w, None) for k in range(TOGETHER)]
            while len(parts) > 1:
                parts = [a + b for a, b in zip(parts[::2], parts[1::2])]
            self._add(parts[0])
        with fn.loop(start, whole, w) as i:
            self._add(self._value(bases, i, None))
        if w > 1:
            with fn.when(whole < end):
                self._add(fn.select(mask, self._value(bases, whole, mask), 0.0))

    def _step(self, bases, i, mask, coordinates, tiled=False):
        """One vector inside a tile (rows have their own loop)."""
        self._add(self._value(bases, i, mask, tiled))

    def _add(self, value):
        fn = self.fn
        wide = fn.convert("fpext", value, vector("double", self.width))
        self.total.set(self.total.get() + wide)

    def _value(self, bases, i, mask, tiled=False):
        fn, nest, w = self.fn, self.nest, self.width
        arguments = {}
        for k, (dtype, access) in enumerate(nest.inputs):
            base, in_buffer = bases[1 + k], tiled and access == "t"
            if access == "t":
                access = "c" if tiled else "n"
            pointer = base if in_buffer else self._at(base, i, 1 + k, dtype, access)
            stride = self.inner_strides[1 + k]
            arguments[k] = load_element(fn, pointer, dtype, w, access, stride, mask)
        emitter = Emitter(fn, w, arguments, [], lambda bad: self._fail(bad, mask))
        emitter.known.append({key: (fn.splat(v, w), e) for key, (v, e) in self.uniform.items()})
        return emitter.emit(nest.values[0])
