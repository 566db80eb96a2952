"""Running single steps of recurrent layers: one kernel forward, one backward.

Gates are parts of rows that lie side by side in one matrix; the kernels are pointwise ones, traced
from the cells of ops/recurrence.py. Backward computes the gates once more in place of keeping them.
"""

from flambeau._layout import dense_layout, make_layout
from flambeau._tensor import empty_like_layout
from flambeau.eager.copying import fill_into
from flambeau.eager.launching import launches, launches_kernel
from flambeau.eager.plan import plan_nest
from flambeau.eager.plans import Plans
from flambeau.eager.rows import address, contiguous
from flambeau.ops import recurrence_checks as check
from flambeau.ops.recurrence import CELLS


class _Step:
    """A planned step for some batch and width, or the way back."""

    def __init__(self, kind, hidden, x_gates, h_gates, cell, back):
        rule = self.rule = CELLS[kind]
        check.step(rule, hidden, x_gates, h_gates, cell)
        rows, width = hidden.shape
        dtype, device = hidden.dtype, hidden.device
        wide = rule.gates * width
        part = make_layout((rows, width), (wide, 1), dtype, device)
        self.state = dense_layout(hidden.shape, dtype, device)
        self.gates = dense_layout((rows, wide), dtype, device)
        self.nothing = dense_layout((0,), dtype, device)
        self.places = [k * width * dtype.itemsize for k in range(rule.gates)]
        many, states = rule.gates, 1 + rule.has_cell
        inputs = [part] * (2 * many) + [self.state] * states
        if not back:
            outs, trace, name = [self.state] * states, self.forward, "step"
        else:
            apart = rule.apart
            outs = [part] * (many * (1 + apart)) + [self.state] * (apart + rule.has_cell)
            inputs = [self.state] * states + inputs
            trace, name = self.backward, "step backward"
        _, self.kernel, self.description = plan_nest(
            (kind, name), trace, inputs, "", [dtype] * len(outs), tuple(outs), device=device
        )

    def split(self, values):
        """(x, h, state before) among the operands of a kernel."""
        n, rule = self.rule.gates, self.rule
        x, h = values[:n], values[n : 2 * n]
        if not rule.apart:
            x, h = [a + b for a, b in zip(x, h)], None
        return x, h, (values[2 * n], values[2 * n + 1] if rule.has_cell else None)

    def forward(self, *values):
        _, after = self.rule.forward(*self.split(values))
        return after if self.rule.has_cell else after[:1]

    def backward(self, *values):
        states = 1 + self.rule.has_cell
        grads, (x, h, before) = values[:states], self.split(values[states:])
        kept, after = self.rule.forward(x, h, before)
        grads = (*grads, None)[:2]
        d_x, d_h, d_before = self.rule.backward(grads, kept, h, before, after)
        return [*d_x, *(d_h or ()), *(v for v in d_before if v is not None)]

    def parts(self, t):
        at = address(t)
        return [at + place for place in self.places]


STEPS = Plans(lambda key: _Step(*key), by_default=False)


def _step(kind, x_gates, h_gates, hidden, cell, back):
    cells = None if cell is None else cell._layout
    return STEPS[kind, hidden._layout, x_gates._layout, h_gates._layout, cells, back]


def _operands(step, x_gates, h_gates, hidden, cell):
    """Addresses of what both kernels read, and the tensors that own them."""
    kept = [contiguous(t) for t in (x_gates, h_gates, hidden)]
    read = [*step.parts(kept[0]), *step.parts(kept[1]), address(kept[2])]
    if cell is not None:
        kept.append(contiguous(cell))
        read.append(address(kept[3]))
    return read, kept


@launches("rnn_step")
def rnn_step(x_gates, h_gates, hidden, cell, kind):
    step = _step(kind, x_gates, h_gates, hidden, cell, False)
    after = empty_like_layout(step.state)
    new = empty_like_layout(step.state if cell is not None else step.nothing)
    read, _kept = _operands(step, x_gates, h_gates, hidden, cell)
    written = [address(after), address(new)] if cell is not None else [address(after)]
    step.kernel(step.description, *written, *read)
    return after, new


@launches_kernel("rnn_step_backward")
def _rnn_step_backward(g_hidden, g_cell, x_gates, h_gates, hidden, cell, kind, needs):
    step = _step(kind, x_gates, h_gates, hidden, cell, True)
    rule = step.rule
    grads = [g_hidden, g_cell] if rule.has_cell else [g_hidden]
    grads = [
        fill_into(empty_like_layout(step.state), 0) if g is None else contiguous(g) for g in grads
    ]
    read, _kept = _operands(step, x_gates, h_gates, hidden, cell)
    d_x = empty_like_layout(step.gates)
    d_h = empty_like_layout(step.gates) if rule.apart else d_x
    written = step.parts(d_x) + (step.parts(d_h) if rule.apart else [])
    d_hidden = empty_like_layout(step.state) if rule.apart else None
    d_cell = empty_like_layout(step.state) if rule.has_cell else None
    written += [address(t) for t in (d_hidden, d_cell) if t is not None]
    step.kernel(step.description, *written, *map(address, grads), *read)
    return d_x, d_h, d_hidden, d_cell
