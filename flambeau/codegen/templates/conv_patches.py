"""What every general convolution kernel does first: pixels become runs, patches become a panel.

A block of output pixels, counted through batch, depth, height and width, is cut into runs that stay
in one line of the image, or in one plane of it where the lines that patches see follow each other
as those of the pixels do (`flat`: most convolutions with step 1). For a block of channels and taps
`pack` copies what each pixel needs into a panel of the compute type, one row per (channel, tap),
with zeros where a tap falls into the padding. So no larger matrix of patches than one that fits the
cache ever exists, and strides, dilation, padding and half types are dealt with here and nowhere
else. Where the processor multiplies pairs of bfloat16, a row of the panel consists of words of two
of them: of channels c and c + 1 where sums go over channels, of neighbouring pixels where they go
over pixels. Products of such panels are in conv.py and conv_weight.py; sizes and tables come as
words from planning/convolutions.py.
"""

from flambeau.codegen.descriptions import Convolution, ConvolutionPhase
from flambeau.codegen.llvm import convert, from_memory, masked_load, masks_are_cheap, to_memory
from flambeau.codegen.llvm_cpu import add_entry, argument_word, module_text
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import (
    I1,
    I32,
    I64,
    PTR,
    Module,
    V,
    bytes_of,
    element,
    vector,
    width_of,
)
from flambeau.codegen.templates import slots, tiles
from flambeau.codegen.templates.tails import deliver, expect_delivery

PLACE = {name: k for k, name in enumerate(Convolution._fields)}
PHASE = ConvolutionPhase._fields
TAP = "d h w a".split()
BLOCK = "c_first c_count t_first t_count k_first".split()
RUN = "pos length base d h w".split()
SPARE = 16  # words behind the lanes of a block
# How the pixels of a vector lie in memory: side by side and as many as it holds, side by side but
# fewer, with one of another phase between any two, or otherwise.
ANYWHERE, EVERY_SECOND, CUT, WHOLE = range(4)


class Patches:
    """One kernel under construction: words, slots of scratch, pixels, panels.

    pairs: of "channels" or of "pixels", in 32-bit words; "" where elements are widened.
    """

    def __init__(self, code, kinds, packs=True, pairs=""):
        self.code, self.kinds, self.pairs = code, kinds, pairs
        self.module = Module()
        self.type = LLVM_TYPE[tiles.summed(code)]
        self.width = tiles.lanes(code)
        self.vector = vector(self.type, self.width)
        self.item, self.size = bytes_of(MEMORY_TYPE[code]), bytes_of(self.type)
        self.grain = 2 if pairs == "channels" else 1  # channels of a row of the panel
        self.cell = {"channels": I32, "pixels": "i16"}.get(pairs, self.type)  # a panel's elements
        if packs:
            plan_function(self)
            pack_function(self)
        self.fn = fn = self.module.function("body", [(PTR, "block"), (I64, "chunk")], internal=True)
        self.block, self.chunk = fn.params
        self.description = argument_word(fn, self.block, 0, "p")

    def argument(self, k, kind="p"):
        return argument_word(self.fn, self.block, k, kind)

    def text(self):
        """IR of the kernel; call it once the body is written."""
        self.fn.ret()
        ends = [PLACE[name] for name in self.ends]
        add_entry(self.module, self.kinds, spare=1, ends=ends)
        return module_text(self.module)

    def widened(self, fn, raw):
        """What was loaded from memory, as it is summed."""
        code = self.code
        return convert(fn, from_memory(fn, raw, code), COMPUTE_TYPE[code], tiles.summed(code))

    def narrowed(self, fn, value):
        """A sum as it lies in memory."""
        code = self.code
        return to_memory(fn, convert(fn, value, tiles.summed(code), COMPUTE_TYPE[code]), code)

    tail = None  # what follows a result
    ends: tuple[str, ...] = ()  # words that say where regions of chunks end that others wait for

    def put(self, fn, block, value, place, mask):
        """Store results, as they lie in memory; block: the arguments of the kernel."""
        given = lambda: self._given(fn, block)
        deliver(self.tail, fn, value, place, mask, self.code, given)

    def expect_put(self, fn, block, place, lines):
        """Ask for the memory that results at a place will be put to, and for what follows reads."""
        given = lambda: self._given(fn, block)
        expect_delivery(self.tail, fn, place, lines, self.code, given)

    def _given(self, fn, block):
        first = len(self.kinds) - len(self.tail.kinds)
        places = [(1, "p"), *enumerate(self.tail.kinds, first)]
        return [argument_word(fn, block, k, kind) for k, kind in places]

    def word(self, name, fn=None, description=None):
        fn = fn or self.fn
        at = fn.gep(description or self.description, PLACE[name], I64)
        return fn.load(at, I64, 8)

    def record(self, table, names, index):
        """A record of a table as values by name."""
        fn = self.fn
        start = self.word(table) + index * len(names)
        return {n: fn.load(fn.gep(self.description, start + k, I64), I64, 8)
                for k, n in enumerate(names)}  # fmt: skip

    # -- scratch -----------------------------------------------------------------------------------

    def claim(self, scratch, count, among=None):
        """Take a slot of scratch; among: the chunk and how many run with it, if not all."""
        fn = self.fn
        self.slot_bits = fn.gep(self.block, len(self.kinds) + 1, I64)
        chunk, chunks = among or (self.chunk, self.word("chunks"))
        self.slot_number = slots.take(fn, self.slot_bits, count, chunk, chunks)
        self.slot = fn.gep(scratch, self.slot_number * self.word("slot_bytes"), "i8")
        self.lanes = fn.gep(self.slot, self.word("at_lanes"), "i8")
        self.moves = fn.gep(self.slot, self.word("at_moves"), "i8")
        self.panel = fn.gep(self.slot, self.word("at_panel"), "i8")
        self.sums = fn.gep(self.slot, self.word("at_sums"), "i8")
        self.panel_pitch, self.sums_pitch = self.word("panel_pitch"), self.word("sums_pitch")

    def release(self):
        slots.give(self.fn, self.slot_bits, self.slot_number)

    # -- pixels ------------------------------------------------------------------------------------

    def walk_pixels(self, phase, first, count):
        """Runs of a block of pixels, and where each pixel lies in y (bytes)."""
        fn, w = self.fn, self.width
        wide, high, deep = phase["out_w"], phase["out_h"], phase["out_d"]
        line = first / wide
        ow = fn.var(first % wide)
        oh, plane = fn.var(line % high), line / high
        od, n = fn.var(plane % deep), fn.var(plane / deep)
        done, runs = fn.var(V(fn, I64, "0")), fn.var(V(fn, I64, "0"))
        steps = [self.word(s) for s in ("step_d", "step_h", "step_w")]
        x_n, y_n, y_d, y_h, y_w = (self.word(s) for s in ("x_n", "y_n", "y_d", "y_h", "y_w"))
        lane, number = fn.iota(vector(I64, w)) * fn.splat(y_w, w), fn.iota(vector(I32, w))
        beside = steps[2] * self.word("x_w") == self.item
        self.flat = fn.value(w > 1, I1) & beside & (steps[1] * self.word("x_h") == wide * self.item)
        self.ways = fn.gep(self.lanes, self.word("block") + SPARE, I64)
        self.columns = fn.gep(self.ways, self.word("block") + SPARE, I64)
        self.heights = fn.gep(self.columns, self.word("block") + SPARE, I32)
        with fn.while_(lambda: done.get() < count):
            pos, column = done.get(), ow.get()
            length = fn.min(wide - column, count - pos)
            place = [v.get() for v in (od, oh)]
            goes_on = self.flat & (place[1] > 0) & (pos > 0)
            with fn.when(goes_on):
                longer = fn.gep(self.slot, (runs.get() - 1) * len(RUN) + RUN.index("length"), I64)
                fn.store(fn.load(longer, I64, 8) + length, longer, 8)
            with fn.when(~goes_on):
                run = fn.gep(self.slot, runs.get() * len(RUN), I64)
                facts = [pos, length, n.get() * x_n, *[p * s for p, s in zip(place, steps)]]
                for k, value in enumerate([*facts, column * steps[2]]):
                    fn.store(value, fn.gep(run, k, I64), 8)
                runs.set(runs.get() + 1)
            at = phase["y_base"] + n.get() * y_n + place[0] * y_d + place[1] * y_h + column * y_w
            with fn.loop(0, length, w) as i:
                where = fn.splat(at + i * y_w, w) + lane if w > 1 else at + i * y_w
                fn.store(where, fn.gep(self.lanes, pos + i, I64), 8)
                across = fn.splat(fn.convert("trunc", column + i, I32), w) + number
                down = fn.splat(fn.convert("trunc", place[1], I32), w)
                fn.store(across, fn.gep(self.columns, pos + i, I32), 4)
                fn.store(down, fn.gep(self.heights, pos + i, I32), 4)
            done.set(pos + length)
            ow.set(0)
            oh.set(oh.get() + 1)
            with fn.when(oh.get() == high):
                oh.set(0)
                od.set(od.get() + 1)
                with fn.when(od.get() == deep):
                    od.set(0)
                    n.set(n.get() + 1)
        self.runs = runs.get()
        self.sort_vectors(count)
        self.start_packing()

    def sort_vectors(self, count):
        """Of every vector of pixels, how they lie in y: one of the four ways, once for all rows."""
        fn, w = self.fn, self.width
        with fn.loop(0, (count + w - 1) / w) as v:
            where = fn.load(fn.gep(self.lanes, v * w, I64), vector(I64, w), 8)
            first = fn.splat(fn.extract(where, 0), w)

            def apart(times, where=where, first=first):
                lane = fn.iota(vector(I64, w)) * (self.item * times)
                return ~fn.any(where != first + lane)

            others = fn.select(apart(2), fn.value(EVERY_SECOND, I64), ANYWHERE)
            beside = fn.select(count - v * w < w, fn.value(CUT, I64), WHOLE)
            fn.store(fn.select(apart(1), beside, others), fn.gep(self.ways, v, I64), 8)

    def lanes_of(self, fn, lanes, ways, v):
        """Where the first pixel of vector v lies in y, and how the others do."""
        first = fn.load(fn.gep(lanes, v * self.width, I64), I64, 8)
        return first, fn.load(fn.gep(ways, v, I64), I64, 8)

    def below(self, left, fn=None):
        """Mask of the lanes below a number."""
        fn, w = fn or self.fn, self.width
        lane = fn.iota(vector(I64, w))
        return fn.pure(f"icmp slt {lane}, {fn.splat(left, w).name}", vector(I1, w))

    # -- panels ------------------------------------------------------------------------------------

    def start_packing(self):
        """Forget the moves of other pixels."""
        self.planned = self.fn.var(V(self.fn, I64, "-1"))

    def pack(self, x, taps, block):
        """Fill the panel for one block of channels and taps."""
        fn = self.fn
        count = block["t_count"]
        with fn.when(self.planned.get() != block["t_first"]):
            self.planned.set(block["t_first"])
            operands = [self.description, self.slot, self.runs, taps, count, self.moves]
            operands += [self.flat, self.columns, self.heights]
            fn.line(f"call void @plan({', '.join(map(repr, operands))})")
        done = block["c_first"] * self.grain
        first = fn.gep(x, done * self.word("x_c"), "i8")
        operands = [self.description, first, self.slot, self.runs, taps, count, block["c_count"]]
        operands += [self.word("c") - done, self.panel, self.panel_pitch, self.moves]
        fn.line(f"call void @pack({', '.join(map(repr, operands))})")


class Seen:
    """What one tap sees of one run: where it starts, and which lanes are in the image."""

    def __init__(self, fn, word, runs, r, tap):
        self.pos, self.length, base, d, h, w = (
            fn.load(fn.gep(runs, r * len(RUN) + k, I64), I64, 8) for k in range(len(RUN))
        )
        step = word("step_w")
        d, h, w = d + tap[0], h + tap[1], w + tap[2]
        self.deep = d.below(word("in_d"))
        inside = self.deep & h.below(word("in_h"))
        zero, length, wide = fn.value(0, I64), self.length, word("in_w")
        # divisions where a line reaches beyond the image only: they would cost more than the rest
        self.low = fn.if_else(w < 0, lambda: (step - 1 - w) / step, lambda: zero)
        whole = w + (length - 1) * step < wide
        high = fn.if_else(whole, lambda: length, lambda: (wide - w + step - 1) / step)
        self.high = fn.select(inside, high, 0)
        self.offset = base + d * word("x_d") + h * word("x_h") + w * word("x_w")


def plan_function(patches):
    """Where vectors of a panel's row come from, once for all channels: offset and mask.

    Words of the table: the number of vectors, their places in a row, then per tap an offset and a
    mask for each. Patches that move by two columns need two loads, so masks have twice the lanes.
    """
    p = patches
    names = ((PTR, "description"), (PTR, "runs"), (I64, "run_count"), (PTR, "taps"))
    names += ((I64, "tap_count"), (PTR, "moves"), (I1, "flat"), (PTR, "columns"), (PTR, "heights"))
    fn, w = p.module.function("plan", names, internal=True), p.width
    description, runs, run_count, taps, tap_count, moves, flat, columns, heights = fn.params

    def word(name):
        return p.word(name, fn, description)

    apart, pitch = word("step_w") * word("x_w"), word("move_pitch")
    twice = fn.select(apart == p.item, fn.value(1, I64), 2)
    one = V(fn, I64, "1")
    with fn.loop(0, tap_count) as t:
        tap = [fn.load(fn.gep(taps, t * len(TAP) + k, I64), I64, 8) for k in range(3)]
        line = fn.gep(moves, (t * 2 + 1) * pitch + 1, I64)
        count = fn.var(V(fn, I64, "0"))
        with fn.loop(0, run_count) as r:
            seen = Seen(fn, word, runs, r, tap)
            with fn.loop(0, seen.length, w) as j:
                k = count.get()

                def of_line(seen=seen, j=j):
                    # bits low..high, stretched where every second element is wanted
                    last = fn.max(fn.min(seen.high - j, w) * twice - (twice - 1), 0)
                    first = fn.min(fn.max(seen.low - j, 0) * twice, 63)
                    return ((one << last) - 1) & (0 - (one << first))

                def of_plane(seen=seen, j=j, tap=tap):
                    inside = fn.iota(vector(I64, w)) < fn.splat(seen.length - j, w)
                    for table, nth, step, size in (
                        (heights, 1, "step_h", "in_h"), (columns, 2, "step_w", "in_w")
                    ):  # fmt: skip
                        at = fn.load(fn.gep(table, seen.pos + j, I32), vector(I32, w), 4)
                        narrow = [fn.convert("trunc", x, I32) for x in (word(step), tap[nth])]
                        at = at * fn.splat(narrow[0], w) + fn.splat(narrow[1], w)
                        most = fn.splat(fn.convert("trunc", word(size), I32), w)
                        inside = inside & at.below(most)
                    bits = fn.convert("bitcast", inside, f"i{w}")
                    return fn.select(seen.deep, fn.convert("zext", bits, I64), 0)

                mask = fn.if_else(flat, of_plane, of_line) if w > 1 else of_line()
                fn.store(seen.pos + j, fn.gep(moves, k + 1, I64), 8)
                fn.store(seen.offset + j * apart, fn.gep(line, k, I64), 8)
                fn.store(mask, fn.gep(line, pitch + k, I64), 8)
                count.set(k + 1)
        fn.store(count.get(), moves, 8)
    fn.ret()


def zipped(fn, low, high):
    """Vectors of 16-bit elements as words of two: from one, and from the other."""
    w = width_of(low.type)
    both = fn.shuffle(low, high, [i // 2 + i % 2 * w for i in range(2 * w)])
    return fn.convert("bitcast", both, vector(I32, w))


def pair_at(fn, place, apart, there):
    """One such word: the element here, and that `apart` bytes further on if it is there."""
    low = fn.convert("zext", fn.load(place, "i16"), I32)

    def both():
        high = fn.load(fn.gep(place, apart, "i8"), "i16")
        return low | (fn.convert("zext", high, I32) << 16)

    return fn.if_else(there, both, lambda: low)


def _lanes_on(fn, bits, w, size):
    """The lowest bits of a word as a mask; size: bits of an element.

    Without mask registers LLVM would take the word apart bit by bit: lanes look for their own.
    """
    if masks_are_cheap() or w == 1:
        return fn.convert("bitcast", fn.convert("trunc", bits, f"i{w}"), vector(I1, w))
    lane = f"i{size}"
    spread = fn.splat(bits if size == 64 else fn.convert("trunc", bits, lane), w)
    own = V(fn, spread.type, "<" + ", ".join(f"{lane} {1 << k}" for k in range(w)) + ">")
    return (spread & own) == own


def _picked(fn, here, bits, raw, pieces):
    """A vector of elements side by side (pieces: 1) or of every second one (2), by bits of a mask.

    Where masks are dear, a vector that is all there is told by its bits, without making a mask.
    """
    w, item = width_of(raw), bytes_of(element(raw))

    def masked():
        found = []
        for piece in range(pieces):
            mask = _lanes_on(fn, bits >> (piece * w), w, 8 * item)
            found.append(masked_load(fn, fn.gep(here, piece * w * item, "i8"), raw, mask, True))
        return found[0] if pieces == 1 else fn.shuffle(*found, range(0, 2 * w, 2))

    def whole():
        first = fn.load(here, raw, item)
        if pieces == 1:
            return first
        # the element behind the last one may not be there: the second load begins one earlier
        second = fn.load(fn.gep(here, (w - 1) * item, "i8"), raw, item)
        return fn.shuffle(first, second, [i if i < w else i + 1 for i in range(0, 2 * w, 2)])

    if masks_are_cheap() or w == 1:
        return masked()
    return fn.if_else(bits == (1 << (pieces * w - (pieces - 1))) - 1, whole, masked)


def pack_function(patches):
    """Rows of a panel, channel by channel and tap by tap."""
    p = patches
    names = ((PTR, "description"), (PTR, "x"), (PTR, "runs"), (I64, "run_count"))
    names += ((PTR, "taps"), (I64, "tap_count"), (I64, "rows"), (I64, "channels"))
    names += ((PTR, "panel"), (I64, "pitch"), (PTR, "moves"))
    fn, w = p.module.function("pack", names, internal=True), p.width
    description, x, runs, run_count, taps, tap_count, rows, channels, panel, pitch, moves = (
        fn.params
    )

    def word(name):
        return p.word(name, fn, description)

    raw = vector(MEMORY_TYPE[p.code], w)
    x_c, apart, move_pitch = word("x_c"), word("step_w") * word("x_w"), word("move_pitch")

    def by_vectors(pieces):
        """Elements side by side (one load), or every second one (two)."""
        count = fn.load(moves, I64, 8)
        with fn.loop(0, rows) as c, fn.loop(0, tap_count) as t:
            source = fn.gep(x, c * p.grain * x_c, "i8")
            # of an odd number of channels the last one has nobody beside it
            beside = fn.select(c * 2 + 1 < channels, fn.value(-1, I64), 0)
            row = fn.gep(panel, (c * tap_count + t) * pitch, "i8")
            line = fn.gep(moves, (t * 2 + 1) * move_pitch + 1, I64)
            with fn.loop(0, count) as k:
                here = fn.gep(source, fn.load(fn.gep(line, k, I64), I64, 8), "i8")
                bits = fn.load(fn.gep(line, move_pitch + k, I64), I64, 8)
                value = _picked(fn, here, bits, raw, pieces)
                if p.pairs == "channels":
                    other = _picked(fn, fn.gep(here, x_c, "i8"), bits & beside, raw, pieces)
                    value = zipped(fn, value, other)
                elif not p.pairs:
                    value = p.widened(fn, value)
                place = fn.load(fn.gep(moves, k + 1, I64), I64, 8)
                fn.store(value, fn.gep(row, place, p.cell), bytes_of(p.cell))

    def by_elements():
        zero = fn.value(0, vector(p.cell, w))
        with fn.loop(0, tap_count) as t:
            tap = [fn.load(fn.gep(taps, t * len(TAP) + k, I64), I64, 8) for k in range(3)]
            with fn.loop(0, run_count) as r, fn.loop(0, rows) as c:
                seen = Seen(fn, word, runs, r, tap)
                row = fn.gep(panel, (c * tap_count + t) * pitch, "i8")
                there = fn.gep(row, seen.pos, p.cell)
                here = fn.gep(x, c * p.grain * x_c + seen.offset, "i8")
                with fn.loop(0, seen.length, w) as i:
                    fn.store(zero, fn.gep(there, i, p.cell), bytes_of(p.cell))
                with fn.loop(seen.low, seen.high) as i:
                    element = fn.gep(here, i * apart, "i8")
                    value = fn.load(element, MEMORY_TYPE[p.code])
                    if p.pairs == "channels":
                        value = pair_at(fn, element, x_c, c * 2 + 1 < channels)
                    elif not p.pairs:
                        value = p.widened(fn, value)
                    fn.store(value, fn.gep(there, i, p.cell), bytes_of(p.cell))

    fn.if_else(
        apart == p.item,
        lambda: by_vectors(1),
        lambda: fn.if_else(apart == 2 * p.item, lambda: by_vectors(2), by_elements),
    )
    fn.ret()
