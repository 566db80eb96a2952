"""From a row, dtypes and layouts to a kernel: the pointwise nest.

A pointwise kernel walks rows (up to `rank` outer dimensions, any strides) and, inside a row,
vectors of elements. Each operand is read side by side (c), backwards (r), as one value for all (s),
with a stride (n), or with a stride while its next outer dimension lies side by side (t): that is
turned in square tiles. Sizes and strides are run-time words of the launch description (see
`describe`), so a new shape compiles nothing.
"""

from typing import NamedTuple

from flambeau.codegen import scalar
from flambeau.codegen.llvm import Emitter, load_element, masks_are_cheap, store_element
from flambeau.codegen.llvm_cpu import add_entry, argument_word, module_text
from flambeau.codegen.llvm_names import COMPUTE_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I1, I64, PTR, Module, bytes_of, vector
from flambeau.codegen.target import current

LONG = 120  # words in a body that is done for several vectors at a time


class Pointwise(NamedTuple):
    """A pointwise nest: everything that its machine code depends on."""

    inputs: tuple  # (dtype name, access) per input
    outputs: tuple  # (dtype name, access) per output
    scalars: str  # kind letter per scalar argument: i or f
    values: tuple  # one expression per output, of its compute type
    rank: int  # outer dimensions


HEADER = 6  # words before the sizes: chunks, pieces, piece, rows per chunk, rows, inner length


def kernel_kinds(nest):
    return "p" * (1 + len(nest.outputs) + len(nest.inputs)) + nest.scalars


def arguments_for(inputs, scalars):
    """Symbolic arguments of a nest: one expression (or Complex) per input, then per scalar."""
    found = []
    for k, (dtype, _) in enumerate(inputs):
        type = COMPUTE_TYPE[dtype]
        if dtype[0] == "c":
            found.append(
                scalar.Complex(scalar.argument((k, 0), type), scalar.argument((k, 1), type))
            )
        else:
            found.append(scalar.argument(k, type))
    for k, kind in enumerate(scalars):
        found.append(scalar.argument(len(inputs) + k, "f64" if kind == "f" else "i64"))
    return found


def is_cheap(nest):
    """Does an element take so few instructions that memory sets the pace?"""
    nodes = {id(e): e for v in _parts(nest.values) for e in _nodes(v)}
    return sum(e.op not in ("argument", "const", "cast") for e in nodes.values()) <= 4


def _packs(nest):
    """Are results stored in half the width they are computed in?"""
    return all(dtype == "bf16" and access == "c" for dtype, access in nest.outputs)


def vector_width(nest):
    """Lanes per step: as many of the widest operand as a register holds."""
    types = [MEMORY_TYPE[d] for d, _ in nest.inputs + nest.outputs]
    types += [{"bool": "i8"}.get(v.type) or MEMORY_TYPE[v.type] for v in _parts(nest.values)]
    types += [MEMORY_TYPE[COMPUTE_TYPE[d]] for d, _ in nest.inputs + nest.outputs]
    # Cheap bodies wait for memory, and streams like half registers better than whole ones of 64
    # bytes: a + b on a million floats takes 140 us with 32 bytes at a time, 169 us with 64. Rows
    # usually share an operand that stays in cache, and are better off with whole registers.
    streams = nest.rank == 0 and is_cheap(nest)
    room = min(current().vector_bytes, 32) if streams else current().vector_bytes
    width = max(1, room // max(map(bytes_of, types)))
    if len({id(e) for v in _parts(nest.values) for e in _nodes(v)}) > LONG:
        # a long chain waits for itself: several vectors side by side keep the processor busy
        width *= 2 if nest.rank else 4
    if streams and current().vector_bytes < 64 and _packs(nest):
        width *= 2  # two registers of floats make one of halves
    # turning a square takes log2(width) shuffles per vector: more than 16 do not pay
    return min(width, 16) if any(access == "t" for _, access in nest.inputs) else width


def transpose(fn, rows):
    """Columns of a square of vectors, by interleaving halves log2(n) times."""
    n = len(rows)
    low = [x for k in range(n // 2) for x in (k, n + k)]
    high = [x + n // 2 for x in low]
    for _ in range(n.bit_length() - 1):
        half = n // 2
        rows = [
            fn.shuffle(rows[k // 2], rows[k // 2 + half], high if k % 2 else low) for k in range(n)
        ]
    return rows


def _parts(values):
    for v in values:
        if isinstance(v, scalar.Complex):
            yield v.re
            yield v.im
        else:
            yield v


def text_and_nest(nest):
    """The IR of a nest, and the nest for those who explain it."""
    return build_pointwise(nest), nest


def build_pointwise(nest):
    """The IR text of a pointwise nest."""
    module = Module()
    fn = module.function("body", [(PTR, "block"), (I64, "chunk")], internal=True)
    PointwiseBody(fn, nest).write()
    fn.ret()
    accesses = [access for _, access in nest.outputs + nest.inputs]
    is_run = nest.rank == 0 and set(accesses) == {"c"}
    add_entry(module, kernel_kinds(nest), describe=_describe_run(len(accesses)) if is_run else None)
    return module_text(module)


def _describe_run(operands):
    """A description for any number of elements side by side, written at each call.

    What comes in then says [0, elements per chunk, step of each operand], and the number of
    elements is a last argument. The words are those of `described` in planning/nests.py.
    """

    def describe(fn, block, number):
        """Returns how many words it may have written."""
        own = fn.alloca(I64, HEADER + operands, 8)
        given = fn.load(block, PTR)
        with fn.when(fn.load(given, I64, 8) == 0):
            n, chunk = number(), fn.load(fn.gep(given, 1, I64), I64, 8)
            one = fn.value(1, I64)
            for k, word in enumerate((one, one, n, one, one, n)):
                fn.store(word, fn.gep(own, k, I64), 8)
            with fn.when(n > chunk):
                count = (n + chunk - 1) / chunk
                count = count + (count & 1)
                piece = fn.max(fn.value(64, I64), ((n + count - 1) / count + 63) & -64)
                pieces = (n + piece - 1) / piece
                for k, word in enumerate((pieces, pieces, piece)):
                    fn.store(word, fn.gep(own, k, I64), 8)
            for k in range(operands):
                step = fn.load(fn.gep(given, 2 + k, I64), I64, 8)
                fn.store(step, fn.gep(own, HEADER + k, I64), 8)
            fn.store(own, block, 8)
        return HEADER + operands

    return describe


class PointwiseBody:
    def __init__(self, fn, nest):
        self.fn, self.nest = fn, nest
        self.block, self.chunk = fn.params
        self.width = vector_width(nest)
        self.operands = nest.outputs + nest.inputs
        self.buffers = {}
        self.uses_coordinates = any(_mentions(v, "coordinate") for v in _parts(nest.values))

    def write(self):
        fn, nest = self.fn, self.nest
        self.description = argument_word(fn, self.block, 0, "p")
        self.bases = [argument_word(fn, self.block, 1 + k, "p") for k in range(len(self.operands))]
        self.scalars = [
            argument_word(fn, self.block, 1 + len(self.operands) + k, kind)
            for k, kind in enumerate(nest.scalars)
        ]
        self.uniform = self._hoist_uniform()
        words = HEADER + nest.rank
        self.inner_strides, self.outer_strides = [], []
        for _ in self.operands:
            self.inner_strides.append(self._word(words))
            self.outer_strides.append([self._word(words + 1 + d) for d in range(nest.rank)])
            words += 1 + nest.rank
        self.status = fn.gep(self.block, 1 + len(self.operands) + len(nest.scalars), I64)
        pieces, piece, per_chunk, rows, length = (self._word(k) for k in range(1, HEADER))
        if nest.rank == 0:
            begin = self.chunk * piece
            self._row(self.bases, begin, fn.min(begin + piece, length), [])
            return
        first = (self.chunk / pieces) * per_chunk
        begin = (self.chunk % pieces) * piece
        end = fn.min(begin + piece, length)
        sizes = [self._word(HEADER + d) for d in range(nest.rank)]
        last = fn.min(first + per_chunk, rows)
        if any(access == "t" for _, access in self.operands):
            return self._tiled_rows(first, last, sizes, begin, end)
        cuts = self._cuts(begin, end)
        with fn.loop(first, last) as row:
            bases, coordinates = self._row_bases(row, sizes)
            self._row(bases, begin, end, coordinates, cuts)

    def _tiled_rows(self, first, last, sizes, begin, end):
        """Rows in blocks of a vector's width where a block fits, one by one elsewhere."""
        fn, w = self.fn, self.width
        cell = fn.var(first)
        with fn.while_(lambda: cell.get() < last):
            row = cell.get()
            inside = fn.pure(f"urem {row}, {sizes[-1].name}", I64)
            fits = (inside + w <= sizes[-1]) & (row + w <= last)
            bases, coordinates = self._row_bases(row, sizes)

            def block(bases=bases, coordinates=coordinates):
                whole = begin + ((end - begin) / w) * w
                with fn.loop(begin, whole, w) as j:
                    self._tile(bases, j, coordinates)
                with fn.when(whole < end), fn.loop(0, w) as r:
                    moved = [fn.gep(b, r * s[-1], "i8") for b, s in zip(bases, self.outer_strides)]
                    self._row(moved, whole, end, self._further(coordinates, r))
                return fn.value(w, I64)

            def single(bases=bases, coordinates=coordinates):
                self._row(bases, begin, end, coordinates)
                return fn.value(1, I64)

            cell.set(row + fn.if_else(fits, block, single))

    def _further(self, coordinates, r):
        """Coordinates r rows on, inside a block."""
        return [coordinates[0] + r, *coordinates[1:]] if self.uses_coordinates else coordinates

    def _tile(self, bases, j, coordinates):
        """A square of rows and columns: operands that lie the other way are turned in registers."""
        fn, w = self.fn, self.width
        turned = {}
        for k, (dtype, access) in enumerate(self.operands):
            if access == "t":
                e = MEMORY_TYPE[dtype]
                columns = [
                    fn.load(fn.gep(bases[k], (j + c) * self.inner_strides[k], "i8"), vector(e, w))
                    for c in range(w)
                ]
                turned[k] = self._buffer(k, e)
                for r, value in enumerate(transpose(fn, columns)):
                    fn.store(value, fn.gep(turned[k], r * w, e))
        with fn.loop(0, w) as r:
            rows = []
            for k, (dtype, access) in enumerate(self.operands):
                if access == "t":
                    rows.append(fn.gep(turned[k], r * w, MEMORY_TYPE[dtype]))
                else:
                    rows.append(fn.gep(bases[k], r * self.outer_strides[k][-1], "i8"))
            self._step(rows, j, None, self._further(coordinates, r), tiled=True)

    def _buffer(self, k, e):
        if k not in self.buffers:
            self.buffers[k] = self.fn.alloca(e, self.width * self.width)
        return self.buffers[k]

    def _word(self, index):
        return self.fn.load(self.fn.gep(self.description, index, I64), I64, 8)

    def _row_bases(self, row, sizes):
        """Where each operand's row starts, and the row's coordinates, innermost first."""
        fn, coordinates, rest = self.fn, [], row
        for size in reversed(sizes[1:]):
            quotient = fn.pure(f"udiv {rest}, {size.name}", I64)
            coordinates.append(rest - quotient * size)
            rest = quotient
        coordinates.append(rest)
        bases = []
        for base, strides in zip(self.bases, self.outer_strides):
            for c, stride in zip(coordinates, reversed(strides)):
                base = fn.gep(base, c * stride, "i8")
            bases.append(base)
        return bases, coordinates

    def _cuts(self, begin, end):
        """Where turns of several vectors and whole vectors end, and the mask of what is left.

        They are the same for all rows: short ones would spend more on them than on their elements.
        """
        fn, w = self.fn, self.width
        wide, whole = w * self._unroll(), begin + (((end - begin) / w) * w)
        start = begin + (((end - begin) / wide) * wide) if wide > w else begin
        if w == 1:
            return start, whole, None
        left = fn.splat(fn.convert("trunc", end - whole, "i32"), w)
        lanes = fn.iota(vector("i32", w))
        return start, whole, fn.pure(f"icmp ult {lanes}, {left.name}", vector(I1, w))

    def _row(self, bases, begin, end, coordinates, cuts=None):
        fn, w = self.fn, self.width
        start, whole, mask = cuts or self._cuts(begin, end)
        unroll = self._unroll()
        if unroll > 1:
            with fn.loop(begin, start, w * unroll) as i:
                for k in range(unroll):
                    self._step(bases, i + k * w, None, coordinates)
        with fn.loop(start, whole, w) as i:
            self._step(bases, i, None, coordinates)
        if w == 1:
            return
        if self.nest.rank and not masks_are_cheap() and is_cheap(self.nest):
            self._one_by_one(bases, whole, end, coordinates)
            return
        with fn.when(whole < end):  # fewer than w elements go through a mask
            self._step(bases, whole, mask, coordinates)

    def _one_by_one(self, bases, begin, end, coordinates):
        """The rest of a row where a masked store costs more than some plain ones."""
        wide, self.width = self.width, 1
        with self.fn.loop(begin, end) as i:
            self._step(bases, i, None, coordinates)
        self.width = wide

    def _unroll(self):
        """Vectors per turn of the loop: a few for cheap bodies, one for long ones."""
        if self.uses_coordinates or any(access in "nt" for _, access in self.operands):
            return 1
        return 4 if is_cheap(self.nest) else 1

    def _step(self, bases, i, mask, coordinates, tiled=False):
        """One vector of every operand; in a tile, turned operands lie in their buffer."""
        fn, nest, w = self.fn, self.nest, self.width
        outs = len(nest.outputs)
        arguments = {}
        for k, (dtype, access) in enumerate(nest.inputs):
            if access == "t":
                access = "c" if tiled else "n"
            base = bases[outs + k]
            in_buffer = tiled and nest.inputs[k][1] == "t"
            pointer = base if in_buffer else self._at(base, i, outs + k, dtype, access)
            value = load_element(fn, pointer, dtype, w, access, self.inner_strides[outs + k], mask)
            if isinstance(value, tuple):
                arguments[k, 0], arguments[k, 1] = value
            else:
                arguments[k] = value
        where = []
        if self.uses_coordinates:
            where = [fn.splat(i, w) + fn.iota(vector(I64, w)), *coordinates]
        emitter = Emitter(fn, w, arguments, where, lambda bad: self._fail(bad, mask))
        emitter.known.append({key: (fn.splat(v, w), e) for key, (v, e) in self.uniform.items()})
        values = [emitter.emit(v) for v in nest.values]
        for k, (value, (dtype, access)) in enumerate(zip(values, nest.outputs)):
            pointer = self._at(bases[k], i, k, dtype, access)
            store_element(fn, value, pointer, dtype, w, access, self.inner_strides[k], mask)

    def _at(self, base, i, operand, dtype, access):
        if access == "s":
            return base
        if access == "c":
            e = MEMORY_TYPE[dtype]
            return self.fn.gep(base, i * 2 if dtype[0] == "c" else i, e)
        return self.fn.gep(base, i * self.inner_strides[operand], "i8")

    def _fail(self, bad, mask):
        fn = self.fn
        bad = bad if mask is None else bad & mask
        with fn.when(fn.any(bad)):
            fn.store(fn.value(1, I64), self.status, 8)

    def _hoist_uniform(self):
        """Parts that depend on scalars only are computed once, before the loops."""
        first = len(self.nest.inputs)
        emitter = Emitter(self.fn, 1, {first + k: v for k, v in enumerate(self.scalars)})
        found, seen = {}, {}

        def uniform(e):
            if id(e) not in seen:
                if e.op == "argument":
                    seen[id(e)] = isinstance(e.data, int) and e.data >= first
                elif e.op in (
                    "coordinate",
                    "variable",
                    "repeat",
                    "part",
                    "check",
                    "rarely",
                    "table",
                ):
                    seen[id(e)] = False
                else:
                    seen[id(e)] = all(map(uniform, e.args))
            return seen[id(e)]

        def visit(e):
            if id(e) in visited:
                return
            visited.add(id(e))
            if e.op != "const" and uniform(e):
                found[id(e)] = (emitter.emit(e), e)
            else:
                for a in e.args:
                    visit(a)

        visited = set()
        for v in _parts(self.nest.values):
            visit(v)
        return found


def _nodes(expr):
    """Every node of an expression, once; words of some targets count as others spell them."""
    seen, stack = set(), [expr]
    while stack:
        e = stack.pop()
        while e.op == "native":
            e = e.args[-1]
        if id(e) not in seen:
            seen.add(id(e))
            yield e
            stack.extend(e.args)


def _mentions(expr, op):
    return any(e.op == op for e in _nodes(expr))
