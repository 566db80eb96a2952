"""Scans of long rows in one trip through memory: tiles learn from each other what came before.

A group of threads scans a tile of a row and publishes its total; then it joins the totals of the
tiles before it. That is always done in the same order, whoever came first: every STRETCH tiles the
last one publishes the total of all of them, and a tile joins whole stretches, then the tiles of its
own. So a tile waits for its neighbours, never for a chain of all tiles. Arguments are those of
codegen/gpu/scans.py, with room for what is published, all zeros, in place of totals.
"""

from flambeau.codegen.gpu.pointwise import divided
from flambeau.codegen.gpu.scans import _Rows
from flambeau.codegen.gpu.teams import GROUP, Whole
from flambeau.codegen.gpu.together import fence, raised, told, watched
from flambeau.codegen.loops import I1, I64
from flambeau.codegen.templates.scans import _offset

STRETCH = 64  # tiles


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
    """Rows whose blocks are tiles: a group of threads scans one at a time."""

    resident = 4  # groups wait for one another

    def __init__(self, kinds, *facts):
        super().__init__(kinds, *facts)
        self.team = Whole(self.kernel)


def build_scan(name, source, targets, each):
    """Both texts: (targets..., source, room); each: elements of a thread."""
    program = _Tiles("p" * (len(targets) + 3), name, source, targets, each)
    fn, kernel, d = program.fn, program.kernel, program.d
    *outs, x, room = (kernel.argument(1 + k) for k in range(len(targets) + 2))
    aligned = program.is_aligned([*outs, x], [*targets, source])
    chain = _Chain(program, room)
    cells = [program.privates() for _ in range(each)]
    total, earlier = program.privates(), program.privates()
    with fn.loop(kernel.group, d.pieces, kernel.groups):
        piece = chain.ticket()
        row, low, high = program.span(piece)
        with kernel.threads(last=True) as thread:
            base = _offset(fn, x, row * d.length, source)
            program.load(base, low + thread * each, high, aligned, thread, cells)
            local = program.scanned([program.get(c, thread) for c in cells])
            for place, state in zip(cells, local):
                program.set(place, thread, state)
            program.set(total, thread, local[-1])
        program.team.scan(total, earlier, program.combine, program.nothing)
        known = chain.before(row, piece - row * d.blocks, total)
        with kernel.threads() as thread:
            before, start = program.get(known, thread), fn.value(0, I64)
            program.write(outs, piece, start, thread, cells, earlier, before, aligned)
    return program.text(lambda fn, word: word(1))
