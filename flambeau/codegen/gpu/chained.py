"""Scans of long rows in one trip through memory: tiles learn from each other what came before.

A group of threads scans a tile of a row and publishes its total; then it joins the totals of the
tiles before it. That is always done in the same order, whoever came first: every STRETCH tiles the
last one publishes the total of all of them, and a tile joins whole stretches, then the tiles of its
own. So a tile waits for its neighbours, never for a chain of all tiles. Arguments are those of
codegen/gpu/scans.py, with room for what is published, all zeros, in place of totals.
"""

from flambeau.codegen import scalar as m
from flambeau.codegen.gpu.normalization import Warps
from flambeau.codegen.gpu.pointwise import LINE, divided
from flambeau.codegen.gpu.scans import _item, _Rows
from flambeau.codegen.gpu.teams import GROUP, WARP, Whole
from flambeau.codegen.gpu.together import fence, raised, told, watched
from flambeau.codegen.llvm import load_element
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I1, I64, vector
from flambeau.codegen.templates.scans import _offset

STRETCH = 64  # tiles
VECTORS = 8  # of a thread


class _Chain:
    """What tiles tell each other: words of tickets, of flags, of states."""

    def __init__(self, program, room):
        self.program, self.kernel, self.fn = program, program.kernel, program.fn
        d, fn = program.d, program.fn
        self.tiles, self.types = d.blocks, program.types
        self.stretches = (self.tiles + (STRETCH - 1)) / STRETCH
        self.rows = divided(fn, d.pieces, d.blocks)
        self.room, self.flags = room, fn.gep(room, 1, I64)
        self.states = fn.gep(self.flags, self.rows * (self.tiles + self.stretches), I64)
        self.team = program.team
        self.mine = self.kernel.shared(I64, 1)

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
        fn, n = self.fn, len(self.types)
        for k, value in enumerate(state):
            told(fn, value, fn.gep(self.states, slot * n + k, I64))
        fence(fn)
        told(fn, fn.value(1, I64), fn.gep(self.flags, slot, I64))

    def wait(self, slot):
        """A state, once it is there."""
        fn, n = self.fn, len(self.types)
        missing = fn.var(fn.value(True, I1))
        with fn.while_(missing.get):
            missing.set(watched(fn, fn.gep(self.flags, slot, I64), I64) == 0)
        fence(fn)
        return [
            watched(fn, fn.gep(self.states, slot * n + k, I64), t) for k, t in enumerate(self.types)
        ]

    def joined(self, cells, spare, count, slot):
        """The states of so many slots, joined in order, into the cells of all threads."""
        fn, program = self.fn, self.program
        with self.kernel.threads(last=True) as thread:
            program.set(cells, thread, program.nothing)
            share = (count + (GROUP - 1)) / GROUP
            first = fn.min(thread * share, count)
            with fn.loop(first, fn.min(first + share, count)) as k:
                both = program.combine(program.get(cells, thread), self.wait(slot(k)))
                program.set(cells, thread, both)
        self.team.scan(cells, spare, program.combine, program.nothing)

    def before(self, row, number, total):
        """Publish what a tile has in the cells of `total`; gives cells with what comes before."""
        fn, kernel, program = self.fn, self.kernel, self.program
        near, far, spare = program.privates(), program.privates(), program.privates()
        with kernel.threads(last=True) as thread, fn.when(thread == 0):
            self.publish(self.of_tile(row, number), program.get(total, thread))
        stretch = number / STRETCH
        start = stretch * STRETCH
        self.joined(near, spare, number - start, lambda k: self.of_tile(row, start + k))
        is_last = number - start == STRETCH - 1
        with kernel.threads(last=True) as thread, fn.when((thread == 0) & is_last):
            whole = program.combine(program.get(near, thread), program.get(total, thread))
            self.publish(self.of_stretch(row, stretch), whole)
        self.joined(far, spare, stretch, lambda k: self.of_stretch(row, k))
        with kernel.threads(last=True) as thread:
            both = program.combine(program.get(far, thread), program.get(near, thread))
            program.set(far, thread, both)
        return far


class _Tiles(_Rows):
    """Tiles of rows. A warp has a stretch of a tile, in lines of a vector per thread."""

    resident = 3  # which leaves registers for as much as memory needs on the way

    def __init__(self, kinds, name, source, targets):
        super().__init__(kinds, name, source, targets)
        self.team, self.warps = Whole(self.kernel), Warps(self.kernel)
        self.width = min(8, LINE // _item(source))
        self.lines = [self.kernel.private(self.vector()) for _ in range(VECTORS)]

    def vector(self):
        return vector(LLVM_TYPE[COMPUTE_TYPE[self.source]], self.width)

    def place(self, thread, k):
        """Where line k of a thread begins in the tile."""
        w = self.width
        return (thread / WARP) * (VECTORS * WARP * w) + k * (WARP * w) + (thread % WARP) * w

    def load_lines(self, x, start, low, high, thread):
        """All of a thread's; what lies beyond the end is the last element again."""
        fn, w = self.fn, self.width
        whole = self.aligned & (low + self.d.block <= high)

        def wide():
            fn.vector_align = LINE
            for k, line in enumerate(self.lines):
                at = fn.gep(x, start + low + self.place(thread, k), MEMORY_TYPE[self.source])
                line.set(thread, load_element(fn, at, self.source, w, "c"))
            fn.vector_align = None

        def singly():
            for k, line in enumerate(self.lines):
                found = fn.value(0, self.vector())
                for j in range(w):
                    here = fn.min(low + self.place(thread, k) + j, high - 1)
                    at = fn.gep(x, start + here, MEMORY_TYPE[self.source])
                    found = fn.insert(found, load_element(fn, at, self.source, 1, "c"), j)
                line.set(thread, found)

        fn.if_else(whole, wide, singly)

    def states(self, thread, k, low):
        """States of the elements of a line."""
        fn, scan = self.fn, self.walk.scan
        x, line = m.argument(0, COMPUTE_TYPE[self.source]), self.lines[k].get(thread)
        first = low + self.place(thread, k)
        lifted = scan.lift(x, m.argument(2, "i64"))
        return [
            self.walk.evaluate(lifted, {0: fn.extract(line, j), 2: first + j}, 1)
            for j in range(self.width)
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
    sums, before = ([program.privates() for _ in range(VECTORS)] for _ in range(2))
    total, earlier = program.privates(), program.privates()
    with fn.loop(kernel.group, d.pieces, kernel.groups):
        piece = chain.ticket()
        row, low, high = program.span(piece)
        start = row * d.length
        with kernel.threads(last=True) as thread:
            program.load_lines(x, start, low, high, thread)
            for k in range(VECTORS):
                program.set(sums[k], thread, program.scanned(program.states(thread, k, low))[-1])
        for k in range(VECTORS):
            program.warps.scan(sums[k], before[k], program.combine, nothing)
        with kernel.threads(last=True) as thread:
            carry = nothing
            for k in range(VECTORS):
                mine = program.combine(carry, program.get(before[k], thread))
                program.set(before[k], thread, mine)
                carry = program.combine(carry, program.get(sums[k], thread))
            is_last = thread % WARP == WARP - 1  # which speaks for its warp
            program.set(total, thread, [fn.select(is_last, a, b) for a, b in zip(carry, nothing)])
        program.team.scan(total, earlier, program.combine, nothing)
        known = chain.before(row, piece - row * d.blocks, total)
        with kernel.threads() as thread:
            so_far = program.combine(program.get(known, thread), program.get(earlier, thread))
            for k in range(VECTORS):
                state, found = program.combine(so_far, program.get(before[k], thread)), []
                for own in program.states(thread, k, low):
                    state = program.combine(state, own)
                    found.append(state)
                program.store_line(outs, start, low + program.place(thread, k), high, found)
    return program.text(lambda fn, word: word(1))
