"""Matrix products: against NumPy in double everywhere, against PyTorch where it is installed."""

import itertools

import numpy as np
import pytest

import flambeau as torch
from tests.ops.expressions import compare, with_gradients

nan = float("nan")


def draw(rng, *shape, dtype="float32"):
    if dtype.startswith("complex"):
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    if dtype.startswith("float"):
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0, 100, shape).astype(dtype)


# -- against NumPy --------------------------------------------------------------------------------

RANKS = [(4,), (3, 4), (2, 3, 4), (1, 3, 4), (5, 1, 3, 4), (2, 0, 4), (0, 4)]


def test_matmul_of_all_ranks(rng):
    for a, b in itertools.product(RANKS, RANKS):
        b = (*b[:-2], b[-1], b[-2]) if len(b) > 1 else b
        x, y = draw(rng, *a), draw(rng, *b)
        try:
            wanted = x.astype("float64") @ y.astype("float64")
        except ValueError:
            with pytest.raises(RuntimeError):
                torch.from_numpy(x) @ torch.from_numpy(y)
            continue
        ours = torch.from_numpy(x) @ torch.from_numpy(y)
        assert tuple(ours.shape) == wanted.shape and ours.is_contiguous()
        assert np.allclose(ours.numpy(), wanted, 1e-5, 1e-5), (a, b)


LAYOUTS = [
    lambda t: t,
    lambda t: t.t().contiguous().t(),
    lambda t: t.repeat(1, 2)[:, : t.shape[1]],
    lambda t: torch.cat([t, t], 0)[::2][: t.shape[0] // 2].repeat(2, 1),
]


@pytest.mark.parametrize("dtype", ["float32", "int64", "complex64", "float16"])
def test_layouts(dtype, rng):
    a, b = draw(rng, 18, 40, dtype=dtype), draw(rng, 40, 22, dtype=dtype)
    for left, right in itertools.product(LAYOUTS, LAYOUTS):
        x, y = left(torch.from_numpy(a)), right(torch.from_numpy(b))
        wide = np.dtype(
            np.float64 if dtype == "float16" else np.complex128 if "c" in dtype else a.dtype
        )
        wanted = x.numpy().astype(wide) @ y.numpy().astype(wide)
        tolerance = 4e-3 if dtype == "float16" else 1e-4
        assert np.allclose(x.mm(y).numpy(), wanted, tolerance, 10 * tolerance)
        assert np.allclose(x.mv(y[:, 3]).numpy(), wanted[:, 3], tolerance, 10 * tolerance)


def test_large_products_keep_their_digits(rng):
    for m, k, n in ((65, 2000, 48), (3, 100_003, 2), (200, 300, 100)):
        a, b = rng.random((m, k), dtype="float32"), rng.random((k, n), dtype="float32")
        exact = a.astype("float64") @ b.astype("float64")
        for x, y in (
            (torch.from_numpy(a), torch.from_numpy(b)),
            (torch.from_numpy(a.T.copy()).t(), torch.from_numpy(b)),
            (torch.from_numpy(a), torch.from_numpy(b.T.copy()).t()),
        ):
            assert np.abs(x.mm(y).numpy() / exact - 1).max() < 1e-6
    a = rng.random(1_000_003, dtype="float32")
    exact = a.astype("float64") @ a.astype("float64")
    assert abs(torch.from_numpy(a).dot(torch.from_numpy(a)).item() / exact - 1) < 2e-7
    halves = torch.from_numpy(a[:4096]).to(torch.bfloat16)
    wanted = (halves.double() * halves.double()).sum().item()
    assert abs(halves.dot(halves).item() / wanted - 1) < 4e-3


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_integers_wrap(dtype, rng):
    a, b = draw(rng, 17, 33, dtype=dtype), draw(rng, 33, 9, dtype=dtype)
    assert np.array_equal(torch.from_numpy(a).mm(torch.from_numpy(b)).numpy(), a @ b)
    long = draw(rng, 20_000, dtype=dtype)
    assert torch.from_numpy(long).dot(torch.from_numpy(long)).item() == (long @ long).item()


def test_same_bits_for_any_number_of_threads(rng):
    x, v = (torch.from_numpy(draw(rng, *s)) for s in ((300, 400), (300_000,)))
    q = torch.from_numpy(draw(rng, 20, 40, 40))
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found = (x.mm(x.t()), x.t().mm(x), v.dot(v), q.bmm(q), x.mv(x[0]))
            results.append([t.numpy().tobytes() for t in found])
    finally:
        torch.set_num_threads(before)
    assert results[0] == results[1]


def test_products_added_to_something():
    ones, nans = torch.ones(2, 2), torch.full((2, 2), nan)
    assert torch.addmm(nans, ones, ones, beta=0).tolist() == [[2.0, 2.0]] * 2
    assert torch.addmm(ones, nans, nans, alpha=0).tolist() == [[1.0, 1.0]] * 2
    assert torch.addmm(ones[0], ones, ones, beta=3, alpha=0.5).tolist() == [[4.0, 4.0]] * 2
    assert torch.addmm(ones.int(), ones.int(), ones.int(), beta=1.9).tolist() == [[3, 3]] * 2
    assert (
        torch.addmm(ones, torch.ones(2, 0), torch.ones(0, 2), beta=2).tolist() == [[2.0, 2.0]] * 2
    )
    x = torch.ones(2, 2)
    assert x.addmm_(ones, ones) is x and x.tolist() == [[3.0, 3.0]] * 2
    assert torch.addmv(ones[0], ones, ones[0]).tolist() == [3.0, 3.0]
    assert (
        torch.addr(torch.ones(2, 3), torch.ones(2), torch.arange(3.0)).tolist() == [[1, 2, 3]] * 2
    )
    assert torch.addbmm(ones, torch.ones(4, 2, 3), torch.ones(4, 3, 2)).tolist() == [[13, 13]] * 2
    assert torch.addmm(ones.t(), ones, ones).is_contiguous()


EQUATIONS = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("ii->i", (3, 3)), ("ii", (3, 3)),
    ("ij->ji", (2, 3)), ("i,j->ij", (2,), (3,)), ("...ij,...jk->...ik", (2, 3, 4), (4, 5)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)), ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("iji->j", (3, 2, 3)), ("ijij->ij", (2, 3, 2, 3)), ("a,b,c->cab", (2,), (3,), (4,)),
    ("bn,anm,bm->ba", (2, 5), (3, 5, 4), (2, 4)), ("i...j->...", (2, 4, 5, 3)), ("i,->i", (3,), ()),
    ("ij,jk->ik", (2, 0), (0, 3)), ("ab,ab,ab->a", (2, 3), (2, 3), (2, 3)),
]  # fmt: skip


def test_einsum(rng):
    for equation, *shapes in EQUATIONS:
        arrays = [draw(rng, *s, dtype="float64") for s in shapes]
        ours = torch.einsum(equation, *map(torch.from_numpy, arrays)).numpy()
        assert np.allclose(ours, np.einsum(equation, *arrays)), equation
    x, y = (torch.from_numpy(draw(rng, *s, dtype="float64")) for s in ((2, 3), (3, 4)))
    assert torch.equal(torch.einsum(x, [0, 1], y, [1, 2], [2, 0]), torch.einsum("ij,jk->ki", x, y))


STRIDES = [  # PyTorch's
    ("ij,jk->ik", (5, 1), (3, 4), (4, 5)), ("ij,jk->ki", (3, 1), (3, 4), (4, 5)),
    ("ij,jk->ki", (1, 5), (1, 4), (4, 5)), ("bij,bkj->kbi", (3, 15, 1), (2, 3, 4), (2, 5, 4)),
    ("ijk,bi->bjk", (20, 5, 1), (3, 4, 5), (2, 3)), ("ijz,jk->kiz", (1, 5, 5), (3, 4, 1), (4, 5)),
    ("ijz,jk->kzi", (3, 3, 1), (3, 4, 1), (4, 5)), ("ij,wjk->kiw", (2, 10, 1), (3, 4), (2, 4, 5)),
    ("abcd,cdef->eafb", (4, 36, 1, 12), (5, 3, 4, 5), (4, 5, 3, 4)),
    ("abcd,cdef->efab", (60, 15, 3, 1), (5, 3, 4, 5), (4, 5, 3, 4)),
    ("bi,ijk,bk->bj", (4, 1), (2, 3), (3, 4, 5), (2, 5)),
]  # fmt: skip


def test_results_of_einsum_lie_in_memory_as_pytorchs(rng):
    for equation, strides, *shapes in STRIDES:
        arrays = [draw(rng, *s, dtype="float64") for s in shapes]
        ours = torch.einsum(equation, *map(torch.from_numpy, arrays))
        assert ours.stride() == strides, equation
        assert np.allclose(ours.numpy(), np.einsum(equation, *arrays)), equation


def test_other_products(rng):
    a, b = draw(rng, 2, 3, dtype="float64"), draw(rng, 3, 2, dtype="float64")
    x, y = torch.from_numpy(a), torch.from_numpy(b)
    assert np.allclose(torch.kron(x, y).numpy(), np.kron(a, b))
    assert np.allclose(torch.tensordot(x, y, ([0, 1], [1, 0])).item(), np.tensordot(a, b.T, 2))
    assert np.allclose(torch.inner(x, y.t()).numpy(), np.inner(a, b.T))
    assert np.allclose(torch.outer(x[0], y[:, 0]).numpy(), np.outer(a[0], b[:, 0]))
    assert np.allclose(torch.cross(x, y.t(), dim=1).numpy(), np.cross(a, b.T))
    assert np.allclose(torch.vander(x[0], 4).numpy(), np.vander(a[0], 4))
    assert np.allclose(torch.trace(x).item(), np.trace(a))
    z = torch.tensor([1 + 2j, 3j])
    assert torch.vdot(z, z).item() == 14 and torch.dot(z, z).item() == -12 + 4j


def test_refusals():
    x, y = torch.ones(2, 3), torch.ones(4, 5)
    for call, kind, text in (
        (lambda: x @ y, RuntimeError, r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 4x5\)"),
        (lambda: x.mm(x.double().t()), RuntimeError, "same dtype, but got: float != double"),
        (lambda: x.mm(x[0]), RuntimeError, "mat2 must be a matrix"),
        (lambda: x.mv(y[0]), RuntimeError, r"size mismatch, got input \(2\), mat \(2x3\)"),
        (lambda: x[0].dot(y[0]), RuntimeError, r"inconsistent tensor size, expected tensor \[3\]"),
        (lambda: x.bmm(y), RuntimeError, "batch1 must be a 3D tensor"),
        (lambda: torch.mm(x, 2), TypeError, "argument 'mat2' .* must be Tensor, not int"),
        (lambda: torch.addmm(torch.ones(7), x, x.t()), RuntimeError, "The expanded size of the"),
        (lambda: torch.ones(2).addmm_(x, x.t()), RuntimeError, "Bad in-place call: input tensor"),
        (lambda: torch.mm(x, x.t(), out=torch.empty(0, dtype=torch.float64)), RuntimeError,
         "Expected out tensor to have dtype float, but got double"),
        (lambda: torch.einsum("ij,jk", x, y), RuntimeError, "subscript j has size 4 for operand 1"),
        (lambda: torch.einsum("ij->ik", x), RuntimeError, "output subscript k does not appear"),
        (lambda: torch.einsum("ij"), ValueError, r"einsum\(\): must specify the equation string"),
        (lambda: torch.tensordot(x, y), RuntimeError, "contracted dimensions need to match"),
        (lambda: torch.tensordot(x, x.t(), 1, out=torch.empty(1, 1, requires_grad=True)),
         RuntimeError, "the 'out' tensor was specified and requires gradients"),
    ):  # fmt: skip
        with pytest.raises(kind, match=text):
            call()


def test_chains_do_not_write_what_wants_a_gradient():
    x = torch.ones(2, 2, requires_grad=True)
    with (
        pytest.warns(UserWarning, match="chain_matmul is deprecated"),
        pytest.raises(RuntimeError, match="don't support automatic differentiation"),
    ):
        torch.chain_matmul(x, x, out=torch.empty(2, 2))


DERIVATIVES = [
    ("a @ b", (2, 3), (3, 2)), ("a @ b", (2, 2, 3), (3, 2)), ("a @ b", (3,), (2, 3, 2)),
    ("a @ b", (2, 3), (2, 3, 1)), ("a.mv(b)", (2, 3), (3,)), ("a.dot(b)", (3,), (3,)),
    ("torch.addmm(a, b, c, beta=2, alpha=3)", (2,), (3, 2), (2, 2)),
    ("torch.addmv(a, b, c)", (3,), (3, 2), (2,)), ("torch.addr(a, b, c)", (2, 3), (2,), (3,)),
    ("torch.addbmm(a, b, c)", (2, 2), (2, 2, 1), (2, 1, 2)),
    ("torch.baddbmm(a, b, c, beta=0.5)", (2, 2, 2), (2, 2, 1), (2, 1, 2)),
    ("torch.kron(a, b)", (2, 1), (2,)),
    ("torch.einsum('ij,jk,ik->i', a, b, c)", (2, 3), (3, 2), (2, 2)),
    ("torch.cross(a, b, dim=0)", (3,), (3,)), ("torch.tensordot(a, b, 1)", (2, 3), (3, 2)),
    ("torch.trace(a)", (2, 3)), ("torch.vander(a, 3)", (3,)),
]  # fmt: skip


@pytest.mark.parametrize("text, shapes", [(t, s) for t, *s in DERIVATIVES], ids=str)
def test_derivatives(text, shapes, rng):
    names = "abc"[: len(shapes)]
    function = eval(f"lambda {', '.join(names)}: {text}", {"torch": torch})
    inputs = [torch.from_numpy(draw(rng, *s, dtype="float64")).requires_grad_() for s in shapes]
    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs)


def test_meta():
    x, y = torch.empty(2, 3, 4, device="meta"), torch.empty(4, 5, device="meta")
    for found, shape in (
        (x @ y, (2, 3, 5)), (torch.einsum("bij,jk->kb", x, y), (5, 2)), (x[0].mv(y[:, 0]), (3,)),
        (torch.addmm(y[0], x[0], y), (3, 5)), (y[:, 0].dot(y[:, 1]), ()),
        (torch.kron(y, y), (16, 25)),
    ):  # fmt: skip
        assert found.shape == shape and found.device.type == "meta"


# -- against PyTorch ------------------------------------------------------------------------------

DTYPES = "bool uint8 int8 int32 int64 uint16 float16 bfloat16 float32 float64 complex64".split()
ADDED = {
    "addmm": ((3, 5), (3, 4), (4, 5)), "addmv": ((3,), (3, 4), (4,)), "addr": ((3, 4), (3,), (4,)),
    "addbmm": ((3, 5), (2, 3, 4), (2, 4, 5)), "baddbmm": ((2, 3, 5), (2, 3, 4), (2, 4, 5)),
}  # fmt: skip
PAIRS = {
    "mm": ((3, 4), (4, 5)), "bmm": ((2, 3, 4), (2, 4, 5)), "mv": ((3, 4), (4,)),
    "dot": ((4,), (4,)),
    "vdot": ((4,), (4,)), "matmul": ((2, 3, 4), (4, 5)), "outer": ((3,), (4,)),
    "inner": ((3, 4), (2, 4)), "kron": ((2, 3), (2, 2)),
}  # fmt: skip
SHAPES = [(), (3,), (4,), (0,), (3, 4), (4, 3), (4, 0), (0, 4), (2, 3, 4), (2, 4, 3), (1, 4, 3),
          (2, 0, 4), (5, 1, 4, 3)]  # fmt: skip


def called(name, shapes, dtypes, rest=""):
    arguments = (
        f"X('{d}', *{s}, seed={k})" for k, (s, d) in enumerate(zip(shapes, dtypes, strict=True))
    )
    return f"torch.{name}({', '.join(arguments)}{rest})"


def pair_expressions():
    for name, shapes in PAIRS.items():
        yield from (called(name, shapes, (d, d)) for d in DTYPES)
        for mixed in (("float32", "float64"), ("int64", "float32"), ("float16", "bfloat16")):
            yield called(name, shapes, mixed)
        yield called(name, shapes, ("float32",) * 2, ", out=torch.empty(0)")
        a, b = (f"X('float32', *{s})" for s in shapes)
        yield f"torch.{name}({a}.requires_grad_(), {b})"
        yield f"torch.{name}(X('float32', *{shapes[0]}), 2)"
    for name in ("mm", "mv", "bmm", "dot", "outer", "matmul", "inner"):
        shapes = SHAPES if name in ("matmul", "inner") else SHAPES[:10]
        yield from (called(name, p, ("float32",) * 2) for p in itertools.product(shapes, shapes))


def added_expressions():
    for name, shapes in ADDED.items():
        for dtype in DTYPES:
            for rest in ("", ", beta=2, alpha=3", ", beta=0.5, alpha=1.5", ", beta=0"):
                yield called(name, shapes, (dtype,) * 3, rest)
        f, d = "float32", "float64"
        for mixed in ((d, f, f), (f, d, f), (f, f, d), (f, d, d), ("int64", f, f)):
            yield called(name, shapes, mixed) if name != "addr" else called(name, shapes, (f, f, f))
        a, b, c = shapes
        for odd in (
            (a, c, b),
            (a, b, b),
            (a, b[:-1], c),
            (a, b, (*c, 2)),
            ((7,), b, c),
            ((), b, c),
        ):
            yield called(name, odd, (f,) * 3)
        yield called(name, ((1,) * 5, b, c), (f,) * 3)
        yield called(name, shapes, (f,) * 3, ", alpha=1j")
        yield called(name, shapes, (f,) * 3, ", out=torch.empty(0)")


@pytest.mark.oracle
@pytest.mark.parametrize("expressions", [pair_expressions, added_expressions])
def test_calls_do_what_pytorch_does(expressions):
    oracle = pytest.importorskip("torch")
    report = compare(torch, oracle, expressions())
    assert not report, report


WRONG = "ij->ijk ij->ii ijk->ij i->i i.j->ij i1->i ...i...->i ij->i.. ij->i->j ij,jk ii->i".split()


@pytest.mark.oracle
def test_einsum_does_what_pytorch_does():
    oracle = pytest.importorskip("torch")
    texts = [
        called("einsum", shapes, ("float64",) * len(shapes)).replace("(", f"('{equation}', ", 1)
        for equation, *shapes in EQUATIONS
    ]
    texts += [f"torch.einsum('{e}', X('float32', 2, 3))" for e in [*WRONG, "", "ij=>i"]]
    texts += [
        "torch.einsum(X('float64', 2, 3), [0, 1], X('float64', 3, 4), [1, 2], [0, 2])",
        "torch.einsum(X('float64', 2, 3), [..., 1], [1, ...])",
        "torch.einsum(X('float64', 3, 3), [0, 0])",
        "torch.einsum(X('float64', 2, 3), [0, 60], [0])",
        "torch.einsum('i', 3)",
        "torch.einsum()",
    ]
    report = compare(torch, oracle, texts)
    assert not report, report


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_gradients_are_those_of_pytorch(dtype):
    oracle = pytest.importorskip("torch")
    same_name = [d for d in DERIVATIVES if "vander" not in d[0]]
    texts = [with_gradients(t, *shapes, dtype=dtype) for t, *shapes in same_name]
    report = compare(torch, oracle, texts)
    assert not report, report


BATCHES = [
    ((4, 1), (1, 3)),
    ((4, 1), (3,)),
    ((), (2, 3)),
    ((2, 3), (2, 3)),
    ((1,), (5, 1)),
    ((0,), (1,)),
]


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("left, right", BATCHES)
def test_batches_broadcast_forward_and_backward(rng, left, right, dtype):
    for turned in (False, True):
        x = rng.standard_normal((*left, 5, 3)).astype(dtype)
        y = rng.standard_normal((*right, 3, 4)).astype(dtype)
        a, b = (torch.from_numpy(t).requires_grad_() for t in (x, y))
        if turned:  # as transposes lie in memory, and with gaps
            a, b = a.mT.contiguous().mT, b.repeat(*[1] * len(right), 1, 2)[..., ::2]
            y = b.detach().numpy()
        found = a @ b
        assert np.allclose(found.detach().numpy(), x @ y)
        g = rng.standard_normal(found.shape).astype(dtype)
        to_a, to_b = torch.autograd.grad(found, (a, b), torch.from_numpy(g))
        for mine, whole in ((to_a, g @ y.conj().mT), (to_b, x.conj().mT @ g)):
            extra = tuple(range(whole.ndim - mine.ndim))
            ones = [k for k in range(mine.ndim - 2) if mine.shape[k] == 1]
            wanted = whole.sum(extra).sum(tuple(ones), keepdims=True)
            assert np.allclose(mine.numpy(), wanted)


def test_broadcast_batches_have_second_derivatives(rng):
    a = torch.from_numpy(rng.standard_normal((2, 1, 3, 2))).requires_grad_()
    b = torch.from_numpy(rng.standard_normal((3, 2, 2))).requires_grad_()
    assert torch.autograd.gradcheck(torch.matmul, (a, b))
    assert torch.autograd.gradgradcheck(torch.matmul, (a, b))


def test_a_matrix_product_after_a_batched_one_still_checks(rng):
    a, b = torch.ones(3, 4), torch.ones(2, 4, 3)
    assert (a @ b).shape == (2, 3, 3)
    with pytest.raises(RuntimeError, match="mat2 must be a matrix"):
        torch.mm(a, b)


def test_what_does_not_fit_in_batches_is_refused():
    cases = [
        (((2, 1, 3, 4), (5, 6, 2)), "Expected size for first two dimensions of batch2 tensor"),
        (((2, 3, 3, 4), (2, 2, 4, 2)), "The size of tensor a"),
    ]
    for shapes, message in cases:
        with pytest.raises(RuntimeError, match=message):
            torch.matmul(*map(torch.ones, shapes))
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
        torch.matmul(torch.ones(2, 1, 2, 2), torch.ones(3, 2, 2, dtype=torch.float64))


def test_products_of_bytes_are_int32():
    a = torch.tensor([[-128, 127], [3, -4]], dtype=torch.int8)
    assert torch._int_mm(a, a).dtype is torch.int32
    assert torch._int_mm(a, a).tolist() == [[16765, -16764], [-396, 397]]
    with pytest.raises(RuntimeError, match="Expected self dtype to be int8 or uint8 but got int"):
        torch._int_mm(a.int(), a)
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch._int_mm(a, a[0])


def test_split_has_pytorchs_names():
    x = torch.arange(3)
    assert [p.tolist() for p in torch.split(tensor=x, split_size_or_sections=2)] == [[0, 1], [2]]
    assert [p.tolist() for p in x.split(split_size=[1, 2])] == [[0], [1, 2]]
    assert len(torch.ops.aten.split(x, 2)) == 2
