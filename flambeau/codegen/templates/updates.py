"""Kernels over many tensors at once: update rules, and norms of all their elements.

The tensors of a call are columns of a table of pointers. Their elements are cut into pieces, and a
chunk is a run of pieces (several small tensors, or a part of a large one), so that a model of a
thousand tiny tensors costs one native call. Rules are in ops/updates.py, the table is filled in
eager/updating.py.

Words: 0 chunks  1 piece  2 where the columns start  3 number of tensors, then the first piece of
each chunk and the end (chunks + 1 words), then per piece its tensor and its first element, then the
columns: numbers of elements, and pointers per operand.
"""

import functools
import operator

from flambeau.codegen import scalar
from flambeau.codegen.llvm import Emitter, load_element, store_element
from flambeau.codegen.llvm_cpu import add_entry, argument_word, module_text
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I1, I64, PTR, Module, bytes_of, vector, width_of
from flambeau.codegen.target import current

HEADER = 4
UNROLL = 4  # vectors per turn of a loop


class _Pieces:
    """Walks the pieces of a chunk; subclasses say what happens to a vector of elements."""

    def __init__(self, codes, kinds):
        self.codes = codes
        self.module = Module()
        self.fn = fn = self.module.function("body", [(PTR, "block"), (I64, "chunk")], internal=True)
        self.block, self.chunk = fn.params
        self.compute = COMPUTE_TYPE[codes[0]]
        widest = max(bytes_of(MEMORY_TYPE[c]) for c in (*codes, self.compute))
        # what waits for memory likes half registers better (see vector_width in build.py)
        self.width = max(1, min(current().vector_bytes, 32) // widest)
        self.description = argument_word(fn, self.block, 0, "p")
        self.numbers = [argument_word(fn, self.block, 1 + k, kind) for k, kind in enumerate(kinds)]
        self.kinds = kinds

    def word(self, k):
        return self.fn.load(self.fn.gep(self.description, k, I64), I64, 8)

    def text(self):
        fn = self.fn
        chunks, piece, columns, tensors = (self.word(k) for k in range(HEADER))
        pieces = chunks + (HEADER + 1)  # where the list of pieces starts
        self.start()
        first, last = self.word(self.chunk + HEADER), self.word(self.chunk + (HEADER + 1))
        last = self.until(first, last)
        with fn.loop(first, last) as p:
            tensor, begin = self.word(pieces + p * 2), self.word(pieces + p * 2 + 1)
            cell = columns + tensor
            end = fn.min(begin + piece, self.word(cell))
            bases = []
            for k in range(len(self.codes)):
                address = fn.gep(self.description, cell + tensors * (k + 1), I64)
                bases.append(fn.load(address, PTR, 8))
            self.walk(bases, begin, end)
        self.finish()
        fn.ret()
        add_entry(self.module, "p" + self.kinds)
        return module_text(self.module)

    def start(self):
        pass

    def until(self, first, last):
        """Where the pieces of a chunk end; at the first one if there is nothing to do."""
        return last

    def finish(self):
        pass

    def walk(self, bases, begin, end):
        fn, w = self.fn, self.width
        wide = UNROLL * w
        most = begin + ((end - begin) / wide) * wide
        whole = begin + ((end - begin) / w) * w
        with fn.loop(begin, most, wide) as i:
            for k in range(UNROLL):
                self.step(bases, i + k * w, None)
        with fn.loop(most, whole, w) as i:
            self.step(bases, i, None)
        if w > 1:
            with fn.when(whole < end):
                left = fn.convert("trunc", end - whole, "i32")
                lanes = fn.iota(vector("i32", w))
                mask = fn.pure(f"icmp ult {lanes}, {fn.splat(left, w).name}", vector(I1, w))
                self.step(bases, whole, mask)

    def load(self, bases, k, i, mask):
        code = self.codes[k]
        return load_element(
            self.fn, self.fn.gep(bases[k], i, MEMORY_TYPE[code]), code, self.width, "c", None, mask
        )


class _Rule(_Pieces):
    """An update: values in, values out, in place."""

    def __init__(self, codes, count, expressions):
        super().__init__(codes, "f" * count)
        self.expressions = expressions  # (operand, expression) pairs

    def start(self):
        """Numbers are rounded to the type that is computed in once, before the loops."""
        fn, type = self.fn, LLVM_TYPE[self.compute]
        self.spread = [
            fn.splat(fn.convert("fptrunc", v, type) if type != "double" else v, self.width)
            for v in self.numbers
        ]

    def step(self, bases, i, mask):
        fn = self.fn
        operands = [self.load(bases, k, i, mask) for k in range(len(self.codes))]
        emitter = Emitter(fn, self.width, [*operands, *self.spread])
        values = [(k, emitter.emit(expression)) for k, expression in self.expressions]
        for k, value in values:
            code = self.codes[k]
            pointer = fn.gep(bases[k], i, MEMORY_TYPE[code])
            store_element(fn, value, pointer, code, self.width, "c", None, mask)


def build_update(rule, codes, flags, kind=None):
    """IR of a rule for memory dtypes of its tensors (None: left out) and values of its flags.

    kind: what walks over the tensors, where it is not the host.
    """
    present = [(n, c) for n, c in zip(rule.tensors, codes) if c is not None]
    type = COMPUTE_TYPE[present[0][1]]
    given = dict.fromkeys(rule.tensors)
    for k, (name, _) in enumerate(present):
        given[name] = scalar.argument(k, type)
    for k, name in enumerate(rule.numbers):
        given[name] = scalar.argument(len(present) + k, type)
    found = rule.function(**given, **dict(zip(rule.flags, flags)))
    order = {name: k for k, (name, _) in enumerate(present)}
    expressions = [(order[name], value) for name, value in found.items()]
    return (kind or _Rule)([c for _, c in present], len(rule.numbers), expressions).text()


class _Scaled(_Pieces):
    """Elements times a number that lies in memory; nothing is done if that is one."""

    def __init__(self, code, factor):
        super().__init__([code], "p")
        self.factor = factor

    def start(self):
        fn, type = self.fn, LLVM_TYPE[self.compute]
        own = COMPUTE_TYPE[self.factor]
        value = load_element(fn, self.numbers[0], self.factor, 1, "c", None, None)
        self.is_one = fn.pure(f"fcmp oeq {value}, 1.0", I1)
        if LLVM_TYPE[own] != type:
            value = fn.convert("fpext" if type == "double" else "fptrunc", value, type)
        self.spread = fn.splat(value, self.width)

    def until(self, first, last):
        return self.fn.select(self.is_one, first, last)

    def step(self, bases, i, mask):
        code = self.codes[0]
        value = self.load(bases, 0, i, mask) * self.spread
        pointer = self.fn.gep(bases[0], i, MEMORY_TYPE[code])
        store_element(self.fn, value, pointer, code, self.width, "c", None, mask)


def build_scaled(code, factor):
    """IR of tensors of one dtype times a number of another."""
    return _Scaled(code, factor).text()


class _Norm(_Pieces):
    """What one chunk adds to a norm: sums in double of short sums in the computing type.

    kind: "2" squares, "1" magnitudes, "max" and "min" magnitudes, "0" nonzeros, "p" powers.
    """

    def __init__(self, code, kind):
        super().__init__([code], "pf")  # where the parts go, and the power
        self.kind = kind
        self.extreme = kind in ("max", "min")

    def start(self):
        fn = self.fn
        zero = float("inf") if self.kind == "min" else 0.0
        doubles = self.width if self.compute == "f64" else max(1, self.width // 2)
        self.total = fn.var(fn.value(zero, vector("double", doubles)))
        self.lanes = [
            fn.var(fn.value(zero, vector(LLVM_TYPE[self.compute], self.width))) for _ in range(4)
        ]

    def walk(self, bases, begin, end):
        fn, w = self.fn, self.width
        wide = 4 * w
        whole = begin + ((end - begin) / wide) * wide
        with fn.loop(begin, whole, wide) as i:
            for k in range(4):
                self.take(bases, i + k * w, None, self.lanes[k])
        with fn.loop(whole, end, w) as i:
            left = fn.convert("trunc", fn.min(end - i, w), "i32")
            lanes = fn.iota(vector("i32", w))
            mask = fn.pure(f"icmp ult {lanes}, {fn.splat(left, w).name}", vector(I1, w))
            self.take(bases, i, mask if w > 1 else None, self.lanes[0])
        if not self.extreme:
            self.gather()

    def take(self, bases, i, mask, cell):
        x = scalar.argument(0, self.compute)
        size = scalar.abs_(x)
        terms = {
            "2": lambda: x * x,
            "0": lambda: scalar.cast(x != 0, self.compute),
            "p": lambda: scalar.pow(size, scalar.cast(scalar.argument(1, "f64"), self.compute)),
        }
        term = terms.get(self.kind, lambda: size)()
        value = self.load(bases, 0, i, mask)
        power = self.fn.splat(self.numbers[1], self.width)
        term = Emitter(self.fn, self.width, [value, power]).emit(term)
        old = cell.get()
        if self.extreme:
            op = "maximum" if self.kind == "max" else "minimum"  # nan wins, as in amax
            new = self.fn.intrinsic(op, old, term)
        else:
            new = old + term
        if mask is not None:
            new = self.fn.select(mask, new, old)
        cell.set(new)

    def gather(self):
        """The lanes' sums go to the total, in double, and start again from zero."""
        fn, w = self.fn, self.width
        a, b, c, d = (cell.get() for cell in self.lanes)
        for cell in self.lanes:
            cell.set(0.0)
        value = (a + b) + (c + d)
        if w > 1 and self.compute != "f64":  # halves, since a double is twice as long
            low, high = (fn.shuffle(value, None, range(k, k + w // 2)) for k in (0, w // 2))
            value = self.as_double(low) + self.as_double(high)
        self.total.set(self.total.get() + self.as_double(value))

    def as_double(self, value):
        t = vector("double", width_of(value.type))
        return value if value.type == t else self.fn.convert("fpext", value, t)

    def finish(self):
        fn = self.fn
        total = self.total.get()
        if self.extreme:
            op = "maximum" if self.kind == "max" else "minimum"
            values = [cell.get() for cell in self.lanes]
            join = functools.partial(fn.intrinsic, op)
        else:
            values, join = [total], operator.add
        lanes = [fn.extract(v, k) for v in values for k in range(width_of(v.type))]
        total = self.as_double(functools.reduce(join, lanes))
        fn.store(total, fn.gep(self.numbers[0], self.chunk, "double"), 8)


def build_norm(code, kind):
    """IR of the parts of a norm, one per chunk."""
    return _Norm(code, kind).text()


def build_norm_total(code, kind):
    """IR of a norm from its parts: a description (1, number of parts), parts, result, power."""
    module = Module()
    fn = module.function("body", [(PTR, "block"), (I64, "chunk")], internal=True)
    block = fn.params[0]
    description, parts, result = (argument_word(fn, block, k, "p") for k in range(3))
    power = argument_word(fn, block, 3, "f")
    count = fn.load(fn.gep(description, 1, I64), I64, 8)
    total = fn.var(fn.value(float("inf") if kind == "min" else 0.0, "double"))
    extremes = {"max": "maximum", "min": "minimum"}  # nan wins
    with fn.loop(0, count) as k:
        old, part = total.get(), fn.load(fn.gep(parts, k, "double"), "double", 8)
        total.set(fn.intrinsic(extremes[kind], old, part) if kind in extremes else old + part)
    x, p = scalar.argument(0, "f64"), scalar.argument(1, "f64")
    found = {"2": scalar.sqrt(x), "p": scalar.pow(x, 1 / p)}.get(kind, x)
    value = Emitter(fn, 1, [total.get(), power]).emit(found)
    if LLVM_TYPE[COMPUTE_TYPE[code]] != "double":
        value = fn.convert("fptrunc", value, LLVM_TYPE[COMPUTE_TYPE[code]])
    store_element(fn, value, result, code, 1, "c", None, None)
    fn.ret()
    add_entry(module, "pppf")
    return module_text(module)
