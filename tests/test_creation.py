"""Creation functions give PyTorch's values, dtypes and complaints, to the last bit."""

import json
import math
import pathlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flambeau as torch
from tests.creation_cases import SNIPPETS
from tests.snippets import outcome

GOLDEN = pathlib.Path(__file__).parent / "golden/front.json"
RECORDED = json.loads(GOLDEN.read_text())["creation"]


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_outcome_is_the_recorded_one(snippet):
    assert outcome(torch, snippet) == RECORDED[snippet]


@pytest.mark.oracle
def test_outcome_is_that_of_torch():
    oracle = pytest.importorskip("torch")
    for snippet in SNIPPETS:
        assert outcome(torch, snippet) == outcome(oracle, snippet), snippet


bounds = st.floats(-100, 100, width=32)
steps = st.floats(0.0625, 10, width=32)


@given(bounds, st.integers(1, 300), steps, st.sampled_from(["float32", "float64"]))
def test_arange_stays_within_an_ulp_of_the_exact_line(start, count, step, dtype):
    values = torch.arange(start, start + step * (count - 0.5), step, dtype=getattr(torch, dtype))
    exact = np.asarray(start + step * np.arange(len(values)))
    scale = np.abs([start, start + step * count]).max() * np.finfo(dtype).eps
    assert len(values) == count
    assert np.abs(values.numpy() - exact).max() <= 2 * scale


@given(bounds, bounds, st.integers(2, 300))
def test_linspace_starts_and_ends_where_it_was_told(start, end, steps):
    values = torch.linspace(start, end, steps, dtype=torch.float64)
    assert values.shape == (steps,)
    assert values[0].item() == start and values[-1].item() == end
    assert np.allclose(values.numpy(), np.linspace(start, end, steps), rtol=1e-14, atol=1e-12)


@given(st.integers(-50, 50), st.integers(-50, 50), st.integers(1, 60))
def test_integer_ranges_are_pythons(start, end, step):
    if end < start:
        step = -step
    assert torch.arange(start, end, step).tolist() == list(range(start, end, step))


@pytest.mark.oracle
@given(
    bounds,
    bounds,
    st.integers(0, 300),
    st.sampled_from("float16 bfloat16 float32 float64 int32".split()),
)
def test_linspace_equals_torch(start, end, steps, dtype):
    oracle = pytest.importorskip("torch")
    theirs = oracle.linspace(start, end, steps, dtype=getattr(oracle, dtype))
    assert (
        torch.linspace(start, end, steps, dtype=getattr(torch, dtype)).tolist() == theirs.tolist()
    )


@pytest.mark.oracle
@given(
    bounds, st.integers(1, 300), steps, st.sampled_from("float16 bfloat16 float32 float64".split())
)
def test_arange_equals_torch(start, count, step, dtype):
    oracle = pytest.importorskip("torch")
    end = start + step * (count - 0.5)
    theirs = oracle.arange(start, end, step, dtype=getattr(oracle, dtype))
    assert torch.arange(start, end, step, dtype=getattr(torch, dtype)).tolist() == theirs.tolist()


@given(
    st.lists(st.integers(0, 4), max_size=4), st.sampled_from("float32 int64 bool complex64".split())
)
def test_zeros_ones_and_full_have_the_shape_and_dtype_asked_for(shape, dtype):
    d = getattr(torch, dtype)
    for t, value in ((torch.zeros(shape, dtype=d), 0), (torch.ones(shape, dtype=d), 1)):
        assert tuple(t.shape) == tuple(shape) and t.dtype is d
        assert t.flatten().tolist() == [value] * math.prod(shape)
        assert t.stride() == torch.empty(shape).stride()


def test_logspace_is_a_power_of_linspace():
    exponents = torch.linspace(-2, 2, 9, dtype=torch.float64)
    found = torch.logspace(-2, 2, 9, base=3.0, dtype=torch.float64)
    assert np.allclose(found.numpy(), 3.0 ** exponents.numpy(), rtol=1e-14)


def test_empty_shares_no_memory_with_another():
    a, b = torch.empty(100), torch.empty(100)
    assert a.data_ptr() != b.data_ptr()
    assert a.data_ptr() % 64 == 0
