"""Single steps of recurrent layers: two products and one kernel for everything else.

`_rnn_step` takes the projections of input and hidden state to the next state; what happens to one
element is in `CELLS` (recurrence.py). Sequences have loops of their own.
"""

from flambeau import errors
from flambeau._dtype import INTEGER
from flambeau.ops.recurrence import CELLS
from flambeau.ops.table import OptionalTensor, Tensors, composite, public, template


def _stepped(rule, x_gates, h_gates, hidden, cell):
    """(gates, parts of the projection of the hidden state, state after the step) on tensors."""
    if rule.apart:
        h = h_gates.chunk(rule.gates, 1)
        return *rule.forward(x_gates.chunk(rule.gates, 1), h, (hidden, cell)), h
    return *rule.forward((x_gates + h_gates).chunk(rule.gates, 1), None, (hidden, cell)), None


@composite("rnn_step_backward", variants="")
def _rnn_step_backward(
    g_hidden: OptionalTensor, g_cell: OptionalTensor, x_gates, h_gates, hidden,
    cell: OptionalTensor, kind: str, needs: object,
):  # fmt: skip
    """Gradients of a step for both projections and both states."""
    rule = CELLS[kind]
    kept, after, h = _stepped(rule, x_gates, h_gates, hidden, cell)
    g_hidden = public("zeros_like")(hidden) if g_hidden is None else g_hidden
    if rule.has_cell and g_cell is None:
        g_cell = public("zeros_like")(cell)
    d_x, d_h, (d_hidden, d_cell) = rule.backward((g_hidden, g_cell), kept, h, (hidden, cell), after)
    d_x = public("cat")(d_x, 1)
    d_h = d_x if d_h is None else public("cat")(d_h, 1)
    return d_x, d_h, d_hidden, d_cell


def _step_gradients(raw_gs, x_gates, h_gates, hidden, cell, kind, needs):
    g_cell = raw_gs[1] if cell is not None else None
    return _rnn_step_backward(raw_gs[0], g_cell, x_gates, h_gates, hidden, cell, kind, needs)


def step_on_tensors(x_gates, h_gates, hidden, cell, kind):
    """`_rnn_step` in other ops."""
    _, (hidden, cell), _ = _stepped(CELLS[kind], x_gates, h_gates, hidden, cell)
    return hidden, cell


@template("rnn_step", variants="", outputs=2, joint_grad=_step_gradients, node="RnnStepBackward0")
def _rnn_step(x_gates, h_gates, hidden, cell: OptionalTensor, kind: str):
    """(hidden, cell) after a step; without cells the second is empty."""


def _cell(kind, input, hidden, cell, w_ih, w_hh, b_ih, b_hh):
    try:
        if kind == "lstm":
            w_hh.shape[1]  # looked at before sizes are
            _check_input(input, w_ih)
        if kind != "gru":
            _check_weights(w_ih, w_hh, CELLS[kind].gates)
        _check_input(input, w_ih)
        w_hh.shape[1]  # looked at before batches are
        _check(input, hidden, cell, w_hh)
        if kind == "gru":
            _check_weights(w_ih, w_hh, CELLS[kind].gates)
    except IndexError:
        raise errors.dimension_out_of_range(1, 1) from None
    linear = public("linear")
    x, h = linear(input, w_ih, b_ih), linear(hidden, w_hh, b_hh)
    if x.dtype.category <= INTEGER:
        if kind not in ("rnn_tanh", "rnn_relu"):
            name = x.dtype.scalar_name
            raise RuntimeError(f"result type Float can't be cast to the desired output type {name}")
        return public(kind.removeprefix("rnn_"))(x + h), None
    if kind == "rnn_relu" and x.dtype.is_complex:
        raise NotImplementedError("clamp is not supported for complex types")
    return _rnn_step(x, h, hidden, cell, kind)


def _check_weights(w_ih, w_hh, gates):
    hidden = w_hh.shape[1]
    for name, weight in (("weight_ih", w_ih), ("weight_hh", w_hh)):
        if weight.shape[0] != gates * hidden:
            raise RuntimeError(
                f"{name} first dim must be {gates} * hidden_size = {gates * hidden}, but got "
                f"{weight.shape[0]}"
            )


def _check_input(input, w_ih):
    if input.shape[1] != w_ih.shape[1]:
        raise RuntimeError(
            f"input has inconsistent input_size: got {input.shape[1]} expected {w_ih.shape[1]}"
        )


def _check(input, hidden, cell, w_hh):
    for k, state in enumerate((hidden,) if cell is None else (hidden, cell)):
        if state.shape[0] != input.shape[0]:
            raise RuntimeError(
                f"Input batch size {input.shape[0]} doesn't match hidden{k} batch size "
                f"{state.shape[0]}"
            )
        if state.shape[1] != w_hh.shape[1]:
            raise RuntimeError(
                f"hidden{k} has inconsistent hidden_size: got {state.shape[1]}, expected "
                f"{w_hh.shape[1]}"
            )


@composite(variants="function")
def lstm_cell(
    input, hx: Tensors, w_ih, w_hh, b_ih: OptionalTensor = None, b_hh: OptionalTensor = None
):
    """One step of an LSTM: (hidden, cell)."""
    if len(hx) != 2:
        raise RuntimeError("lstm_cell expects two hidden states")
    found = _cell("lstm", input, hx[0], hx[1], w_ih, w_hh, b_ih, b_hh)
    return found[0], found[1]


@composite(variants="function")
def gru_cell(input, hx, w_ih, w_hh, b_ih: OptionalTensor = None, b_hh: OptionalTensor = None):
    """One step of a GRU."""
    return _cell("gru", input, hx, None, w_ih, w_hh, b_ih, b_hh)[0]


@composite(variants="function")
def rnn_tanh_cell(input, hx, w_ih, w_hh, b_ih: OptionalTensor = None, b_hh: OptionalTensor = None):
    """One step of plain recurrence with tanh."""
    return _cell("rnn_tanh", input, hx, None, w_ih, w_hh, b_ih, b_hh)[0]


@composite(variants="function")
def rnn_relu_cell(input, hx, w_ih, w_hh, b_ih: OptionalTensor = None, b_hh: OptionalTensor = None):
    """One step of plain recurrence with relu."""
    return _cell("rnn_relu", input, hx, None, w_ih, w_hh, b_ih, b_hh)[0]
