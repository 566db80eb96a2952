"""Row programs over rows in segments: channels of a batch, groups of channels of one image.

A segment is a run of memory; the next one lies at a fixed distance. Totals go over all segments of
a row (`Sum`) or one of them (`SegmentSum`); weights may belong to segments. A row may be cut into
pieces with totals of their own, for the sake of threads. See `rows.py` for the language.
"""

from flambeau.codegen import descriptions
from flambeau.codegen.llvm import load_element
from flambeau.codegen.loops import I64
from flambeau.codegen.templates.rows import (
    BLOCK,
    Between,
    Rows,
    SegmentSum,
    Sum,
)


class Planes(Rows):
    """Rows in segments: each is a run of memory, at a fixed distance from the one before.

    Numbers of the place `segment` (weights of channels in a group) belong to one segment. A row may
    be cut into pieces, each with totals of its own (place `piece out`).
    """

    def run(self):
        fn, kernel = self.fn, self.kernel
        words = kernel.described(descriptions.Planes)
        rows, length, segments, part = words.rows, words.length, words.segments, words.part
        first = kernel.chunk * words.per_chunk
        with fn.loop(first, fn.min(first + words.per_chunk, rows * words.pieces)) as item:
            row, piece = item % rows, item / rows
            # pieces are runs of segments, or (where those are few) parts of every segment
            parts = (length + part - 1) / part
            self.first_segment = (piece / parts) * words.run
            self.last_segment = fn.min(self.first_segment + words.run, segments)
            self.low = (piece % parts) * part
            self.high = fn.min(self.low + part, length)
            self.origin, self.segment_step = row * words.row_step, words.segment_step
            self.n = length
            self.first_number = (row % words.period) * segments
            self.first_total = row * segments
            self.indices = {"row": row, "row out": row, "piece": item, "piece out": item}
            count = (self.last_segment - self.first_segment) * (self.high - self.low)
            self.begin_row(self.indices, count)
            for step in self.program.steps:
                if isinstance(step, Between):
                    self.between(step)
                else:
                    self.walk(step)
        return kernel.text()

    def elements(self):
        found = super().elements()
        for name, (_, place) in self.program.operands.items():
            if place == "segment":
                setattr(found, name, self.symbol(name))
        return found

    def walk(self, step):
        fn = self.fn
        self.begin_pass(step)
        actions, totals, lanes = self.actions(step)
        inner = {k: a for k, a in actions.items() if type(a) is SegmentSum}
        sums = self.no_sums(totals)
        # as many short segments as make a block, or the blocks of a long one
        together = fn.max(fn.value(BLOCK, I64) / fn.max(self.high - self.low, 1), 1)
        # (whole segments, where sums are wanted per segment)
        block = fn.max(self.high - self.low, 1) if inner else fn.value(BLOCK, I64)
        with (
            fn.loop(self.first_segment, self.last_segment, together) as first,
            fn.loop(self.low, self.high, block) as low,
        ):
            high = fn.min(low + block, self.high)
            cells = self.cells(totals)
            last = fn.min(first + together, self.last_segment)
            with fn.loop(first, last) as segment:
                self.starts = {"element": self.origin + segment * self.segment_step}
                own = self.cells(inner)
                numbers = lanes | self.numbers_of(segment, actions)
                self.visit(actions, numbers, low, high, cells | own)
                for name in inner:
                    value = self.joined_lanes(Sum, own[name])
                    fn.store(value, self.place(name, self.first_total + segment))
            self.fold(totals, cells, sums)
        self.settle(totals, sums)

    def numbers_of(self, segment, actions):
        """Numbers of a segment, one per lane."""
        fn, found = self.fn, {}
        used = self.names_in(a.value for a in actions.values())
        for name, (code, place) in self.program.operands.items():
            if place == "segment" and name in used:
                at = self.place(name, self.first_number + segment)
                found[name] = load_element(fn, at, code, self.width, "s")
        return found
