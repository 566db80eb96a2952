"""flex_attention, masks by blocks and causal biases, against scores written out."""

import pytest

import flambeau as torch
from flambeau.nn.attention import SDPBackend, bias, sdpa_kernel
from flambeau.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
    noop_mask,
    or_masks,
)

LENGTH = 40
DOCUMENTS = torch.arange(LENGTH) // 15
SLOPES = torch.linspace(0.1, 0.9, 4)


def causal(b, h, q, k):
    return q >= k


SCORES = {
    "none": None,
    "alibi": lambda s, b, h, q, k: s + SLOPES[h] * (k - q),
    "soft cap": lambda s, b, h, q, k: 2 * torch.tanh(s / 2),
    "by batch": lambda s, b, h, q, k: s * (b + 1),
    "window": lambda s, b, h, q, k: torch.where((q - k).abs() < 9, s, -float("inf")),
}
MASKS = {
    "none": None,
    "causal": causal,
    "documents": lambda b, h, q, k: DOCUMENTS[q] == DOCUMENTS[k],
    "window": and_masks(causal, lambda b, h, q, k: q - k < 7),
    "prefix": or_masks(causal, lambda b, h, q, k: k < 3),
    "some heads see nothing": lambda b, h, q, k: (h % 2 == 0) & (q > k),
    "all": noop_mask,
}


def written_out(q, k, v, score, mask):
    """The same, one score after the other in plain loops over heads and batches."""
    scores = (q @ k.transpose(-2, -1)) / q.shape[-1] ** 0.5
    rows, columns = torch.arange(LENGTH).view(-1, 1), torch.arange(LENGTH)
    out = []
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            s, place = scores[b, h], (torch.tensor(b), torch.tensor(h), rows, columns)
            s = s if score is None else score(s, *place)
            if mask is not None:
                s = s.masked_fill(~mask(*place).expand(s.shape), -float("inf"))
            shares = s.softmax(-1).nan_to_num(0.0)
            out.append(shares @ v[b, h])
    return torch.stack(out).view(*q.shape[:-1], v.shape[-1])


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("score", SCORES)
def test_attention_and_gradients(score, mask):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, LENGTH, 8, requires_grad=True) for _ in range(3))
    score, mask = SCORES[score], MASKS[mask]
    blocks = None
    if mask is not None:
        blocks = create_block_mask(mask, None, 4, LENGTH, LENGTH, BLOCK_SIZE=16)
    out = flex_attention(q, k, v, score, blocks)
    with torch.no_grad():
        assert torch.allclose(out, written_out(q, k, v, score, mask), atol=2e-6)
        alone, aux = flex_attention(q, k, v, score, blocks, return_aux=AuxRequest(lse=True))
    assert torch.allclose(alone, out, atol=2e-6) and aux.lse.shape == q.shape[:-1]
    (out * out).sum().backward()
    found = [t.grad for t in (q, k, v)]
    q, k, v = (t.detach().double().requires_grad_() for t in (q, k, v))
    scores = (q @ k.transpose(-2, -1)) / 8**0.5
    places = [n.view([-1 if j == i else 1 for j in range(4)])
              for i, n in enumerate(map(torch.arange, scores.shape))]  # fmt: skip
    scores = scores if score is None else score(scores, *places)
    allowed = torch.ones((), dtype=torch.bool) if mask is None else mask(*places)
    shares = scores.masked_fill(~allowed.expand(scores.shape), -1e30).softmax(-1) * allowed
    ((shares @ v) ** 2).sum().backward()
    for ours, t in zip(found, (q, k, v)):
        assert torch.allclose(ours.double(), t.grad, atol=1e-4)


def test_text_and_blocks_of_a_mask():
    blocks = create_block_mask(causal, 1, 1, 256, 256)
    assert str(blocks) == (
        "BlockMask(shape=(1, 1, 256, 256), sparsity=25.00%, \n(0, 0)\n██  \n████\n)"
    )
    assert blocks.kv_num_blocks.tolist() == [[[1, 1]]]
    assert blocks.kv_indices.tolist() == [[[[0, 1], [1, 0]]]]
    assert blocks.full_kv_num_blocks.tolist() == [[[0, 1]]]
    assert blocks.q_indices.tolist() == [[[[0, 1], [1, 0]]]]
    assert blocks.to_dense().tolist() == [[[[1, 0], [1, 1]]]]
    assert create_block_mask(causal, 1, 1, 200, 300).sparsity() == pytest.approx(18.08)
    assert blocks._adjust(100, 200).shape == (1, 1, 100, 200)
    large = create_block_mask(causal, 2, 3, 512, 512)
    assert large[1, 2].shape == (1, 1, 512, 512) and large[0].shape == (1, 3, 512, 512)


def test_blocks_that_leave_something_out_count():
    q = torch.rand(1, 1, 32, 4)
    counts, indices = torch.ones(1, 1, 2, dtype=torch.int32), torch.zeros(1, 1, 2, 2).int()
    blocks = BlockMask.from_kv_blocks(counts, indices + torch.arange(2).int(), BLOCK_SIZE=16)
    seen = flex_attention(q, q, q, block_mask=blocks)
    assert torch.allclose(seen, flex_attention(q, q[:, :, :16], q[:, :, :16]))


def test_heads_share_keys():
    q, k = torch.rand(1, 4, 5, 8), torch.rand(1, 2, 5, 8)
    out = flex_attention(q, k, k, enable_gqa=True)
    assert torch.allclose(out[:, 1], flex_attention(q[:, 1:2], k[:, :1], k[:, :1])[:, 0])


@pytest.mark.parametrize(
    "change, error, words",
    [
        (lambda q: (q[0], q, q), NotImplementedError, "must be 4D tensors"),
        (lambda q: (q, q[:, :1], q[:, :1]), ValueError, "Hq=2 and Hkv=1. Try setting enable_gqa"),
        (lambda q: (q, q[..., :2], q), ValueError, "same embedding dimension but got E=4 and E=2"),
    ],
)
def test_complaints(change, error, words):
    with pytest.raises(error, match=words):
        flex_attention(*change(torch.rand(1, 2, 3, 4)))


def test_a_mask_of_another_length_is_refused():
    q = torch.rand(1, 1, 16, 4)
    for length, words in ((8, "smaller length"), (32, "larger length")):
        with pytest.raises(ValueError, match=words):
            flex_attention(q, q, q, block_mask=create_block_mask(causal, 1, 1, length, length))
    with pytest.raises(AssertionError, match="Expected 4 or 5 positional args, got 2"):
        create_mask(lambda q, k: q >= k, 1, 1, 4, 4)


def test_causal_biases():
    q, k = torch.rand(1, 2, 3, 4), torch.rand(1, 2, 5, 4)
    attention = torch.nn.functional.scaled_dot_product_attention
    for made, offset in ((bias.causal_lower_right, 2), (bias.causal_upper_left, 0)):
        mask = torch.ones(3, 5, dtype=torch.bool).tril(offset)
        assert torch.allclose(attention(q, k, k, made(3, 5)), attention(q, k, k, mask))
        assert repr(made(3, 5)) == repr(mask)
    with pytest.raises(ValueError, match="CausalBias should not be used with causal=True"):
        attention(q, k, k, bias.causal_lower_right(3, 5), is_causal=True)


def test_compiled():
    q = torch.rand(1, 2, 20, 8)
    blocks = create_block_mask(causal, None, None, 20, 20)
    run = torch.compile(lambda q: flex_attention(q, q, q, SCORES["soft cap"], blocks))
    with sdpa_kernel(SDPBackend.MATH):
        assert torch.allclose(run(q), flex_attention(q, q, q, SCORES["soft cap"], blocks))


def test_parts_of_masks_have_no_function():
    mask = create_block_mask(causal, 2, 2, 256, 256)
    assert mask[0, 0, 0, 0].kv_indices.tolist() == [[[[0, 1]]]]
    assert repr(mask[0]).endswith("mask_mod=_sliced_mask_mod_error\n)")
    with pytest.raises(RuntimeError, match="Cannot use mask_mod from a sliced BlockMask"):
        mask[0].mask_mod(0, 0, 0, 0)


def test_masks_that_cannot_be():
    with pytest.raises(AssertionError, match="create-block_mask requires a mask_mod function!"):
        create_block_mask(lambda s, b, h, q, k: s, 1, 1, 128, 128)
    count, numbers = torch.ones(1, 1, 1).int(), torch.zeros(1, 1, 1, 1).int()
    with pytest.raises(AssertionError, match="must be both provided or omitted"):
        BlockMask.from_kv_blocks(count, numbers, count)


def test_keys_of_one_batch_need_a_mask_for_all():
    q, k = torch.ones(2, 1, 4, 4), torch.ones(1, 1, 4, 4)
    with pytest.raises(ValueError, match="got block_mask=None, Bq=2, and Bkv=1"):
        flex_attention(q, k, k)
    mask = create_block_mask(causal, 1, None, 4, 4)
    with pytest.raises(ValueError, match="Bq=2, Bkv=1, B_block_mask=1"):
        flex_attention(q, k, k, block_mask=mask)
    assert (
        flex_attention(q, k, k, block_mask=create_block_mask(causal, 2, None, 4, 4)).shape[0] == 2
    )
