"""torch.testing: the same verdicts, texts and random tensors as PyTorch's, recorded and live."""

import inspect
import json
from pathlib import Path

import numpy as np
import pytest

import flambeau
from flambeau.testing import assert_close, make_tensor
from tests.testing_cases import ALLCLOSE, CLOSE, MADE, said

RECORDED = json.loads((Path(__file__).parent / "golden" / "testing.json").read_text())


@pytest.mark.parametrize("case", CLOSE + ALLCLOSE + MADE)
def test_says_what_was_recorded(case):
    assert said(flambeau, case) == RECORDED[case]


@pytest.mark.oracle
def test_says_what_torch_says_today():
    torch = pytest.importorskip("torch")
    different = [c for c in CLOSE + ALLCLOSE + MADE if said(torch, c) != RECORDED[c]]
    assert not different


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["assert_close", "assert_allclose", "make_tensor"])
def test_signatures(name):
    torch = pytest.importorskip("torch")
    ours, theirs = (inspect.signature(getattr(x.testing, name)) for x in (flambeau, torch))
    assert [(p.name, p.kind, p.default) for p in ours.parameters.values()] == [
        (p.name, p.kind, p.default) for p in theirs.parameters.values()
    ]


def test_a_boolean_is_no_number():
    # PyTorch breaks down here and asks for a bug report
    with pytest.raises(AssertionError, match="types do not match: <class 'bool'> != <class 'int'>"):
        assert_close(True, 1)


def test_tolerances_cannot_be_negative():
    with pytest.raises(RuntimeError, match="rtol must be greater than or equal to zero"):
        assert_close(flambeau.ones(1), flambeau.ones(1), rtol=-1, atol=0)


def test_subclasses_only_when_allowed():
    parameter, tensor = flambeau.nn.Parameter(flambeau.ones(1)), flambeau.ones(1)
    assert_close(parameter, tensor)
    with pytest.raises(TypeError, match="No comparison pair was able to handle inputs of type"):
        assert_close(parameter, tensor, allow_subclasses=False)


def test_against_an_independent_count():
    generator = np.random.default_rng(0)
    actual, expected = generator.normal(size=(2, 7, 5)).astype(np.float32)
    with pytest.raises(AssertionError) as caught:
        assert_close(flambeau.tensor(actual), flambeau.tensor(expected), rtol=0.5, atol=0.5)
    error = np.abs(actual - expected)
    wrong = error > 0.5 + 0.5 * np.abs(expected)
    where = np.unravel_index(np.where(wrong, error, 0).argmax(), error.shape)
    text = str(caught.value)
    assert f"Mismatched elements: {wrong.sum()} / 35 " in text
    assert f"absolute difference: {error[where]} at index {tuple(map(int, where))} (" in text


def test_made_tensors_keep_to_their_range():
    values = make_tensor(1000, dtype=flambeau.float64, device="cpu", low=2, high=3)
    assert 2 <= values.min() < 2.01 and 2.99 < values.max() < 3
    whole = make_tensor(1000, dtype=flambeau.int8, device="cpu", low=-3, high=3)
    assert set(whole.tolist()) == {-3, -2, -1, 0, 1, 2}


def test_integers_far_out_are_told_apart():
    far = flambeau.tensor([2**62])
    assert not flambeau.isclose(far, far + 1, rtol=0, atol=0)
    assert flambeau.isclose(far, far + 1, rtol=0, atol=1)


@pytest.mark.parametrize(
    "kind, part",
    [("coo", "indices"), ("csr", "crow_indices"), ("csr", "col_indices"), ("csc", "row_indices")],
)
def test_sparse_tensors_are_compared_by_their_parts(kind, part):
    def made(values, other=False):
        t = flambeau.tensor(values)
        t = t if not other else t.flip(0 if part == "crow_indices" else 1)
        return getattr(t, f"to_sparse_{kind}" if kind != "coo" else "to_sparse")()

    whole = [[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]
    flambeau.testing.assert_close(made(whole), made(whole))
    with pytest.raises(AssertionError, match=f"Sparse {kind.upper()} {part} are not equal"):
        flambeau.testing.assert_close(made(whole), made(whole, other=True))
    more = [[1.0, 0.0], [0.0, 3.0], [0.0, 0.0]]
    with pytest.raises(AssertionError, match=f"Sparse {kind.upper()} values are not close"):
        flambeau.testing.assert_close(made(whole), made(more))
    with pytest.raises(AssertionError, match="number of specified values in sparse"):
        flambeau.testing.assert_close(made(whole), made([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]))
    dense = flambeau.tensor(whole)
    flambeau.testing.assert_close(made(whole), dense, check_layout=False)


@pytest.mark.parametrize("name", ["int64", "float32", "float64", "complex128"])
def test_intervals_beyond_a_dtype_are_refused(name):
    for low, high in ((-(2**1030), -(2**1029)), (2**1029, 2**1030)):
        with pytest.raises(ValueError, match=r"but torch.* only supports"):
            make_tensor(1, dtype=getattr(flambeau, name), device="cpu", low=low, high=high)
