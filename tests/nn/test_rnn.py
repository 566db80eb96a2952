"""Recurrent modules: text, weights, outputs, gradients, packed and unbatched input, errors."""

import numpy as np
import pytest

import flambeau
from flambeau import nn
from tests.nn import case_checks as checks
from tests.nn.rnn_cases import CASES, ERRORS

GOLDEN = checks.recorded("nn_rnn.json")


@pytest.mark.parametrize("case", CASES)
def test_a_module_is_as_recorded(case):
    checks.check_recorded(flambeau, case, GOLDEN["cases"][case])


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES)
def test_a_module_is_as_in_pytorch(case):
    checks.check_pytorch(flambeau, pytest.importorskip("torch"), case)


@pytest.mark.parametrize("case", CASES)
def test_copies_do_the_same(case):
    checks.check_copies(flambeau, case)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES[::3])
def test_states_are_exchanged(case):
    checks.check_exchange(flambeau, pytest.importorskip("torch"), case)


@pytest.mark.parametrize("call", ERRORS)
def test_a_bad_call_is_refused_as_recorded(call):
    assert checks.refusal(flambeau, call) == GOLDEN["errors"][call]


def sigmoid(v):
    return 1 / (1 + np.exp(-v))


def steps_of(module, x, step, state):
    """One layer in NumPy, step by step."""
    w = [p.detach().numpy() for p in module._flat_weights]
    out = []
    for row in x:
        state = step(row @ w[0].T + w[2], state[0] @ w[1].T + w[3], state)
        out.append(state[0])
    return np.stack(out), state


def lstm_step(a, b, state):
    i, f, g, o = np.split(a + b, 4, -1)
    cell = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(cell), cell


def gru_step(a, b, state):
    (r, z, n), (hr, hz, hn) = np.split(a, 3, -1), np.split(b, 3, -1)
    r, z = sigmoid(r + hr), sigmoid(z + hz)
    return ((1 - z) * np.tanh(n + r * hn) + z * state[0],)


def plain_step(a, b, state):
    return (np.tanh(a + b),)


@pytest.mark.parametrize(
    "kind, step", [("LSTM", lstm_step), ("GRU", gru_step), ("RNN", plain_step)]
)
def test_a_layer_follows_its_formula(kind, step, rng):
    module = getattr(nn, kind)(5, 6, dtype=flambeau.float64)
    x = rng.standard_normal((7, 3, 5))
    out, last = module(flambeau.from_numpy(x))
    zeros = np.zeros((3, 6))
    want, state = steps_of(module, x, step, (zeros, zeros))
    np.testing.assert_allclose(out.detach().numpy(), want, rtol=1e-10)
    for mine, theirs in zip(last if kind == "LSTM" else (last,), state):
        np.testing.assert_allclose(mine.detach().numpy()[0], theirs, rtol=1e-10)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_packed_sequences_give_what_each_gives_alone(kind, rng):
    module = getattr(nn, kind)(3, 4, 2, bidirectional=True, dtype=flambeau.float64)
    sequences = [flambeau.from_numpy(rng.standard_normal((n, 3))) for n in (2, 5, 1, 3)]
    packed = nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False)
    out, last = module(packed)
    for k, (mine, t) in enumerate(zip(nn.utils.rnn.unpack_sequence(out), sequences)):
        alone, alone_last = module(t)
        np.testing.assert_allclose(mine.detach().numpy(), alone.detach().numpy(), rtol=1e-9)
        first = last[0] if kind == "LSTM" else last
        alone_first = alone_last[0] if kind == "LSTM" else alone_last
        np.testing.assert_allclose(first[:, k].tolist(), alone_first.tolist(), rtol=1e-9)


def test_a_cell_takes_the_steps_of_its_layer():
    layer, cell = nn.GRU(3, 4), nn.GRUCell(3, 4)
    cell.load_state_dict({k.removesuffix("_l0"): v for k, v in layer.state_dict().items()})
    x = flambeau.randn(5, 2, 3)
    h = None
    for row in x:
        h = cell(row, h)
    np.testing.assert_allclose(h.tolist(), layer(x)[1][0].tolist(), rtol=1e-5)


def test_weights_are_listed_by_layer_and_direction():
    module = nn.LSTM(3, 5, 2, bidirectional=True, proj_size=2)
    assert [len(weights) for weights in module.all_weights] == [5] * 4
    assert module.all_weights[3][4] is module.weight_hr_l1_reverse
    assert module._flat_weights_names[5] == "weight_ih_l0_reverse"
    module.flatten_parameters()


def test_another_weight_is_used_at_once():
    module = nn.RNN(2, 2)
    x = flambeau.ones(1, 1, 2)
    module.weight_ih_l0 = nn.Parameter(flambeau.zeros(2, 2))
    module.bias_ih_l0 = nn.Parameter(flambeau.zeros(2))
    module.bias_hh_l0 = nn.Parameter(flambeau.zeros(2))
    assert module(x)[0].abs().sum().item() == 0
    assert module.double()(x.double())[0].dtype is flambeau.float64


def test_a_pruned_weight_is_an_attribute():
    module = nn.RNN(2, 2)
    weight = module.weight_hh_l0
    del module.weight_hh_l0
    module.weight_hh_l0 = weight * 0
    out, _ = module(flambeau.ones(2, 1, 2))
    assert out[0].tolist() == out[1].tolist()


def test_old_pickles_know_no_projections():
    module = nn.LSTM(2, 3)
    state = module.__getstate__()
    del state["proj_size"]
    state["all_weights"] = state.pop("_all_weights")
    fresh = nn.LSTM.__new__(nn.LSTM)
    fresh.__setstate__(state)
    assert fresh.proj_size == 0
    x = flambeau.ones(1, 1, 2)
    assert fresh(x)[0].tolist() == module(x)[0].tolist()


def test_dropout_of_a_single_layer_is_told():
    with pytest.warns(UserWarning, match="dropout option adds dropout after all but last"):
        nn.LSTM(2, 3, dropout=0.5)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_gradients_and_second_gradients(kind):
    module = getattr(nn, kind)(2, 3, dtype=flambeau.float64)
    x = flambeau.randn(3, 2, 2, dtype=flambeau.float64, requires_grad=True)
    assert flambeau.autograd.gradcheck(lambda t: module(t)[0], (x,))
    assert flambeau.autograd.gradgradcheck(lambda t: module(t)[0].sum(0), (x,))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types(dtype):
    kind = getattr(flambeau, dtype)
    exact = nn.LSTM(3, 4)
    x = flambeau.randn(5, 2, 3)
    want = exact(x)[0]
    got = exact.to(kind)(x.to(kind))[0]
    assert got.dtype is kind
    assert (got.float() - want).abs().max().item() < 0.03
