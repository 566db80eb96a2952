"""Containers answer as those of PyTorch: text, indexing, arithmetic, errors."""

import json
from pathlib import Path

import pytest

import flambeau
import flambeau.nn
from tests.nn.container_cases import LINES, SETUP
from tests.nn.said import agree, said

RECORDED = json.loads((Path(__file__).parents[1] / "golden/nn_said.json").read_text())["containers"]


@pytest.mark.parametrize("line", LINES)
def test_a_container_answers_as_recorded(line):
    got, want = said(flambeau, line, SETUP), RECORDED[line]
    assert agree(got, want), (got, want)


@pytest.mark.oracle
def test_containers_answer_as_in_pytorch():
    torch = pytest.importorskip("torch")
    assert {line: said(torch, line, SETUP) for line in LINES} == RECORDED


def test_parameters_of_containers_learn():
    nn = flambeau.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
            self.by_name = nn.ModuleDict({"last": nn.Linear(2, 1)})
            self.weights = nn.ParameterList([flambeau.ones(2), "not a tensor"])
            self.named = nn.ParameterDict({"scale": flambeau.ones(1)})

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return self.by_name["last"](x * self.weights[0]) * self.named["scale"]

    net = Net()
    net(flambeau.randn(4, 2)).sum().backward()
    names = [name for name, _ in net.named_parameters()]
    assert names[-2:] == ["weights.0", "named.scale"] or "weights.0" in names
    assert all(p.grad is not None for p in net.parameters())
    assert len(names) == 10
