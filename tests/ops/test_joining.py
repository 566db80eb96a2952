"""Joins, pads and other copies into a new order, against NumPy (against PyTorch: see "
"test_views.py)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flambeau as torch
from tests.ops.view_cases import arrays, functional, tensor_of


@given(arrays(), st.data())
def test_elements_land_where_numpy_puts_them(a, data):
    t = tensor_of(a)
    if a.ndim:
        i, j = (data.draw(st.integers(-a.ndim, a.ndim - 1)) for _ in range(2))
        both = {i % a.ndim, j % a.ndim}
        assert np.array_equal(t.flip(tuple(both)), np.flip(a, tuple(both)))
        shift = data.draw(st.integers(-5, 5))
        assert np.array_equal(t.roll(shift, i), np.roll(a, shift, i))
        assert np.array_equal(t.roll(shift), np.roll(a, shift))
        assert np.array_equal(t.repeat([2] * a.ndim), np.tile(a, [2] * a.ndim))
        assert np.array_equal(torch.cat([t, t], i), np.concatenate([a, a], i))
        assert np.array_equal(torch.stack([t, t], i), np.stack([a, a], i))
    if a.ndim > 1:
        k = data.draw(st.integers(-3, 3))
        assert np.array_equal(t.tril(k), np.tril(a, k)) and np.array_equal(t.triu(k), np.triu(a, k))
        assert np.array_equal(t.rot90(k), np.rot90(a, k))


@given(arrays(), st.data())
def test_pads_are_numpys(a, data):
    if a.ndim < 2 or not a.size:
        return
    t = tensor_of(a)
    low, high = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))
    widths = [(0, 0)] * (a.ndim - 1) + [(low, high)]
    flat = torch.tensor(a.tolist()).reshape(-1, a.shape[-1])
    assert np.array_equal(
        functional.pad(t, (low, high), value=7.0), np.pad(a, widths, constant_values=7)
    )
    for mode, name in (("replicate", "edge"), ("reflect", "reflect"), ("circular", "wrap")):
        if (mode == "reflect" and max(low, high) >= a.shape[-1]) or (
            mode == "circular" and max(low, high) > a.shape[-1]
        ):
            continue
        expected = np.pad(a.reshape(-1, a.shape[-1]), ((0, 0), (low, high)), mode=name)
        assert np.array_equal(functional.pad(flat, (low, high), mode), expected), mode


@pytest.mark.parametrize(
    "name", ["float16", "bfloat16", "bool", "uint8", "int64", "complex64", "float64"]
)
def test_joins_move_every_dtype(name):
    dtype = getattr(torch, name)
    x = torch.tensor([[1, 0], [1, 1]]).to(dtype)
    for y, values in [
        (torch.cat([x, x], 1), [[1, 0, 1, 0], [1, 1, 1, 1]]),
        (x.flip(0), [[1, 1], [1, 0]]),
        (x.tril(), [[1, 0], [1, 1]]),
        (x.triu(1), [[0, 0], [0, 0]]),
        (x.roll(1, 1), [[0, 1], [1, 1]]),
        (x.repeat(1, 2), [[1, 0, 1, 0], [1, 1, 1, 1]]),
        (torch.stack([x[0], x[1]]), [[1, 0], [1, 1]]),
        (x[0].diag(), [[1, 0], [0, 0]]),
        (functional.pad(x, (1, 0)), [[0, 1, 0], [0, 1, 1]]),
    ]:
        assert y.dtype is dtype and y.to(torch.complex64).tolist() == values


def test_nan_payloads_survive_a_cat():
    bits = torch.tensor([0x7E01, 0x7D55, -1], dtype=torch.int16)
    assert torch.cat([bits.view(torch.float16)] * 2).view(torch.int16).tolist() == bits.tolist() * 2


def test_large_joins_run_in_parallel_chunks():
    x = torch.arange(300_000).view(3, -1)
    expected = np.concatenate([x.numpy(), x.numpy() + 1], 1)
    assert np.array_equal(torch.cat([x, x + 1], 1), expected)
    assert np.array_equal(x.flip(1), x.numpy()[:, ::-1]) and np.array_equal(
        x.t().tril(), np.tril(x.numpy().T)
    )
    assert np.array_equal(torch.triu_indices(400, 300), np.stack(np.triu_indices(400, 0, 300)))


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64", "complex64", "bool"])
@pytest.mark.parametrize("size", [1, 7, 16, 33, 64, 130])
def test_rows_are_read_backwards(dtype, size, rng):
    """Whole registers and what is left, in rows that start anywhere in memory."""
    wide = (rng.standard_normal((3, size + 5)) * 50).astype(dtype)
    for start in (0, 2, 5):
        part = wide[:, start : start + size]
        found = torch.from_numpy(wide)[:, start : start + size].flip(1)
        assert np.array_equal(found.numpy(), part[:, ::-1])
        both = torch.from_numpy(np.ascontiguousarray(part)).flip(0, 1)
        assert np.array_equal(both.numpy(), part[::-1, ::-1])
