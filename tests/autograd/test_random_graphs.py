"""Random programs of about twenty ops give PyTorch's values, gradients and second gradients."""

import json
import warnings

import pytest

import flambeau
from tests.autograd.behaviour import GOLDEN, agree, plain
from tests.autograd.random_graphs import program, run

RECORDED = 25  # programs whose outcome is in the golden file


def outcome(torch, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return plain(run(torch, seed))


@pytest.mark.parametrize("seed", range(RECORDED))
def test_as_recorded(seed):
    theirs = json.loads(GOLDEN.read_text())["random_graphs"][str(seed)]
    ours = outcome(flambeau, seed)
    text = "\n".join(program(seed)[1])
    assert agree(ours, theirs, 1e-8), f"\n{text}\nfound    {ours}\nrecorded {theirs}"


@pytest.mark.oracle
@pytest.mark.parametrize("start", range(RECORDED, RECORDED + 300, 50))
def test_as_pytorch(start):
    torch = pytest.importorskip("torch")
    for seed in range(start, start + 50):
        ours, theirs = outcome(flambeau, seed), outcome(torch, seed)
        text = "\n".join(program(seed)[1])
        assert agree(ours, theirs, 1e-8), f"\n{seed}\n{text}\nfound   {ours}\nPyTorch {theirs}"
