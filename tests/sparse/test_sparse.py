"""Sparse tensors against what PyTorch gave (tests/golden/record_sparse.py), and their corners."""

import copy
import io
import json
import pathlib
import pickle
import warnings

import pytest

import flambeau
from flambeau import interposing
from flambeau.testing import assert_close
from tests.sparse import sparse_cases as cases

GOLDEN = json.loads((pathlib.Path(__file__).parents[1] / "golden" / "sparse.json").read_text())
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("expression", cases.EXPRESSIONS)
def test_call_gives_what_pytorch_gives(expression):
    assert cases.outcome(flambeau, expression) == GOLDEN["texts"][expression]


def test_results_and_gradients_have_pytorchs_numbers():
    assert cases.numbers(flambeau) == pytest.approx(GOLDEN["numbers"], rel=2e-5, abs=2e-6)


@pytest.mark.parametrize("name", cases.OPTIMIZERS)
def test_embeddings_with_sparse_gradients_train_as_in_pytorch(name):
    losses = cases.embedding_losses(flambeau, name)
    assert losses == pytest.approx(GOLDEN["embeddings"][name], rel=2e-5)


@pytest.mark.parametrize("name", ["GCN", "GAT"])
def test_graph_network_trains_as_in_pytorch(name):
    losses = cases.network_losses(flambeau, name)
    assert losses == pytest.approx(GOLDEN["networks"][name], rel=2e-4)
    assert losses[-1] < losses[0]


@pytest.mark.oracle
def test_golden_numbers_are_those_of_this_pytorch():
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert cases.numbers(torch) == pytest.approx(GOLDEN["numbers"], rel=1e-6)


def _made(torch):
    eye = torch.eye(4)
    return [
        eye.to_sparse(),
        eye.to_sparse_csr(),
        eye.to_sparse_csc(),
        eye.to_sparse_bsr((2, 2)),
        torch.sparse_coo_tensor([[1, 1]], [1.0, 2.0], (3,)),
        torch.sparse_coo_tensor([[0, 2]], [[1.0, 2.0], [3.0, 4.0]], (3, 2)),
    ]


@pytest.mark.parametrize("weights_only", [True, False])
def test_saved_and_loaded(weights_only):
    for t in _made(flambeau):
        file = io.BytesIO()
        flambeau.save({"t": t}, file)
        file.seek(0)
        assert str(flambeau.load(file, weights_only=weights_only)["t"]) == str(t)
        assert str(pickle.loads(pickle.dumps(t))) == str(t)
        assert str(copy.deepcopy(t)) == str(t)


@pytest.mark.oracle
@pytest.mark.parametrize("weights_only", [True, False])
def test_files_travel_both_ways(weights_only):
    import torch

    for ours, theirs in zip(_made(flambeau), _made(torch)):
        for source, t, other in ((flambeau, ours, torch), (torch, theirs, flambeau)):
            file = io.BytesIO()
            source.save({"t": t}, file)
            file.seek(0)
            assert str(other.load(file, weights_only=weights_only)["t"]) == str(t)


@pytest.mark.parametrize("dtype", "float32 float64 float16 bfloat16 complex64 int64".split())
@pytest.mark.parametrize("width", [1, 7, 200])
def test_product_is_that_of_dense_matrices(dtype, width):
    dtype = getattr(flambeau, dtype)
    flambeau.manual_seed(0)
    a = (flambeau.rand(30, 20) * (flambeau.rand(30, 20) > 0.7) * 5).to(dtype)
    b = (flambeau.rand(20, width) * 5).to(dtype)
    wide = flambeau.float64 if dtype.is_floating_point else dtype
    expected = (a.to(wide) @ b.to(wide)).to(dtype)
    loose = 0.05 if dtype.itemsize == 2 else 1e-4
    for s in (a.to_sparse(), a.to_sparse_csr(), a.to_sparse_csc()):
        assert flambeau.allclose(s @ b, expected, rtol=loose, atol=loose)
        assert flambeau.allclose((b.t() @ s.t()), expected.t(), rtol=loose, atol=loose)


def test_product_is_the_same_for_any_number_of_threads():
    flambeau.manual_seed(0)
    a = (flambeau.rand(3000, 500) * (flambeau.rand(3000, 500) > 0.97)).to_sparse_csr()
    b = flambeau.rand(500, 65)
    before = flambeau.get_num_threads()
    results = []
    for threads in (1, 2):
        flambeau.set_num_threads(threads)
        results.append(a @ b)
    flambeau.set_num_threads(before)
    assert flambeau.equal(*results)


def test_places_outside_are_noticed_by_kernels():
    bad = flambeau.sparse_csr_tensor([0, 1, 2], [0, 9], [1.0, 2.0], (2, 2))
    with pytest.raises(RuntimeError, match="out of bounds"):
        bad @ flambeau.ones(2, 3)
    worse = flambeau.sparse_csr_tensor([0, 7, 2], [0, 1], [1.0, 2.0], (2, 2))
    with pytest.raises(RuntimeError, match="out of bounds"):
        worse @ flambeau.ones(2, 1)
    outside = flambeau.sparse_coo_tensor([[5]], [1.0], (2,))
    with pytest.raises((RuntimeError, IndexError)):
        outside.to_dense()


def test_second_derivative_of_a_product():
    s = flambeau.eye(3, dtype=flambeau.float64).to_sparse()
    values = flambeau.rand(3, dtype=flambeau.float64, requires_grad=True)
    x = flambeau.rand(3, 2, dtype=flambeau.float64, requires_grad=True)

    def product(values, x):
        return flambeau.sparse.mm(flambeau.sparse_coo_tensor(s.indices(), values, s.shape), x)

    assert flambeau.autograd.gradcheck(product, (values, x))
    assert flambeau.autograd.gradgradcheck(product, (values, x))


def test_dense_and_sparse_gradients_meet_in_a_leaf():
    weight = flambeau.ones(4, 2, requires_grad=True)
    rows = flambeau.nn.functional.embedding(flambeau.tensor([1, 1]), weight, sparse=True)
    rows.sum().backward()
    assert weight.grad.is_sparse
    weight.sum().backward()
    assert not weight.grad.is_sparse
    assert weight.grad.tolist() == [[1, 1], [3, 3], [1, 1], [1, 1]]
    rows = flambeau.nn.functional.embedding(flambeau.tensor([0]), weight * 2, sparse=True)
    weight.grad = None
    rows.sum().backward()
    assert weight.grad.to_dense().tolist() == [[2, 2], [0, 0], [0, 0], [0, 0]]


@pytest.mark.parametrize("name", "Adam RMSprop Adadelta Adamax NAdam RAdam Rprop ASGD".split())
def test_other_optimizers_refuse_sparse_gradients(name):
    p = flambeau.ones(4, 2, requires_grad=True)
    p.grad = flambeau.sparse_coo_tensor([[1]], flambeau.ones(1, 2), (4, 2))
    with pytest.raises(RuntimeError, match=f"{name} does not support sparse gradients"):
        getattr(flambeau.optim, name)([p]).step()


def test_unknown_functions_are_refused_not_run():
    s = flambeau.eye(3).to_sparse()
    for call in (s.exp, s.argmax, s.flip, lambda: s.cumsum(0), lambda: flambeau.where(s, s, s)):
        with pytest.raises((NotImplementedError, TypeError)):
            call() if call != s.flip else s.flip(0)


def test_zeros_of_a_sparse_layout():
    for layout in (flambeau.sparse_coo, flambeau.sparse_csr, flambeau.sparse_csc):
        for make in (flambeau.zeros, flambeau.empty):
            t = make(2, 3, layout=layout, dtype=flambeau.float64)
            assert t.layout is layout and t._nnz() == 0 and t.dtype is flambeau.float64
            assert flambeau.equal(t.to_dense(), flambeau.zeros(2, 3, dtype=flambeau.float64))
    assert flambeau.zeros((2, 3), layout=flambeau.strided).layout is flambeau.strided


def test_invariants_are_checked_where_asked():
    checked = flambeau.sparse.check_sparse_tensor_invariants()
    with checked, pytest.raises(RuntimeError, match="size is inconsistent with indices"):
        flambeau.sparse_coo_tensor([[5]], [1.0], (2,))
    with pytest.raises(RuntimeError, match=r"`crow_indices\[..., -1\] == nnz` is not satisfied"):
        flambeau.sparse_csr_tensor([0, 1, 3], [0, 1], [1.0, 2.0], (2, 2), check_invariants=True)


def test_dense_programs_meet_no_handler(tmp_path):
    import subprocess
    import sys

    code = (
        "import flambeau, sys; from flambeau import interposing; "
        "(flambeau.ones(3) + 1).sum(); "
        "assert not interposing.is_active() and 'flambeau._sparse.answers' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert interposing is not None


# -- shapes of both, and in place


@pytest.mark.parametrize(
    "old, count, new",
    [([2, 1, 3], 3, [2, 4, 3]), ([3], 1, [2, 3]), ([2, 1, 1], 2, [5, 2, 4, 3]), ([1], 1, [0])],
)
def test_elements_are_repeated_in_broadcasts(old, count, new):
    x = flambeau.randn(old).requires_grad_()
    found = flambeau._sparse_broadcast_to(x.to_sparse(count), new)
    assert_close(found.to_dense(), x.detach().broadcast_to(new))
    if found.is_coalesced():
        again = flambeau.sparse_coo_tensor(found._indices(), found._values(), new).coalesce()
        assert flambeau.equal(again.indices(), found.indices())
    found.to_dense().sum().backward()
    assert_close(
        x.grad, flambeau.full(old, float(flambeau.Size(new).numel() / flambeau.Size(old).numel()))
    )
    with pytest.raises(RuntimeError, match="does not broadcast"):
        flambeau._sparse_broadcast_to(x.detach().to_sparse(count), [])


@pytest.mark.parametrize("shape", [[], [1], [4, 1], [2, 1, 3], [5, 1, 1, 1]])
def test_products_broadcast(shape):
    x, y = flambeau.randn(2, 4, 3), flambeau.randn(shape)
    for other in (y.to_sparse(), y):
        assert_close((x.to_sparse() * other).to_dense(), x * y)
        assert_close((other * x.to_sparse(2)).to_dense(), x * y)


def test_dimensions_move_in_place():
    x = flambeau.randn(2, 3)
    s = x.to_sparse()
    assert s.t_() is s and s.shape == (3, 2)
    assert_close(s.to_dense(), x.t())
    assert_close(s.transpose_(0, 1).to_dense(), x)
    assert_close(s.permute(dims=(1, 0)).to_dense(), x.t())
    with pytest.raises(RuntimeError, match="duplicate dims"):
        s.permute(0, 0)


def test_old_ways_to_make_sparse_tensors():
    s = flambeau.eye(3).to_sparse()
    assert flambeau.equal(s.new(s._indices(), s._values(), s.size()).to_dense(), flambeau.eye(3))
    assert s.new(s._indices(), s._values()).shape == (3, 3)
    assert flambeau.sparse_coo_tensor(size=(2, 3)).shape == (2, 3)
    zeros = flambeau.sparse_coo_tensor([3, 3])  # a sum where one has dimensions in its values
    assert flambeau.equal((zeros + flambeau.eye(3).to_sparse(1)).to_dense(), flambeau.eye(3))
    assert s.clone().resize_as_(flambeau.ones(4, 4).to_sparse()).shape == (4, 4)


@pytest.mark.parametrize("value", [True, 3, 2.5])
def test_numbers_keep_their_dtype(value):
    for dtype in (flambeau.bool, flambeau.int32, flambeau.float16):
        x = flambeau.tensor(value).to(dtype)
        assert x.to_sparse().to_dense().dtype is dtype
        assert flambeau.equal(x.to_sparse().to_dense(), x)


def test_typed_constructors_of_old():
    indices, values = flambeau.tensor([[0, 1, 1], [2, 0, 2]]), flambeau.tensor([3.0, 4.0, 5.0])
    s = flambeau.sparse.FloatTensor(indices, values, flambeau.Size([3, 3]))
    assert s.shape == (3, 3) and flambeau.equal(s._values(), values)
    assert flambeau.sparse.LongTensor(indices, values.long()).shape == (2, 3)
    assert flambeau.sparse.DoubleTensor(2, 3).dtype is flambeau.float64
    assert flambeau.sparse.HalfTensor().shape == (0,)
    assert isinstance(s, flambeau.sparse.FloatTensor)
    assert not isinstance(s, (flambeau.sparse.DoubleTensor, flambeau.FloatTensor))
    assert not isinstance(s.to_dense(), flambeau.sparse.FloatTensor)
    assert not isinstance(s, flambeau.cuda.sparse.FloatTensor)
    assert s.type("torch.sparse.DoubleTensor").dtype is flambeau.float64
    assert s.type(flambeau.sparse.LongTensor).dtype is flambeau.int64
    assert repr(flambeau.sparse.FloatTensor) == "<class 'torch.sparse.FloatTensor'>"
    with pytest.raises(TypeError, match="only accepts sizes"):
        flambeau.sparse.FloatTensor([1, 2])


def test_dropout_in_evaluation_keeps_elements():
    s = flambeau.eye(3).to_sparse()
    assert flambeau.nn.Dropout(0.5).eval()(s) is s
    assert flambeau.nn.functional.dropout(s, 0.0) is s
    with pytest.raises(NotImplementedError, match="bernoulli_"):
        flambeau.nn.functional.dropout(s, 0.5)


def test_workers_send_sparse_and_nested_tensors():
    coo = flambeau.sparse_coo_tensor([[0, 0, 1], [2, 2, 0]], [1.0, 2.0, 3.0], (2, 3))
    jagged = flambeau.nested.nested_tensor(
        [flambeau.ones(2), flambeau.ones(1)], layout=flambeau.jagged
    )
    samples = [coo, coo.coalesce(), coo.to_sparse_csr(), coo.to_sparse_bsr((1, 1)), jagged]
    loader = flambeau.utils.data.DataLoader(samples, batch_size=None, num_workers=1)
    *found, pieces = loader
    for sent, here in zip(samples, found):
        assert here.layout is sent.layout and flambeau.equal(here.to_dense(), sent.to_dense())
    assert not found[0].is_coalesced() and found[1].is_coalesced()
    assert [t.tolist() for t in pieces.unbind()] == [[1.0, 1.0], [1.0]]


def test_batches_of_sparse_or_nested_samples_need_a_function():
    collate = flambeau.utils.data.default_collate
    with pytest.raises(RuntimeError, match="Batches of sparse tensors are not currently supported"):
        collate([flambeau.eye(2).to_sparse()] * 2)
    with pytest.raises(RuntimeError, match="Batches of nested tensors are not currently supported"):
        collate([flambeau.nested.nested_tensor([flambeau.ones(2)])] * 2)


KINDS = ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")


@pytest.mark.parametrize("goal", KINDS)
@pytest.mark.parametrize("kind", KINDS[1:])
def test_zeros_like_keeps_blocks_and_dense_dimensions(kind, goal):
    block, blocked = (2, 1) if "bs" in kind else None, ("bs" in kind, "bs" in goal)
    s = flambeau.randn(4, 2, 3).to_sparse(
        layout=getattr(flambeau, kind), blocksize=block, dense_dim=1
    )
    layout = getattr(flambeau, goal)
    if goal != "sparse_coo" and blocked[0] != blocked[1]:
        with pytest.raises(RuntimeError, match="sparse_compressed_tensor_with_dims: blocksize"):
            flambeau.zeros_like(s, layout=layout)
        return
    zeros = flambeau.zeros_like(s, layout=layout, dtype=flambeau.float64)
    assert zeros.layout is layout and zeros.dtype is flambeau.float64 and zeros.dense_dim() == 1
    assert zeros._nnz() == 0 and flambeau.equal(zeros.to_dense(), flambeau.zeros(4, 2, 3).double())
    if blocked[1]:
        assert zeros.values().shape == (0, 2, 1, 3)


def test_sums_of_rows_give_every_place_a_gradient():
    s = flambeau.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse_csr().requires_grad_()
    (s.sum(1, keepdim=True) * 2).sum().backward()
    assert flambeau.equal(s.grad, flambeau.full((2, 2), 2.0))


def test_layouts_and_blocks_that_are_asked_for():
    x = flambeau.eye(2)
    assert x.to_sparse(layout=flambeau.strided) is x
    for size in ((1,), [1, 1, 1]):
        with pytest.raises(
            RuntimeError, match=f"blocksize needs to be a tuple of size 2, but got {len(size)}"
        ):
            x.to_sparse(blocksize=size)
    s = x.to_sparse()
    with pytest.raises(RuntimeError, match="sspaddmm: expected 'mat1' to have sparse layout"):
        s.sspaddmm(x, x)
    with pytest.raises(RuntimeError, match="sspaddmm: expected 'mat2' to have strided layout"):
        s.sspaddmm(s, s)


def test_long_lines_of_text_break_as_in_pytorch():
    zeros = flambeau.sparse_coo_tensor(size=(100, 20, 3)).requires_grad_()
    shown = repr(zeros + zeros)
    assert shown.endswith(
        "       size=(100, 20, 3), nnz=0, layout=torch.sparse_coo, grad_fn=<AddBackward0>)"
    )


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("function", ["to_dense", "sum", "values"])
def test_gradcheck_of_sparse_inputs_counts_places(function, masked):
    check = flambeau.sparse.as_sparse_gradcheck(flambeau.autograd.gradcheck)
    s = flambeau.tensor([[0.0, 2.0], [3.0, 0.0]], dtype=flambeau.float64).to_sparse_csr()
    assert check(getattr(flambeau.Tensor, function), s.requires_grad_(), masked=masked)


def test_sparse_tensors_go_through_queues_and_pickles():
    s = flambeau.sparse_coo_tensor([[0, 0], [2, 2]], [1.0, 2.0], (2, 3))
    queue = flambeau.multiprocessing.get_context("fork").SimpleQueue()
    for sent in (s, s.to_sparse_csr()):
        queue.put(sent)
        found = queue.get()
        assert found.layout is sent.layout and flambeau.equal(found.to_dense(), sent.to_dense())
    found = pickle.loads(pickle.dumps(flambeau.nn.Parameter(s)))
    assert type(found) is flambeau.nn.Parameter and found.requires_grad
    assert flambeau.equal(found.detach().to_dense(), s.to_dense())


@pytest.mark.parametrize("kind", KINDS[1:])
def test_conversions_keep_the_dtype_of_places(kind):
    s = flambeau.eye(4).to_sparse_csr()
    s = flambeau.sparse_csr_tensor(
        s.crow_indices().int(), s.col_indices().int(), s.values(), (4, 4)
    )
    found = s.to_sparse(layout=getattr(flambeau, kind), blocksize=(2, 2) if "bs" in kind else None)
    places = found.col_indices() if kind.endswith("r") else found.row_indices()
    assert places.dtype is flambeau.int32 and flambeau.equal(found.to_dense(), flambeau.eye(4))
