"""What is on tape, forward and backward: recurrent layers, ops with scratch memory, constants."""

import pytest

import flambeau
from flambeau import nn
from tests.compile.test_programs import seen

LAYERS = {
    "LSTM": (lambda: nn.LSTM(5, 4, 2, bidirectional=True), (3, 2, 5)),
    "LSTM with dropout": (lambda: nn.LSTM(5, 4, 2, dropout=0.5, batch_first=True), (3, 4, 5)),
    "LSTM of many steps": (lambda: nn.LSTM(64, 128), (150, 8, 64)),
    "LSTM with a projection": (lambda: nn.LSTM(5, 4, proj_size=3), (3, 2, 5)),
    "GRU": (lambda: nn.GRU(5, 4, bidirectional=True), (7, 3, 5)),
    "GRU of many steps": (lambda: nn.GRU(64, 128, bidirectional=True), (150, 8, 64)),
    "RNN": (lambda: nn.RNN(5, 4, nonlinearity="relu"), (3, 2, 5)),
    "LSTMCell": (lambda: nn.LSTMCell(5, 4), (3, 5)),
    "GRUCell": (lambda: nn.GRUCell(5, 4), (3, 5)),
    "RNNCell": (lambda: nn.RNNCell(5, 4), (3, 5)),
}


def outcome(function, layer, x):
    x = x.clone().requires_grad_()
    layer.zero_grad()
    flambeau.manual_seed(3)
    found = function(x)
    first = found[0] if isinstance(found, tuple) else found
    first.sin().sum().backward()
    return seen(found), seen([x.grad, *(p.grad for p in layer.parameters())])


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_on_tape(name):
    make, shape = LAYERS[name]
    layer = make()
    made = flambeau.compile(layer, fullgraph=True)
    for _ in range(4):
        x = flambeau.randn(shape)
        assert outcome(made, layer, x) == outcome(layer, layer, x)
    [program] = made._settings.graphs.values()
    assert not program.reasons


def written(x):
    y = x.clone()
    y[flambeau.tensor([0, 2])] = x[:2] * flambeau.tensor(2.5)
    return y


PROGRAMS = {
    "cumsum": lambda x: (x.cumsum(0), x.cumsum(1)),
    "cummax": lambda x: x.cummax(0),
    "logcumsumexp": lambda x: x.logcumsumexp(1),
    "sort": lambda x: (*x.sort(0), x.argsort(-1)),
    "topk": lambda x: (*x.topk(3), *x.kthvalue(2)),
    "median": lambda x: (*x.median(0), x.median(), *x.mode(1)),
    "masks": lambda x: (x.masked_fill(x > 0, 1.0), flambeau.where(x > 0, x, -x), (x > 2).any()),
    "gather": lambda x: x.gather(0, (x > 0).long()),
    "scatter_add": lambda x: flambeau.zeros(6, 5).scatter_add(0, (x > 0).long(), x),
    "index_add": lambda x: x.new_zeros(2, 5).index_add(0, flambeau.tensor([0, 1, 0, 1, 0, 1]), x),
    "constants": lambda x: (
        x[flambeau.tensor([1, 2])],
        flambeau.bucketize(x, flambeau.tensor([0.0])),
    ),
    "written": written,
    "searchsorted": lambda x: flambeau.searchsorted(x.detach().sort(1)[0], x.detach()),
    "quantile": lambda x: x.quantile(0.5, dim=0),
    "embedding": lambda x: nn.functional.embedding((x > 0).long(), x),
}


@pytest.mark.parametrize("wants", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_on_tape(name, wants):
    function = PROGRAMS[name]
    made = flambeau.compile(function, fullgraph=True)
    for _ in range(4):
        x = flambeau.randn(6, 5).requires_grad_(wants)
        found, wanted = made(x), function(x)
        assert seen(found) == seen(wanted)
        results = [
            [t for t in (r if isinstance(r, tuple) else (r,)) if t.requires_grad]
            for r in (found, wanted)
        ]
        if results[0]:
            grads = [flambeau.autograd.grad(sum(t.sum() for t in r), x)[0] for r in results]
            assert seen(grads[0]) == seen(grads[1])
    [program] = made._torchdynamo_settings.graphs.values()
    assert not program.reasons
