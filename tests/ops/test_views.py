"""Views, splits, joins, pads and writes through views, against PyTorch and against NumPy."""

import gc
import json
import pathlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flambeau as torch
from flambeau._layout import contiguous_strides, maybe_overlaps, view_strides
from flambeau.ops.table import public
from tests.ops import view_cases

GOLDEN = json.loads((pathlib.Path(__file__).parents[1] / "golden" / "views.json").read_text())
CASES = view_cases.cases()


class functional:  # what nn.functional offers of this family
    pad = staticmethod(lambda *args, **kwargs: public("pad")(*args, **kwargs))


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


# -- layouts against NumPy ------------------------------------------------------------------------------


@st.composite
def arrays(draw):
    """An array with odd strides: permuted, sliced, expanded."""
    shape = draw(st.lists(st.integers(1, 4), max_size=4))
    a = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    if a.ndim:
        a = a.transpose(draw(st.permutations(range(a.ndim))))
        cut = [draw(st.sampled_from([slice(None), slice(None, None, 2), slice(1, None)])) for _ in a.shape]
        a = a[tuple(cut)]
        if draw(st.booleans()):
            a = np.broadcast_to(a[..., None, :], (*a.shape[:-1], 2, a.shape[-1]))
    return a


def same_view(t, a):
    """Do tensor and array show the same elements by the same strides?"""
    strides = tuple(s // a.itemsize for s in a.strides)
    odd = [k for k in range(a.ndim) if a.shape[k] > 1 and t.stride(k) != strides[k]]
    return tuple(t.shape) == a.shape and not (odd and a.size) and np.array_equal(t.numpy(), a)


def tensor_of(a):
    base = a
    while base.base is not None:
        base = base.base
    flat = torch.tensor(base.reshape(-1).tolist())
    offset = (a.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // a.itemsize
    return flat.as_strided(a.shape, tuple(s // a.itemsize for s in a.strides), offset if a.size else 0)


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
        assert same_view(t.flip(i), np.ascontiguousarray(np.flip(a, i))) or not t.flip(i).is_contiguous()
        assert np.array_equal(t.flip(i, j) if i % a.ndim != j % a.ndim else t.flip(i), np.flip(a, {i % a.ndim, j % a.ndim}))
        shift = data.draw(st.integers(-5, 5))
        assert np.array_equal(t.roll(shift, i), np.roll(a, shift, i))
        assert np.array_equal(t.repeat([2] * a.ndim), np.tile(a, [2] * a.ndim))
        assert np.array_equal(torch.cat([t, t], i), np.concatenate([a, a], i))
        assert np.array_equal(torch.stack([t, t], i), np.stack([a, a], i))
        assert all(np.array_equal(p, q) for p, q in zip(t.tensor_split(3, i), np.array_split(a, 3, i)))
    if a.ndim > 1:
        k = data.draw(st.integers(-3, 3))
        assert np.array_equal(t.diagonal(k), np.diagonal(a, k))
        assert np.array_equal(t.tril(k), np.tril(a, k)) and np.array_equal(t.triu(k), np.triu(a, k))
        assert np.array_equal(t.rot90(k), np.rot90(a, k))
    assert same_view(t.squeeze(), np.squeeze(a))
    assert np.array_equal(t.reshape(-1), a.reshape(-1))


@given(arrays(), st.data())
def test_pads_are_numpys(a, data):
    if a.ndim < 2 or not a.size:
        return
    t = tensor_of(a)
    low, high = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))
    widths = [(0, 0)] * (a.ndim - 1) + [(low, high)]
    flat = torch.tensor(a.tolist()).reshape(-1, a.shape[-1])
    assert np.array_equal(functional.pad(t, (low, high), value=7.0), np.pad(a, widths, constant_values=7))
    for mode, name in (("replicate", "edge"), ("reflect", "reflect"), ("circular", "wrap")):
        if mode == "reflect" and max(low, high) >= a.shape[-1] or mode == "circular" and max(low, high) > a.shape[-1]:
            continue
        expected = np.pad(a.reshape(-1, a.shape[-1]), ((0, 0), (low, high)), mode=name)
        assert np.array_equal(functional.pad(flat, (low, high), mode), expected), mode


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_a_shape_is_a_view_where_numpy_finds_one(shape, data):
    order = data.draw(st.permutations(range(len(shape))))
    a = np.zeros(shape, np.int8).transpose(order)
    new = data.draw(st.sampled_from([(-1,), (1, -1), (a.shape[0], -1), (-1, a.shape[-1]), tuple(a.shape) + (1,)]))
    target = a.reshape(new).shape
    strides = view_strides(a.shape, a.strides, target)
    b = a.view()
    try:
        b.shape = target
    except AttributeError:
        assert strides is None
    else:
        assert strides is not None and all(n == 1 or s == u for n, s, u in zip(target, strides, b.strides))


def test_overlap_is_never_missed():
    for shape, strides in [((2, 2), (1, 1)), ((3,), (0,)), ((2, 3), (2, 1)), ((2, 3, 2), (3, 1, 2))]:
        assert maybe_overlaps(shape, strides)
    assert not maybe_overlaps((2, 3), contiguous_strides((2, 3)))
    assert not maybe_overlaps((3, 2), (1, 3)) and not maybe_overlaps((0, 5), (0, 0)) and not maybe_overlaps((1,), (0,))


# -- memory ---------------------------------------------------------------------------------------------


def test_views_share_memory_and_copies_do_not():
    x = torch.zeros(2, 3)
    x.t()[0].fill_(1)
    x.view(3, 2).select(1, 1).add_(2)
    assert x.tolist() == [[1, 2, 0], [3, 0, 2]]
    y = x.t().reshape(6)
    y.zero_()
    assert x.sum().item() == 8


def test_plans_do_not_keep_tensors_alive():
    import weakref

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


@pytest.mark.parametrize("name", ["float16", "bfloat16", "bool", "uint8", "int64", "complex64", "float64"])
def test_joins_move_every_dtype(name):
    dtype = getattr(torch, name)
    x = torch.tensor([[1, 0], [1, 1]]).to(dtype)
    for y, values in [
        (torch.cat([x, x], 1), [[1, 0, 1, 0], [1, 1, 1, 1]]), (x.flip(0), [[1, 1], [1, 0]]), (x.tril(), [[1, 0], [1, 1]]),
        (x.triu(1), [[0, 0], [0, 0]]), (x.roll(1, 1), [[0, 1], [1, 1]]), (x.repeat(1, 2), [[1, 0, 1, 0], [1, 1, 1, 1]]),
        (torch.stack([x[0], x[1]]), [[1, 0], [1, 1]]), (x[0].diag(), [[1, 0], [0, 0]]),
        (functional.pad(x, (1, 0)), [[0, 1, 0], [0, 1, 1]]),
    ]:  # fmt: skip
        assert y.dtype is dtype and y.to(torch.complex64).tolist() == values


def test_nan_payloads_survive_a_cat():
    bits = torch.tensor([0x7E01, 0x7D55, -1], dtype=torch.int16)
    assert torch.cat([bits.view(torch.float16)] * 2).view(torch.int16).tolist() == bits.tolist() * 2


def test_large_joins_run_in_parallel_chunks():
    x = torch.arange(300_000).view(3, -1)
    expected = np.concatenate([x.numpy(), x.numpy() + 1], 1)
    assert np.array_equal(torch.cat([x, x + 1], 1), expected)
    assert np.array_equal(x.flip(1), x.numpy()[:, ::-1]) and np.array_equal(x.t().tril(), np.tril(x.numpy().T))
    assert np.array_equal(torch.triu_indices(400, 300), np.stack(np.triu_indices(400, 0, 300)))
