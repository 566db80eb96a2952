"""Nested tensors against the same functions of each piece."""

import copy
import io
import pickle

import pytest

import flambeau as torch
from flambeau import nested

F = torch.nn.functional
LENGTHS = (3, 5, 2)


def pieces(width=8):
    torch.manual_seed(0)
    return [torch.randn(n, width) for n in LENGTHS]


@pytest.fixture(params=["jagged", "strided"])
def layout(request):
    return getattr(torch, request.param)


def same(found, expected):
    parts = found.unbind()
    assert len(parts) == len(expected)
    for a, b in zip(parts, expected):
        assert a.shape == b.shape and torch.allclose(a, b, atol=1e-6)


ONE_BY_ONE = {
    "sum with a number": lambda t: t + 1,
    "sum with itself": lambda t: t + t * 2,
    "sine": lambda t: t.sin(),
    "relu": lambda t: F.relu(t),
    "gelu": lambda t: F.gelu(t),
    "negative": lambda t: -t,
    "linear": lambda t: F.linear(t, torch.arange(16.0).view(2, 8)),
    "softmax of vectors": lambda t: t.softmax(-1),
    "cast": lambda t: t.to(torch.float64),
    "new dimension": lambda t: t.unsqueeze(-1),
    "joined": lambda t: torch.cat([t, t], -1),
    "parts": lambda t: t.chunk(2, -1)[1],
    "ones": lambda t: torch.ones_like(t),
}


@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_function_of_each_piece(name, layout):
    run = ONE_BY_ONE[name]
    same(run(nested.nested_tensor(pieces(), layout=layout)), [run(t) for t in pieces()])


def test_dimensions_between_batch_and_pieces(layout):
    t = nested.nested_tensor(pieces(), layout=layout)
    same(t.transpose(1, 2), [p.t() for p in pieces()])
    same(t.softmax(1), [p.softmax(0) for p in pieces()])
    assert t.size(0) == 3 and t.size(2) == 8 and t.dim() == 3 and t.is_nested
    assert t.layout is layout and t.numel() == 80


def test_layer_norm_and_embedding():
    t = nested.nested_tensor(pieces(), layout=torch.jagged)
    same(F.layer_norm(t, (8,)), [F.layer_norm(p, (8,)) for p in pieces()])
    numbers = [torch.tensor([0, 2]), torch.tensor([1])]
    table = torch.randn(3, 4)
    words = nested.nested_tensor(numbers, layout=torch.jagged)
    same(F.embedding(words, table), [table[n] for n in numbers])


def test_filled_up(layout):
    t = nested.nested_tensor(pieces(2), layout=layout)
    padded = t.to_padded_tensor(-1.0)
    assert padded.shape == (3, 5, 2)
    for row, p in zip(padded, pieces(2)):
        assert torch.equal(row[: len(p)], p) and bool((row[len(p) :] == -1).all())
    assert nested.to_padded_tensor(t, 0.0, (3, 7, 2)).shape == (3, 7, 2)


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin", "prod"])
def test_reductions(name):
    t = nested.nested_tensor(pieces(), layout=torch.jagged)
    inner = getattr(t, name)(-1)
    same(inner, [getattr(p, name)(-1) for p in pieces()])
    along = getattr(t, name)(1)
    expected = torch.stack([getattr(p, name)(0) for p in pieces()])
    assert torch.allclose(along, expected, atol=1e-6)
    if name in ("sum", "mean"):
        assert torch.allclose(getattr(t, name)(), getattr(torch.cat(pieces()), name)())
        with pytest.raises(RuntimeError, match="reducing along the batch dimension"):
            getattr(t, name)(0)


def test_meets_dense_tensors():
    t = nested.nested_tensor(pieces(), layout=torch.jagged)
    row, per_batch = torch.arange(8.0), torch.arange(24.0).view(3, 1, 8)
    same(t * row, [p * row for p in pieces()])
    same(t + per_batch, [p + b for p, b in zip(pieces(), per_batch)])
    with pytest.raises(RuntimeError, match="cannot call binary pointwise function"):
        t + nested.nested_tensor([torch.ones(1, 8)] * 3, layout=torch.jagged)


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_and_its_gradients(is_causal):
    def attend(t, project, ragged):
        q, k, v = (
            part.contiguous().unflatten(-1, [2, 4]).transpose(-3, -2)
            for part in project(t).chunk(3, -1)
        )
        out = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
        return out.transpose(-3, -2).flatten(-2)

    torch.manual_seed(1)
    project = torch.nn.Linear(8, 24)
    leaves = [p.requires_grad_() for p in pieces()]
    out = attend(nested.as_nested_tensor(leaves, layout=torch.jagged), project, True)
    (out * out).sum().backward()
    found = [p.grad for p in leaves] + [project.weight.grad]
    project.weight.grad = None
    again = [p.requires_grad_() for p in pieces()]
    each = [attend(p.unsqueeze(0), project, False)[0] for p in again]
    same(out, each)
    sum((e * e).sum() for e in each).backward()
    for a, b in zip(found, [p.grad for p in again] + [project.weight.grad]):
        assert torch.allclose(a, b, atol=1e-5)


def test_leaves_of_their_own():
    t = nested.nested_tensor(pieces(), layout=torch.jagged, requires_grad=True)
    (t * 3).sum().backward()
    assert t.requires_grad and t.is_leaf
    assert bool((t.grad.values() == 3).all()) and t.grad.layout is torch.jagged


def test_offsets_lengths_and_ranges():
    values = torch.arange(6.0)
    t = nested.nested_tensor_from_jagged(values, offsets=torch.tensor([0, 2, 6]))
    assert t.offsets().tolist() == [0, 2, 6] and t.lengths() is None
    assert [p.tolist() for p in t.unbind()] == [[0, 1], [2, 3, 4, 5]]
    same(nested.nested_tensor_from_jagged(values, lengths=torch.tensor([2, 4])), t.unbind())
    x = torch.arange(24.0).view(2, 4, 3)
    ranges = nested.narrow(x, 1, torch.tensor([0, 1]), torch.tensor([2, 3]), layout=torch.jagged)
    same(ranges, [x[0, :2], x[1, 1:]])
    kept = nested.masked_select(
        torch.arange(4).view(2, 2), torch.tensor([[True, True], [False, True]])
    )
    assert [p.tolist() for p in kept.unbind()] == [[0, 1], [3]]


def test_texts():
    t = nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)], layout=torch.jagged)
    size = t.shape[1]
    assert (
        repr(t) == f"NestedTensor(size=(2, {size}, 3), offsets=tensor([0, 2, 3]), contiguous=True)"
    )
    assert (t + 1).shape == t.shape and t.shape[1] > 1
    strided = nested.nested_tensor([torch.ones(1), torch.ones(2)])
    assert repr(strided) == "nested_tensor([\n  tensor([1.]),\n  tensor([1., 1.])\n])"


def test_complaints():
    with pytest.raises(RuntimeError, match="At least one of offsets or lengths is required"):
        nested.nested_tensor_from_jagged(torch.ones(3))
    with pytest.raises(RuntimeError, match="only allows for a single ragged dimension"):
        nested.nested_tensor([torch.ones(1, 2), torch.ones(2, 1)], layout=torch.jagged)
    t = nested.nested_tensor(pieces(), layout=torch.jagged)
    with pytest.raises(RuntimeError, match="only supported for NestedTensor on dim=0"):
        t.unbind(1)
    with pytest.raises(RuntimeError, match="not supported for NestedTensor on ragged dim"):
        t.flatten(1)
    with pytest.raises(NotImplementedError):
        t.cumsum(1)


A, B = [[0.0, 1.0], [2.0, 3.0]], [[4.0, -5.0], [6.0, 7.0], [8.0, 9.0]]


def jagged():
    return nested.nested_tensor([torch.tensor(A), torch.tensor(B)], layout=torch.jagged)


# what PyTorch gives: (function, result as lists; pieces of nested results)
RECORDED = {
    "min along pieces": (lambda t: t.amin(1), [[0.0, 1.0], [4.0, -5.0]]),
    "place of the most": (lambda t: t.argmax(1), [[1, 1], [2, 2]]),
    "most of vectors": (lambda t: t.max(-1).values, [[1.0, 3.0], [4.0, 7.0, 9.0]]),
    "sum of all rows": (lambda t: t.sum((0, 1), keepdim=True), [[[20.0, 15.0]]]),
    "one of each vector": (lambda t: t[..., 0], [[0.0, 2.0], [4.0, 6.0, 8.0]]),
    "transposed": (lambda t: t.permute(0, 2, 1)[0], [[0.0, 2.0], [1.0, 3.0]]),
    "cut": (lambda t: t.to_padded_tensor(0.0, (2, 1, 2)), [[[0.0, 1.0]], [[4.0, -5.0]]]),
    "dense of full size": (lambda t: (t + torch.ones(2, 3, 2))[0], [[1.0, 2.0], [3.0, 4.0]]),
    "batch of matrices": (
        lambda t: t @ torch.ones(2, 2, 1),
        [[[1.0], [5.0]], [[-1.0], [13.0], [17.0]]],
    ),
    "first chunk": (lambda t: t.chunk(2)[0], [A]),
    "copied": (copy.deepcopy, [A, B]),
    "pickled": (lambda t: pickle.loads(pickle.dumps(t)), [A, B]),
    "other dtype": (lambda t: t.type(torch.int64), [A, B]),
}


@pytest.mark.parametrize("name", RECORDED)
def test_result_is_pytorchs(name):
    run, expected = RECORDED[name]
    found = run(jagged())
    lists = [t.tolist() for t in found.unbind()] if found.is_nested else found.tolist()
    assert lists == expected


@pytest.mark.parametrize(
    "run, kind",
    [
        (lambda t: t.transpose(0, 1), ValueError),
        (lambda t: t.permute(1, 0, 2), ValueError),
        (lambda t: t.sum(9), IndexError),
        (bool, RuntimeError),
        (lambda t: t.item(), RuntimeError),
        (lambda t: t[None], RuntimeError),
        (lambda t: t.cumsum(1), NotImplementedError),
    ],
)
def test_refusal_is_pytorchs(run, kind):
    with pytest.raises(kind):
        run(jagged())


def test_gradient_of_a_nested_leaf():
    t = jagged().requires_grad_()
    (g,) = torch.autograd.grad((t * t).sum(), t)
    assert g[1].tolist() == [[2 * x for x in row] for row in B]
    assert "MulBackward0" in repr(t * 2) and t.shape[1] * 2 != t.shape[1]


def strided(*shapes):
    return nested.nested_tensor([torch.ones(shape) for shape in shapes])


def with_holes():
    offsets, lengths = torch.tensor([0, 1, 4]), torch.tensor([1, 2])
    return nested.nested_tensor_from_jagged(torch.ones(4, 2), offsets, lengths)


# what PyTorch says of what it cannot do: (function, error, its first words)
REFUSED = {
    "not a list": (lambda: nested.nested_tensor(torch.ones(2)), TypeError, "Only lists"),
    "other numbers of dimensions": (
        lambda: strided((), (), (0,)),
        RuntimeError,
        "Found dimension 1 for Tensor at index 2 and dimension 0 for Tensor at index 1.",
    ),
    "strides": (lambda: strided((2, 3)).stride(), RuntimeError, "doesn't support strides"),
    "batch chunks": (
        lambda: strided((2, 4), (3, 4)).chunk(2, 0),
        RuntimeError,
        "only supported for the last dimension",
    ),
    "uneven chunks": (
        lambda: strided((2, 4), (3, 4)).chunk(3, -1),
        RuntimeError,
        "divisible by chunks, got: 4 % 3 != 0",
    ),
    "parts that do not add up": (
        lambda: strided((2, 4)).split_with_sizes([1, 2], -1),
        RuntimeError,
        "sum exactly to 4",
    ),
    "sine with gaps": (
        lambda: strided((2, 4), (3, 4)).transpose(1, 2).sin(),
        RuntimeError,
        "must be contiguous to get buffer",
    ),
    "dense factor": (
        lambda: strided((2, 4)) * torch.ones(4),
        RuntimeError,
        "got a nested self and non-nested other",
    ),
    "dense matrix": (
        lambda: torch.ones(4, 2) @ strided((2, 4)),
        RuntimeError,
        "got a non-nested self and nested other",
    ),
    "products of other batches": (
        lambda: strided((2, 4)).bmm(torch.ones(2, 4, 1)),
        RuntimeError,
        "Expected size for the 1st dimension of batch2 tensor to be: 1 but got: 2.",
    ),
    "linear of vectors": (
        lambda: F.linear(strided((2,), (3,)), torch.ones(2, 2)),
        RuntimeError,
        "Linear requires nested_tensor.dim == 3",
    ),
    "sum along pieces": (
        lambda: strided((2, 4)).sum(1, keepdim=True),
        RuntimeError,
        "only be reduced across the last dimension",
    ),
    "softmax of the batch": (
        lambda: strided((2, 4)).softmax(0),
        RuntimeError,
        "Cannot apply softmax across nested dimension 0",
    ),
    "view of another batch": (
        lambda: strided((2, 4)).view(2, -1),
        RuntimeError,
        "cannot change or infer the implicit batch dimension",
    ),
    "masked attention": (
        lambda: F.scaled_dot_product_attention(*[strided((2, 4))] * 3, attn_mask=strided((2, 2))),
        RuntimeError,
        "not supported when an explicit attn_mask is set",
    ),
    "dense in cat": (
        lambda: torch.cat([strided((2, 4)), torch.ones(1, 2, 4)], -1),
        RuntimeError,
        "expected each tensor in given list to be nested",
    ),
    "other layout": (
        lambda: nested.as_nested_tensor(jagged()),
        RuntimeError,
        "Converting between nested tensor layouts",
    ),
    "vector": (lambda: nested.as_nested_tensor(torch.ones(2)), RuntimeError, "dim\\(\\) > 1"),
    "other offsets": (
        lambda: jagged() + jagged(),
        RuntimeError,
        "cannot call binary pointwise function add.Tensor with inputs of shapes",
    ),
    "jagged dimension elsewhere": (
        lambda: (lambda t: t + t.transpose(1, 2))(
            nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)], layout=torch.jagged)
        ),
        RuntimeError,
        "cannot call binary pointwise function add.Tensor with inputs of shapes",
    ),
    "size as a number": (lambda: jagged() * jagged().size(1), RuntimeError, "invalid argument j"),
    "softmax of the jagged batch": (
        lambda: jagged().softmax(0),
        RuntimeError,
        "when reducing across the batch dimension",
    ),
    "norm of the batch": (
        lambda: F.layer_norm(jagged(), jagged().shape),
        RuntimeError,
        "when normalizing over the batch dimension",
    ),
    "sum over holes": (lambda: with_holes().sum(1), RuntimeError, "nested tensors with holes"),
    "softmax over holes": (
        lambda: with_holes().softmax(1),
        RuntimeError,
        "where lengths is not None",
    ),
    "holes filled up": (
        lambda: with_holes().to_padded_tensor(0.0),
        RuntimeError,
        "for nested tensors with holes",
    ),
    "mask with gaps": (
        lambda: torch._nested_tensor_from_mask(torch.ones(1, 2, 3), torch.tensor([[False, True]])),
        RuntimeError,
        "Mask must be left-aligned without gaps",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_words_of_refusals(name):
    run, kind, words = REFUSED[name]
    with pytest.raises(kind, match=words):
        run()


def test_pieces_lie_in_one_memory():
    t = nested.nested_tensor(pieces())
    assert t.is_contiguous() and t.contiguous() is t and t.to(torch.float32) is t
    parts = t.chunk(2, -1)
    assert not parts[0].is_contiguous() and parts[0].contiguous().is_contiguous()
    assert not t.transpose(1, 2).is_contiguous()
    t[0].fill_(7.0)
    assert t.pieces[0].eq(7.0).all() and t.narrow(0, 1, 2).size(0) == 2
    t += t
    t *= 2.0
    assert t[0].eq(28.0).all()


def test_gradient_of_some_pieces():
    t = nested.nested_tensor(pieces(), requires_grad=True)
    t[1].sum().backward()
    assert [g.sum().item() for g in t.grad.unbind()] == [0.0, 40.0, 0.0]


def test_out_of_what_was_filled_up():
    x = torch.arange(12.0).view(2, 3, 2).requires_grad_()
    mask = torch.tensor([[True, True, False], [True, False, False]])
    t = torch._nested_tensor_from_mask(x, mask)
    assert [p.tolist() for p in t.unbind()] == [[[0, 1], [2, 3]], [[6, 7]]]
    t.to_padded_tensor(0.0).sum().backward()
    assert x.grad.sum(-1).tolist() == [[2, 2, 0], [2, 0, 0]]
    again = torch._nested_from_padded(x, torch.tensor([[2, 1], [1, 2]]))
    assert [p.tolist() for p in again.unbind()] == [[[0], [2]], [[6, 7]]]
    heads = torch._nested_from_padded(x.view(2, 1, 3, 2), torch.tensor([[2, 2], [1, 2]]), True)
    same(heads, t.unbind())


def test_known_sizes_and_memory_of_jagged_tensors():
    x = torch.randn(2, 3, 4)
    t = nested.as_nested_tensor(x, layout=torch.jagged)
    assert t._is_view() and t._base is x and t._metadata_cache == {"max_seqlen": 3, "min_seqlen": 3}
    values = torch.randn(6, 4)
    t = nested.nested_tensor_from_jagged(values, torch.tensor([0, 1, 6]), max_seqlen=7)
    assert t._base is values and t._get_max_seqlen() == 7 and (t * 2)._get_min_seqlen() == 1
    assert t._metadata_cache == {"max_seqlen": 7, "min_seqlen": 1}
    assert t.is_quantized is False and t.contiguous() is t and t.view(t.shape).shape == t.shape


def test_normal_along_jagged_dimension():
    t = nested.nested_tensor(pieces(), layout=torch.jagged)
    same(F.layer_norm(t, t.shape[1:]), [F.layer_norm(p, p.shape) for p in pieces()])


def test_copies_between_other_offsets():
    a, b = jagged(), jagged()
    a.zero_().copy_(b)
    same(a, b.unbind())
    with pytest.raises(RuntimeError, match="expected compatible input and src shapes"):
        a.copy_(nested.nested_tensor([torch.ones(1, 2), torch.ones(1, 2)], layout=torch.jagged))


def test_pytorchs_older_names():
    from flambeau.nested._internal import nested_tensor as older

    offsets = torch.tensor([0, 2, 5])
    t = older.NestedTensor(torch.randn(5, 2), offsets=offsets)
    assert isinstance(t, older.NestedTensor) and t._ragged_idx == 1
    assert older.get_tensor_symint(offsets, coeff=1) == t.shape[1]
    again, same_offsets = older.jagged_from_list(list(t.unbind()), offsets)
    assert same_offsets is offsets and torch.equal((again + t).values(), 2 * t.values())
    padded = older.nested_from_padded(t.to_padded_tensor(0.0), offsets)
    assert torch.equal(older.buffer_from_jagged(padded), t.values())
    kept = older.ViewNestedFromBuffer.apply(t.values(), offsets, {"max_seqlen": 3})
    assert kept._get_max_seqlen() == 3
    assert torch.functional.F is torch.nn.functional


def encoder(**options):
    torch.manual_seed(3)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, **options)
    return torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()


@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_of_nested_tensors(norm_first):
    model = encoder(norm_first=norm_first)
    with torch.no_grad():
        found = model(nested.nested_tensor(pieces()))
        same(found, [model(p[None])[0] for p in pieces()])


def test_attention_weights_of_nested_tensors():
    attention = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    t = nested.nested_tensor(pieces())
    with torch.no_grad():
        out, weights = attention(t, t, t)
        each = [attention(p, p, p) for p in pieces()]
        assert attention(t, t, t, need_weights=False)[1] is None
        assert attention(t, t, t, average_attn_weights=False)[1].shape == (3, 2, 5, 5)
    same(out, [o for o, _ in each])
    assert torch.allclose(weights, nested.nested_tensor([w for _, w in each]).to_padded_tensor(0.0))


# why PyTorch refuses: (options of the layer, what is done to it, other arguments)
NOT_FAST = {
    "training is enabled": ({}, lambda m: m.train(), {}),
    "batch_first was not True": ({"batch_first": False}, None, {}),
    "self.num_heads is not even": ({"num_heads": 1}, None, {}),
    "self.bias_k was not None": ({"add_bias_kv": True}, None, {}),
    "in_proj_weight was None": ({"kdim": 4}, None, {}),
    "supplying both src_key_padding_mask": ({}, None, {"attn_mask": torch.zeros(5, 5)}),
    "some Tensor argument has_torch_function": ({}, None, {"layout": torch.jagged}),
    "grad is enabled": ({}, lambda m: torch.set_grad_enabled(True), {}),
}


@pytest.mark.parametrize("words", NOT_FAST)
def test_attention_refuses_nested_tensors(words):
    options, change, given = NOT_FAST[words]
    options = {"num_heads": 2, "batch_first": True, **options}
    attention = torch.nn.MultiheadAttention(8, **options).eval()
    t = nested.nested_tensor(pieces(), layout=given.get("layout"))
    rest = {k: v for k, v in given.items() if k != "layout"}
    with torch.no_grad():
        if change is not None:
            change(attention)
        with pytest.raises(AssertionError, match=f"The fast path was not hit because {words}"):
            attention(t, t, t, **rest)


@pytest.mark.parametrize("change", [lambda t: t, lambda t: t.transpose(1, 2)])
def test_files_of_weights_hold_nested_tensors(change):
    t = change(nested.nested_tensor(pieces()))
    file = io.BytesIO()
    torch.save({"held": t}, file)
    file.seek(0)
    found = torch.load(file, weights_only=True)["held"]
    same(found, t.unbind())
    assert torch.equal(found._nested_tensor_strides(), t._nested_tensor_strides())
    assert found.is_contiguous() is t.is_contiguous()


BITS = {
    "and": lambda t: (t > 0) & (t < 1),
    "or": lambda t: (t > 1) | (t < 0),
    "xor": lambda t: (t > 0) ^ (t > 1),
    "and from the left": lambda t: True & (t > 0),
    "shift": lambda t: t.long() << 2,
    "remainder from the left": lambda t: 2 % (t.abs() + 1),
}


@pytest.mark.parametrize("name", BITS)
def test_operators_of_bits_take_each_piece(name):
    run = BITS[name]
    found = run(nested.nested_tensor(pieces(), layout=torch.jagged))
    for a, b in zip(found.unbind(), [run(t) for t in pieces()], strict=True):
        assert torch.equal(a, b)


def test_jagged_expands_where_its_size_is_one():
    t = nested.nested_tensor(pieces(), layout=torch.jagged, requires_grad=True)
    wide = t.unsqueeze(2).expand(-1, -1, 4, 8)
    same(wide, [p.unsqueeze(1).expand(-1, 4, 8) for p in pieces()])
    wide.sum().backward()
    assert torch.equal(t.grad.values(), torch.full((10, 8), 4.0))
    same(t.sum(-1, keepdim=True).expand_as(t), [p.sum(-1, True).expand(-1, 8) for p in pieces()])
    with pytest.raises(RuntimeError, match=r"expand\(\): cannot expand shape"):
        t.unsqueeze(2).expand(4, -1, 4, 8)


def test_jagged_repeats_and_counts_along_vectors():
    t = nested.nested_tensor(pieces(), layout=torch.jagged)
    same(t.repeat_interleave(3, dim=-1), [p.repeat_interleave(3, -1) for p in pieces()])
    hot = F.one_hot(t.abs().long(), 9)
    assert all(torch.equal(a, F.one_hot(p.abs().long(), 9)) for a, p in zip(hot.unbind(), pieces()))


@pytest.mark.parametrize("loss", ["l1_loss", "kl_div", "poisson_nll_loss"])
def test_losses_of_jagged_elements(loss):
    run, whole = getattr(F, loss), torch.cat(pieces()).sigmoid()
    t = nested.nested_tensor(pieces(), layout=torch.jagged).sigmoid()
    assert torch.allclose(run(t, t * 2, reduction="sum"), run(whole, whole * 2, reduction="sum"))
    each = run(t, t * 2, reduction="none")
    assert torch.allclose(each.values(), run(whole, whole * 2, reduction="none"))


def test_files_of_weights_hold_jagged_tensors():
    t = nested.nested_tensor(pieces(), layout=torch.jagged, requires_grad=True)
    file = io.BytesIO()
    torch.save({"t": t, "turned": t.detach().transpose(1, 2)}, file)
    assert b"torch.nested._internal.nested_tensor\n_rebuild_njt" in file.getvalue()
    file.seek(0)
    found = torch.load(file)  # weights only
    same(found["t"], pieces())
    same(found["turned"], [p.t() for p in pieces()])
    assert found["t"].requires_grad and found["t"]._metadata_cache == t._metadata_cache


@pytest.mark.oracle
def test_jagged_tensors_travel_from_pytorch_and_back(tmp_path):
    real = pytest.importorskip("torch")
    theirs = real.nested.nested_tensor([real.ones(2, 3), real.ones(1, 3)], layout=real.jagged)
    real.save(theirs, tmp_path / "theirs.pt")
    ours = torch.load(tmp_path / "theirs.pt")
    same(ours, [torch.ones(2, 3), torch.ones(1, 3)])
    torch.save(ours, tmp_path / "ours.pt")
    back = real.load(tmp_path / "ours.pt", weights_only=False)
    assert [t.tolist() for t in back.unbind()] == [t.tolist() for t in theirs.unbind()]


def test_jagged_tensors_are_compared_and_laid_out_anew():
    t, other = (nested.nested_tensor(pieces(), layout=torch.jagged) for _ in range(2))
    assert t.is_same_size(t + 1) and not t.is_same_size(other)  # other offsets
    assert torch.ops.aten.is_same_size(t, t.relu())
    turned = t.transpose(1, 2)
    assert not turned.is_contiguous() and not turned.clone().is_contiguous()
    for packed in (turned.contiguous(), turned.clone(memory_format=torch.contiguous_format)):
        assert packed.is_contiguous() and packed._ragged_idx == 2
        same(packed, [p.t() for p in pieces()])
    assert other.share_memory_() is other and other.is_shared()
    with pytest.raises(RuntimeError, match=r"stack\(\): not supported for NestedTensor on dim=0"):
        torch.stack([t, t])
