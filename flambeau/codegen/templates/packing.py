"""Panels for the register tile: parts of A and B, laid out in the order in which the tile reads.

`pack_rows` writes a panel of A (a few rows, k by k), `pack_columns` a strip of B (a few vectors of
columns, k by k); Note [Using a tile] in tiles.py says what goes where. Any strides will do: where
the elements of a step lie side by side they are copied, where k runs side by side blocks are turned
around in registers, and everything else goes one by one. Half types and short integers are widened
on the way, except for paired tiles: their panels consist of words of two bfloat16, k and k + 1,
and where this file speaks of a step of k it means one word.
"""

from flambeau.codegen.llvm import masked_load
from flambeau.codegen.llvm_names import LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I32, I64, PTR, V, bytes_of, vector
from flambeau.codegen.templates.tiles import (
    lanes,
    load_pairs,
    load_parts,
    prefix_mask,
    store_parts,
    summed,
)

SPILL = 256  # bytes after the last panel of rows


def turned(fn, rows):
    """The transpose of a square of vectors, by exchanging halves, quarters, eighths, ..."""
    w = len(rows)
    step = w // 2
    while step:
        after = list(rows)
        for i in range(w):
            if not i & step:
                a, b = rows[i], rows[i + step]
                low = [k if not k & step else w + k - step for k in range(w)]
                high = [k + step if not k & step else w + k for k in range(w)]
                after[i], after[i + step] = fn.shuffle(a, b, low), fn.shuffle(a, b, high)
        rows = after
        step //= 2
    return rows


class _Pack:
    """What packing of both operands shares.

    A line is what lies side by side in the panel: the rows (or columns) of one step of k.
    """

    def __init__(self, module, name, code, most, paired):
        parameters = [(I64, "count"), (I64, "depth"), (PTR, "source"), (I64, "line_step")]
        parameters += [(I64, "k_step"), (PTR, "out")]
        self.fn = module.function(name, parameters, internal=True)
        self.count, self.depth, self.source, self.step, self.k_step, self.out = self.fn.params
        self.code, self.width, self.most, self.paired = code, lanes(code), most, paired
        self.parts = 2 if code[0] == "c" else 1
        self.item = bytes_of(MEMORY_TYPE[code]) * self.parts
        self.packed = summed(code) if self.parts == 1 else code
        if paired:
            self.packed = "i32"
        self.type = LLVM_TYPE[self.packed] if self.parts == 1 else LLVM_TYPE[summed(code)]
        self.packed_item = bytes_of(self.type) * self.parts
        self.grain = 2 if paired else 1
        self.groups = -(-most // self.width)

    def write(self):
        fn = self.fn

        def otherwise():
            fn.if_else(self.step == self.item, self.copied, self.one_by_one)

        if self.parts == 1 and self.width > 1:
            k_beside = (self.k_step == self.item) & (self.step != self.item)
            fn.if_else(k_beside, self.turned, otherwise)
        else:
            otherwise()
        fn.ret()

    def place(self, k, first):
        """Where element `first` of step k goes."""
        return self.fn.gep(self.out, (k * self.pitch + first) * self.packed_item, "i8")

    def masks(self):
        fn, w = self.fn, self.width
        return [prefix_mask(fn, w, self.count - g * w) for g in range(self.groups)]

    def each_step(self, build):
        """build(k, whole) for each step; `whole` is False for the word that is half padding."""
        fn = self.fn
        steps = self.depth / self.grain
        with fn.loop(0, steps) as k:
            build(k, True)
        if self.paired:
            with fn.when((self.depth & 1) != 0):
                build(steps, False)

    def copied(self):
        fn, w, masks = self.fn, self.width, self.masks()

        def step(k, whole):
            source = fn.gep(self.source, k * self.grain * self.k_step, "i8")
            for g, mask in enumerate(masks):
                place = fn.gep(source, g * w * self.item, "i8")
                value = load_parts(fn, place, self.code, w, "c", None, mask)
                self.put(value, self.place(k, g * w), mask)

        self.each_step(self.interleaved if self.paired else step)

    def interleaved(self, k, whole):
        """One step of words: k from one line, k + 1 from the next, shuffled into each other."""
        fn, w = self.fn, self.width
        source = fn.gep(self.source, k * 2 * self.k_step, "i8")
        for first in range(0, self.groups, 2):
            taken = min(2, self.groups - first)
            mask = prefix_mask(fn, taken * w, self.count - first * w)
            type = vector("i16", taken * w)

            def load(line, first=first, mask=mask, type=type):
                return masked_load(fn, fn.gep(line, first * w * self.item, "i8"), type, mask)

            low, high = load(source), V(fn, type, "zeroinitializer")
            if whole:
                high = load(fn.gep(source, self.k_step, "i8"))
            for g in range(taken):
                lanes = [g * w + i // 2 + (i % 2) * taken * w for i in range(2 * w)]
                word = fn.convert("bitcast", fn.shuffle(low, high, lanes), vector(I32, w))
                only = prefix_mask(fn, w, self.count - (first + g) * w)
                self.put([word], self.place(k, (first + g) * w), only)

    def turned(self):
        """Squares of k by lines; the code of one square serves whole and cut ones."""
        fn, w = self.fn, self.width
        type = vector(self.type, w)
        held = fn.alloca(type, w)
        steps = (self.depth + 1) >> 1 if self.paired else self.depth
        with fn.loop(0, self.count, w) as first:
            mask = prefix_mask(fn, w, self.count - first)
            # lines beyond the last repeat it: what they hold is never used
            lines = [
                fn.gep(self.source, fn.min(self.count - 1, first + i) * self.step, "i8")
                for i in range(w)
            ]
            with fn.loop(0, steps, w) as k:
                left = steps - k
                readable = prefix_mask(fn, w * self.grain, self.depth - k * self.grain)
                places = [fn.gep(line, k * (self.item * self.grain), "i8") for line in lines]
                columns = turned(fn, [self.load(place, readable) for place in places])
                out = self.place(k, first)
                pitch = fn.value(self.pitch, I64) * self.packed_item

                def whole(columns=columns, place=out, pitch=pitch, mask=mask):
                    for value in columns:
                        self.put([value], place, mask)
                        place = fn.gep(place, pitch, "i8")

                def cut(columns=columns, place=out, pitch=pitch, mask=mask, left=left):
                    for u, value in enumerate(columns):
                        fn.store(value, fn.gep(held, u, type))
                    with fn.loop(0, left) as u:
                        value = fn.load(fn.gep(held, u, type), type)
                        self.put([value], fn.gep(place, u * pitch, "i8"), mask)

                fn.if_else(left >= w, whole, cut)

    def load(self, place, readable):
        """A vector of steps, which lie side by side."""
        if self.paired:
            return load_pairs(self.fn, place, self.width, readable)
        return load_parts(self.fn, place, self.code, self.width, "c", None, readable)[0]

    def one_by_one(self):
        fn = self.fn

        def load(place):
            if self.paired:
                return [fn.convert("zext", fn.load(place, "i16"), I32)]
            return load_parts(fn, place, self.code, 1, "c")

        def step(k, whole):
            source = fn.gep(self.source, k * self.grain * self.k_step, "i8")
            with fn.loop(0, self.count) as i:
                place = fn.gep(source, i * self.step, "i8")
                value = load(place)
                if self.paired and whole:
                    after = load(fn.gep(place, self.k_step, "i8"))
                    value = [value[0] | (after[0] << 16)]
                self.put_one(value, k, i)

        self.each_step(step)


class _Rows(_Pack):
    """A panel of A: lines are as long as there are rows.

    One vector covers a line and may spill over lines that are written later: panels are packed in
    ascending order, and their buffer ends with room for a vector more (SPILL).
    """

    @property
    def pitch(self):
        return self.count

    def put(self, value, place, mask):
        only = None if self.groups == 1 else mask
        store_parts(self.fn, value, place, self.packed, self.width, mask=only)

    def put_one(self, value, k, i):
        store_parts(self.fn, value, self.place(k, i), self.packed, 1)


class _Columns(_Pack):
    """A strip of B: lines are whole vectors; complex ones keep real and imaginary parts apart."""

    @property
    def pitch(self):
        return self.most

    def fill(self, grain):
        """Zeros in all words of k up to a multiple of grain that packing does not write."""
        fn, w = self.fn, self.width
        words = grain // self.grain
        steps = (self.depth + (self.grain - 1)) / self.grain
        zero = fn.value(0, vector(self.type, w))
        with fn.loop(steps, (steps + (words - 1)) / words * words) as k:
            for g in range(self.groups):
                fn.store(zero, self.place(k, g * w))

    def put(self, value, place, mask):
        size = bytes_of(self.type) * self.width
        for p, part in enumerate(value):
            self.fn.store(part, self.fn.gep(place, p * size, "i8"))

    def put_one(self, value, k, i):
        fn, w = self.fn, self.width
        size = bytes_of(self.type)
        line = self.place(k, 0)
        at = (i / w) * (w * self.parts) + i % w if self.parts > 1 else i
        for p, part in enumerate(value):
            fn.store(part, fn.gep(line, (at + p * w) * size, "i8"))


def pack_rows(module, code, most, paired=False):
    """Add `pack_rows(count, depth, source, row step, k step, out)` for up to `most` rows."""
    _Rows(module, "pack_rows", code, most, paired).write()


def pack_columns(module, code, columns, paired=False, grain=1):
    """Add `pack_columns(count, depth, source, column step, k step, out)`: strips of `columns`.

    grain: elements of k that a tile takes at once; zeros fill the last ones up.
    """
    pack = _Columns(module, "pack_columns", code, columns, paired)
    if grain > 2:
        pack.fill(grain)
    pack.write()


def call_pack(fn, name, *arguments):
    fn.line(f"call void @{name}({', '.join(map(repr, arguments))})")
