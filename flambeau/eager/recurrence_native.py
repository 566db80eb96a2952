"""Recurrent layers over batches of equal length: native programs, block by block.

A block is as many steps as keep their gates in the cache. Forward: a product for the inputs of the
block, then a program of two kernels per step, for several parts of the batch side by side.
Backward: the same from the end, and the gradients of weights are added up block by block.
"""

from flambeau.eager import gemm
from flambeau.eager.programs import Command, Program, chunks_of
from flambeau.eager.recurrence_layers import rows_of
from flambeau.eager.rows import address, contiguous
from flambeau.ops.table import public as function


def program(layer, gates, h_gates, states, cells, weight, biased):
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
    for first, size in layer.parts:
        row = layer.steps[0][0] + first
        x, x_steps = places(gates, "gate", row, rule.gates)
        (before,), (back,) = places(states.before, "state", row)
        after, after_steps = places(states.after, "state", row)
        kernel, description = layer.forward(size)
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
            Command(kernel, description, chunks_of(description), operands, steps),
        ])  # fmt: skip
    return Program(programs, layer.device.runtime)


class _Sums:
    """Gradients of weights, added up block by block."""

    def __init__(self, layer, needs, inputs):
        _, _, _, needs_ih, needs_hh, self.needs_b_ih, self.needs_b_hh, _ = needs
        self.w_ih = layer.new(layer.gates, inputs) if needs_ih else None
        self.w_hh = layer.new(layer.gates, layer.shown) if needs_hh else None
        # without gates of their own, hidden states have the biases of inputs
        self.shared = self.needs_b_ih and self.needs_b_hh and not layer.rule.apart
        self.b_ih, self.b_hh, self.done = [], [], 0

    def add(self, d_x, d_h, input, before):
        turned, k = function("t"), self.done
        for total, d, rows in ((self.w_ih, d_x, input), (self.w_hh, d_h, before)):
            if total is not None:
                gemm.multiply_into(total, turned(d), rows, addends=((total, 1),) if k else ())
        if self.needs_b_ih:
            self.b_ih.append(function("sum")(d_x, 0))
        if self.needs_b_hh and not self.shared:
            self.b_hh.append(function("sum")(d_h, 0))
        self.done += 1

    def found(self):
        b_ih = _total(self.b_ih)
        b_hh = b_ih.clone() if self.shared else _total(self.b_hh)
        return [self.w_ih, self.w_hh, b_ih, b_hh, None]


def _total(parts):
    """The sum of what blocks found."""
    if len(parts) < 2:
        return parts[0] if parts else None
    return function("sum")(function("stack")(parts), 0)


def run_back(layer, g_output, g_h, g_c, input, kept, weights, needs):
    """All blocks backward; the gradients of gates live in a matrix that stays in the cache."""
    rule, blocks = layer.rule, layer.blocks
    most = max(block.span[1] for block in blocks)
    d_x = layer.new(most, layer.gates)
    d_h = layer.new(most, layer.gates) if rule.apart else d_x
    sums = _Sums(layer, needs, input.shape[1])
    d_input = layer.new(layer.rows, input.shape[1]) if needs[0] else None
    input, before = contiguous(input), kept[2]
    w_ih, w_hh = weights
    steps, buffered = _program_back(layer, g_output, g_h, g_c, kept, d_x, d_h, w_hh)
    row = layer.gates * layer.item
    for block in reversed(blocks):
        low, rows = block.span
        # towards its first row, or from it on: the buffer begins anew with every block
        first = 0 if layer.reverse else rows - layer.batch
        steps.move(buffered, first * row)
        steps.run(block.count)
        steps.move(buffered, (-rows if layer.reverse else rows) * row - first * row)
        mine, other = rows_of(d_x, 0, rows), rows_of(d_h, 0, rows)
        if d_input is not None:
            gemm.multiply_into(rows_of(d_input, low, rows), mine, w_ih)
        sums.add(mine, other, rows_of(input, low, rows), rows_of(before, low, rows))
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
    for first, size in layer.parts:
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
        kernel, description = layer.backward(size, False, given)
        gate = address(d_h) + first * widths["gate"]
        hidden = address(g_h) + first * widths["state"]
        programs.append([
            Command(kernel, description, chunks_of(description), operands, steps),
            layer.multiply(
                size, layer.gates, layer.shown, rule.apart, (hidden, gate, address(w_hh)),
                (0, ahead * widths["gate"], 0),
            ),
        ])  # fmt: skip
    program = Program(programs, layer.device.runtime)
    buffers = [d_x, d_h] if rule.apart else [d_x]
    places = [program.places(address(t), address(t) + t.nbytes) for t in buffers]
    return program, [k for found in places for k in found]
