"""What happens to the sums of a product before they reach memory.

result = activation(alpha * sum + factor * addend + ...): bias vectors, residuals and the `beta * C`
of BLAS are all addends, which differ only in their strides. In place of the activation a `Tail` may
follow the result. An `Epilogue` is a pattern, known when
the kernel is written; numbers and addresses arrive in `terms`, a block of words that the schedule
fills in. Sums that continue over several blocks of k wait in memory (the result itself, or a float
scratch for half types) and are finished with the last block.
"""

from typing import NamedTuple

from flambeau.codegen import scalar as m
from flambeau.codegen.llvm import Emitter, masked_store
from flambeau.codegen.loops import I64, PTR, V, is_float_type, vector, width_of
from flambeau.codegen.templates.tails import Tail, deliver
from flambeau.codegen.templates.tiles import load_parts, multiply_add, store_parts, summed

HALF = ("f16", "bf16")
MORE, LAST = 1, 2  # bits of a stage: there are sums in memory already; this is the last block


class Epilogue(NamedTuple):
    """scaled: multiply by alpha; addends: how each lies along a row (c, s or n, as in llvm.py).

    activation: a name in ACTIVATIONS, or a tail of results without gaps (see tails.py).
    """

    scaled: bool = False
    addends: str = ""
    activation: str | Tail = ""

    @property
    def tail(self):
        return self.activation if isinstance(self.activation, Tail) else None

    @property
    def plain(self):
        return not (self.scaled or self.addends or self.activation)

    def kinds(self, code):
        """Letters of the arguments: alpha, address and factor of each addend, the tail's."""
        number = "f" if m.is_float(summed(code)) else "i"
        number *= 2 if code[0] == "c" else 1
        found = number * self.scaled + ("p" + number) * len(self.addends)
        return found + (self.tail.kinds if self.tail else "")

    def words(self, code):
        """Number of words in terms: alpha, then (address, row, column, factor) of each addend.

        Behind these the address of C and the arguments of a tail.
        """
        parts = 2 if code[0] == "c" else 1
        more = 1 + len(self.tail.kinds) if self.tail else 0
        return parts * self.scaled + (3 + parts) * len(self.addends) + more


PLAIN = Epilogue()


def _relu(x):
    return m.where(x <= 0, m.const(0, x.type), x)  # nan stays nan


def _gelu(x):
    return x * m.normal_cdf(x)


def _gelu_tanh(x):
    return 0.5 * x * (1 + m.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def _sigmoid(x):
    return 1 / (1 + m.exp(-x))


ACTIVATIONS = {
    "relu": _relu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "tanh": m.tanh,
    "sigmoid": _sigmoid,
}


def parameters(epilogue, blocked):
    """Parameters of a tile function that its epilogue reads (see `writer`)."""
    found = [(PTR, "c"), (I64, "c_row")]
    if blocked:
        found += [(I64, "stage"), (PTR, "partial"), (I64, "partial_row")]
    if not epilogue.plain:
        found += [(I64, "row"), (I64, "column"), (PTR, "terms")]
    return found


def writer(epilogue, blocked):
    """The epilogue callback of tiles.tile_function."""

    def write(fn, tile, sums, masks, c, c_row, *rest):
        stage = partial = partial_row = None
        if blocked:
            stage, partial, partial_row, *rest = rest
        finish = _Finish(fn, tile, epilogue, masks, c, c_row, rest)
        waiting = blocked and _Waiting(fn, tile, masks, partial, partial_row)
        if not isinstance(sums, list):
            return _from_memory(fn, tile, sums, finish, waiting, stage)
        if not blocked:
            return finish.all_rows(sums)
        wide = tile.item == tile.sum_item
        sums = waiting.continued(stage, sums)
        if wide and epilogue.plain:
            return finish.all_rows(sums)
        return fn.if_else(
            (stage & LAST) != 0, lambda: finish.all_rows(sums), lambda: waiting.put(sums)
        )

    return write


def _from_memory(fn, tile, sums, finish, waiting, stage):
    """Sums that lie in memory go on their way row by row."""
    if not waiting:
        return finish.each_row(sums)
    with fn.when((stage & MORE) != 0), fn.loop(0, tile.rows) as r:
        sums.put(r, waiting.added(sums.row(r), r))

    def wait():
        with fn.loop(0, tile.rows) as r:
            waiting.put_row(sums.row(r), r)

    return fn.if_else((stage & LAST) != 0, lambda: finish.each_row(sums), wait)


class _Waiting:
    """Sums between two blocks of k, as they are: parts of the summed type."""

    def __init__(self, fn, tile, masks, place, row):
        self.fn, self.tile, self.masks, self.place, self.row = fn, tile, masks, place, row
        self.code = summed(tile.code) if tile.parts == 1 else tile.code

    def at(self, r, v):
        fn, tile = self.fn, self.tile
        row = fn.gep(self.place, self.row * r, "i8")
        return fn.gep(row, v * tile.width * tile.sum_item, "i8")

    def mask(self, v):
        return self.masks and self.masks[v]

    def continued(self, stage, sums):
        """sums, plus what waits in memory if this is not the first block."""
        fn, tile = self.fn, self.tile
        before, yes, done = fn.block, fn.label("more"), fn.label("done")
        fn.branch((stage & MORE) != 0, yes, done)
        fn.open(yes)
        with fn.scope():
            added = [self.added(sums[r], r) for r in range(tile.rows)]
            last = fn.block  # loads may have opened blocks of their own
            fn.jump(done)
        fn.open(done)
        return [
            [
                [
                    fn.emit(f"phi {a.type} [{a.name}, %{before}], [{b.name}, %{last}]", a.type)
                    for a, b in zip(old, new)
                ]
                for old, new in zip(*rows)
            ]
            for rows in zip(sums, added)
        ]

    def added(self, row, r):
        """A row of sums, plus what waits for it."""
        fn, width = self.fn, self.tile.width
        return [
            [
                x + y
                for x, y in zip(
                    parts,
                    load_parts(fn, self.at(r, v), self.code, width, "c", None, self.mask(v)),
                )
            ]
            for v, parts in enumerate(row)
        ]

    def put(self, sums):
        for r, row in enumerate(sums):
            self.put_row(row, r)

    def put_row(self, row, r):
        for v, parts in enumerate(row):
            store_parts(
                self.fn, parts, self.at(r, v), self.code, self.tile.width, mask=self.mask(v)
            )


class _Finish:
    """Sums on their way to the result."""

    def __init__(self, fn, tile, epilogue, masks, c, c_row, rest):
        self.fn, self.tile, self.epilogue, self.masks = fn, tile, epilogue, masks
        self.c, self.c_row = c, c_row
        if not epilogue.plain:
            self.row, self.column, self.terms = rest
            self.read_terms()

    def read_terms(self):
        fn, at = self.fn, 0

        def word(type):
            nonlocal at
            at += 1
            return fn.load(fn.gep(self.terms, at - 1, I64), type, 8)

        def number():
            return [
                fn.splat(_narrow(fn, word(_word_type(self.tile)), self.tile.type), self.tile.width)
                for _ in range(self.tile.parts)
            ]

        self.alpha = number() if self.epilogue.scaled else None
        self.addends = []
        for access in self.epilogue.addends:
            base, by_row, by_column = word(PTR), word(I64), word(I64)
            base = fn.gep(base, self.row * by_row + self.column * by_column, "i8")
            self.addends.append((access, base, by_row, by_column, number()))
        tail = self.epilogue.tail
        types = {"p": PTR, "f": "double", "i": I64}
        self.follow = [word(types[kind]) for kind in ("p" + tail.kinds if tail else "")]

    def all_rows(self, sums):
        """Finish and store all rows; long code runs in a loop over rows kept in memory."""
        fn, tile = self.fn, self.tile
        short = tile.code not in HALF or self.rounds_in_one()
        if short and (self.epilogue.tail or self.epilogue.activation in ("", "relu")):
            for r in range(tile.rows):
                self.put(sums[r], fn.value(r, I64))
            return
        type, parts = vector(tile.type, tile.width), tile.parts
        held = fn.alloca(type, tile.rows * tile.vectors * parts)
        flat = [x for row in sums for value in row for x in value]
        for k, x in enumerate(flat):
            fn.store(x, fn.gep(held, k, type))
        with fn.loop(0, tile.rows) as r:
            first = r * (tile.vectors * parts)
            row = [
                [fn.load(fn.gep(held, first + (v * parts + p), type), type) for p in range(parts)]
                for v in range(tile.vectors)
            ]
            self.put(row, r)

    def each_row(self, sums):
        """The same for sums in memory."""
        with self.fn.loop(0, self.tile.rows) as r:
            self.put(sums.row(r), r)

    def put(self, row, r):
        """One row of vectors."""
        fn, tile = self.fn, self.tile
        for v, x in enumerate(row):
            mask = self.masks and self.masks[v]
            if not self.epilogue.plain:
                x = self.value(x, r, v, mask)
            place = fn.gep(fn.gep(self.c, self.c_row * r, "i8"), v * tile.width * tile.item, "i8")
            if self.epilogue.tail:
                deliver(self.epilogue.tail, fn, x[0], place, mask, tile.code, lambda: self.follow)
            elif self.rounds_in_one():
                masked_store(fn, rounded(fn, x[0]), place, mask)
            else:
                store_parts(fn, x, place, tile.code, tile.width, mask=mask)

    def rounds_in_one(self):
        """Does one instruction round to bfloat16? It flushes denormals, as the tile did."""
        return self.tile.paired and self.tile.width >= 8

    def value(self, x, r, v, mask):
        fn, tile, w = self.fn, self.tile, self.tile.width
        if self.alpha is not None:
            zero = [V(fn, x[0].type, "zeroinitializer")] * tile.parts
            if tile.parts == 1:
                x = [x[0] * self.alpha[0]]
            else:
                x = multiply_add(fn, zero, x, self.alpha)
        for access, base, by_row, by_column, factor in self.addends:
            place = fn.gep(base, r * by_row, "i8")
            if access == "c":
                place = fn.gep(place, v * w * tile.item, "i8")
            elif access == "n":
                place = fn.gep(place, by_column * (v * w), "i8")
            y = load_parts(fn, place, tile.code, w, access, by_column, mask)
            x = multiply_add(fn, x, factor, y)
        if self.epilogue.activation and not self.epilogue.tail:
            symbol = m.argument(0, summed(tile.code))
            x = [Emitter(fn, w, x).emit(ACTIVATIONS[self.epilogue.activation](symbol))]
        return x


def rounded(fn, x):
    """A vector of float32 as the bits of bfloat16, in one instruction."""
    w = width_of(x.type)
    found = fn.call(f"llvm.x86.avx512bf16.cvtneps2bf16.{32 * w}", vector("bfloat", w), x)
    return fn.convert("bitcast", found, vector("i16", w))


def _word_type(tile):
    """How a factor lies in terms: as Python gave it."""
    return "double" if is_float_type(tile.type) else I64


def _narrow(fn, x, type):
    return fn.convert("fptrunc" if is_float_type(type) else "trunc", x, type)
