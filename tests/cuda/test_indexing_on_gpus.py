"""Reads and writes through indices on a GPU, by the host: results are the same, to the last bit."""

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from tests.cuda.test_sorting_on_gpus import check

DTYPES = "float32 float64 bfloat16 int64 int32 int16 uint8 bool complex64 complex128"

READS = """
x.gather(0, i)
x.gather(1, i[:13].mT.contiguous().mT % 17)
x.index_select(1, j % 17)
x.index_select(0, j % 13)
x[:, j]
x[j % 13]
x[j % 13, j]
x[j % 13, :, j % 6]
x.transpose(0, 2)[..., j % 13]
x.take(j)
x[:0].index_select(2, j % 6)
"""

# i: indices that repeat, v: as many values; j: a vector of them, w: slices
WRITES = """
x.scatter(0, i, v)
x.scatter(1, i[:13] % 17, v[:13])
x.scatter_add(0, i, v)
x.scatter_add(2, i[:13] % 6, v[:13])
x.index_add(1, j % 17, w)
x.index_copy(1, j % 17, w)
x.index_fill(1, j % 17, 1)
x.index_put((j % 13, j), w[0], accumulate=True)
x.index_put((j % 13, j), w[0])
x.index_put((j % 13,), x[:1, :1, :1].reshape(()), accumulate=True)
x.put(j, w[0, :, 0], accumulate=True)
x.put(j, w[0, :, 0])
long.scatter_add(0, far, many)
long.scatter(0, far, many)
long.index_put((far,), many, accumulate=True)
"""


def names(dtype):
    torch.manual_seed(0)

    def make(*shape):
        return torch.randint(0, 9, shape).to(getattr(torch, dtype))

    return {
        "x": make(13, 17, 6), "v": make(20, 17, 6), "w": make(13, 40, 6), "long": make(100),
        "many": make(5000), "i": torch.randint(0, 13, (20, 17, 6)),
        "j": torch.randint(-17, 17, (40,)), "far": torch.randint(0, 100, (5000,)),
    }  # fmt: skip


def run(expression):
    keys = list(names("float32"))
    return lambda *tensors: eval(expression, {"torch": torch, **dict(zip(keys, tensors))})


@pytest.mark.parametrize("dtype", DTYPES.split())
@pytest.mark.parametrize("expression", [*READS.split("\n")[1:-1], *WRITES.split("\n")[1:-1]])
def test_indices(expression, dtype):
    given = names(dtype)
    if dtype == "bfloat16" and "accumulate" in expression:
        given["many"] //= 8  # the host rounds after every addition
    check(run(expression), *given.values())


@pytest.mark.parametrize("dtype", "float32 float64 int64 int32 int8".split())
@pytest.mark.parametrize("how", "sum prod mean amax amin".split())
def test_scattered_reductions(how, dtype):
    x, src = (
        torch.ones(100).to(getattr(torch, dtype)),
        torch.randint(1, 4, (300,)).to(getattr(torch, dtype)),
    )
    index = torch.randint(0, 100, (300,))
    for own in (True, False):
        check(lambda x, i, s, o=own: x.scatter_reduce(0, i, s, how, include_self=o), x, index, src)


def test_sums_of_rows_are_added_in_order():
    torch.manual_seed(0)
    rows, index = torch.randn(5000, 12), torch.randint(0, 9, (5000,))
    check(lambda r, i: torch.zeros(9, 12, device=r.device).index_add(0, i, r), rows, index)


@pytest.fixture
def repeatable():
    """Results are the same in every run."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [40000, 40003])
def test_many_numbers_are_added_in_any_order(dtype, count):
    torch.manual_seed(0)
    many, index = torch.randn(count).to(getattr(torch, dtype)), torch.randint(0, 700, (count,))
    start = torch.randn(700).to(many.dtype)
    found = start.cuda().scatter_add(0, index.cuda(), many.cuda()).cpu()
    torch.testing.assert_close(found, start.scatter_add(0, index, many), rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("repeatable")
def test_many_doubles_are_added_in_order():
    torch.manual_seed(0)
    many, index = torch.randn(40000).double(), torch.randint(0, 70, (40000,))
    check(lambda i, m: torch.zeros(70, device=m.device).double().scatter_add(0, i, m), index, many)


@pytest.mark.usefixtures("repeatable")
@pytest.mark.parametrize("scale", [1.0, 1e-42, 1e30])
def test_many_numbers_are_added_exactly(scale):
    torch.manual_seed(0)
    many, index = torch.randn(40000) * scale, torch.randint(0, 70, (40000,))
    many[::3] *= 1e-6
    start = torch.randn(70) * scale

    def run(start, index, many):
        return start.scatter_add(0, index, many)

    found = [run(*[t.cuda() for t in (start, index, many)]) for _ in range(2)]
    assert torch.equal(*found)
    wanted = run(start.double(), index, many.double())
    torch.testing.assert_close(found[0].cpu().double(), wanted, rtol=1e-6, atol=1e-45)


@pytest.mark.parametrize("exact", [False, True])
def test_what_is_not_finite_is_added_like_numbers(exact, request):
    if exact:
        request.getfixturevalue("repeatable")
    torch.manual_seed(0)
    many, index = torch.randn(40000), torch.arange(40000) % 5
    many[0], many[1], many[2], many[7], many[3] = (
        float(x) for x in ("inf", "-inf", "inf", "-inf", "nan")
    )
    found = torch.zeros(5, device="cuda").scatter_add(0, index.cuda(), many.cuda()).cpu()
    wanted = torch.zeros(5).scatter_add(0, index, many)
    torch.testing.assert_close(found, wanted, equal_nan=True, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(3,), (4097,), (70, 300), (3, 17, 1001), (40003,), ()])
@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 1.0])
def test_masks(shape, share):
    torch.manual_seed(0)
    x, mask = torch.randn(shape), torch.rand(shape) < share
    y = torch.randn(max(x.numel(), 1))
    for dtype in ("bool", "float32", "int64", "uint8"):
        check(lambda t: t.nonzero(), mask.to(getattr(torch, dtype)))
    check(lambda x, m: x[m], x, mask)
    check(lambda x, m, y: x.masked_scatter(m, y), x, mask, y)
    if len(shape) == 1:  # where nothing is aligned
        check(lambda x, m: x[1:][m[1:]], x, mask)


def test_copies_take_no_more_memory_than_their_result():
    x = torch.randn(1 << 20)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    there = x.to("cuda")
    assert torch.cuda.max_memory_allocated() - before < 1.1 * x.nbytes
    for given in (x.view(1024, -1).t(), x.double(), x[::3], x.view(2, 4, 131072).transpose(0, 1)):
        for place in ("cuda", "cpu"):
            copy = given.cuda().to(place)
            assert torch.equal(copy.cpu(), given) and copy.stride() == given.cuda().stride()
    wide = torch.zeros(3, 4, device="cuda")
    wide.copy_(torch.arange(4))
    assert wide.cpu().tolist() == [[0, 1, 2, 3]] * 3 and there.device.type == "cuda"


MIXED = """
x[near]
x[near > 0]
x[:, near > 0]
x[near, near.cuda()]
x[True]
x[False]
x[torch.tensor(2)]
x[0, 0][torch.tensor(True, device="cuda")]
torch.index_put(x, (near,), torch.tensor(2.0))
torch.index_put(x, (near,), x[:1], accumulate=True)
x.clone().__setitem__(near, 3.0)
x.clone().__setitem__(near, torch.tensor(3.0))
x.clone().__setitem__(near > 0, 3.0)
"""


@pytest.mark.parametrize("expression", MIXED.split("\n")[1:-1])
def test_indices_of_the_host_are_sent_over(expression):
    near, results = torch.tensor([0, 2, 1]), []
    for place in ("cuda", "cpu"):
        x = torch.arange(9.0).reshape(3, 3).to(place)
        text = expression if place == "cuda" else expression.replace(".cuda()", "")
        text = text if place == "cuda" else text.replace(', device="cuda"', "")
        if "__setitem__" in text:
            text = text.replace("x.clone()", "(y := x.clone())") + " or y"
        results.append(eval(text, {"torch": torch, "x": x, "near": near}))
    assert results[0].device.type == "cuda" and torch.equal(results[0].cpu(), results[1])


def test_indices_of_a_gpu_are_not():
    index = torch.tensor([0, 1], device="cuda")
    with pytest.raises(RuntimeError, match=r"indices should be either on cpu or on the same dev"):
        torch.randn(3)[index]
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.randn(3, device="cuda")[index] = torch.randn(2)


@pytest.mark.parametrize("write", [False, True])
def test_a_wrong_index_is_told_later(cuda, write):
    x = torch.randn(4, 5, device="cuda")
    if write:
        x.index_add_(0, torch.tensor([1, 9], device="cuda"), torch.ones(2, 5, device="cuda"))
    else:
        x.gather(1, torch.tensor([[7]], device="cuda"))
    with pytest.raises(IndexError, match=r"indexed_(add|read): index out of range in self"):
        cuda.part(0).synchronize()
    assert x.cpu().shape == (4, 5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("index", ["int64", "int32"])
@pytest.mark.parametrize("rows, columns", [(7, 5), (1000, 8), (300, 768)])
def test_gradients_of_tables(rows, columns, dtype, index):
    torch.manual_seed(0)
    table = torch.randint(-3, 4, (rows, columns)).to(getattr(torch, dtype))
    for count in (0, 12, 700, 5000):
        places = torch.randint(0, rows, (count,)).to(getattr(torch, index))
        given = torch.randint(-3, 4, (count, columns)).to(table.dtype)
        for facts in ({}, {"padding_idx": 2}, {"scale_grad_by_freq": True}):

            def run(table, places, given, facts=facts):
                leaf = table.clone().requires_grad_()
                F.embedding(places, leaf, **facts).backward(given)
                return leaf.grad

            found, wanted = (
                run(*[t.to(d) for t in (table, places, given)]) for d in ("cuda", "cpu")
            )
            torch.testing.assert_close(found.cpu(), wanted)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_gradients_of_bags(mode):
    slopes = []
    for place in ("cuda", "cpu"):
        torch.manual_seed(0)
        table, places = torch.randn(30, 8), torch.randint(0, 30, (20, 5))
        leaf = table.to(place).requires_grad_()
        F.embedding_bag(places.to(place), leaf, mode=mode).pow(2).sum().backward()
        slopes.append(leaf.grad.cpu())
    torch.testing.assert_close(*slopes)
