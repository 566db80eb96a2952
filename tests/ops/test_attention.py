"""Attention: against sums written out in NumPy, and against PyTorch where it is installed."""

import math

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.eager import attention as launching
from flambeau.runtime.allocator import host_allocator
from tests.ops.expressions import compare

attend = F.scaled_dot_product_attention

# -- a reference in double precision --------------------------------------------------------------


def reference(q, k, v, g, mask=None, causal=False, scale=None, keep=None):
    """Result and gradients; keep: what dropout multiplies weights with."""
    q, k, v, g = (t.astype("float64") for t in (q, k, v, g))
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    sharing = q.shape[-3] // k.shape[-3]
    every_k, every_v = (np.repeat(t, sharing, -3) for t in (k, v))
    scores = q @ every_k.swapaxes(-1, -2) * scale
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    if mask is not None and mask.dtype == bool:
        scores = np.where(mask, scores, -np.inf)
    elif mask is not None:
        scores = scores + mask
    peak = scores.max(-1, keepdims=True, initial=-np.inf)
    powers = np.exp(scores - np.where(np.isinf(peak), 0, peak))
    total = powers.sum(-1, keepdims=True)
    weights = powers / np.where(total == 0, 1, total)
    kept = 1.0 if keep is None else keep
    dropped = weights * kept
    slopes = (g @ every_v.swapaxes(-1, -2)) * kept
    slopes = weights * (slopes - (slopes * weights).sum(-1, keepdims=True))
    grads = [
        slopes @ every_k * scale,
        slopes.swapaxes(-1, -2) @ q * scale,
        dropped.swapaxes(-1, -2) @ g,
    ]
    for n, t in ((1, k), (2, v)):
        grads[n] = grads[n].reshape(*t.shape[:-2], sharing, *t.shape[-2:]).sum(-3)
    return [dropped @ every_v, *grads]


TOLERANCE = {"float64": 1e-13, "float32": 5e-6, "float16": 4e-3, "bfloat16": 3e-2}


def tensor(values, dtype):
    return torch.from_numpy(np.array(values)).to(getattr(torch, dtype))


def array(t):
    return t.detach().double().numpy()


def results(tensors, g, **options):
    """A result and the gradients of query, key and value."""
    leaves = [t.detach().requires_grad_() for t in tensors]
    out = attend(*leaves, **options)
    out.backward(g)
    return [out, *[t.grad for t in leaves]]


def check(rng, dtype, queries, keys, values, mask=None, **options):
    """One call against the reference, on the numbers that the dtype holds."""
    shapes = (queries, keys, values, (*queries[:-1], values[-1]))
    *tensors, g = (tensor(rng.standard_normal(s), dtype) for s in shapes)
    given = {} if mask is None else {"attn_mask": torch.from_numpy(np.array(mask))}
    if mask is not None and mask.dtype != bool:
        given["attn_mask"] = given["attn_mask"].to(getattr(torch, dtype))
        mask = array(given["attn_mask"])
    found = results(tensors, g, **given, **options)
    options.pop("enable_gqa", None)
    options["causal"] = options.pop("is_causal", False)
    wanted = reference(*map(array, (*tensors, g)), mask=mask, **options)
    for got, want in zip(found, wanted):
        assert str(got.dtype) == f"torch.{dtype}" and got.shape == want.shape
        limit = TOLERANCE[dtype] * max(1, np.abs(want).max(initial=0))
        assert np.abs(array(got) - want).max(initial=0) <= limit


# lengths around the sizes of blocks, tiles and vectors; widths that fill no vector
SIZES = [
    ((2, 3, 256, 64), (2, 3, 256, 64), (2, 3, 256, 64)),
    ((1, 2, 1, 16), (1, 2, 3, 16), (1, 2, 3, 16)),
    ((2, 1, 77, 20), (2, 1, 133, 20), (2, 1, 133, 36)),
    ((1, 2, 130, 7), (1, 2, 65, 7), (1, 2, 65, 1)),
    ((1, 1, 31, 1), (1, 1, 9, 1), (1, 1, 9, 33)),
]
DTYPES = ["float32", "float64", "float16", "bfloat16"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [False, True])
def test_results_and_gradients(dtype, causal, rng):
    for sizes in SIZES:
        check(rng, dtype, *sizes, is_causal=causal)
    check(rng, dtype, *SIZES[2], scale=-0.3, is_causal=causal)


MASKS = {
    "for all": lambda rng, shape: rng.random(shape[-2:]) < 0.8,
    "of keys": lambda rng, shape: rng.random((shape[0], 1, 1, shape[-1])) < 0.8,
    "of queries": lambda rng, shape: rng.random((shape[-2], 1)) < 0.8,
    "transposed": lambda rng, shape: (rng.random(shape[:-2] + shape[:-3:-1]) < 0.8).swapaxes(2, 3),
    "added": lambda rng, shape: rng.standard_normal((shape[1], *shape[-2:])),
    "added, of keys": lambda rng, shape: rng.standard_normal(shape[-1:]).reshape(1, -1),
    "spread out": lambda rng, shape: (rng.random((*shape[:3], 2 * shape[3])) < 0.8)[..., ::2],
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", MASKS)
def test_masks(name, dtype, rng):
    sizes = (2, 3, 70, 24), (2, 3, 90, 24), (2, 3, 90, 24)
    check(rng, dtype, *sizes, mask=MASKS[name](rng, (2, 3, 70, 90)))
    if name == "for all":
        check(rng, dtype, *sizes, mask=MASKS[name](rng, (2, 3, 70, 90)), is_causal=True)


def test_float32_masks_of_other_dtypes(rng):
    mask = rng.standard_normal((5, 6)).astype("float32")
    for dtype in DTYPES:
        q, k, v = (tensor(rng.standard_normal((1, 2, n, 8)), dtype) for n in (5, 6, 6))
        found = attend(q, k, v, torch.from_numpy(mask))
        want = reference(*map(array, (q, k, v, found)), mask=mask)[0]
        assert found.dtype is q.dtype
        assert np.allclose(array(found), want, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_that_see_nothing_are_zero(dtype, rng):
    mask = np.ones((70, 80), bool)
    mask[3], mask[60:] = False, False
    check(rng, dtype, (1, 2, 70, 8), (1, 2, 80, 8), (1, 2, 80, 8), mask=mask)
    check(rng, dtype, (1, 2, 70, 8), (1, 2, 80, 8), (1, 2, 80, 8), mask=np.where(mask, 0, -np.inf))


def test_heads_that_share_keys(rng):
    for dtype in ("float32", "float16"):
        for causal in (False, True):
            sizes = (2, 6, 40, 16), (2, 2, 50, 16), (2, 2, 50, 16)
            check(rng, dtype, *sizes, enable_gqa=True, is_causal=causal)
    q, k, v = (tensor(rng.standard_normal((1, h, 5, 4)), "float32") for h in (4, 2, 1))
    found = attend(q, k, v, enable_gqa=True)
    assert torch.equal(found, attend(q, k.repeat_interleave(2, 1), v.expand(1, 4, 5, 4)))


def test_few_long_heads_are_cut_into_pieces(rng):
    for dtype in ("float32", "bfloat16"):
        for causal in (False, True):
            sizes = (1, 2, 200, 8), (1, 2, 700, 8), (1, 2, 700, 8)
            check(rng, dtype, *sizes, is_causal=causal)
    check(rng, "float32", (1, 4, 600, 8), (1, 1, 600, 8), (1, 1, 600, 8), enable_gqa=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_few_queries_over_many_keys(dtype, rng):
    """One query or a few: pieces of keys are joined afterwards."""
    for queries, keys, width in ((1, 3000, 40), (6, 1500, 16), (2, 777, 7)):
        sizes = (1, 2, queries, width), (1, 2, keys, width), (1, 2, keys, width)
        check(rng, dtype, *sizes)
        check(rng, dtype, *sizes, is_causal=True)
        check(rng, dtype, *sizes, mask=rng.random((queries, keys)) < 0.5)
        check(rng, dtype, *sizes, mask=rng.standard_normal((1, 2, queries, keys)))
    mask = np.zeros((1, 3000), bool)  # all but the last piece see nothing
    check(rng, dtype, (1, 2, 1, 40), (1, 2, 3000, 40), (1, 2, 3000, 40), mask=mask)
    mask[:, -5:] = True
    check(rng, dtype, (1, 2, 1, 40), (1, 2, 3000, 40), (1, 2, 3000, 40), mask=mask)
    check(rng, dtype, (1, 6, 2, 8), (1, 2, 2500, 8), (1, 2, 2500, 24), enable_gqa=True)


def test_pieces_of_keys_do_not_follow_threads(rng):
    before = torch.get_num_threads()
    q, k, v = (tensor(rng.standard_normal((1, 2, n, 64)), "float32") for n in (1, 5000, 5000))
    try:
        found = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(attend(q, k, v))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


def test_coins_of_few_queries(rng):
    q, k, v, g = (tensor(rng.standard_normal((1, 2, n, 8)), "float32") for n in (2, 3000, 3000, 2))
    torch.manual_seed(5)
    found = results((q, k, v), g, dropout_p=0.25)
    torch.manual_seed(5)
    coins = torch.empty(1, 2, 2, 3000).bernoulli_(0.75).numpy() / 0.75
    wanted = reference(*map(array, (q, k, v, g)), keep=coins)
    for got, want in zip(found, wanted):
        assert np.abs(array(got) - want).max() <= 5e-6 * max(1, np.abs(want).max())


def test_any_leading_dimensions(rng):
    q, k, v = (rng.standard_normal((2, 3, 4, n, 8)) for n in (5, 6, 6))
    whole = reference(q, k, v, q)[0]
    tensors = [torch.from_numpy(t) for t in (q, k, v)]
    assert np.allclose(attend(*tensors).numpy(), whole)
    for index in ((0,), (0, 1), (0, 1, 2), (slice(None), 1)):
        assert np.allclose(attend(*[t[index] for t in tensors]).numpy(), whole[index])
    # batches broadcast, and gradients are summed over what was broadcast
    leaves = [torch.from_numpy(t).requires_grad_() for t in (q[:1], k[:, :1], v)]
    out = attend(*leaves)
    out.sum().backward()
    every = [np.broadcast_to(t, (2, 3, 4, *t.shape[-2:])) for t in (q[:1], k[:, :1], v)]
    wanted = reference(*every, np.ones_like(every[0]))
    assert np.allclose(out.detach().numpy(), wanted[0])
    assert np.allclose(leaves[0].grad.numpy(), wanted[1].sum(0, keepdims=True))
    assert np.allclose(leaves[1].grad.numpy(), wanted[2].sum(1, keepdims=True))


# -- memory ---------------------------------------------------------------------------------------


def test_views_of_a_fused_projection_are_read_in_place(rng, monkeypatch):
    for launcher in (launching._forward, launching._backward):  # a copy would need it
        monkeypatch.setitem(launcher.function().__globals__, "as_layout", None)
    fused = tensor(rng.standard_normal((2, 50, 3, 4, 8)), "float32")
    views = fused.permute(2, 0, 3, 1, 4).unbind(0)
    dense = [t.contiguous() for t in views]
    assert attend(*views).stride() == (50 * 32, 8, 32, 1)
    g = torch.randn(2, 4, 50, 8)
    for got, want in zip(results(views, g), results(dense, g)):
        assert torch.equal(got, want)
    assert results(views, g)[1].stride() == (50 * 32, 8, 32, 1)


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_other_strides(place, rng):
    tensors = [tensor(rng.standard_normal((2, 3, 20, 12)), "float32") for _ in range(4)]
    wanted = results(tensors[:3], tensors[3])
    for change in (
        lambda t: t.transpose(2, 3).contiguous().transpose(2, 3),
        lambda t: t.repeat(1, 1, 1, 2)[..., :12],
        lambda t: t.flip(3).repeat_interleave(2, 3)[..., ::2].flip(3),
        lambda t: torch.cat([t, t], 2)[:, :, :20],
    ):
        changed = list(tensors)
        changed[place] = change(tensors[place])
        for got, want in zip(results(changed[:3], changed[3]), wanted):
            assert torch.equal(got, want)


def _growth(run):
    """Bytes in large blocks that a call wants at once."""
    host_allocator.empty_cache()
    before, host_allocator.peak = host_allocator.mapped, 0
    run()
    return host_allocator.peak - before


@pytest.mark.parametrize("heads", [1, 16])
def test_memory_is_linear_in_the_length(heads):
    def run(length):
        q, k, v = (torch.randn(1, heads, length, 16, requires_grad=True) for _ in range(3))
        attend(q, k, v, is_causal=True).sum().backward()

    run(128)
    length = 8192 // heads
    grown = _growth(lambda: run(length))
    # inputs, result, its gradient, three gradients and parts of one of them, rounded up generously
    assert grown <= 40 * heads * length * 16 * 4
    assert grown < heads * length * length * 4 / 4


def test_threads_give_the_same_bits(rng):
    before = torch.get_num_threads()
    tensors = [tensor(rng.standard_normal((1, 3, 520, 16)), "float32") for _ in range(4)]
    try:
        found = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(results(tensors[:3], tensors[3], is_causal=True))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(*found))


# -- gradients of gradients, of masks -------------------------------------------------------------


def _leaves(rng, *shapes):
    return [torch.from_numpy(rng.standard_normal(s)).requires_grad_() for s in shapes]


def test_first_and_second_gradients(rng):
    hidden = torch.from_numpy(rng.random((3, 4)) < 0.7)
    shapes = (1, 2, 3, 2), (1, 2, 4, 2), (1, 2, 4, 3)
    for options in ({}, {"is_causal": True}, {"attn_mask": hidden}, {"scale": 0.7}):

        def run(*tensors, options=options):
            return attend(*tensors, **options)

        assert gradcheck(run, _leaves(rng, *shapes))
        assert gradgradcheck(run, _leaves(rng, *shapes))
    shared = _leaves(rng, (1, 4, 3, 2), (1, 2, 4, 2), (1, 2, 4, 2))
    assert gradgradcheck(lambda *t: attend(*t, enable_gqa=True), shared)


def test_masks_have_gradients(rng):
    for shape in ((3, 4), (2, 1, 4), (1, 2, 3, 4)):
        leaves = _leaves(rng, (1, 2, 3, 2), (1, 2, 4, 2), (1, 2, 4, 2), shape)
        assert gradcheck(attend, leaves)
        assert gradgradcheck(attend, leaves)


def test_second_gradients_with_dropout(rng):
    def run(*tensors):
        torch.manual_seed(3)
        return attend(*tensors, dropout_p=0.4)

    leaves = _leaves(rng, (1, 2, 3, 2), (1, 2, 5, 2), (1, 2, 5, 2))
    assert gradcheck(run, leaves)
    assert gradgradcheck(run, leaves)


# -- dropout, empties, bad input ------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_dropout_draws_a_coin_for_every_weight(dtype, rng):
    q, k, v, g = (tensor(rng.standard_normal((2, 2, n, 8)), dtype) for n in (70, 90, 90, 70))
    for causal in (False, True):
        torch.manual_seed(5)
        found = results((q, k, v), g, dropout_p=0.25, is_causal=causal)
        torch.manual_seed(5)
        coins = torch.empty(2, 2, 70, 90).bernoulli_(0.75).numpy() / 0.75
        wanted = reference(*map(array, (q, k, v, g)), causal=causal, keep=coins)
        for got, want in zip(found, wanted):
            limit = TOLERANCE[dtype] * max(1, np.abs(want).max())
            assert np.abs(array(got) - want).max() <= limit
    assert not attend(q, k, v, dropout_p=1.0).any()


def test_empty_inputs():
    q, k = torch.randn(2, 3, 4, 8, requires_grad=True), torch.randn(2, 3, 0, 8, requires_grad=True)
    out = attend(q, k, k)
    out.sum().backward()
    assert out.shape == (2, 3, 4, 8) and not out.any() and not q.grad.any()
    assert attend(k, q, q).shape == (2, 3, 0, 8)
    assert attend(q[:0], q[:0], q[:0]).shape == (0, 3, 4, 8)
    assert attend(q, q, q[..., :0]).shape == (2, 3, 4, 0)
    nothing, values = torch.ones(1, 1, 2, 0), torch.randn(1, 1, 2, 8, requires_grad=True)
    out = attend(nothing, nothing, values)
    out.sum().backward()
    assert torch.allclose(out, values.mean(2, True)) and values.grad.eq(1).all()


def test_the_meta_device_knows_shapes():
    q, k, v = (torch.empty(2, 3, n, e, device="meta") for n, e in ((4, 8), (5, 8), (5, 6)))
    assert attend(q, k, v).shape == (2, 3, 4, 6)
    assert attend(q, k, v, torch.empty(4, 5, device="meta")).shape == (2, 3, 4, 6)


def test_wide_rows_take_the_long_way(rng):
    check(rng, "float32", (1, 1, 3, 600), (1, 1, 4, 600), (1, 1, 4, 5), is_causal=True)


def test_nan_stays_in_its_row(rng):
    q, k, v = (tensor(rng.standard_normal((1, 1, 40, 8)), "float32") for _ in range(3))
    q[0, 0, 7, 3] = math.nan
    assert attend(q, k, v).isnan().any(-1).nonzero().tolist() == [[0, 0, 7]]


# Each with the exception and the beginning of its message, as PyTorch gives them.
BAD = [
    ("Q, K.double(), V", RuntimeError, "Expected query, key, and value to have the same dtype, but"
     " got query.dtype: float key.dtype: double and value.dtype: float instead."),
    ("Q[0, 0, 0], K[0, 0], V[0, 0]", RuntimeError, "Expected query, key, and value to all be  at"
     " least 2 dimensional, but got query.dim: 1 key.dim: 2 and value.dim: 2 instead."),
    ("Q, K, V.to('meta')", RuntimeError, "Expected query, key, and value to have the same device"
     " type, but got query.device: cpu key.device: cpu and value.device: meta instead."),
    ("Q, K, V, M.int()", RuntimeError, "Expected attn_mask dtype to be bool or float or to match"
     " query dtype, but got attn_mask.dtype: int and  query.dtype: float instead."),
    ("Q, K, V, M.double()", RuntimeError, "Expected attn_mask dtype to be bool or float"),
    ("Q, K, V, M[:, :6]", RuntimeError, "The size of tensor a (7) must match the size of tensor b"
     " (6) at non-singleton dimension 3"),
    ("Q[0], K[0], V[0], M[:, :6]", RuntimeError, "The size of tensor a (7) must match the size of"
     " tensor b (6) at non-singleton dimension 2"),
    ("Q, K, V, M.expand(3, 1, 1, 5, 7)", RuntimeError, "output with shape [2, 4, 5, 7] doesn't"
     " match the broadcast shape [3, 2, 4, 5, 7]"),
    ("Q, K, V, M, is_causal=True, dropout_p=0.5", RuntimeError, "_scaled_dot_product_attention:"
     " Explicit attn_mask should not be set when is_causal=True"),
    ("Q[0], K[0], V[0], M, is_causal=True", RuntimeError, "_scaled_dot_product_attention: Explicit"
     " attn_mask should not be set when is_causal=True"),
    ("Q, K, V, dropout_p=1.5", RuntimeError, "dropout probability has to be between 0 and 1, but"
     " got 1.5"),
    ("Q, K, V, dropout_p=-0.5", RuntimeError, "scaled_dot_product_attention_flash_attention:"
     " Currently do not support dropout > 0"),
    ("Q, K[:, :3], V[:, :3], enable_gqa=True", RuntimeError, "Number of heads in key and value must"
     " divide the number of heads in "),
    ("Q[0, 0], K[0, 0], V[0, 0], enable_gqa=True", IndexError, "Dimension out of range (expected to"
     " be in range of [-2, 1], but got -3)"),
    ("Q, K[:, :2], V[:, :2]", RuntimeError, "The size of tensor a (4) must match the size of tensor"
     " b (2) at non-singleton dimension 1"),
    ("Q, K[..., :6], V", RuntimeError, "Expected size for first two dimensions of batch2 tensor to"
     " be: [8, 8] but got: [8, 6]."),
    ("Q[0], K[0], V[0][:, :5]", RuntimeError, "Expected size for first two dimensions of batch2"
     " tensor to be: [4, 7] but got: [4, 5]."),
    ("Q.long(), K.long(), V.long()", RuntimeError, "expected scalar type Float but found Long"),
    ("Q.cfloat(), K.cfloat(), V.cfloat()", NotImplementedError, '"softmax_lastdim_kernel_impl" not'
     " implemented for 'ComplexFloat'"),
    ("1, K, V", TypeError, "scaled_dot_product_attention(): argument 'query' (position 1) must be"
     " Tensor, not int"),
    ("Q, K", TypeError, 'scaled_dot_product_attention() missing 1 required positional arguments:'
     ' "value"'),
    ("Q, K, V, 0.5", TypeError, "scaled_dot_product_attention(): argument 'attn_mask' (position 4)"
     " must be Tensor, not float"),
    ("Q, K, V, scale='a'", TypeError, "scaled_dot_product_attention(): argument 'scale' must be"
     " float, not str"),
    ("Q, K, V, is_causal=1", TypeError, "scaled_dot_product_attention(): argument 'is_causal' must"
     " be bool, not int"),
]  # fmt: skip


def _given(lib, text):
    space = dict(Q=lib.ones(2, 4, 5, 8), K=lib.ones(2, 4, 7, 8), V=lib.ones(2, 4, 7, 8))
    space |= dict(M=lib.zeros(5, 7), run=lib.nn.functional.scaled_dot_product_attention)
    return eval(f"run({text})", space)


@pytest.mark.parametrize(("text", "kind", "message"), BAD, ids=[b[0] for b in BAD])
def test_bad_input(text, kind, message):
    with pytest.raises(kind) as caught:
        _given(torch, text)
    assert str(caught.value).startswith(message)


def test_values_must_be_as_many_as_keys():
    q = torch.ones(1, 1, 4, 8)
    with pytest.raises(RuntimeError, match="Expected size for first two dimensions of batch2"):
        attend(q, q, q[:, :, :3])


@pytest.mark.oracle
def test_bad_input_against_pytorch():
    oracle = pytest.importorskip("torch")
    for text, kind, message in BAD:
        with pytest.raises(kind) as caught:
            _given(oracle, text)
        assert str(caught.value).startswith(message), text


# -- against PyTorch ------------------------------------------------------------------------------

_PROGRAM = """
{setup}
q, k, v = ({tensors})
inputs = [t.requires_grad_() for t in (q, k, v)]
y = torch.nn.functional.scaled_dot_product_attention(q, k, v, {options})
g = torch.autograd.grad(y, inputs, X("{dtype}", *y.shape, seed=9))
r = [y.detach(), *[t.contiguous() for t in g]]
"""


def program(tensors, options="", dtype="float32", setup=""):
    tensors = tensors.replace("X(", f"X('{dtype}', ")
    return _PROGRAM.format(tensors=tensors, options=options, dtype=dtype, setup=setup)


_FOUR = "X(2, 4, 33, 16), X(2, 4, 50, 16), X(2, 4, 50, 16, seed=2)"
_HALF = "X(2, 4, 33, 16) / 4, X(2, 4, 50, 16) / 4, X(2, 4, 50, 16, seed=2)"
_FUSED = "X(2, 33, 3, 4, 16).permute(2, 0, 3, 1, 4).clone(memory_format=torch.preserve_format)"


@pytest.mark.oracle
def test_against_pytorch():
    oracle = pytest.importorskip("torch")
    mask = "X('bool', 33, 50)"
    programs = [
        program(_FOUR),
        program(_FOUR, "is_causal=True"),
        program(_FOUR, "scale=0.3", "float64"),
        program(_FOUR, f"attn_mask={mask}"),
        program(_FOUR, f"attn_mask={mask}, is_causal=True"),
        program(_FOUR, "attn_mask=X('float32', 2, 1, 33, 50)"),
        program(_FOUR, "attn_mask=torch.full((33, 50), -inf)"),
        program("X(33, 16), X(50, 16), X(50, 5)", "is_causal=True"),
        program("X(4, 33, 16), X(4, 50, 16), X(4, 50, 5)", f"attn_mask={mask}"),
        program("X(2, 4, 33, 16), X(2, 2, 50, 16), X(2, 2, 50, 16)", "enable_gqa=True"),
        program(f"*{_FUSED}.unbind(0)", "is_causal=True"),
        program("X(2, 33, 4, 16).transpose(1, 2), X(2, 4, 9, 16), X(2, 4, 9, 16)"),
        program(_FOUR, "dropout_p=0.3", setup="torch.manual_seed(4)"),
        program(_FOUR, "dropout_p=0.3, is_causal=True", "float64", setup="torch.manual_seed(4)"),
    ]
    programs += [program(_HALF, options, "bfloat16") for options in ("", "is_causal=True")]
    assert not compare(torch, oracle, [p.replace("\n    ", "\n") for p in programs])


@pytest.mark.oracle
def test_nodes_against_pytorch():
    oracle = pytest.importorskip("torch")
    text = "torch.nn.functional.scaled_dot_product_attention(X('float32', 2, 4, 5, 8)"
    text += ".requires_grad_(), X('float32', 2, 4, 6, 8), X('float32', 2, 4, 6, 8, seed=3))"
    assert not compare(torch, oracle, [text])
