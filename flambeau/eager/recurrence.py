"""Launching recurrent layers, forward and backward.

One product for all inputs, then per step one product and one kernel: as native programs where
batches are equal (recurrence_native.py), in a loop in Python elsewhere (recurrence_loop.py). Single
steps of cells are in recurrence_cells.py, rows and cells in ops/recurrence.py.
"""

from flambeau.eager import gemm
from flambeau.eager.copying import copy_into, fill_into
from flambeau.eager.launching import launches, launches_kernel
from flambeau.eager.recurrence_layers import LAYERS, States, rows_of
from flambeau.eager.recurrence_loop import walk, walk_back
from flambeau.eager.recurrence_native import program, run_back
from flambeau.eager.rows import contiguous
from flambeau.ops import recurrence_checks as check
from flambeau.ops.table import public as function


def _layer(kind, input, states, weights, batch_sizes, reverse):
    states = tuple([None if t is None else t._layout for t in states])
    weights = tuple([None if t is None else t._layout for t in weights])
    return LAYERS[kind, input._layout, states, weights, batch_sizes, reverse]


@launches("rnn_layer")
def rnn_layer(
    input, hidden, cell, w_ih, w_hh, b_ih, b_hh, w_hr, kind, batch_sizes, reverse
):  # fmt: skip
    """See ops/recurrence.py for what is returned."""
    check.dtypes(input, hidden, cell, w_ih, w_hh)
    weights = w_ih, w_hh, b_ih, b_hh, w_hr
    layer = _layer(kind, input, (hidden, cell), weights, batch_sizes, reverse)
    rule, rows = layer.rule, layer.rows
    nothing = layer.new(0, 0)
    gates = layer.new(rows, layer.gates)
    h_gates = layer.new(rows, layer.gates) if rule.apart else nothing
    last = layer.new(layer.batch, layer.shown)
    states = States(layer, layer.shown, hidden)
    cells = States(layer, layer.width, cell) if rule.has_cell else None
    outs = (
        states.after, last, layer.new(layer.batch, layer.width) if cells else nothing,
        gates, h_gates, states.before, *((cells.before, cells.after) if cells else [nothing] * 2),
    )  # fmt: skip
    if not gates._layout.numel or not layer.device.runtime.computes:
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
        steps = program(layer, gates, h_gates, states, cells, weight, b_hh is not None)
        for block in layer.blocks:
            mine = rows_of(gates, *block.span), rows_of(input, *block.span), w_ih
            gemm.multiply_into(*mine, addends=_added(bias))
            steps.run(block.count)
    else:
        gemm.multiply_into(gates, input, w_ih, addends=_added(bias))
        project = None if w_hr is None else contiguous(function("t")(w_hr.detach()))
        walk(layer, gates, h_gates, states, cells, weight, b_hh, project)
    copy_into(last, states.last())
    if cells:
        copy_into(outs[2], cells.last())
    return outs


def _added(bias):
    return () if bias is None else ((bias.detach(), 1),)


@launches_kernel("rnn_layer_backward")
def _rnn_layer_backward(
    g_output, g_hidden, g_cell, input, hidden, cell, w_ih, w_hh, b_ih, b_hh, w_hr, saved, kind,
    batch_sizes, reverse, needs,
):  # fmt: skip
    gates, h_gates, before, cell_before, cell_after = saved
    weights = w_ih, w_hh, b_ih, b_hh, w_hr
    layer = _layer(kind, input, (hidden, cell), weights, batch_sizes, reverse)
    rule = layer.rule
    g_h = _start(layer, layer.shown, g_hidden)
    g_c = _start(layer, layer.width, g_cell) if rule.has_cell else None
    if w_hr is None and gates._layout.numel and layer.runs_natively(b_hh is not None):
        g_output = None if g_output is None else contiguous(g_output)
        weights = w_ih.detach(), contiguous(w_hh.detach())
        kept = gates, h_gates, before, cell_before, cell_after
        return run_back(layer, g_output, g_h, g_c, input.detach(), kept, weights, needs)
    d_gates = layer.new(layer.rows, layer.gates)
    d_h_gates = layer.new(layer.rows, layer.gates) if rule.apart else d_gates
    raw = total = None
    if w_hr is not None:
        raw, total = layer.new(layer.rows, layer.width), layer.new(layer.rows, layer.shown)
    if gates._layout.numel:
        g_output = None if g_output is None else contiguous(g_output)
        kept = contiguous(gates), contiguous(h_gates), contiguous(before)
        walk_back(
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


@launches("rnn_stack")
def rnn_stack(input, hidden, cell, weights, kind, steps, layers, both, biased, keeps):
    """All layers at once, by a library of the device; see ops/recurrence.py."""
    own = input.device.runtime.recurrence
    stack = own.stack(input._layout, hidden._layout, kind, steps, layers, both, biased)
    return stack.forward(input, hidden, cell, weights, keeps)


@launches_kernel("rnn_stack_backward")
def _rnn_stack_backward(
    g_output, g_hidden, g_cell, input, hidden, cell, weights, output, kept, kind, steps, layers,
    both, biased, needs,
):  # fmt: skip
    own = input.device.runtime.recurrence
    stack = own.stack(input._layout, hidden._layout, kind, steps, layers, both, biased)
    found = stack.backward(g_output, g_hidden, g_cell, input, hidden, cell, weights, output, kept)
    return tuple(t if need else None for t, need in zip(found, needs))


def _start(layer, width, gradient):
    """The gradient of the last state: a new matrix that the steps write to."""
    out = layer.new(layer.batch, width)
    return fill_into(out, 0) if gradient is None else (copy_into(out, gradient), out)[1]
