"""torch.masked against the elements that masks leave, one line after the other in plain Python."""

import math
import statistics

import pytest

import flambeau as torch
from flambeau import masked

torch.manual_seed(5)
X = torch.randn(4, 6, dtype=torch.float64)
MASK = torch.rand(4, 6) > 0.4
MASK[2] = False


def lines(dim):
    """The elements that are left in each line along a dimension."""
    x, mask = (X, MASK) if dim == 1 else (X.t(), MASK.t())
    return [[v for v, m in zip(*pair) if m] for pair in zip(x.tolist(), mask.tolist())]


REDUCED = {
    "sum": (math.fsum, 0.0),
    "prod": (math.prod, 1.0),
    "amax": (max, -math.inf),
    "amin": (min, math.inf),
    "mean": (statistics.fmean, math.nan),
    "median": (statistics.median_low, math.nan),
    "norm": (lambda v: math.hypot(*v), 0.0),
    "logsumexp": (lambda v: math.log(math.fsum(map(math.exp, v))), -math.inf),
}


@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize("dim", [0, 1])
def test_reduction(name, dim):
    function, empty = REDUCED[name]
    found = getattr(masked, name)(X, dim=dim, mask=MASK)
    expected = [function(line) if line else empty for line in lines(dim)]
    assert found.tolist() == pytest.approx(expected, nan_ok=True)
    kept = getattr(masked, name)(X, dim=dim, mask=MASK, keepdim=True)
    assert kept.shape == X.sum(dim, keepdim=True).shape


@pytest.mark.parametrize("unbiased", [True, False])
def test_variance(unbiased):
    found = masked.var(X, 1, unbiased, mask=MASK)
    for value, line in zip(found.tolist(), lines(1)):
        if len(line) <= unbiased:
            assert math.isnan(value)
        else:
            run = statistics.variance if unbiased else statistics.pvariance
            assert value == pytest.approx(run(line))
    root = masked.std(X, 1, unbiased, mask=MASK)
    assert torch.allclose(root, found.sqrt(), equal_nan=True)


def test_along_a_dimension():
    shares = masked.softmax(X, 1, mask=MASK)
    assert bool((shares[~MASK & MASK.any(1, keepdim=True)] == 0).all())
    assert shares.sum(1).tolist() == pytest.approx([1, 1, math.nan, 1], nan_ok=True)
    logs = masked.log_softmax(X, 1, mask=MASK)
    assert torch.allclose(logs.exp(), shares, equal_nan=True)
    turned = masked.softmin(-X, 1, mask=MASK)
    assert torch.allclose(turned, shares, equal_nan=True)
    assert torch.allclose(masked.cumsum(X, 1, mask=MASK), (X * MASK).cumsum(1))
    assert torch.allclose(masked.cumprod(X, 1, mask=MASK), torch.where(MASK, X, 1.0).cumprod(1))
    length = masked.normalize(X, 2.0, 1, mask=MASK).norm(dim=1)
    assert length.tolist() == pytest.approx([1, 1, 0, 1])
    assert masked.argmax(X, 1, mask=MASK)[0] == X[0].masked_fill(~MASK[0], -9).argmax()
    alone = masked.logaddexp(X, X, input_mask=torch.zeros_like(MASK))
    assert torch.allclose(alone, X)


def test_gradients_reach_what_is_left_only():
    x = X.clone().requires_grad_()
    masked.softmax(x[:2], 1, mask=MASK[:2]).pow(2).sum().backward()
    assert bool((x.grad[:2][~MASK[:2]] == 0).all()) and bool(x.grad[:2][MASK[:2]].any())


@pytest.mark.oracle
def test_functions_are_pytorchs():
    import torch as oracle

    x, mask = oracle.tensor(X.tolist(), dtype=oracle.float64), oracle.tensor(MASK.tolist())
    for name in [n for n in oracle.masked.__all__ if n in vars(masked) and n[0].islower()]:
        if "masked" in name or name == "logaddexp":
            continue
        arguments = (2.0, 1) if name == "normalize" else ()
        options = {} if name == "normalize" else {"dim": 1}
        theirs = getattr(oracle.masked, name)(x, *arguments, mask=mask, **options)
        ours = getattr(masked, name)(X, *arguments, mask=MASK, **options)
        flat = [t.reshape(-1).tolist() for t in (ours, theirs)]
        assert flat[0] == pytest.approx(flat[1], nan_ok=True), name


# -- tensors that carry a mask ---------------------------------------------------------------------


@pytest.fixture
def t():
    data = torch.arange(6.0).reshape(2, 3)
    return masked.masked_tensor(data, torch.tensor([[True, False, True], [False] * 3]))


def test_text(t):
    assert repr(t) == (
        "MaskedTensor(\n  [\n    [  0.0000,       --,   2.0000],\n"
        "    [      --,       --,       --]\n  ]\n)"
    )
    assert repr(t.sum()) == "MaskedTensor(  2.0000, True)"
    assert repr(t[0] > 1) == "MaskedTensor(\n  [False,       --, True]\n)"


def test_masks_stay_move_and_shrink(t):
    assert (t + 1).to_tensor(9.0).tolist() == [[1, 9, 3], [9, 9, 9]]
    assert (2 * t * t).sin().get_mask().tolist() == t.get_mask().tolist()
    assert t.t().get_mask().tolist() == [[True, False], [False, False], [True, False]]
    assert torch.cat([t, t], 1).get_mask().shape == (2, 6)
    assert t.mean(1).to_tensor(-1.0).tolist() == [1, -1]
    assert t.sum(1).get_mask().tolist() == [True, False]
    assert t.to(torch.float64).dtype is torch.float64
    assert masked.is_masked_tensor(t[0]) and not masked.is_masked_tensor(t.get_data())


def test_gradients_of_masked_tensors(t):
    leaf = masked.masked_tensor(t.get_data(), t.get_mask(), requires_grad=True)
    (leaf * 3).sum().backward()
    assert leaf.grad.to_tensor(0.0).tolist() == [[3, 0, 3], [0, 0, 0]]
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    y = masked.as_masked_tensor(x, t.get_mask())
    (y * y).sum().backward()
    assert x.grad.tolist() == [[0, 0, 4], [0, 0, 0]]


def test_complaints(t):
    other = masked.masked_tensor(t.get_data(), ~t.get_mask())
    with pytest.raises(ValueError, match="Input masks must match"):
        t + other
    with pytest.raises(TypeError, match="mask must have dtype bool"):
        masked.masked_tensor(torch.ones(2), torch.ones(2))
    with pytest.raises(ValueError, match=r"data.dim\(\) must equal mask.dim\(\)"):
        masked.masked_tensor(torch.ones(2), torch.ones(2, 1, dtype=torch.bool))
    with pytest.raises(TypeError, match="Multiple dispatch failed"):
        t.max()


def small():
    return masked.masked_tensor(
        torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[True, False], [True, True]])
    )


# what PyTorch gives
TEXTS = {
    "functions of masked tensors are plain": (lambda t: masked.sum(t, 0), "tensor([4., 4.])"),
    "nothing is there": (
        lambda t: masked.masked_tensor(torch.tensor(2.0), torch.tensor(False)),
        "MaskedTensor(--, False)",
    ),
    "integers have medians": (
        lambda t: masked.median(t.get_data().long(), 1, mask=t.get_mask()),
        "tensor([1, 3])",
    ),
    "by coordinates": (lambda t: t.to_sparse(), repr(small())),
    "a chosen number is there": (
        lambda t: torch.where(torch.tensor([[True, False], [True, True]]), t, 0.0).get_mask(),
        "tensor([[True, True],\n        [True, True]])",
    ),
    "square keeps the mask": (lambda t: t.square().get_mask(), repr(small().get_mask())),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_is_pytorchs(name):
    run, expected = TEXTS[name]
    assert repr(run(small())) == expected


@pytest.mark.parametrize("name", ["sort", "median", "nansum", "count_nonzero", "tril", "nonzero"])
def test_functions_that_would_forget_the_mask_are_refused(name):
    with pytest.raises(TypeError, match="Multiple dispatch failed"):
        getattr(small(), name)()


@pytest.mark.parametrize(
    "run, kind",
    [
        (lambda s: masked.amax(s, 0), ValueError),
        (lambda s: masked.argmax(s, 0), ValueError),
        (lambda s: masked.median(s, 0), ValueError),
        (lambda s: masked.amax(s.to_dense() > 0, mask=s.to_dense() > 0), NotImplementedError),
    ],
)
def test_refusal_is_pytorchs(run, kind):
    with pytest.raises(kind):
        run(torch.eye(2).to_sparse())


# -- masks of inputs and results, sparse inputs


def test_masks_have_the_shape_and_layout_of_inputs_and_results():
    x, row = torch.arange(6.0).reshape(2, 3), torch.tensor([True, False, True])
    assert masked._input_mask(x, mask=row).tolist() == [[True, False, True]] * 2
    assert masked._input_mask(x.to_sparse(), mask=row).layout is torch.sparse_coo
    assert masked._output_mask(masked.sum, x, 0, mask=row).tolist() == row.tolist()
    assert masked._output_mask(masked.norm, x, 2, 1, mask=row).tolist() == [True, True]
    assert masked._output_mask(masked.cumsum, x, 1, mask=row).shape == (2, 3)
    assert masked._combine_input_and_mask(masked.amax, x, row).tolist()[0] == [0, -math.inf, 2]
    with pytest.raises(IndexError, match="mask dimensionality higher than of the input"):
        masked._input_mask(x[0], mask=torch.ones(2, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match="_input_mask requires explicit mask"):
        masked._input_mask(x)


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "mean", "norm"])
@pytest.mark.parametrize("to", ["to_sparse", "to_sparse_csr"])
def test_reductions_of_sparse_inputs_have_their_layout(name, to):
    x, function = torch.tensor([[1.0, 0.0, 3.0], [0.0, 5.0, 0.0]]), getattr(masked, name)
    mask = torch.tensor([[True, True, False], [False, False, False]])
    found = function(getattr(x, to)(), dim=1, keepdim=True, mask=getattr(mask, to)())
    assert found.layout is getattr(x, to)().layout
    expected = function(x, dim=1, keepdim=True, mask=mask)
    kept = masked._output_mask(function, x, dim=1, keepdim=True, mask=mask)
    assert found.to_dense()[kept].tolist() == expected[kept].tolist()
    dense = function(x, dim=1, keepdim=True, mask=getattr(mask, to)())  # a sparse mask alone
    assert dense[kept].tolist() == expected[kept].tolist()


def test_choices_by_sparse_masks_keep_what_is_true():
    x, mask = torch.tensor([[1, 0, 3], [4, 5, 0]]), torch.tensor([[1, 1, 0], [0, 0, 1]]).bool()
    for to in ("to_sparse", "to_sparse_csr"):
        found = masked._where(getattr(mask, to)(), getattr(x, to)(), torch.tensor(9))
        assert found.values().tolist() == [1, 0, 0]
    hybrid = masked._where(mask.to_sparse(1), x.to_sparse(1), torch.tensor(9))
    assert hybrid.to_dense().tolist() == [[1, 0, 9], [9, 9, 0]]


def test_masked_sums_have_gradients_where_the_mask_leaves_something():
    x = masked.masked_tensor(X.clone(), MASK, requires_grad=True)
    x.sum().backward()
    assert x.grad.get_data()[MASK].tolist() == [1.0] * int(MASK.sum())


@pytest.mark.parametrize("make", [masked.masked_tensor, masked.as_masked_tensor])
def test_changes_in_place_do_not_reach_the_data(make):
    x = torch.tensor([-1.0, 2.0])
    changed = make(x, torch.tensor([True, False])).abs_()
    assert x.tolist() == [-1, 2] and changed.get_data()[0] == 1


@pytest.mark.parametrize("layout", ["to_sparse_coo", "to_sparse_csr"])
@pytest.mark.parametrize("name", ["div", "eq", "maximum", "remainder", "add", "mul"])
def test_sparse_masked_tensors_meet_where_their_elements_are(name, layout):
    data, other = torch.arange(1.0, 7).reshape(2, 3), torch.full((2, 3), 4.0)
    mask = data > 3
    there = getattr(mask, layout)()
    one, two = (masked.masked_tensor(t.sparse_mask(there), there) for t in (data, other))
    function = getattr(torch, name)
    found = function(one, two)
    assert torch.equal(found.get_data().to_dense()[mask], function(data, other)[mask])
    assert torch.equal(found.get_mask().to_dense(), mask)
    assert one.amax().item() == 6 and one.argmin().item() == 3


@pytest.mark.parametrize(
    "error, words, data, mask",
    [
        (TypeError, "same layout", "eye(2).to_sparse()", "eye(2).bool()"),
        (TypeError, "sparse_csc is not", "eye(2).to_sparse_csc()", "eye(2).bool().to_sparse_csc()"),
        (ValueError, "same indices", "eye(2).to_sparse()", "eye(2).flip(0).bool().to_sparse()"),
        (ValueError, "crow or col", "eye(2).to_sparse_csr()",
         "eye(2).flip(0).bool().to_sparse_csr()"),
    ],
)  # fmt: skip
def test_data_and_mask_that_do_not_go_together_are_refused(error, words, data, mask):
    data, mask = (eval(text, {"eye": torch.eye}) for text in (data, mask))
    with pytest.raises(error, match=words):
        masked.masked_tensor(data, mask)


def test_masked_tensor_of_what_wants_gradients_warns():
    with pytest.warns(UserWarning, match="not recommended to create a MaskedTensor"):
        masked.masked_tensor(torch.ones(2, requires_grad=True), torch.tensor([True, False]))


def test_masked_tensors_of_truth_values_have_no_gradients():
    truth = torch.tensor([True, False])
    with pytest.raises(RuntimeError, match="Only Tensors of floating point and complex dtype"):
        torch.masked.masked_tensor(truth, truth, requires_grad=True)
