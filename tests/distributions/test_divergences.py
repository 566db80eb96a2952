"""KL divergences of pairs of families: against PyTorch, against its record, and on their own."""

import json
from pathlib import Path

import numpy as np
import pytest

import flambeau
import flambeau.distributions as ours
from tests.distributions.cases import Parameters
from tests.distributions.divergence_cases import MEMBERS, divergences

GOLDEN = Path(__file__).parents[1] / "golden/distributions.json"
RECORD = json.loads(GOLDEN.read_text())["divergences"]


def compare_divergences(pair, expected):
    found = divergences(*pair.split(), flambeau, Parameters)
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected):
        if theirs == "RuntimeError":
            continue  # some batches that broadcast are too much for PyTorch
        if theirs == "NotImplementedError":
            assert mine == theirs
            continue
        np.testing.assert_allclose(mine["value"], theirs["value"], rtol=1e-9, atol=1e-9)
        for a, e in zip(mine.get("gradients", ()), theirs.get("gradients", ()), strict=True):
            np.testing.assert_allclose(a, e, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("pair", RECORD)
def test_divergences_are_those_recorded_from_pytorch(pair):
    compare_divergences(pair, RECORD[pair])


@pytest.mark.oracle
@pytest.mark.parametrize("pair", RECORD)
def test_divergences_are_pytorchs(pair):
    torch = pytest.importorskip("torch")
    compare_divergences(pair, divergences(*pair.split(), torch, Parameters))


@pytest.mark.oracle
def test_the_pairs_with_a_divergence_are_pytorchs():
    torch = pytest.importorskip("torch")
    pairs = [
        {(p.__name__, q.__name__) for p, q in library.distributions.kl._KL_REGISTRY}
        for library in (flambeau, torch)
    ]
    assert pairs[0] == pairs[1]


@pytest.mark.parametrize("name", MEMBERS)
def test_nothing_diverges_from_itself(name):
    for member in MEMBERS[name]:
        p = member(ours, Parameters(flambeau))
        zero = ours.kl_divergence(p, p)
        assert flambeau.allclose(zero, flambeau.zeros_like(zero), atol=1e-9)


def test_divergences_of_ones_own_go_to_subclasses_and_ambiguity_warns():
    class Left(ours.Normal):
        pass

    class Right(ours.Normal):
        pass

    try:
        ours.register_kl(Left, ours.Normal)(lambda p, q: "left")
        assert ours.kl_divergence(Left(0.0, 1.0), ours.Normal(0.0, 1.0)) == "left"
        assert ours.kl_divergence(Left(0.0, 1.0), Right(0.0, 1.0)) == "left"
        ours.register_kl(ours.Normal, Right)(lambda p, q: "right")
        with pytest.warns(RuntimeWarning, match=r"Ambiguous kl_divergence\(Left, Right\)"):
            assert ours.kl_divergence(Left(0.0, 1.0), Right(0.0, 1.0)) == "left"
        assert float(ours.kl_divergence(Right(0.0, 1.0), ours.Normal(0.0, 1.0))) == 0
    finally:
        ours.kl._KL_REGISTRY.pop((Left, ours.Normal), None)
        ours.kl._KL_REGISTRY.pop((ours.Normal, Right), None)
        ours.kl._KL_MEMOIZE.clear()
