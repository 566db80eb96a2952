"""Nested tensors against the same functions of each piece."""

import copy
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
