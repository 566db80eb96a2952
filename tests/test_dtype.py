"""dtypes promote, print and describe themselves as PyTorch's do."""

import itertools
import json
import pathlib
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flambeau as torch
from tests.dtype_cases import LIMITS, MIXED, NAMED, NAMES, PAIRS, SNIPPETS
from tests.snippets import outcome

GOLDEN = pathlib.Path(__file__).parent / "golden/front.json"
RECORDED = json.loads(GOLDEN.read_text())["dtype"]
DTYPES = [getattr(torch, name) for name in NAMES]
NARROW = [d for d in DTYPES if d not in (torch.uint16, torch.uint32, torch.uint64)]


@pytest.mark.parametrize("snippets", [PAIRS, MIXED], ids=["dtypes", "tensors and numbers"])
def test_promotion_is_the_recorded_one(snippets):
    wrong = [s for s in snippets if outcome(torch, s) != RECORDED[s]]
    assert not wrong, "\n".join(f"{s}: {outcome(torch, s)}, not {RECORDED[s]}" for s in wrong)


@pytest.mark.parametrize("snippet", [*LIMITS, *NAMED])
def test_outcome_is_the_recorded_one(snippet):
    assert outcome(torch, snippet) == RECORDED[snippet]


@pytest.mark.oracle
def test_outcome_is_that_of_torch():
    oracle = pytest.importorskip("torch")
    # PyTorch warns of this once per process, so only the first who asks hears it
    once = [s for s in SNIPPETS if "set_default_tensor_type" not in s]
    for snippet in once:
        assert outcome(torch, snippet) == outcome(oracle, snippet), snippet


@given(st.sampled_from(NARROW), st.sampled_from(NARROW), st.sampled_from(NARROW))
def test_promotion_is_a_join(a, b, c):
    join = torch.promote_types
    assert join(a, b) is join(b, a)
    assert join(a, a) is a
    assert join(join(a, b), b) is join(a, b)
    # float16 and bfloat16 meet in float32, which their meeting with a third dtype cannot undo
    assert torch.can_cast(join(a, b), join(join(a, b), c))


@given(st.sampled_from(NARROW), st.sampled_from(NARROW))
def test_both_can_be_cast_to_what_they_promote_to(a, b):
    assert torch.can_cast(a, torch.promote_types(a, b))
    assert torch.can_cast(b, torch.promote_types(a, b))


@given(
    st.sampled_from([d for d in NARROW if d is not torch.float16]),
    st.sampled_from([True, 3, 2.5, 1j]),
    st.booleans(),
)
def test_a_number_never_widens_a_tensor_of_its_category(dtype, number, has_dims):
    t = torch.zeros(2 if has_dims else (), dtype=dtype)
    found = torch.result_type(t, number)
    category = {bool: 0, int: 1, float: 2, complex: 3}[type(number)]
    if dtype.category >= category:
        assert found is dtype
    else:
        assert found.category == category


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_limits_of_floats_are_numpys(name):
    ours, theirs = torch.finfo(getattr(torch, name)), np.finfo(name)
    assert (ours.bits, ours.max, ours.min) == (theirs.bits, float(theirs.max), float(theirs.min))
    assert (ours.eps, ours.tiny) == (float(theirs.eps), float(theirs.tiny))


@pytest.mark.parametrize("name", [n for n in NAMES if "int" in n])
def test_limits_of_integers_are_numpys(name):
    ours, theirs = torch.iinfo(getattr(torch, name)), np.iinfo(name)
    assert (ours.bits, ours.max, ours.min) == (theirs.bits, int(theirs.max), int(theirs.min))


@pytest.mark.parametrize("dtype, protocol", [*itertools.product(DTYPES, (2, 5))])
def test_a_pickled_dtype_is_the_very_object(dtype, protocol):
    assert pickle.loads(pickle.dumps(dtype, protocol)) is dtype


def test_results_of_operations_have_the_promoted_dtype():
    for a, b in itertools.product(
        (torch.uint8, torch.int32, torch.float16, torch.float64), repeat=2
    ):
        out = torch.ones(2, dtype=a) + torch.ones(2, dtype=b)
        assert out.dtype is torch.promote_types(a, b)
