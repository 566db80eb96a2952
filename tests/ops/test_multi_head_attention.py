"""Attention with projections: against sums in NumPy, between its two paths, against PyTorch."""

import math

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.autograd import gradcheck
from tests.ops.expressions import compare


def arguments(rng, length=5, source=6, batch=3, embedding=8, heads=2, **more):
    def draw(*shape):
        return torch.from_numpy(rng.standard_normal(shape))

    found = dict(
        query=draw(length, batch, embedding),
        key=draw(source, batch, embedding),
        value=draw(source, batch, embedding),
        embed_dim_to_check=embedding,
        num_heads=heads,
        in_proj_weight=draw(3 * embedding, embedding),
        in_proj_bias=draw(3 * embedding),
        bias_k=None,
        bias_v=None,
        add_zero_attn=False,
        dropout_p=0.0,
        out_proj_weight=draw(embedding, embedding),
        out_proj_bias=draw(embedding),
    )
    return found | more


def reference(given, hidden):
    """Result and weights, head by head; hidden: which keys a query may not see."""
    a = {n: t.detach().numpy() for n, t in given.items() if hasattr(t, "numpy")}
    heads, width = given["num_heads"], given["embed_dim_to_check"] // given["num_heads"]
    weights = np.split(a["in_proj_weight"], 3)
    biases = np.split(a["in_proj_bias"], 3)
    names = ("query", "key", "value")
    q, k, v = (a[n] @ w.T + b for n, w, b in zip(names, weights, biases))
    out, shares = np.zeros_like(q), []
    for h in range(heads):
        part = slice(h * width, (h + 1) * width)
        scores = np.einsum("lbe,sbe->bls", q[..., part], k[..., part]) / math.sqrt(width)
        scores = np.where(hidden, -np.inf, scores)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        shares.append(powers / powers.sum(-1, keepdims=True))
        out[..., part] = np.einsum("bls,sbe->lbe", shares[-1], v[..., part])
    return out @ a["out_proj_weight"].T + a["out_proj_bias"], np.stack(shares, 1)


def test_results_and_weights(rng):
    given = arguments(rng)
    later, padded = rng.random((5, 6)) < 0.3, rng.random((3, 6)) < 0.3
    later[:, 0] = padded[:, 0] = False
    hidden = later[None] | padded[:, None]
    masks = dict(attn_mask=torch.from_numpy(later), key_padding_mask=torch.from_numpy(padded))
    want, shares = reference(given, hidden)
    out, weights = F.multi_head_attention_forward(**given, **masks)
    assert np.allclose(out.numpy(), want) and np.allclose(weights.numpy(), shares.mean(1))
    _, weights = F.multi_head_attention_forward(**given, **masks, average_attn_weights=False)
    assert np.allclose(weights.numpy(), shares)
    out, weights = F.multi_head_attention_forward(**given, **masks, need_weights=False)
    assert np.allclose(out.numpy(), want) and weights is None


OPTIONS = {
    "plain": lambda draw: {},
    "further keys": lambda draw: dict(bias_k=draw(1, 1, 8), bias_v=draw(1, 1, 8)),
    "a key of zeros": lambda draw: dict(add_zero_attn=True, attn_mask=draw(5, 6)),
    "a mask per head": lambda draw: dict(attn_mask=draw(6, 5, 6), key_padding_mask=draw(3, 6)),
    "given keys": lambda draw: dict(static_k=draw(6, 6, 4), static_v=draw(6, 6, 4)),
    "separate weights": lambda draw: dict(
        use_separate_proj_weight=True,
        in_proj_weight=None,
        q_proj_weight=draw(8, 8),
        k_proj_weight=draw(8, 3),
        v_proj_weight=draw(8, 5),
        key=draw(6, 3, 3),
        value=draw(6, 3, 5),
    ),
    "no bias": lambda draw: dict(in_proj_bias=None, out_proj_bias=None),
    "no batch": lambda draw: dict(query=draw(5, 8), key=draw(6, 8), value=draw(6, 8)),
    "causal": lambda draw: dict(attn_mask=torch.ones(5, 6).triu(1).bool(), is_causal=True),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_with_and_without_weights(name, rng):
    options = OPTIONS[name](lambda *shape: torch.from_numpy(rng.standard_normal(shape)))
    given = arguments(rng) | options
    results = []
    for need_weights in (True, False):
        leaves = {n: t for n, t in given.items() if hasattr(t, "grad") and t.is_floating_point()}
        masks = ("attn_mask", "key_padding_mask")
        leaves = {n: t.detach().requires_grad_() for n, t in leaves.items() if n not in masks}
        out, _ = F.multi_head_attention_forward(**given | leaves, need_weights=need_weights)
        out.square().sum().backward()
        results.append([out, *[t.grad for t in leaves.values()]])
    for a, b in zip(*results):
        assert (a is None) == (b is None)
        assert a is None or torch.allclose(a, b, 1e-9, 1e-9)


def test_equal_inputs_share_a_projection(rng):
    given = arguments(rng, source=5, need_weights=False)
    x = given["query"]
    apart = F.multi_head_attention_forward(**given | dict(key=x.clone(), value=x.clone()))[0]
    some = F.multi_head_attention_forward(**given | dict(key=(y := x.clone()), value=y))[0]
    whole = F.multi_head_attention_forward(**given | dict(key=x, value=x))[0]
    assert torch.allclose(apart, whole) and torch.allclose(apart, some)
    assert whole.is_contiguous()


def test_gradients(rng):
    given = arguments(rng, 2, 3, 1, 4, 2, need_weights=False)
    names = ("query", "key", "value", "in_proj_weight", "in_proj_bias", "out_proj_weight")
    leaves = [given[n].requires_grad_() for n in names]
    assert gradcheck(
        lambda *t: F.multi_head_attention_forward(**given | dict(zip(names, t)))[0], leaves
    )


def test_dropout_is_off_outside_training(rng):
    given = arguments(rng) | dict(dropout_p=0.5, training=False)
    want = F.multi_head_attention_forward(**given | dict(dropout_p=0.0))[0]
    for need_weights in (True, False):
        out = F.multi_head_attention_forward(**given, need_weights=need_weights)[0]
        assert torch.allclose(out, want)


# -- against PyTorch ------------------------------------------------------------------------------

_PROGRAM = """
E = 8
def D(*shape, seed=0):
    return X("float64", *shape, seed=seed)
o = dict(query=D(5, 3, E), key=D(6, 3, E), value=D(6, 3, E, seed=1), embed_dim_to_check=E)
o |= dict(num_heads=2, in_proj_weight=D(3 * E, E), in_proj_bias=D(3 * E), bias_k=None, bias_v=None)
o |= dict(add_zero_attn=False, dropout_p=0.0, out_proj_weight=D(E, E), out_proj_bias=D(E))
o |= dict({})
masks = ("attn_mask", "key_padding_mask")
leaves = [t for n, t in o.items() if hasattr(t, "dtype") and n not in masks]
leaves = [t.requires_grad_() for t in leaves if t.dtype.is_floating_point]
torch.manual_seed(3)
out, w = torch.nn.functional.multi_head_attention_forward(**o)
r = [out.detach(), w if w is None else w.detach().contiguous()]
s = (out * D(*out.shape, seed=7)).sum()
if w is not None:
    s = s + (w * D(*w.shape, seed=8)).sum()
found = torch.autograd.grad(s, leaves, allow_unused=True)
r += [g if g is None else g.contiguous() for g in found]
"""
_LONE = "query=D(5, E), key=D(6, E), value=D(6, E, seed=1)"
_OWN = "use_separate_proj_weight=True, in_proj_weight=None, q_proj_weight=D(E, E), "
_OWN += "k_proj_weight=D(E, E, seed=1), v_proj_weight=D(E, E, seed=2)"
_LATER = "attn_mask=torch.ones(5, 6).triu(1).bool()"
_MORE = "bias_k=D(1, 1, E), bias_v=D(1, 1, E, seed=2)"
_FIXED = "static_k=D(6, 6, 4), static_v=D(6, 6, 4, seed=2)"
GOOD = [
    "", "average_attn_weights=False", _LONE, "key_padding_mask=X('bool', 3, 6)",
    "key_padding_mask=D(3, 6)", "attn_mask=D(6, 5, 6)", _OWN, _MORE, _FIXED, "add_zero_attn=True",
    f"{_LONE}, attn_mask=D(2, 5, 6), key_padding_mask=D(6)", "dropout_p=0.5",
    "key_padding_mask=X('bool', 3, 6), attn_mask=D(5, 6)", f"is_causal=True, {_LATER}",
    f"key_padding_mask=X('bool', 3, 6), {_LATER}", "dropout_p=0.5, training=False",
    f"is_causal=True, {_LATER}, key_padding_mask=torch.zeros(3, 6).bool()",
    f"{_MORE}, add_zero_attn=True, attn_mask=D(5, 6), key_padding_mask=D(3, 6)",
    "in_proj_bias=None, out_proj_bias=None", "attn_mask=torch.ones(5, 6).bool()",
    "static_k=D(6, 7, 4), static_v=D(6, 7, 4, seed=2)", "value=o['key']",
    "key=o['query'], value=o['query']",
]  # fmt: skip
BAD = [
    "query=D(1, 5, 3, E)", "query=D(5, E)", "key=D(5, E)", "query=D(E)", "embed_dim_to_check=9",
    "num_heads=3", "value=D(7, 3, E)", "key=D(6, 2, E), value=D(6, 2, E)",
    "key_padding_mask=torch.ones(3, 6).int()", "key_padding_mask=torch.zeros(3, 5).bool()",
    "key_padding_mask=torch.zeros(2, 6).bool()", "key_padding_mask=torch.zeros(6).bool()",
    f"{_LONE}, key_padding_mask=torch.zeros(1, 6).bool()", "attn_mask=torch.ones(5, 6).int()",
    "attn_mask=torch.zeros(5, 5)", "attn_mask=torch.zeros(5, 5, 6)", "attn_mask=torch.zeros(6)",
    f"{_LONE}, attn_mask=torch.zeros(3, 5, 6)", "is_causal=True", "in_proj_weight=None",
    _OWN.replace("q_proj_weight=D(E, E)", "q_proj_weight=None"), f"{_OWN}, value=D(7, 3, E)",
    _OWN.replace("k_proj_weight=D(E, E", "k_proj_weight=D(E, 5"),
    "bias_k=D(1, 1, E)", "bias_v=D(1, 1, E)", "static_k=D(5, 6, 4)", "static_v=D(6, 6, 3)",
    f"{_FIXED}, {_MORE}", f"static_v=D(6, 6, 4), {_MORE}", "attn_mask=torch.zeros(5, 6)",
]  # fmt: skip


@pytest.mark.oracle
def test_against_pytorch():
    oracle = pytest.importorskip("torch")
    weightless = [f"{text}, need_weights=False".removeprefix(", ") for text in GOOD]
    programs = [_PROGRAM.format(text) for text in GOOD + weightless + BAD]
    assert not compare(torch, oracle, programs)
