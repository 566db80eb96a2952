"""Recurrent layers: LSTM, GRU and plain ones; sequences, packed sequences and single cells.

What a step does to one element is written in the scalar language, forward and backward (`CELLS`),
so the same lines become the fused kernels of eager/recurrence.py and, where a derivative is to be
differentiated again, ops on tensors. `_rnn_layer` is one layer in one direction over rows that are
packed step after step; lstm, gru, rnn_tanh and rnn_relu stack layers.
"""

from collections.abc import Callable
from typing import NamedTuple

from flambeau import errors
from flambeau.codegen import scalar as m
from flambeau.ops.table import OptionalTensor, Tensors, composite, public, template


class Cell(NamedTuple):
    """A kind of layer. gates: parts of the projection of a step, in the order of the weights.

    forward(x, h, state) -> (gates to keep, state): x and h are the parts of the projections of
    input and hidden state (h is None where they are simply added), state is (hidden, cell) before
    and after. backward(g, kept, h, before, after) -> (gradients of x, of h, of the state before):
    g is the gradient of (hidden, cell) after the step.
    """

    gates: int
    apart: bool  # is the projection of the hidden state kept apart from the input's?
    has_cell: bool
    forward: Callable
    backward: Callable


def _lstm_forward(x, h, state):
    i, f, g, o = m.sigmoid(x[0]), m.sigmoid(x[1]), m.tanh(x[2]), m.sigmoid(x[3])
    cell = f * state[1] + i * g
    return (i, f, g, o), (o * m.tanh(cell), cell)


def _lstm_backward(grad, kept, h, before, after):
    i, f, g, o = kept
    bent = m.tanh(after[1])
    d_cell = grad[1] + grad[0] * o * (1 - bent * bent)
    d_x = (
        d_cell * g * i * (1 - i),
        d_cell * before[1] * f * (1 - f),
        d_cell * i * (1 - g * g),
        grad[0] * bent * o * (1 - o),
    )
    return d_x, None, (None, d_cell * f)


def _gru_forward(x, h, state):
    r, z = m.sigmoid(x[0] + h[0]), m.sigmoid(x[1] + h[1])
    n = m.tanh(x[2] + r * h[2])
    return (r, z, n), ((state[0] - n) * z + n, None)


def _gru_backward(grad, kept, h, before, after):
    r, z, n = kept
    d_n = grad[0] * (1 - z) * (1 - n * n)
    d_r = d_n * h[2] * r * (1 - r)
    d_z = grad[0] * (before[0] - n) * z * (1 - z)
    return (d_r, d_z, d_n), (d_r, d_z, d_n * r), (grad[0] * z, None)


def _tanh_forward(x, h, state):
    y = m.tanh(x[0])
    return (y,), (y, None)


def _tanh_backward(grad, kept, h, before, after):
    return (grad[0] * (1 - kept[0] * kept[0]),), None, (None, None)


def _relu_forward(x, h, state):
    y = m.where(x[0] <= 0, 0, x[0])
    return (y,), (y, None)


def _relu_backward(grad, kept, h, before, after):
    return (m.where(kept[0] <= 0, 0, grad[0]),), None, (None, None)


CELLS = {
    "lstm": Cell(4, False, True, _lstm_forward, _lstm_backward),
    "gru": Cell(3, True, False, _gru_forward, _gru_backward),
    "rnn_tanh": Cell(1, False, False, _tanh_forward, _tanh_backward),
    "rnn_relu": Cell(1, False, False, _relu_forward, _relu_backward),
}


# -- one layer, one direction ---------------------------------------------------------------------


def steps_of(batch_sizes, reverse):
    """(first row, rows) of each step, in the order in which the layer takes them."""
    found, start = [], 0
    for size in batch_sizes:
        found.append((start, size))
        start += size
    return found[::-1] if reverse else found


def _joined(state, rows, new):
    """The state of all sequences, of which the first `rows` took a step."""
    return new if rows == state.shape[0] else public("cat")([new, state[rows:]])


def _projected(t, weight, bias):
    found = t @ weight.t()
    return found if bias is None else found + bias


def _stepped(input, hidden, cell, weights, rule, steps):
    """(what each step met and made, what each shows, last hidden and cell state), on tensors."""
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    h, c = hidden, cell
    trace, outputs = [], []
    for start, rows in steps:
        x = input[start : start + rows]
        before = h[:rows], None if c is None else c[:rows]
        x_gates = _projected(x, w_ih, b_ih)
        h_gates = _projected(before[0], w_hh, b_hh)
        if not rule.apart:
            x_gates, h_gates = x_gates + h_gates, None
        x_parts = x_gates.chunk(rule.gates, 1)
        h_parts = None if h_gates is None else h_gates.chunk(rule.gates, 1)
        kept, after = rule.forward(x_parts, h_parts, before)
        shown = after[0] if w_hr is None else after[0] @ w_hr.t()
        trace.append((x, before, kept, h_parts, after))
        outputs.append(shown)
        h = _joined(h, rows, shown)
        c = c if after[1] is None else _joined(c, rows, after[1])
    return trace, outputs, h, c


def layer_on_tensors(input, hidden, cell, w_ih, w_hh, b_ih, b_hh, w_hr, kind, batch_sizes, reverse):
    """`_rnn_layer` in other ops: rows of output and the last states."""
    steps, weights = steps_of(batch_sizes, reverse), (w_ih, w_hh, b_ih, b_hh, w_hr)
    _, outputs, h, c = _stepped(input, hidden, cell, weights, CELLS[kind], steps)
    return public("cat")(outputs[::-1] if reverse else outputs), h, c


@composite("rnn_layer_backward", variants="")
def _rnn_layer_backward(
    g_output: OptionalTensor, g_hidden: OptionalTensor, g_cell: OptionalTensor,
    input, hidden, cell: OptionalTensor, w_ih, w_hh,
    b_ih: OptionalTensor, b_hh: OptionalTensor, w_hr: OptionalTensor,
    saved: Tensors, kind: str, batch_sizes: object, reverse: bool, needs: object,
):  # fmt: skip
    """Gradients of a layer, step by step on tensors: a second derivative goes through all of it."""
    rule = CELLS[kind]
    steps = steps_of(batch_sizes, reverse)
    weights = w_ih, w_hh, b_ih, b_hh, w_hr
    trace, _, h, c = _stepped(input, hidden, cell, weights, rule, steps)
    g_h = public("zeros_like")(h) if g_hidden is None else g_hidden
    g_c = None if c is None else public("zeros_like")(c) if g_cell is None else g_cell
    g_input: list = [None] * len(steps)
    totals: dict = {}

    def add(name, value):
        totals[name] = totals[name] + value if name in totals else value

    for k in range(len(steps) - 1, -1, -1):
        start, rows = steps[k]
        x, before, kept, h_parts, after = trace[k]
        g = g_h[:rows] if g_output is None else g_h[:rows] + g_output[start : start + rows]
        if w_hr is not None:
            add("w_hr", g.t() @ after[0])
            g = g @ w_hr
        grad = g, None if g_c is None else g_c[:rows]
        d_x, d_h, d_state = rule.backward(grad, kept, h_parts, before, after)
        d_x = public("cat")(d_x, 1)
        d_h = d_x if d_h is None else public("cat")(d_h, 1)
        add("w_ih", d_x.t() @ x)
        add("b_ih", d_x.sum(0))
        add("w_hh", d_h.t() @ before[0])
        add("b_hh", d_h.sum(0))
        g_input[k] = d_x @ w_ih
        back = d_h @ w_hh
        back = back if d_state[0] is None else back + d_state[0]
        g_h = _joined(g_h, rows, back)
        g_c = g_c if d_state[1] is None else _joined(g_c, rows, d_state[1])
    rows_of_input = public("cat")(g_input[::-1] if reverse else g_input)
    found = (rows_of_input, g_h, g_c, *(totals.get(n) for n in WEIGHTS))
    return tuple(g if need else None for g, need in zip(found, needs))


WEIGHTS = ("w_ih", "w_hh", "b_ih", "b_hh", "w_hr")


def _layer_gradients(
    raw_gs, input, hidden, cell, w_ih, w_hh, b_ih, b_hh, w_hr, kind, batch_sizes, reverse,
    out3, out4, out5, out6, out7, needs,
):  # fmt: skip
    saved = [out3, out4, out5, out6, out7]
    return _rnn_layer_backward(
        *raw_gs[:3], input, hidden, cell, w_ih, w_hh, b_ih, b_hh, w_hr, saved, kind, batch_sizes,
        reverse, needs,
    )  # fmt: skip


@template(
    "rnn_layer",
    variants="",
    outputs=8,
    joint_grad=_layer_gradients,
    node="RnnLayerBackward0",
)
def _rnn_layer(
    input, hidden, cell: OptionalTensor, w_ih, w_hh,
    b_ih: OptionalTensor, b_hh: OptionalTensor, w_hr: OptionalTensor,
    kind: str, batch_sizes: object, reverse: bool,
):  # fmt: skip
    """Rows of output, last hidden state, last cell state, then what backward needs.

    These are the gates, the projections of hidden states that are kept apart, the hidden states
    before each step, the cell states before and after it (and, with w_hr, what is projected).
    """


# -- all layers by a library ----------------------------------------------------------------------


@composite("rnn_stack_backward", variants="")
def _rnn_stack_backward(
    g_output: OptionalTensor, g_hidden: OptionalTensor, g_cell: OptionalTensor, input, hidden,
    cell: OptionalTensor, weights, output, kept, kind: str, steps: int, layers: int, both: bool,
    biased: bool, needs: object,
):  # fmt: skip
    """Gradients by the library, which has no second derivatives."""
    raise NotImplementedError("derivative for _cudnn_rnn_backward is not implemented")


def _stack_gradients(
    raw_gs, input, hidden, cell, weights, kind, steps, layers, both, biased, out, out3, needs
):  # fmt: skip
    return _rnn_stack_backward(
        *raw_gs[:3], input, hidden, cell, weights, out, out3, kind, steps, layers, both, biased,
        needs,
    )  # fmt: skip


@template(
    "rnn_stack", variants="", outputs=4, joint_grad=_stack_gradients, node="CudnnRnnBackward0"
)
def _rnn_stack(
    input, hidden, cell: OptionalTensor, weights, kind: str, steps: int, layers: int, both: bool,
    biased: bool, keeps: bool,
):  # fmt: skip
    """Rows of output, last hidden states, last cell states, and what backward needs (if it keeps).

    weights: all matrices one after the other, then all biases.
    """


def _by_library(kind, rows, steps, states, params, biased, layers, both):
    """The results of a library of the device, or None."""
    own = rows.device.runtime.recurrence
    if own is None or len({t.dtype for t in (rows, *params)}) > 1:
        return None
    hidden, cell = states
    stack = own.stack(rows._layout, hidden._layout, kind, steps, layers, both, biased)
    if stack is None:
        return None
    each = 4 if biased else 2
    order = [p for k in range(0, len(params), each) for p in params[k : k + 2]]
    order += [p for k in range(0, len(params), each) for p in params[k + 2 : k + each]]
    stack.expect_weights()
    weights = public("cat")([p.reshape(-1) for p in order])
    keeps = any(t is not None and t._requires_grad for t in (rows, hidden, cell, weights))
    given = kind, steps, layers, both, biased, keeps
    out, h, c, _ = _rnn_stack(rows, hidden, cell, weights, *given)
    return out, h, None if cell is None else c


# -- stacks of layers -----------------------------------------------------------------------------


def _check_input(kind, input, hidden, cell, weights, packed):
    """Shapes that fit each other; PyTorch leaves most of this to nn.LSTM and its kin."""
    rank = 2 if packed else 3
    if input.ndim != rank:
        raise RuntimeError(f"input must have {rank} dimensions, got {input.ndim}")
    w_ih, w_hh = weights[0], weights[1]
    if w_ih.shape[1] != input.shape[-1]:
        raise RuntimeError(
            f"input.size(-1) must be equal to input_size. Expected {w_ih.shape[1]}, got "
            f"{input.shape[-1]}"
        )
    width = w_hh.shape[1]
    for name, t, size in (("hidden", hidden, width), ("cell", cell, w_hh.shape[0] // 4)):
        if t is not None and (t.ndim != 3 or t.shape[2] != size):
            raise RuntimeError(f"Expected {name} size (layers, batch, {size}), got {list(t.shape)}")


def _stacked(kind, data, batch_sizes, states, params, has_biases, layers, dropout, train, both):
    """All layers over packed rows: (output, hidden states, cell states or None)."""
    hidden, cell = states
    directions = 2 if both else 1
    # weights of a layer and direction: w_ih, w_hh, b_ih, b_hh, w_hr, as far as there are any
    projected = cell is not None and hidden.shape[2] != cell.shape[2]
    each = 2 + (2 if has_biases else 0) + (1 if projected else 0)
    if len(params) % each:
        raise RuntimeError(f"MatrixRef: ArrayRef size {len(params)} not divisible by stride {each}")
    if len(params) != each * layers * directions:
        raise RuntimeError(
            f"Expected {each * layers * directions} weights for {layers} layers, got {len(params)}"
        )
    if any(t is not None and t.shape[0] != layers * directions for t in states):
        raise RuntimeError("Expected more hidden states in stacked_rnn")
    even = batch_sizes[0] == batch_sizes[-1] and not (dropout and train and layers > 1)
    if even and not projected:
        given = kind, data, len(batch_sizes), states, params, has_biases, layers, both
        found = _by_library(*given)
        if found is not None:
            return found
    last_h, last_c = [], []
    for layer in range(layers):
        outputs = []
        for direction in range(directions):
            k = layer * directions + direction
            own = list(params[k * each : (k + 1) * each])
            w_hr = own.pop() if projected else None
            w_ih, w_hh, *biases = own
            b_ih, b_hh = biases or (None, None)
            found = _rnn_layer(
                data, hidden[k], None if cell is None else cell[k], w_ih, w_hh, b_ih, b_hh, w_hr,
                kind, batch_sizes, direction == 1,
            )  # fmt: skip
            outputs.append(found[0])
            last_h.append(found[1])
            last_c.append(found[2])
        data = outputs[0] if not both else public("cat")(outputs, 1)
        if dropout and train and layer < layers - 1:
            data = public("dropout")(data, dropout, True)
    stack = public("stack")
    return data, stack(last_h), None if cell is None else stack(last_c)


def _sequences(kind, input, states, params, has_biases, layers, dropout, train, both, batch_first):
    """Sequences of one length."""
    if dropout and not 0 <= dropout <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout}")
    _check_input(kind, input, *states, params, False)
    input = input.transpose(0, 1) if batch_first else input
    steps, batch = input.shape[:2]
    if states[0].shape[1] != batch:
        raise RuntimeError(
            f"Expected hidden size ({states[0].shape[0]}, {batch}, {states[0].shape[2]}), got "
            f"{list(states[0].shape)}"
        )
    if steps == 0:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    rows = input.reshape(steps * batch, input.shape[2])
    out, h, c = _stacked(
        kind, rows, (batch,) * steps, states, params, has_biases, layers, dropout, train, both
    )
    out = out.reshape(steps, batch, out.shape[1])
    return out.transpose(0, 1) if batch_first else out, h, c


def _packed(kind, data, batch_sizes, states, params, has_biases, layers, dropout, train, both):
    """Sequences of several lengths, longest first: rows of the first step, of the second, ..."""
    _check_input(kind, data, *states, params, True)
    sizes = tuple(batch_sizes.tolist())
    if sum(sizes) != data.shape[0] or list(sizes) != sorted(sizes, reverse=True):
        raise RuntimeError(
            f"batch_sizes must not grow and add up to the {data.shape[0]} rows of data"
        )
    if states[0].shape[1] != sizes[0]:
        raise RuntimeError(
            f"Expected hidden size ({states[0].shape[0]}, {sizes[0]}, {states[0].shape[2]}), got "
            f"{list(states[0].shape)}"
        )
    return _stacked(kind, data, sizes, states, params, has_biases, layers, dropout, train, both)


def _run(kind, arguments):
    """Both overloads: (input, hx, params, ...) and (data, batch_sizes, hx, params, ...)."""
    if len(arguments) < 9:
        state = "tuple of Tensors hx" if kind == "lstm" else "Tensor hx"
        rest = "bool has_biases, int num_layers, float dropout, bool train, bool bidirectional"
        forms = (
            f"Tensor data, Tensor batch_sizes, {state}, tuple of Tensors params, {rest}",
            f"Tensor input, {state}, tuple of Tensors params, {rest}, bool batch_first",
        )
        raise errors.combination(kind, arguments, forms)
    first, second = arguments[:2]
    packed = kind == "lstm" and hasattr(second, "tolist")
    packed = packed or (kind != "lstm" and isinstance(arguments[3], (list, tuple)))
    hx = arguments[2] if packed else second
    rest = arguments[3:] if packed else arguments[2:]
    if kind == "lstm":
        if len(hx) != 2:
            raise RuntimeError("lstm expects two hidden states")
        states = tuple(hx)
    else:
        states = hx, None
    if packed:
        found = _packed(kind, first, second, states, *rest)
    else:
        found = _sequences(kind, first, states, *rest)
    return found if kind == "lstm" else found[:2]


@composite(variants="function")
def lstm(*arguments):
    """Long short-term memory over sequences.

    (input, (h, c), params, has_biases, num_layers, dropout, train, bidirectional, batch_first), or
    packed: (data, batch_sizes, (h, c), params, has_biases, ...), without batch_first.
    """
    return _run("lstm", arguments)


@composite(variants="function")
def gru(*arguments):
    """Gated recurrent units over sequences; arguments as those of lstm, with one state."""
    return _run("gru", arguments)


@composite(variants="function")
def rnn_tanh(*arguments):
    """Plain recurrence with tanh over sequences; arguments as those of gru."""
    return _run("rnn_tanh", arguments)


@composite(variants="function")
def rnn_relu(*arguments):
    """Plain recurrence with relu over sequences; arguments as those of gru."""
    return _run("rnn_relu", arguments)
