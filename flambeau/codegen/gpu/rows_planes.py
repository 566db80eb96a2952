"""Row programs on a GPU over rows in segments: channels of images, groups of them."""

from flambeau.codegen import descriptions
from flambeau.codegen.gpu.pointwise import divided
from flambeau.codegen.gpu.row_teams import UNROLL, TeamWalk, Total
from flambeau.codegen.gpu.teams import Team, groups_of
from flambeau.codegen.llvm import load_element
from flambeau.codegen.templates.rows import SegmentSum, narrowed


class Planes(TeamWalk):
    """Rows in segments: runs of memory at a fixed distance from one another."""

    words = descriptions.Planes
    at_segment = None  # the only one to be walked

    def run(self):
        kernel, d = self.kernel, self.d
        count = d.rows * d.pieces
        self.team = Team(kernel, d.length * d.segments, self.width, count, UNROLL)
        self.is_aligned = self.aligned(d.row_step, d.segment_step, d.part)
        with self.team.items(count) as first:
            self.start(first, count)
            self.steps(first, count)

    def groups(self, fn, word):
        d = descriptions.Planes(*[word(k) for k in range(len(descriptions.Planes._fields))])
        return groups_of(fn, d.length * d.segments, self.width, d.rows * d.pieces, UNROLL)

    def elements(self):
        found = super().elements()
        for name, (_, place) in self.program.operands.items():
            if place == "segment":
                setattr(found, name, self.symbol(name))
        return found

    def index(self, place, item):
        if place in ("piece", "piece out"):
            return item
        return item - divided(self.fn, item, self.d.rows) * self.d.rows

    def span(self, item):
        """(row, first and last segment, first and last element of each) of an item."""
        fn, d = self.fn, self.d
        piece = divided(fn, item, d.rows)
        row = item - piece * d.rows
        parts = (d.length + d.part - 1) / d.part
        first = (piece / parts) * d.run
        low = (piece % parts) * d.part
        return row, first, fn.min(first + d.run, d.segments), low, fn.min(low + d.part, d.length)

    def elements_of(self, item):
        _, first, last, low, high = self.span(item)
        return (last - first) * (high - low)

    def walk_row(self, actions, item, lane, totals):
        row, first, last, low, high = self.span(item)
        if self.at_segment is not None:
            self.over_segment(actions, row, self.at_segment, low, high, lane, totals)
            return
        with self.fn.loop(first, last) as segment:
            self.over_segment(actions, row, segment, low, high, lane, totals)

    def over_segment(self, actions, row, segment, low, high, lane, totals):
        d = self.d
        self.starts = {"element": row * d.row_step + segment * d.segment_step}
        self.segment = (row % d.period) * d.segments + segment
        self.run_over(actions, low, high, lane, totals, self.is_aligned)

    def pass_over(self, step, first, count):
        """Where segments have sums of their own, they are joined one after the other."""
        fn, kernel, d = self.fn, self.kernel, self.d
        self.values = dict.fromkeys(self.held)
        actions = step.body(self.elements(), self.numbers())
        inner = [k for k, a in actions.items() if type(a) is SegmentSum]
        if not inner:
            super().pass_over(step, first, count)
            return
        totals = {k: Total(self, a) for k, a in actions.items()}
        cells = {k: [kernel.private("double")] for k in totals}
        with kernel.threads(last=True) as thread:
            for (cell,) in cells.values():
                cell.set(thread, 0.0)
        with fn.loop(0, d.segments) as segment:  # (rows with such sums are not in pieces)
            with kernel.threads(last=True) as thread:
                item, lane = self.team.mine(first, thread)
                self.values, self.thread, self.at_segment = self.known(thread), thread, segment
                for total in totals.values():
                    total.clear()
                with fn.when(item < count):
                    self.walk_row(actions, item, lane, totals)
                for k, (cell,) in cells.items():
                    new = totals[k].cells[0].get()
                    cell.set(thread, new if k in inner else cell.get(thread) + new)
                self.at_segment = None
            own = [cells[k][0] for k in inner]
            self.team.join(own, lambda a, b: [x + y for x, y in zip(a, b)])
            with kernel.threads(last=True) as thread:
                item, lane = self.team.mine(first, thread)
                with fn.when((item < count) & (lane == 0)):
                    for name, cell in zip(inner, own):
                        value = narrowed(fn, cell.get(thread), self.type)
                        fn.store(value, self.place(name, item * d.segments + segment))
        rest = {k: t for k, t in totals.items() if k not in inner}
        if rest:
            self.settle(rest, {k: cells[k] for k in rest})

    def fetched(self, name, code, i, w):
        if self.program.operands[name][1] == "segment":
            return load_element(self.fn, self.place(name, self.segment), code, w, "s")
        return super().fetched(name, code, i, w)
