"""Calls one by one: the op and the arguments that PyTorch records for each."""

import json
import re
from pathlib import Path

import pytest

import flambeau as torch
from flambeau.export import export

CALLS = json.loads((Path(__file__).parent.parent / "golden" / "export_ops.json").read_text())
pytestmark = pytest.mark.filterwarnings("ignore")


def program(library, call):
    """A module that makes a call, and tensors that calls are made with."""
    space = {"torch": library, "F": library.nn.functional, "nn": library.nn}
    text = f"class Call(nn.Module):\n  def forward(self, x, x4, w4, j, i, k):\n    return {call}"
    exec(text, space)
    library.manual_seed(0)
    randn, tensor = library.randn, library.tensor
    given = (
        randn(3, 3) * 0.3, randn(1, 2, 4, 4), randn(2, 2, 2, 2), tensor([0, 2]),
        tensor([[0, 1, 2], [2, 1, 0], [1, 1, 1]]), tensor([0, 2, 1]),
    )  # fmt: skip
    return space["Call"](), given


def lines(code):
    return [re.sub(r";  .*", "", line.strip()) for line in code.splitlines()[4:] if line.strip()]


@pytest.mark.parametrize("call", list(CALLS))
def test_calls_are_recorded_as_in_pytorch(call):
    module, given = program(torch, call)
    found = export(module, given)
    assert lines(found.graph_module.code) == CALLS[call]
    results = []
    for model in (module, found.module()):
        torch.manual_seed(1)
        results.append(model(*(tensor.clone() for tensor in given)))
    torch.testing.assert_close(results[1], results[0], equal_nan=True, rtol=1e-5, atol=1e-5)


@pytest.mark.oracle
@pytest.mark.parametrize("call", list(CALLS)[::25])
def test_goldens_are_true(call):
    real = pytest.importorskip("torch")
    assert lines(real.export.export(*program(real, call)).graph_module.code) == CALLS[call]
