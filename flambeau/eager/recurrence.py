"""Running recurrent layers: one product for all inputs, then per step one product and one kernel.

Batches of equal length run in blocks of steps whose gates stay in the cache: a product for the
inputs of a block, then a native program of two kernels per step (programs.py), for several parts of
the batch side by side. Backward goes back block by block and adds up the gradients of weights.
Packed sequences and projections take a loop in Python with the same kernels. Cells are in
ops/recurrence.py, products in gemm.py.
"""

from flambeau import errors
from flambeau._layout import Size, make_layout
from flambeau._tensor import alias, empty_tensor, make_tensor
from flambeau.eager import gemm
from flambeau.eager.binding import FRONTS, launches
from flambeau.eager.copying import copy_into, fill_into
from flambeau.eager.fronts import kernel_unless_recorded
from flambeau.eager.plan import MAX_PLANS, plan_nest
from flambeau.eager.programs import Command, Program, bits
from flambeau.eager.rows import address, contiguous
from flambeau.ops.recurrence import CELLS, steps_of
from flambeau.ops.table import public as function
from flambeau.storage import borrowed_storage

_plans: dict = {}
BLOCK = 1024  # rows of gates that are worked on at a time
PART = 16  # sequences that run side by side with others, through all steps of a block
SPARE = 4  # words that a product keeps for itself


class _Block:
    """Consecutive steps of equal batches; span is (first row, rows)."""

    def __init__(self, steps, batch):
        self.span = min(start for start, _ in steps), batch * len(steps)
        self.count = len(steps)


def _planned(key, make):
    found = _plans.get(key)
    if found is None:
        if len(_plans) > MAX_PLANS:
            _plans.clear()
        found = _plans[key] = make()
    return found


class _Layer:
    """Sizes of a layer, and the plans of its steps for so many rows."""

    def __init__(self, kind, input, w_ih, w_hh, batch_sizes, reverse):
        self.kind, self.rule = kind, CELLS[kind]
        self.dtype, self.device = input.dtype, input.device
        self.item = input.dtype.itemsize
        self.gates = w_hh.shape[0]
        self.width = w_hh.shape[0] // self.rule.gates  # of cells
        self.shown = w_hh.shape[1]  # of hidden states
        self.rows, self.batch = input.shape[0], batch_sizes[0]
        self.steps = steps_of(batch_sizes, reverse)
        self.reverse = reverse
        self.even = batch_sizes[-1] == batch_sizes[0]

    def new(self, rows, width):
        return empty_tensor(Size((rows, width)), self.dtype, self.device)

    def matrix(self, rows, width, stride=None):
        strides = (width if stride is None else stride, 1)
        return make_layout(Size((rows, width)), strides, self.dtype, self.device)

    def blocks(self):
        """Steps in groups whose gates fit into the second-level cache; batches are equal."""
        count = max(1, BLOCK // self.batch)
        groups = [self.steps[k : k + count] for k in range(0, len(self.steps), count)]
        return [_Block(group, self.batch) for group in groups]

    def parts(self):
        """(first row, rows) of the sequences that run side by side."""
        return [(k, min(PART, self.batch - k)) for k in range(0, self.batch, PART)]

    def runs_natively(self, biased):
        """May steps be programs? Batches must be equal, and no product may need scratch."""
        if not self.even:
            return False
        apart = self.rule.apart
        for _, rows in self.parts():
            forward = self.plan_product(rows, self.shown, self.gates, not apart or biased)
            backward = self.plan_product(rows, self.gates, self.shown, apart)
            for plan in (forward, backward):
                if not isinstance(plan, gemm.Plan) or plan.slot:
                    return False
        return True

    def plan_product(self, rows, inner, width, added):
        out, a, b = self.matrix(rows, width), self.matrix(rows, inner), self.matrix(inner, width)
        return gemm.plan_for(out, a, b, False, "", *((out,) if added else ()))

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
        return _planned(
            ("forward", self.kind, rows, self.width, self.dtype),
            lambda: self._plan(
                rows, "forward", _forward_trace(self.rule), *_forward_operands(self.rule)
            ),
        )

    def backward(self, rows, projected, given):
        """The kernel of a step back; projected: also gives what w_hr saw; given: with g_output."""
        key = "backward", self.kind, rows, self.width, self.dtype, projected, given
        return _planned(
            key,
            lambda: self._plan(
                rows,
                f"backward {projected} {given}",
                _backward_trace(self.rule, projected, given),
                *_backward_operands(self.rule, projected, given),
            ),
        )

    def _plan(self, rows, name, trace, outs, inputs):
        part = self.matrix(rows, self.width, self.gates)
        own = self.matrix(rows, self.width)
        layouts = {"gate": part, "own": own}
        outs = tuple(layouts[o] for o in outs)
        _, kernel, description, owner = plan_nest(
            (self.kind, name), trace, [layouts[i] for i in inputs], "",
            [self.dtype] * len(outs), outs,
        )  # fmt: skip
        return kernel, description, owner


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
            found.append(kept[3] * _tanh(after[1]))
        return found

    return trace


def _tanh(x):
    from flambeau.codegen import scalar

    return scalar.tanh(x)


def _borrowed(place, layout):
    """A tensor over memory that somebody else keeps."""
    return make_tensor(layout, borrowed_storage(place, layout.nbytes, None), 0)


def _rows_of(t, start, rows):
    """A plain view of some rows of a contiguous matrix."""
    layout = t._layout
    width = layout.shape[1]
    view = make_layout(Size((rows, width)), (width, 1), layout.dtype, layout.device)
    return alias(t, view, t._offset + start * width * layout.itemsize)


def _check(input, hidden, cell, w_ih, w_hh):
    for name, t in (("hidden", hidden), ("cell", cell), ("weight", w_ih), ("weight", w_hh)):
        if t is not None and t.dtype is not input.dtype:
            raise RuntimeError(
                f"Input and {name} tensors are not the same dtype, found input tensor with "
                f"{input.dtype.scalar_name} and {name} tensor with {t.dtype.scalar_name}"
            )
    if not input.dtype.is_floating_point:
        raise errors.not_implemented("addmm_impl_cpu_", input.dtype)


@launches("rnn_layer")
def rnn_layer(
    input, hidden, cell, w_ih, w_hh, b_ih, b_hh, w_hr, kind, batch_sizes, reverse
):  # fmt: skip
    """See ops/recurrence.py for what is returned."""
    _check(input, hidden, cell, w_ih, w_hh)
    layer = _Layer(kind, input, w_ih, w_hh, batch_sizes, reverse)
    rule, rows = layer.rule, layer.rows
    nothing = layer.new(0, 0)
    gates = layer.new(rows, layer.gates)
    h_gates = layer.new(rows, layer.gates) if rule.apart else nothing
    last = layer.new(layer.batch, layer.shown)
    states = _States(layer, layer.shown, hidden)
    cells = _States(layer, layer.width, cell) if rule.has_cell else None
    outs = (
        states.after, last, layer.new(layer.batch, layer.width) if cells else nothing,
        gates, h_gates, states.before, *((cells.before, cells.after) if cells else [nothing] * 2),
    )  # fmt: skip
    if not gates._layout.numel or layer.device.type != "cpu":
        copy_into(last, hidden)
        return outs
    bias = b_ih
    if b_ih is not None and not rule.apart:
        bias = function("add")(b_ih.detach(), b_hh.detach())
    input, w_ih = contiguous(input), function("t")(w_ih.detach())
    weight = contiguous(function("t")(w_hh.detach()))
    if rule.apart and b_hh is not None:
        copy_into(h_gates, function("expand")(b_hh.detach(), h_gates.shape))
    if w_hr is None and layer.runs_natively(b_hh is not None):
        program = _program(layer, gates, h_gates, states, cells, weight, b_hh is not None)
        for block in layer.blocks():
            mine = _rows_of(gates, *block.span), _rows_of(input, *block.span), w_ih
            gemm.multiply_into(*mine, addends=_added(bias))
            program.run(block.count)
    else:
        gemm.multiply_into(gates, input, w_ih, addends=_added(bias))
        project = None if w_hr is None else contiguous(function("t")(w_hr.detach()))
        _walk(layer, gates, h_gates, states, cells, weight, b_hh, project)
    copy_into(last, states.last())
    if cells:
        copy_into(outs[2], cells.last())
    return outs


def _added(bias):
    return () if bias is None else ((bias.detach(), 1),)


class _States:
    """The states before and after each step, row for row as the gates.

    With equal batches both are views of one matrix, a step apart. Otherwise the states before a
    step are copied from the latest state of each sequence.
    """

    def __init__(self, layer, width, first):
        self.layer, self.width = layer, width
        rows, batch = layer.rows, layer.batch
        if layer.even:
            whole = layer.new(rows + batch, width)
            low, high = _rows_of(whole, 0, rows), _rows_of(whole, batch, rows)
            self.before, self.after = (high, low) if layer.reverse else (low, high)
            start = _rows_of(whole, rows if layer.reverse else 0, batch)
            self.latest = None
        else:
            self.before, self.after = layer.new(rows, width), layer.new(rows, width)
            start = self.latest = layer.new(batch, width)
        if layer.device.type == "cpu":
            copy_into(start, first.detach())

    def enter(self, start, rows):
        if self.latest is not None:
            copy_into(_rows_of(self.before, start, rows), _rows_of(self.latest, 0, rows))

    def leave(self, start, rows):
        if self.latest is not None:
            copy_into(_rows_of(self.latest, 0, rows), _rows_of(self.after, start, rows))

    def last(self):
        start, rows = self.layer.steps[-1]
        return _rows_of(self.after, start, rows) if self.latest is None else self.latest


def _walk(layer, gates, h_gates, states, cells, weight, b_hh, project):
    """All steps, in order, for batches that shrink and states that are projected."""
    rule, item = layer.rule, layer.item
    gate_row, cell_row, state_row = layer.gates * item, layer.width * item, layer.shown * item
    part = layer.width * item
    gate_at, weight_at = address(gates), address(weight)
    before_at, after_at = address(states.before), address(states.after)
    if rule.apart:
        h_at = address(h_gates)
    if project is not None:
        raw = layer.new(layer.batch, layer.width)
    size = None
    for start, rows in layer.steps:
        if rows != size:
            size = rows
            added = not rule.apart or b_hh is not None
            times = layer.product(rows, layer.shown, layer.gates, added)
            kernel, description, _ = layer.forward(rows)
            if project is not None:
                shrink = layer.product(rows, layer.width, layer.shown, False)
        states.enter(start, rows)
        at, before = gate_at + start * gate_row, before_at + start * state_row
        x = [at + k * part for k in range(rule.gates)]
        after = after_at + start * state_row
        if rule.apart:
            place = h_at + start * gate_row
            times(place, before, weight_at)
            h = [place + k * part for k in range(rule.gates)]
            kernel(description, *x, after, *x, *h, before)
        elif cells is None:
            times(at, before, weight_at)
            kernel(description, *x, after, *x)
        else:
            cells.enter(start, rows)
            times(at, before, weight_at)
            old = address(cells.before) + start * cell_row
            new = address(cells.after) + start * cell_row
            if project is None:
                kernel(description, *x, after, new, *x, old)
            else:
                kernel(description, *x, address(raw), new, *x, old)
                shrink(after, address(raw), address(project))
            cells.leave(start, rows)
        states.leave(start, rows)


def _program(layer, gates, h_gates, states, cells, weight, biased):
    """What a step does, natively: per part of the batch a product and a kernel."""
    rule, item = layer.rule, layer.item
    rows = {"gate": layer.gates * item, "cell": layer.width * item, "state": layer.shown * item}
    ahead = -layer.batch if layer.reverse else layer.batch
    part = layer.width * item

    def places(t, kind, row, count=1):
        """Addresses of a matrix (or of its parts, side by side) and their steps."""
        start = address(t) + row * rows[kind]
        return [start + k * part for k in range(count)], [ahead * rows[kind]] * count

    programs = []
    for first, size in layer.parts():
        row = layer.steps[0][0] + first
        x, x_steps = places(gates, "gate", row, rule.gates)
        (before,), (back,) = places(states.before, "state", row)
        after, after_steps = places(states.after, "state", row)
        kernel, description, owner = layer.forward(size)
        operands, steps = [*x, *after], [*x_steps, *after_steps]
        if rule.has_cell:
            new, new_steps = places(cells.after, "cell", row)
            old, old_steps = places(cells.before, "cell", row)
            operands += [*new, *x, *old]
            steps += [*new_steps, *x_steps, *old_steps]
        elif rule.apart:
            h, h_steps = places(h_gates, "gate", row, rule.gates)
            operands += [*x, *h, before]
            steps += [*x_steps, *h_steps, back]
        else:
            operands += x
            steps += x_steps
        target, growth = (h[0], h_steps[0]) if rule.apart else (x[0], x_steps[0])
        added = not rule.apart or biased
        programs.append([
            layer.multiply(
                size, layer.shown, layer.gates, added, (target, before, address(weight)),
                (growth, back, 0),
            ),
            Command(kernel, description, owner[0], operands, steps),
        ])  # fmt: skip
    return Program(programs)


# -- backward -------------------------------------------------------------------------------------


def _rnn_layer_backward(
    g_output, g_hidden, g_cell, input, hidden, cell, w_ih, w_hh, b_ih, b_hh, w_hr, saved, kind,
    batch_sizes, reverse, needs,
):  # fmt: skip
    gates, h_gates, before, cell_before, cell_after = saved
    layer = _Layer(kind, input, w_ih, w_hh, batch_sizes, reverse)
    rule = layer.rule
    g_h = _start(layer, layer.shown, g_hidden)
    g_c = _start(layer, layer.width, g_cell) if rule.has_cell else None
    if w_hr is None and gates._layout.numel and layer.runs_natively(b_hh is not None):
        g_output = None if g_output is None else contiguous(g_output)
        weights = w_ih.detach(), contiguous(w_hh.detach())
        kept = gates, h_gates, before, cell_before, cell_after
        return _run_back(layer, g_output, g_h, g_c, input.detach(), kept, weights, needs)
    d_gates = layer.new(layer.rows, layer.gates)
    d_h_gates = layer.new(layer.rows, layer.gates) if rule.apart else d_gates
    raw = total = None
    if w_hr is not None:
        raw, total = layer.new(layer.rows, layer.width), layer.new(layer.rows, layer.shown)
    if gates._layout.numel:
        g_output = None if g_output is None else contiguous(g_output)
        kept = contiguous(gates), contiguous(h_gates), contiguous(before)
        _walk_back(
            layer, g_output, g_h, g_c, kept, cell_before, cell_after, d_gates, d_h_gates,
            contiguous(w_hh.detach()), w_hr if w_hr is None else contiguous(w_hr.detach()), raw,
            total,
        )  # fmt: skip
    product, sum_, turned = function("mm"), function("sum"), function("t")
    input = input.detach()
    makers = (
        lambda: product(d_gates, w_ih.detach()),
        lambda: g_h,
        lambda: g_c,
        lambda: product(turned(d_gates), input),
        lambda: product(turned(d_h_gates), before),
        lambda: sum_(d_gates, 0),
        lambda: sum_(d_h_gates, 0),
        lambda: product(turned(total), raw),
    )
    return tuple(make() if need else None for make, need in zip(makers, needs))


class _Sums:
    """Gradients of weights, added up block by block."""

    def __init__(self, layer, needs, inputs):
        _, _, _, self.needs_ih, self.needs_hh, self.needs_b_ih, self.needs_b_hh, _ = needs
        self.w_ih = layer.new(layer.gates, inputs) if self.needs_ih else None
        self.w_hh = layer.new(layer.gates, layer.shown) if self.needs_hh else None
        count = len(layer.blocks())
        self.b_ih = layer.new(count, layer.gates) if self.needs_b_ih else None
        self.b_hh = layer.new(count, layer.gates) if self.needs_b_hh else None
        self.done = 0

    def add(self, d_x, d_h, input, before):
        turned, k = function("t"), self.done
        for total, d, rows in ((self.w_ih, d_x, input), (self.w_hh, d_h, before)):
            if total is not None:
                gemm.multiply_into(total, turned(d), rows, addends=((total, 1),) if k else ())
        for total, d in ((self.b_ih, d_x), (self.b_hh, d_h)):
            if total is not None:
                function("sum")(d, 0, out=function("select")(total, 0, k))
        self.done += 1

    def found(self):
        biases = [None if b is None else function("sum")(b, 0) for b in (self.b_ih, self.b_hh)]
        return [self.w_ih, self.w_hh, *biases, None]


def _run_back(layer, g_output, g_h, g_c, input, kept, weights, needs):
    """All blocks backward; the gradients of gates live in a matrix that stays in the cache."""
    rule, blocks = layer.rule, layer.blocks()
    most = max(block.span[1] for block in blocks)
    d_x = layer.new(most, layer.gates)
    d_h = layer.new(most, layer.gates) if rule.apart else d_x
    sums = _Sums(layer, needs, input.shape[1])
    d_input = layer.new(layer.rows, input.shape[1]) if needs[0] else None
    input, before = contiguous(input), kept[2]
    w_ih, w_hh = weights
    program, buffered = _program_back(layer, g_output, g_h, g_c, kept, d_x, d_h, w_hh)
    row = layer.gates * layer.item
    for block in reversed(blocks):
        low, rows = block.span
        # towards its first row, or from it on: the buffer begins anew with every block
        first = 0 if layer.reverse else rows - layer.batch
        program.move(buffered, first * row)
        program.run(block.count)
        program.move(buffered, (-rows if layer.reverse else rows) * row - first * row)
        mine, other = _rows_of(d_x, 0, rows), _rows_of(d_h, 0, rows)
        if d_input is not None:
            gemm.multiply_into(_rows_of(d_input, low, rows), mine, w_ih)
        sums.add(mine, other, _rows_of(input, low, rows), _rows_of(before, low, rows))
    return d_input, g_h if needs[1] else None, g_c if needs[2] else None, *sums.found()


def _program_back(layer, g_output, g_h, g_c, kept, d_x, d_h, w_hh):
    """What a step back does: per part of the batch a kernel and a product; (program, the places of
    addresses in the buffers d_x and d_h, which point to the first rows).
    """
    rule, item = layer.rule, layer.item
    gates, h_gates, before, cell_before, cell_after = kept
    widths = {"gate": layer.gates * item, "cell": layer.width * item, "state": layer.shown * item}
    ahead = layer.batch if layer.reverse else -layer.batch
    given = g_output is not None

    programs = []
    for first, size in layer.parts():
        row = layer.steps[-1][0] + first
        operands: list[int] = []
        steps: list[int] = []

        def add(t, kind, start, count=1, moves=True, operands=operands, steps=steps):
            base = address(t) + start * widths[kind]
            operands.extend(base + k * layer.width * item for k in range(count))
            steps.extend([ahead * widths[kind] if moves else 0] * count)

        add(d_x, "gate", first, rule.gates)
        if rule.apart:
            add(d_h, "gate", first, rule.gates)
            add(g_h, "state", first, moves=False)
        if rule.has_cell:
            add(g_c, "cell", first, moves=False)
        add(g_h, "state", first, moves=False)
        if given:
            add(g_output, "state", row)
        if rule.has_cell:
            add(g_c, "cell", first, moves=False)
        add(gates, "gate", row, rule.gates)
        if rule.apart:
            add(h_gates, "gate", row, rule.gates)
            add(before, "state", row)
        if rule.has_cell:
            add(cell_before, "cell", row)
            add(cell_after, "cell", row)
        kernel, description, owner = layer.backward(size, False, given)
        gate = address(d_h) + first * widths["gate"]
        hidden = address(g_h) + first * widths["state"]
        programs.append([
            Command(kernel, description, owner[0], operands, steps),
            layer.multiply(
                size, layer.gates, layer.shown, rule.apart, (hidden, gate, address(w_hh)),
                (0, ahead * widths["gate"], 0),
            ),
        ])  # fmt: skip
    program = Program(programs)
    buffers = [d_x, d_h] if rule.apart else [d_x]
    places = [program.places(address(t), address(t) + t.nbytes) for t in buffers]
    return program, [k for found in places for k in found]


def _start(layer, width, gradient):
    """The gradient of the last state: a new matrix that the steps write to."""
    out = layer.new(layer.batch, width)
    return fill_into(out, 0) if gradient is None else (copy_into(out, gradient), out)[1]


def _walk_back(
    layer, g_output, g_h, g_c, kept, cell_before, cell_after, d_gates, d_h_gates, w_hh, w_hr, raw,
    total,
):  # fmt: skip
    rule, item = layer.rule, layer.item
    gates, h_gates, before = kept
    gate_row, cell_row, state_row = layer.gates * item, layer.width * item, layer.shown * item
    places = range(0, layer.gates * item, layer.width * item)
    projected, given = w_hr is not None, g_output is not None
    direct = given and not projected  # the kernel itself adds the gradient of the output
    hidden_at, size = address(g_h), None
    wide = layer.new(layer.batch, layer.width) if projected else g_h
    for start, rows in reversed(layer.steps):
        if rows != size:
            size = rows
            kernel, description, _ = layer.backward(rows, projected, direct)
            times = layer.product(rows, layer.gates, layer.shown, rule.apart)
            if projected:
                widen = layer.product(rows, layer.shown, layer.width, False)
        gate, state = start * gate_row, start * state_row
        reads = [hidden_at]
        if projected:
            mine = _rows_of(total, start, rows)
            latest = _rows_of(g_h, 0, rows)
            if given:
                function("add")(latest, _rows_of(g_output, start, rows), out=mine)
            else:
                copy_into(mine, latest)
            widen(address(wide), address(mine), address(w_hr))
            reads = [address(wide)]
        elif given:
            reads.append(address(g_output) + state)
        outs = [address(d_gates) + gate + p for p in places]
        if rule.has_cell:
            reads.append(address(g_c))
        reads += [address(gates) + gate + p for p in places]
        if rule.apart:
            outs += [address(d_h_gates) + gate + p for p in places]
            outs.append(hidden_at)
            reads += [address(h_gates) + gate + p for p in places]
            reads.append(address(before) + state)
        if rule.has_cell:
            outs.append(address(g_c))
            at = start * cell_row
            reads += [address(cell_before) + at, address(cell_after) + at]
        if projected:
            outs.append(address(raw) + start * cell_row)
        kernel(description, *outs, *reads)
        times(hidden_at, address(d_h_gates) + gate, address(w_hh))


FRONTS["rnn_layer_backward"] = kernel_unless_recorded(_rnn_layer_backward)
