"""Scans of long rows in one trip through memory: tiles learn from each other what came before.

A group of threads scans a tile of a row and publishes its total; then it joins the totals of the
tiles before it. That is always done in the same order, whoever came first: every STRETCH tiles the
last one publishes the total of all of them, and a tile joins whole stretches, then the tiles of its
own. So a tile waits for its neighbours, never for a chain of all tiles. Arguments are those of
codegen/gpu/scans.py, with room for what is published, all zeros, in place of totals.
"""

from flambeau.codegen import scalar as m
from flambeau.codegen.gpu.normalization import Warps
from flambeau.codegen.gpu.pointwise import LINE
from flambeau.codegen.gpu.scans import _item, _Rows
from flambeau.codegen.gpu.teams import WARP, Whole, stored
from flambeau.codegen.gpu.together import raised, told, watched
from flambeau.codegen.llvm import from_memory
from flambeau.codegen.llvm_names import COMPUTE_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I1, I32, I64, bytes_of, vector
from flambeau.codegen.templates.scans import _offset

STRETCH = 64  # tiles
VECTORS = 8  # of a thread


class _Chain:
    """What tiles tell each other: words of tickets, of flags, of states.

    A word has four bytes of a state and a flag that says so: it is there as a whole or not at all,
    so nobody waits until several stores can be seen in order.
    """

    def __init__(self, program, room):
        self.program, self.kernel, self.fn = program, program.kernel, program.fn
        d, fn = program.d, program.fn
        self.tiles, self.types = d.blocks, program.types
        self.words = sum(max(1, bytes_of(t) // 4) for t in self.types)
        self.stretches = (self.tiles + (STRETCH - 1)) / STRETCH
        self.room, self.states = room, fn.gep(room, 1, I64)
        self.mine = self.kernel.shared(I64, 1)
        self.found = [self.kernel.shared(stored(t), 2) for t in self.types]

    def ticket(self):
        """The number of this tile: groups are numbered as they start, so those before run."""
        fn = self.fn
        with self.kernel.threads() as thread, fn.when(thread == 0):
            fn.store(raised(fn, self.room, fn.value(1, I64)), self.mine)
        return fn.load(self.mine, I64)

    def of_tile(self, row, number):
        return row * (self.tiles + self.stretches) + number

    def of_stretch(self, row, number):
        return row * (self.tiles + self.stretches) + self.tiles + number

    def publish(self, slot, state):
        """By one thread."""
        fn = self.fn
        for k, word in enumerate(word for value in state for word in _in_words(fn, value)):
            told(fn, word | (1 << 32), fn.gep(self.states, slot * self.words + k, I64))

    def wait(self, slot):
        """A state, once it is there."""
        fn = self.fn
        places = [fn.gep(self.states, slot * self.words + k, I64) for k in range(self.words)]
        words, going = [fn.var(fn.value(0, I64)) for _ in places], fn.var(fn.value(True, I1))
        with fn.while_(going.get):
            all_bits = fn.value(-1, I64)
            for word, place in zip(words, places):
                word.set(watched(fn, place, I64))
                all_bits = all_bits & word.get()
            going.set((all_bits & (1 << 32)) == 0)
        left = iter([word.get() for word in words])
        return [_from_words(fn, left, t) for t in self.types]

    def joined(self, cells, thread, count, slot):
        """The states of so many slots into cells: a warp shares them, in order."""
        fn, program = self.fn, self.program
        share = (count + (WARP - 1)) / WARP
        first = fn.min((thread % WARP) * share, count)
        with fn.loop(first, fn.min(first + share, count)) as k:
            both = program.combine(program.get(cells, thread), self.wait(slot(k)))
            program.set(cells, thread, both)

    def before(self, row, number, total):
        """Publish what a tile has in the cells of `total`; gives cells with what comes before.

        One warp looks at the tiles of the same stretch, another one at earlier stretches.
        """
        fn, kernel, program = self.fn, self.kernel, self.program
        cells, spare = program.privates(), program.privates()
        stretch = number / STRETCH
        start = stretch * STRETCH
        with kernel.threads(last=True) as thread:
            with fn.when(thread == 0):
                self.publish(self.of_tile(row, number), program.get(total, thread))
            program.set(cells, thread, program.nothing)
            with fn.when(thread / WARP == 0):
                self.joined(cells, thread, number - start, lambda k: self.of_tile(row, start + k))
            with fn.when(thread / WARP == 1):
                self.joined(cells, thread, stretch, lambda k: self.of_stretch(row, k))
        program.warps.scan(cells, spare, program.combine, program.nothing)
        with kernel.threads() as thread:
            state = program.get(cells, thread)
            with fn.when((thread == 0) & (number - start == STRETCH - 1)):
                whole = program.combine(state, program.get(total, thread))
                self.publish(self.of_stretch(row, stretch), whole)
            with fn.when((thread % WARP == 0) & (thread < 2 * WARP)):
                for place, value in zip(self.found, state):
                    fn.store(value, fn.gep(place, thread / WARP, stored(value.type)))
        with kernel.threads(last=True) as thread:
            near, far = (
                [fn.load(fn.gep(p, k, stored(t)), t) for p, t in zip(self.found, self.types)]
                for k in range(2)
            )
            program.set(cells, thread, program.combine(far, near))
        return cells


def _in_words(fn, value):
    """A value as words of four bytes each."""
    size = bytes_of(value.type)
    whole = f"i{8 * size}" if value.type != I1 else I1
    bits = value if value.type.startswith("i") else fn.convert("bitcast", value, whole)
    if size == 8:
        return [bits & 0xFFFFFFFF, fn.convert("zext", fn.convert("trunc", bits >> 32, I32), I64)]
    return [fn.convert("zext", bits, I64)]


def _from_words(fn, words, type):
    """The value of a type; takes its words from an iterator."""
    size = bytes_of(type)
    bits = next(words) & 0xFFFFFFFF
    if size == 8:
        bits = bits | (next(words) << 32)
    elif type != I64:
        bits = fn.convert("trunc", bits, I1 if type == I1 else f"i{8 * size}")
    return bits if type.startswith("i") else fn.convert("bitcast", bits, type)


class _Tiles(_Rows):
    """Tiles of rows. A warp has a stretch of a tile, in lines of a vector per thread."""

    resident = 4  # as much is on the way as registers hold

    def __init__(self, kinds, name, source, targets):
        super().__init__(kinds, name, source, targets)
        self.team, self.warps = Whole(self.kernel), Warps(self.kernel)
        self.width = min(8, LINE // _item(source))
        self.raw = vector(I32, self.width * _item(source) // 4)  # elements as memory has them
        self.lines = [self.kernel.private(self.raw) for _ in range(VECTORS)]

    def place(self, thread, k):
        """Where line k of a thread begins in the tile."""
        w = self.width
        return (thread / WARP) * (VECTORS * WARP * w) + k * (WARP * w) + (thread % WARP) * w

    def load_lines(self, x, start, low, high, thread):
        """All of a thread's; what lies beyond the end is the last element again."""
        fn, w, memory = self.fn, self.width, MEMORY_TYPE[self.source]
        whole = self.aligned & (low + self.d.block <= high)

        def wide():
            for k, line in enumerate(self.lines):
                at = fn.gep(x, start + low + self.place(thread, k), memory)
                line.set(thread, fn.load(at, self.raw, w * _item(self.source)))

        def singly():
            for k, line in enumerate(self.lines):
                found = fn.value(0, vector(memory, w))
                for j in range(w):
                    here = fn.min(low + self.place(thread, k) + j, high - 1)
                    found = fn.insert(found, fn.load(fn.gep(x, start + here, memory), memory), j)
                line.set(thread, fn.convert("bitcast", found, self.raw))

        fn.if_else(whole, wide, singly)

    def states(self, thread, k, low, zero=None):
        """States of the elements of a line.

        zero: a number that is nothing else, which compilers do not know. To them these are other
        elements, so that what was worked out earlier is not kept in registers meanwhile.
        """
        fn, scan, w = self.fn, self.walk.scan, self.width
        x, line = m.argument(0, COMPUTE_TYPE[self.source]), self.lines[k].get(thread)
        if zero is not None:
            line = line ^ fn.splat(zero, w * _item(self.source) // 4)
        line = from_memory(
            fn, fn.convert("bitcast", line, vector(MEMORY_TYPE[self.source], w)), self.source
        )
        first = low + self.place(thread, k)
        lifted = scan.lift(x, m.argument(2, "i64"))
        return [
            self.walk.evaluate(lifted, {0: fn.extract(line, j), 2: first + j}, 1) for j in range(w)
        ]

    def store_line(self, outs, start, at, high, states):
        """Results of a line."""
        fn, w, walk = self.fn, self.width, self.walk
        bases = [_offset(fn, o, start, c) for o, c in zip(outs, self.targets)]

        def wide():
            parts = []
            for type, values in zip(self.types, zip(*states)):
                lanes = fn.value(0, vector(type, w))
                for k, value in enumerate(values):
                    lanes = fn.insert(lanes, value, k)
                parts.append(lanes)
            fn.vector_align = LINE
            walk.store(bases, at, parts, w)
            fn.vector_align = None

        def singly():
            for k, state in enumerate(states):
                with fn.when(at + k < high):
                    walk.store(bases, at + k, state, 1)

        fn.if_else(self.aligned & (at + w <= high), wide, singly)


def build_scan(name, source, targets):
    """Both texts: (targets..., source, room)."""
    program = _Tiles("p" * (len(targets) + 3), name, source, targets)
    fn, kernel, d, nothing = program.fn, program.kernel, program.d, program.nothing
    *outs, x, room = (kernel.argument(1 + k) for k in range(len(targets) + 2))
    program.each = program.width
    program.aligned = program.is_aligned([*outs, x], [*targets, source])
    chain = _Chain(program, room)
    before = [program.privates() for _ in range(VECTORS)]
    line, total, earlier = program.privates(), program.privates(), program.privates()
    with fn.loop(kernel.group, d.pieces, kernel.groups):
        piece = chain.ticket()
        zero = fn.convert("trunc", piece >> 62, I32)
        row, low, high = program.span(piece)
        start = row * d.length
        with kernel.threads(last=True) as thread:
            program.load_lines(x, start, low, high, thread)
            program.set(total, thread, nothing)
        for k in range(VECTORS):
            with kernel.threads(last=True) as thread:
                program.set(line, thread, program.scanned(program.states(thread, k, low))[-1])
            program.warps.scan(line, before[k], program.combine, nothing)
            with kernel.threads(last=True) as thread:
                carry = program.get(total, thread)
                mine = program.combine(carry, program.get(before[k], thread))
                program.set(before[k], thread, mine)
                program.set(total, thread, program.combine(carry, program.get(line, thread)))
        with kernel.threads(last=True) as thread:
            is_last = thread % WARP == WARP - 1  # which speaks for its warp
            whole = program.get(total, thread)
            program.set(total, thread, [fn.select(is_last, a, b) for a, b in zip(whole, nothing)])
        program.team.scan(total, earlier, program.combine, nothing)
        known = chain.before(row, piece - row * d.blocks, total)
        with kernel.threads() as thread:
            so_far = program.combine(program.get(known, thread), program.get(earlier, thread))
            for k in range(VECTORS):
                state, found = program.combine(so_far, program.get(before[k], thread)), []
                for own in program.states(thread, k, low, zero):
                    state = program.combine(state, own)
                    found.append(state)
                program.store_line(outs, start, low + program.place(thread, k), high, found)
    return program.text(lambda fn, word: word(1))
