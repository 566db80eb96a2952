"""Slots of scratch: chunks that run at the same time must not share it.

The launcher gives a kernel as many slots as there are threads, so scratch does not grow with the
number of chunks. A chunk takes a free slot and gives it back; a word of bits, one of the spare
words of the launch, says which are taken. What a chunk computes does not depend on its slot.
"""

from flambeau.codegen.loops import I32, I64, V
from flambeau.codegen.target import current

MOST = 64  # bits in a word: at most so many threads work at once
CORES = 0xFFF  # bits of what a processor says that are the number of a core


def take(fn, place, slots, chunk, chunks):
    """The number of a free slot; place is the address of the word of bits.

    A slot that this core used before comes first: what was written there is still in its cache, and
    not in that of another core, which would have to give up line after line. Processors say which
    core it is, or the chunk says which thread it belongs to (Note [Pool protocol] in
    runtime/threads.py), chunk `chunk` of `chunks`.
    """
    if current().features.get("rdpid"):
        core = fn.call("llvm.x86.rdpid", I32, pure=False)
        own = (fn.convert("zext", core, I64) & CORES) % slots
    else:
        own = ((chunk + 1) * slots - 1) / chunks
    got = fn.var(fn.value(-1, I64))
    with fn.while_(lambda: got.get() < 0):
        bits = fn.emit(f"load atomic i64, {place} monotonic, align 8", I64)
        lowest = fn.call("llvm.cttz.i64", I64, ~bits, V(fn, "i1", "false"))
        free = ((bits >> own) & 1) == 0
        which = fn.select(free, own, lowest)
        with fn.when(which < slots):
            taken = bits | (fn.value(1, I64) << which)
            pair = fn.emit(f"cmpxchg {place}, {bits}, {taken} acq_rel monotonic", "{ i64, i1 }")
            with fn.when(fn.emit(f"extractvalue {pair}, 1", "i1")):
                got.set(which)
    return got.get()


def give(fn, place, slot):
    """The slot is free again."""
    fn.emit(f"atomicrmw and {place}, {~(fn.value(1, I64) << slot)} release", I64)
