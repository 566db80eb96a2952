"""Recurrent layers and cells, step by step."""

from collections.abc import Callable
from typing import Any

from flambeau._decomp.registry import core, whole
from flambeau._tensor import Tensor
from flambeau.aten.overloads import namespace

aten: Any = namespace("aten")
States = list[Tensor]


def _linear(x, weight, bias):
    return aten.linear.default(x, weight, bias)


# -- steps: (what comes from the input, states, weights) -> states ---------------------------------


def _lstm_gates(gates, cell, dim):
    i, f, g, o = aten.chunk.default(gates, 4, dim)
    i, f = aten.sigmoid.default(i), aten.sigmoid.default(f)
    g, o = aten.tanh.default(g), aten.sigmoid.default(o)
    cell = aten.add.Tensor(aten.mul.Tensor(f, cell), aten.mul.Tensor(i, g))
    return [aten.mul.Tensor(o, aten.tanh.default(cell)), cell]


def _lstm_step(given, states, params):
    gates = aten.add.Tensor(_linear(states[0], params[1], params[3]), given)
    hidden, cell = _lstm_gates(gates, states[1], gates.ndim - 1)
    if len(params) > 4:  # a projection of what is shown
        hidden = _linear(hidden, params[4], None)
    return [hidden, cell]


def _gru_step(given, states, params):
    r_in, z_in, n_in = aten.chunk.default(given, 3, given.ndim - 1)
    hidden = _linear(states[0], params[1], params[3])
    r_of, z_of, n_of = aten.chunk.default(hidden, 3, hidden.ndim - 1)
    reset = aten.sigmoid.default(aten.add.Tensor(r_of, r_in))
    update = aten.sigmoid.default(aten.add.Tensor(z_of, z_in))
    new = aten.tanh.default(aten.add.Tensor(n_in, aten.mul.Tensor(n_of, reset)))
    kept = aten.mul.Tensor(aten.sub.Tensor(states[0], new), update)
    return [aten.add.Tensor(kept, new)]


def _plain_step(name: str) -> Callable:
    def step(given, states, params):
        total = aten.add.Tensor(_linear(states[0], params[1], params[3]), given)
        return [getattr(aten, name).default(total)]

    return step


# -- layers ----------------------------------------------------------------------------------------


def _direction(step, x, states, params, reverse, early):
    """One layer in one direction: (results of all steps, states after the last)."""
    if early:
        states = [aten.unsqueeze.default(state, 0) for state in states]
    given = _linear(x, params[0], params[2])
    if not early:
        states = [aten.unsqueeze.default(state, 0) for state in states]
    steps = list(aten.unbind.int(given))
    results = []
    for item in reversed(steps) if reverse else steps:
        states = step(item, states, params)
        results.append(states[0])
    if reverse:
        results.reverse()
    return aten.cat.default(results), [aten.squeeze.dim(state, 0) for state in states]


def _run(step, x, states, params, options, early=False):
    """All layers: (result, states of all layers)."""
    has_biases, layers, dropout, train, both, batch_first = options
    if batch_first:
        x = aten.transpose.int(x, 0, 1)
    directions = 2 if both else 1
    width = len(params) // (layers * directions)
    ended: list[States] = []
    for layer in range(layers):
        found = []
        for way in range(directions):
            at = layer * directions + way
            mine = list(params[at * width : (at + 1) * width])
            if not has_biases:
                mine[2:2] = [None, None]
            result, last = _direction(
                step, x, [state[at] for state in states], mine, way == 1, early
            )
            found.append(result)
            ended.append(last)
        x = found[0] if len(found) == 1 else aten.cat.default(found, found[0].ndim - 1)
        if dropout and train and layer < layers - 1:
            x = aten.dropout.default(x, dropout, True)
    if batch_first:
        x = aten.transpose.int(x, 0, 1)
    return x, [aten.stack.default([last[k] for last in ended], 0) for k in range(len(states))]


def _counts(x, batch_first):
    """Is it known how many steps there are?"""
    return type(x.shape[1 if batch_first else 0]) is int


@core("lstm.input")
def lstm(input: Tensor, hx: Any, params: Any, *options: Any) -> tuple[Tensor, ...]:
    if not _counts(input, options[-1]):
        return whole("lstm.input", input, hx, params, *options)
    states = [list(aten.unbind.int(state)) for state in hx]
    result, ended = _run(_lstm_step, input, states, params, options, early=True)
    return result, *ended


def _one_state(name: str, step: Callable) -> Callable:
    def run(input, hx, params, *options):
        if not _counts(input, options[-1]):
            return whole(name, input, hx, params, *options)
        result, ended = _run(step, input, [list(aten.unbind.int(hx))], params, options)
        return result, *ended

    return run


for _name, _step in {
    "gru.input": _gru_step,
    "rnn_tanh.input": _plain_step("tanh"),
    "rnn_relu.input": _plain_step("relu"),
}.items():
    core(_name)(_one_state(_name, _step))

# -- cells -----------------------------------------------------------------------------------------


@core("lstm_cell")
def lstm_cell(
    input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Any = None, b_hh: Any = None
) -> tuple[Tensor, ...]:
    hidden = _linear(hx[0], w_hh, b_hh)
    gates = aten.add.Tensor(hidden, _linear(input, w_ih, b_ih))
    return tuple(_lstm_gates(gates, hx[1], 1))


@core("gru_cell")
def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Any = None, b_hh: Any = None
) -> Tensor:
    return _gru_step(_linear(input, w_ih, b_ih), [hx], [w_ih, w_hh, b_ih, b_hh])[0]


def _cell(name: str) -> Callable:
    def run(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
        hidden = _linear(hx, w_hh, b_hh)
        return getattr(aten, name).default(aten.add.Tensor(hidden, _linear(input, w_ih, b_ih)))

    return run


core("rnn_tanh_cell")(_cell("tanh"))
core("rnn_relu_cell")(_cell("relu"))
