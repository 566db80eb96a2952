"""Attention of bfloat16: by pairs and by matrix registers, against sums in float64."""

import numpy as np
import pytest

import flambeau as torch
from flambeau.codegen.templates import squares, tiles
from flambeau.eager import attention
from flambeau.eager.attention import multiplies_pairs
from flambeau.runtime.processor import matrices_allowed

# batch, heads, heads of keys, queries, keys, width, width of values
SIZES = [
    (2, 3, 3, 64, 64, 64, 64),
    (1, 2, 2, 70, 130, 33, 47),
    (2, 4, 2, 100, 37, 16, 8),
    (1, 1, 1, 7, 5, 3, 2),
    (1, 2, 1, 129, 200, 80, 128),
]


@pytest.fixture(params=["pairs", "square"])
def way(request, monkeypatch):
    """How words are multiplied; plain code stands in for matrix registers that are not there."""
    if request.param == "pairs" and not tiles.pairs("bf16"):
        pytest.skip("the processor does not multiply pairs")
    if tiles.lanes("bf16") != squares.SIDE:
        pytest.skip("matrix registers come with vectors of 64 bytes")
    if squares.available() and not matrices_allowed():
        pytest.skip("the processor has matrix registers, but the system does not give them")
    paired = True if request.param == "pairs" else "square"
    attention._forward.plans.clear()
    monkeypatch.setattr(attention, "multiplies_pairs", lambda code: code == "bf16" and paired)
    yield
    attention._forward.plans.clear()


def reference(q, k, v, bias, causal):
    q, k, v = (t.double().numpy() for t in (q, k, v))
    k, v = (np.repeat(t, q.shape[1] // t.shape[1], axis=1) for t in (k, v))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if bias is not None:
        scores = scores + bias
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def operands(rng, size):
    b, h, shared, length, keys, width, value_width = size
    shapes = (b, h, length, width), (b, shared, keys, width), (b, shared, keys, value_width)
    return [torch.tensor(rng.standard_normal(s).astype("float32")).bfloat16() for s in shapes]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_values(size, rng, way):
    q, k, v = operands(rng, size)
    length, keys = size[3:5]
    hidden = rng.random((length, keys)) < 0.4
    hidden[:, 0] = False
    added = torch.tensor(rng.standard_normal((length, keys)).astype("float32")).bfloat16()
    for mask, bias, causal in (
        (None, None, False),
        (None, None, True),
        (torch.tensor(~hidden), np.where(hidden, -np.inf, 0.0), False),
        (added, added.double().numpy(), False),
    ):
        found = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=size[1] != size[2]
        )
        assert found.dtype is torch.bfloat16
        wanted = reference(q, k, v, bias, causal)
        # weights and results are rounded to 8 bits each
        np.testing.assert_allclose(found.double().numpy(), wanted, 2**-6, 2**-6)


def test_any_strides_and_numbers_of_threads(rng, way):
    q, k, v = operands(rng, (2, 4, 4, 150, 150, 24, 24))
    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    before, apart = torch.get_num_threads(), [t.transpose(1, 2).contiguous() for t in (q, k, v)]
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            given = [t.transpose(1, 2) for t in apart]
            found = torch.nn.functional.scaled_dot_product_attention(*given, is_causal=True)
            assert torch.equal(found, wanted)
    finally:
        torch.set_num_threads(before)


def test_queries_that_see_nothing_and_keys_that_are_infinite(rng, way):
    q, k, v = operands(rng, (1, 1, 1, 40, 70, 16, 16))
    mask = torch.ones(40, 70, dtype=torch.bool)
    mask[3] = False
    found = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    assert found[0, 0, 3].abs().max().item() == 0 and torch.isfinite(found).all()
    v = torch.cat([v, torch.full((1, 1, 40, 16), float("inf")).bfloat16()], 2)[:, :, :70]
    again = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    assert torch.equal(found, again)  # what lies behind the last key is not looked at


def test_gradients(rng, way):
    given = operands(rng, (1, 2, 2, 70, 90, 32, 48))
    leaves = [t.clone().requires_grad_() for t in given]
    wide = [t.double().requires_grad_() for t in given]
    for q, k, v in (leaves, wide):
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        out.double().square().sum().backward()
    for ours, exact in zip(leaves, wide):
        scale = exact.grad.abs().max().item()
        assert (ours.grad.double() - exact.grad).abs().max().item() < 0.02 * scale


def test_words_are_used_where_they_are():
    assert bool(multiplies_pairs("bf16")) == tiles.pairs("bf16")
