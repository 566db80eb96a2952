"""Slots of scratch: chunks that run at the same time must not share it.

The launcher gives a kernel as many slots as there are threads, so scratch does not grow with the
number of chunks. A chunk takes a free slot and gives it back; a word of bits, one of the spare
words of the launch, says which are taken. What a chunk computes does not depend on its slot.
"""

from flambeau.codegen.loops import I64, V

MOST = 64  # bits in a word: at most so many threads work at once


def take(fn, place, slots):
    """The number of a free slot; place is the address of the word of bits."""
    got = fn.var(fn.value(-1, I64))
    with fn.while_(lambda: got.get() < 0):
        bits = fn.emit(f"load atomic i64, {place} monotonic, align 8", I64)
        lowest = fn.call("llvm.cttz.i64", I64, ~bits, V(fn, "i1", "false"))
        with fn.when(lowest < slots):
            taken = bits | (fn.value(1, I64) << lowest)
            pair = fn.emit(f"cmpxchg {place}, {bits}, {taken} acq_rel monotonic", "{ i64, i1 }")
            with fn.when(fn.emit(f"extractvalue {pair}, 1", "i1")):
                got.set(lowest)
    return got.get()


def give(fn, place, slot):
    """The slot is free again."""
    fn.emit(f"atomicrmw and {place}, {~(fn.value(1, I64) << slot)} release", I64)
