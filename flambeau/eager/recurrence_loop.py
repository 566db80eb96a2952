"""Recurrent layers step by step in Python: packed sequences, projections, products with scratch.

The kernels are those of recurrence_native.py, called with addresses; no tensors are made in the
loop, except where batches shrink.
"""

from flambeau.eager.copying import copy_into
from flambeau.eager.recurrence_layers import rows_of
from flambeau.eager.rows import address
from flambeau.ops.table import public as function


def walk(layer, gates, h_gates, states, cells, weight, b_hh, project):
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
            kernel, description = layer.forward(rows)
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


def walk_back(
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
            kernel, description = layer.backward(rows, projected, direct)
            times = layer.product(rows, layer.gates, layer.shown, rule.apart)
            if projected:
                widen = layer.product(rows, layer.shown, layer.width, False)
        gate, state = start * gate_row, start * state_row
        reads = [hidden_at]
        if projected:
            mine = rows_of(total, start, rows)
            latest = rows_of(g_h, 0, rows)
            if given:
                function("add")(latest, rows_of(g_output, start, rows), out=mine)
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
