"""Views and writes through them, against PyTorch and against NumPy (joins and pads: "
"test_joining.py)."""

import gc
import json
import pathlib
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flambeau as torch
from flambeau._layout import contiguous_strides, maybe_overlaps, view_strides
from tests.ops import view_cases
from tests.ops.view_cases import arrays, functional, tensor_of

GOLDEN = json.loads((pathlib.Path(__file__).parents[1] / "golden" / "views.json").read_text())
CASES = view_cases.cases()


@pytest.mark.parametrize("kind, source", CASES, ids=[s.replace("\n", " ") for _, s in CASES])
def test_case_does_what_pytorch_does(kind, source):
    found = json.loads(json.dumps(view_cases.outcome(torch, functional, kind, source)))
    assert view_cases.same(GOLDEN[source], found), f"\n{GOLDEN[source]}\n{found}"


@pytest.mark.oracle
def test_recorded_outcomes_are_those_of_pytorch():
    oracle = pytest.importorskip("torch")
    for kind, source in CASES:
        found = view_cases.outcome(oracle, oracle.nn.functional, kind, source)
        assert view_cases.same(GOLDEN[source], json.loads(json.dumps(found))), source


# -- layouts against NumPy ------------------------------------------------------------------------


def same_view(t, a):
    """Do tensor and array show the same elements by the same strides?"""
    strides = tuple(s // a.itemsize for s in a.strides)
    odd = [k for k in range(a.ndim) if a.shape[k] > 1 and t.stride(k) != strides[k]]
    return tuple(t.shape) == a.shape and not (odd and a.size) and np.array_equal(t.numpy(), a)


@given(arrays(), st.data())
def test_views_have_numpys_strides(a, data):
    t = tensor_of(a)
    assert same_view(t, a)
    if a.ndim:
        i, j = (data.draw(st.integers(-a.ndim, a.ndim - 1)) for _ in range(2))
        assert same_view(t.transpose(i, j), np.swapaxes(a, i, j))
        assert same_view(t.movedim(i, j), np.moveaxis(a, i, j))
        order = data.draw(st.permutations(range(a.ndim)))
        assert same_view(t.permute(order), a.transpose(order))
        assert same_view(t.unsqueeze(i), np.expand_dims(a, i if i >= 0 else i + a.ndim + 1))
        assert all(
            np.array_equal(p, q) for p, q in zip(t.tensor_split(3, i), np.array_split(a, 3, i))
        )
    if a.ndim > 1:
        k = data.draw(st.integers(-3, 3))
        assert np.array_equal(t.diagonal(k), np.diagonal(a, k))
    assert same_view(t.squeeze(), np.squeeze(a))
    assert np.array_equal(t.reshape(-1), a.reshape(-1))


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_a_shape_is_a_view_where_numpy_finds_one(shape, data):
    order = data.draw(st.permutations(range(len(shape))))
    a = np.zeros(shape, np.int8).transpose(order)
    new = data.draw(
        st.sampled_from([(-1,), (1, -1), (a.shape[0], -1), (-1, a.shape[-1]), (*a.shape, 1)])
    )
    target = a.reshape(new).shape
    strides = view_strides(a.shape, a.strides, target)
    b = a.reshape(target)
    if not np.shares_memory(a, b):
        assert strides is None
    else:
        assert strides is not None and all(
            n == 1 or s == u for n, s, u in zip(target, strides, b.strides)
        )


def test_overlap_is_never_missed():
    for shape, strides in [
        ((2, 2), (1, 1)),
        ((3,), (0,)),
        ((2, 3), (2, 1)),
        ((2, 3, 2), (3, 1, 2)),
    ]:
        assert maybe_overlaps(shape, strides)
    assert not maybe_overlaps((2, 3), contiguous_strides((2, 3)))
    assert (
        not maybe_overlaps((3, 2), (1, 3))
        and not maybe_overlaps((0, 5), (0, 0))
        and not maybe_overlaps((1,), (0,))
    )


# -- memory ---------------------------------------------------------------------------------------


def test_views_share_memory_and_copies_do_not():
    x = torch.zeros(2, 3)
    x.t()[0].fill_(1)
    x.view(3, 2).select(1, 1).add_(2)
    assert x.tolist() == [[1, 2, 0], [3, 0, 2]]
    y = x.t().reshape(6)
    y.zero_()
    assert x.sum().item() == 8


def test_plans_do_not_keep_tensors_alive():
    gc.collect()
    gc.disable()
    try:
        x = torch.ones(2, 3, requires_grad=True)
        y = (x * 2).t().unsqueeze(0)[0].split(1)[0].reshape(-1)
        alive = weakref.ref(x)
        y.sum().backward()
        del x, y
        assert alive() is None
    finally:
        gc.enable()


def test_a_long_chain_of_writes_through_views_goes_back():
    x = torch.ones(4, requires_grad=True)
    y = x * 1
    for k in range(300):
        y[k % 4].mul_(1.01)
    y.sum().backward()
    assert np.allclose(x.grad, [1.01**75] * 4)


# -- copies into short rows ------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["uint8", "float32", "complex128"])
@pytest.mark.parametrize("short", [2, 3, 15, 16])
@pytest.mark.parametrize("long", [32, 1024, 4099, 8192])
def test_turning_planes_into_short_rows(dtype, short, long):
    a = (np.arange(2 * short * long) % 251).reshape(2, short, long).astype(dtype)
    t = torch.from_numpy(a)
    turned = a.transpose(0, 2, 1)
    assert np.array_equal(t.transpose(1, 2).contiguous().numpy(), turned)
    target = torch.zeros(2, long, short, dtype=t.dtype)
    target[:, 1:] = t.transpose(1, 2)[:, :-1]
    assert np.array_equal(target[:, 1:].numpy(), turned[:, :-1])
    both = target.mul_(0).add_(t.transpose(1, 2)) + t.transpose(1, 2)
    assert np.array_equal(both.numpy(), turned + turned)
