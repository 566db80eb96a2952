"""What all ways of running a recurrent layer share: sizes, plans of steps, states.

A `Layer` is one layer in one direction over rows that are packed step after step; it is the plan of
a call, found by layouts. It plans the two kernels of a step, a product (gemm.py) and a pointwise
kernel traced from the cell in ops/recurrence.py, for any number of rows. recurrence_native.py runs
them as programs, recurrence_loop.py one by one.
"""

from itertools import pairwise

from flambeau._layout import make_layout
from flambeau._tensor import alias, empty_like_layout, make_tensor
from flambeau.codegen import scalar
from flambeau.eager import gemm
from flambeau.eager.copying import copy_into
from flambeau.eager.plan import plan_nest
from flambeau.eager.plans import Plans
from flambeau.eager.programs import Command, bits
from flambeau.ops import recurrence_checks as check
from flambeau.ops.recurrence import CELLS, steps_of
from flambeau.runtime.threads import MANY, planned
from flambeau.storage import borrowed_storage

BLOCK = 1024  # rows of gates that are worked on at a time
PART = 16  # sequences that run side by side with others, through all steps of a block
LEAST_PART = 5  # the same where there are many threads
SPARE = 4  # words that a product keeps for itself


class _Block:
    """Consecutive steps of equal batches; span is (first row, rows)."""

    def __init__(self, steps, batch):
        self.span = min(start for start, _ in steps), batch * len(steps)
        self.count = len(steps)


class Layer:
    """Sizes of a layer, and the plans of its steps for so many rows."""

    def __init__(self, kind, input, states, weights, batch_sizes, reverse):
        self.kind, self.rule = kind, CELLS[kind]
        w_hh = weights[1]
        check.layer(self.rule, input, states, weights, batch_sizes)
        self.dtype, self.device, self.item = input.dtype, input.device, input.itemsize
        self.gates, self.shown = w_hh.shape  # shown: of hidden states
        self.width = self.gates // self.rule.gates  # of cells
        self.rows, self.batch = input.shape[0], batch_sizes[0]
        self.steps = steps_of(batch_sizes, reverse)
        self.reverse = reverse
        self.even = batch_sizes[-1] == batch_sizes[0]
        self.computes = self.rows > 0 < self.gates and self.device.runtime.computes
        self.kernels = {}  # of steps, by their arguments
        self.parts, self.blocks = [], []
        if self.even and self.batch:
            # the sequences that run side by side: (first row, rows)
            count = -(-self.batch // PART)
            if planned() > MANY:
                count = max(count, min(planned(), self.batch // LEAST_PART))
            cuts = [k * self.batch // count for k in range(count + 1)]
            self.parts = [(low, high - low) for low, high in pairwise(cuts)]
            # steps in groups whose gates fit into the second-level cache
            count = max(1, BLOCK // self.batch)
            groups = [self.steps[k : k + count] for k in range(0, len(self.steps), count)]
            self.blocks = [_Block(group, self.batch) for group in groups]

    def new(self, rows, width):
        return empty_like_layout(self.matrix(rows, width))

    def matrix(self, rows, width, stride=None):
        stride = (width or 1) if stride is None else stride
        return make_layout((rows, width), (stride, 1), self.dtype, self.device)

    def runs_natively(self, biased):
        """May steps be programs? Batches must be equal, and no product may need scratch."""
        if not self.device.runtime.is_host:
            return False
        apart = self.rule.apart
        for _, rows in self.parts:
            forward = self.plan_product(rows, self.shown, self.gates, not apart or biased)
            backward = self.plan_product(rows, self.gates, self.shown, apart)
            for plan in (forward, backward):
                if not isinstance(plan, gemm.Plan) or plan.slot:
                    return False
        return self.even

    def plan_product(self, rows, inner, width, added):
        out, a, b = self.matrix(rows, width), self.matrix(rows, inner), self.matrix(inner, width)
        return gemm.PLANS[out, a, b, False, "", *((out,) if added else ())]

    def product(self, rows, inner, width, added):
        """A function of addresses (out, a, b): out = a @ b, or out += a @ b."""
        plan = self.plan_product(rows, inner, width, added)
        if not isinstance(plan, gemm.Plan):  # several products one after another, on tensors
            shapes = (rows, width), (rows, inner), (inner, width)
            layouts = [self.matrix(*shape) for shape in shapes]

            def multiply(*addresses):
                out, a, b = map(_borrowed, addresses, layouts)
                gemm.multiply_into(out, a, b, addends=((out, 1),) if added else ())

            return multiply
        if added:
            return lambda to, x, y: plan.run(to, x, y, to, 1.0)
        return plan.run

    def multiply(self, rows, inner, width, added, places, steps):
        """The same as a command: places and their steps are those of out, a and b."""
        plan = self.plan_product(rows, inner, width, added)
        (c, a, b), (dc, da, db) = places, steps
        if plan.swapped:
            a, b, da, db = b, a, db, da
        more, growth = ([c, bits(1.0)], [dc, 0]) if added else ([], [])
        arguments, growth = [c, a, b, 0, 0, *more], [dc, da, db, 0, 0, *growth]
        return Command(plan.kernel, plan.desc, plan.chunks, arguments, growth, SPARE)

    def forward(self, rows):
        """The kernel of a step: its addresses are kept gates, hidden, cell, then what it reads."""
        return self._kernel(rows, "forward", _forward_trace, _forward_operands)

    def backward(self, rows, projected, given):
        """The kernel of a step back; projected: also gives what w_hr saw; given: with g_output."""
        return self._kernel(rows, "backward", _backward_trace, _backward_operands, projected, given)

    def _kernel(self, rows, name, trace, operands, *options):
        found = self.kernels.get((name, rows, *options))
        if found is None:
            layouts = {"gate": self.matrix(rows, self.width, self.gates)}
            layouts["own"] = self.matrix(rows, self.width)
            outs, inputs = ([layouts[n] for n in names] for names in operands(self.rule, *options))
            _, *found = plan_nest(
                (self.kind, name, options), trace(self.rule, *options), inputs, "",
                [self.dtype] * len(outs), tuple(outs),
            )  # fmt: skip
            self.kernels[name, rows, *options] = found
        return found


LAYERS = Plans(lambda key: Layer(*key), by_default=False)


def _forward_operands(rule):
    outs = ["gate"] * rule.gates + ["own"] * (2 if rule.has_cell else 1)
    inputs = ["gate"] * rule.gates * (2 if rule.apart else 1)
    return outs, [*inputs, *["own"] * (rule.apart + rule.has_cell)]


def _forward_trace(rule):
    n = rule.gates

    def trace(*given):
        x, rest = given[:n], given[n:]
        h, rest = (rest[:n], rest[n:]) if rule.apart else (None, rest)
        hidden, rest = (rest[0], rest[1:]) if rule.apart else (None, rest)
        kept, (after, cell) = rule.forward(x, h, (hidden, rest[0] if rule.has_cell else None))
        return (*kept, after, cell) if rule.has_cell else (*kept, after)

    return trace


def _backward_operands(rule, projected, given):
    n = rule.gates
    outs = ["gate"] * n * (2 if rule.apart else 1) + ["own"] * (rule.apart + rule.has_cell)
    outs += ["own"] * projected
    inputs = ["own"] * (1 + given + rule.has_cell)
    inputs += ["gate"] * n + ["gate"] * (n if rule.apart else 0)
    return outs, [*inputs, *["own"] * (rule.apart + 2 * rule.has_cell)]


def _backward_trace(rule, projected, given):
    n = rule.gates

    def trace(*values):
        values = list(values)
        take = values.pop
        g = take(0) + take(0) if given else take(0)
        g_cell = take(0) if rule.has_cell else None
        kept = [take(0) for _ in range(n)]
        h = [take(0) for _ in range(n)] if rule.apart else None
        before = take(0) if rule.apart else None, take(0) if rule.has_cell else None
        after = None, take(0) if rule.has_cell else None
        d_x, d_h, (d_hidden, d_cell) = rule.backward((g, g_cell), kept, h, before, after)
        found = [*d_x, *(d_h or ())]
        found += [v for v in (d_hidden, d_cell) if v is not None]
        if projected:
            found.append(kept[3] * scalar.tanh(after[1]))
        return found

    return trace


def _borrowed(place, layout):
    """A tensor over memory that somebody else keeps."""
    return make_tensor(layout, borrowed_storage(place, layout.nbytes, None), 0)


def rows_of(t, start, rows):
    """A plain view of some rows of a contiguous matrix."""
    layout = t._layout
    width = layout.shape[1]
    view = make_layout((rows, width), (width or 1, 1), layout.dtype, layout.device)
    return alias(t, view, t._offset + start * width * layout.itemsize)


class States:
    """The states before and after each step, row for row as the gates.

    With equal batches both are views of one matrix, a step apart. Otherwise the states before a
    step are copied from the latest state of each sequence.
    """

    def __init__(self, layer, width, first):
        self.layer, self.width = layer, width
        rows, batch = layer.rows, layer.batch
        if layer.even:
            whole = layer.new(rows + batch, width)
            low, high = rows_of(whole, 0, rows), rows_of(whole, batch, rows)
            self.before, self.after = (high, low) if layer.reverse else (low, high)
            start = rows_of(whole, rows if layer.reverse else 0, batch)
            self.latest = None
        else:
            self.before, self.after = layer.new(rows, width), layer.new(rows, width)
            start = self.latest = layer.new(batch, width)
        if layer.device.runtime.computes:
            copy_into(start, first.detach())

    def enter(self, start, rows):
        if self.latest is not None:
            copy_into(rows_of(self.before, start, rows), rows_of(self.latest, 0, rows))

    def leave(self, start, rows):
        if self.latest is not None:
            copy_into(rows_of(self.latest, 0, rows), rows_of(self.after, start, rows))

    def last(self):
        start, rows = self.layer.steps[-1]
        return rows_of(self.after, start, rows) if self.latest is None else self.latest
