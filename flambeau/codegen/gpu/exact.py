"""Sums of floats by index in any order, always with the same result: they are sums of integers.

First it is found which exponent is the largest that goes to a place; then every term is added as
a 64-bit integer, in units that follow from this exponent (so many bits below the last one of the
largest term as there is room for); then sums become floats again. Additions of integers give the
same in any order, and less is lost than by rounding after each. Infinities and nans are noted as
bits. The table is of 32-bit floats.
"""

from flambeau.codegen.descriptions_places import Counted
from flambeau.codegen.gpu.indexing import _elements, _Walker
from flambeau.codegen.gpu.together import on_gpu, raised, raised_to, unsigned
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry
from flambeau.codegen.loops import I8, I32, I64, Module
from flambeau.codegen.templates.indexing import Walk

THREADS = 256
EXPONENT, FRACTION = 23, (1 << 23) - 1  # where the exponent is, the bits below it
ODD = 255  # the exponent of infinities and nans
UP, DOWN, NAN = 1, 2, 4  # notes of them
SIZE, WIDE = 4, 8  # bytes of a float, of a sum
BIAS = 127 + EXPONENT  # of an exponent, for a fraction that is an integer


def _noted(fn, pointer, bits):
    """cell = cell | bits, whoever else writes it."""
    if on_gpu():
        fn.emit(f'atomicrmw or {pointer}, {bits} syncscope("device") monotonic, align 8', I64)
    else:
        fn.store(fn.load(pointer, I64) | bits, pointer)


def _bits(fn, items):
    return fn.load(items, I32)


def _exponent(bits):
    return (bits >> EXPONENT) & 255


def build_tops(*facts):
    """The largest exponent at each place, plus one: (tops, list, indices)."""
    walker = _Walker(Walk(*facts))
    fn = walker.fn

    def move(top, items):
        mine = _exponent(_bits(fn, items)) + 1
        with fn.when(fn.load(top, I32) < mine):  # an old value costs an instruction, no more
            raised_to(fn, top, mine)

    with walker.kernel.threads(last=True) as walker.thread:
        _elements(walker, move)
    return walker.text()


def build_sums(*facts):
    """Sums as integers: (sums, list, indices, tops, bits below the last one of the largest)."""
    walker = _Walker(Walk(*facts), more="pi")
    fn, kernel, n = walker.fn, walker.kernel, 3 + walker.given
    tops, spare = kernel.argument(n), fn.convert("trunc", kernel.argument(n + 1), I32)
    sums = walker.bases[0]
    start = fn.pure(f"ptrtoint {sums} to i64", I64)

    def move(place, items):
        # places are counted in floats
        offset = fn.pure(f"ptrtoint {place} to i64", I64) - start
        top = fn.load(fn.gep(tops, offset, I8), I32) - 1
        cell, bits = fn.gep(sums, offset * (WIDE // SIZE), I8), _bits(fn, items)

        def add():
            exponent = _exponent(bits)
            hidden = fn.select(exponent > 0, fn.value(1 << EXPONENT, I32), fn.value(0, I32))
            fraction = unsigned(fn, (bits & FRACTION) | hidden)
            # the exponent 0 stands for numbers of the exponent 1
            down = fn.max(top, 1) - fn.max(exponent, 1)
            up = spare - down
            left = unsigned(fn, fn.max(up, 0))
            right = unsigned(fn, fn.min(fn.max(0 - up, 0), 63))
            amount = (fraction << left) >> right
            raised(fn, cell, fn.select(bits < 0, 0 - amount, amount))

        def note():
            odd = _exponent(bits) == ODD
            sign = fn.select(bits < 0, fn.value(DOWN, I64), fn.value(UP, I64))
            kind = fn.select((bits & FRACTION) != 0, fn.value(NAN, I64), sign)
            with fn.when(odd):
                _noted(fn, cell, kind)

        fn.if_else(top == ODD, note, add)

    with walker.kernel.threads(last=True) as walker.thread:
        _elements(walker, move)
    return walker.text()


def build_done():
    """Add the sums to a table: (table, tops, sums, bits below the last one of the largest)."""
    module = Module()
    kernel = Kernel(module, "ppppi", THREADS, words=len(Counted._fields))
    fn = kernel.fn
    table, tops, sums, spare = (kernel.argument(1 + k) for k in range(4))
    first, step = kernel.group * THREADS, kernel.groups * THREADS
    with kernel.threads(last=True) as thread, fn.loop(first + thread, kernel.word(1), step) as i:
        top = fn.load(fn.gep(tops, i, I32), I32)
        with fn.when(top != 0):
            found = fn.load(fn.gep(sums, i, I64), I64)
            place = fn.gep(table, i, "float")
            odd = top - 1 == ODD
            value = fn.if_else(
                odd, lambda: _odd(fn, found), lambda: _scaled(fn, found, top - 1, spare)
            )
            total = fn.convert("fpext", fn.load(place, "float"), "double") + value
            fn.store(fn.convert("fptrunc", total, "float"), place)
    kernel.done()
    add_host_entry(module, kernel, lambda fn, word: (word(1) + (THREADS - 1)) / THREADS)
    return module_text(module)


def _odd(fn, notes):
    """What infinities and nans add up to."""
    up = fn.select((notes & UP) != 0, fn.value(float("inf"), "double"), 0.0)
    down = fn.select((notes & DOWN) != 0, fn.value(float("-inf"), "double"), 0.0)
    return fn.select((notes & NAN) != 0, fn.value(float("nan"), "double"), up + down)


def _scaled(fn, sum, top, spare):
    """A sum of integers as a number: times a power of two, which is written as bits."""
    power = unsigned(fn, fn.max(top, 1)) - spare + (1023 - BIAS)
    factor = fn.convert("bitcast", power << 52, "double")
    return fn.convert("sitofp", sum, "double") * factor
