"""FlopCounterMode: what is counted, and for which module."""

from importlib import import_module

import pytest

import flambeau
from flambeau import interposing

CASES = {
    "mm": lambda t, x: x @ x.t(),
    "bmm": lambda t, x: t.bmm(x[None], x.t()[None]),
    "linear": lambda t, x: t.nn.functional.linear(x, t.ones(3, 8), t.ones(3)),
    "addmm": lambda t, x: t.addmm(t.ones(4, 4), x, x.t()),
    "baddbmm": lambda t, x: t.baddbmm(t.ones(1, 4, 4), x[None], x.t()[None]),
    "einsum": lambda t, x: t.einsum("ij,kj->ik", x, x),
    "conv2d": lambda t, x: t.nn.functional.conv2d(t.ones(1, 3, 8, 8), t.ones(4, 3, 3, 3)),
    "conv1d and back": lambda t, x: t.nn.Conv1d(3, 4, 3)(t.ones(2, 3, 10)).sum().backward(),
    "transposed": lambda t, x: t.nn.ConvTranspose2d(3, 4, 3)(t.ones(2, 3, 10, 10)),
    "network": lambda t, x: network(t)(x),
    "network and back": lambda t, x: network(t)(x).sum().backward(),
    "elementwise": lambda t, x: (x * 2).exp().sum(),
}


def network(torch):
    nn = torch.nn
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Sequential(nn.Linear(16, 4), nn.ReLU()))


def counted(torch, call, **options):
    mode = import_module(torch.__name__ + ".utils.flop_counter").FlopCounterMode
    with mode(display=False, **options) as counter:
        call(torch, torch.ones(4, 8))
    counts = counter.get_flop_counts()
    by_module = {m: {str(op): n for op, n in ops.items()} for m, ops in counts.items() if ops}
    return counter.get_total_flops(), by_module


@pytest.mark.oracle
@pytest.mark.parametrize("name", CASES)
def test_counts_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    assert counted(flambeau, CASES[name]) == counted(torch, CASES[name])


def test_formulas_of_users():
    mine = {flambeau.ops.aten.sin: lambda shape, out_shape=None, **options: 5}
    assert counted(flambeau, lambda t, x: x.sin(), custom_mapping=mine)[0] == 5


def test_counts_are_found_by_ops():
    aten = flambeau.ops.aten
    with flambeau.utils.flop_counter.FlopCounterMode(display=False) as counter:
        network(flambeau)(flambeau.ones(4, 8, requires_grad=True)).sum().backward()
    everything = counter.get_flop_counts()["Global"]
    assert everything == counter.flop_counts["Global"] == {aten.addmm: 1536, aten.mm: 3072}


def test_formulas_of_arguments_and_results():
    def twice(x, out_val=None):
        return x.numel() + out_val.numel()

    twice._get_raw = True
    mine = {flambeau.ops.aten.sin: twice}
    assert counted(flambeau, lambda t, x: x.sin(), custom_mapping=mine)[0] == 64


@pytest.mark.parametrize("target", [flambeau.sin, "aten.sin", flambeau.ops.aten.sin.default])
def test_formulas_are_for_ops(target):
    register = flambeau.utils.flop_counter.register_flop_formula
    with pytest.raises(ValueError, match="expected each target to be OpOverloadPacket"):
        register(target)


def test_the_table_has_as_many_levels_as_asked_for(capsys):
    with flambeau.utils.flop_counter.FlopCounterMode(depth=1):
        network(flambeau)(flambeau.ones(4, 8))
    text = capsys.readouterr().out
    assert "Sequential" in text and "Sequential.2" not in text and "100.00%" in text
    assert not interposing.is_active()
