"""Reductions: against NumPy in double everywhere, against PyTorch where it is installed."""

import math
import warnings

import numpy as np
import pytest

import flambeau as torch
from tests.ops.expressions import compare, with_gradients

DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64".split()
NUMPY = {
    "sum": np.sum, "mean": np.mean, "prod": np.prod, "amax": np.max, "amin": np.min,
    "var": lambda a, **k: np.var(a, ddof=1, **k), "std": lambda a, **k: np.std(a, ddof=1, **k),
    "norm": lambda a, axis, keepdims: np.sqrt((a * a).sum(axis=axis, keepdims=keepdims)),
    "all": np.all, "any": np.any,
}  # fmt: skip
LAYOUTS = {  # name -> the same view of an array and of a tensor
    "plain": (lambda a: a, lambda x: x),
    "permuted": (lambda a: a.transpose(2, 0, 1), lambda x: x.permute(2, 0, 1)),
    "sliced": (lambda a: a[:, 1:, ::2], lambda x: x[:, 1:, ::2]),
    "expanded": (lambda a: a[:, :1].repeat(3, 1), lambda x: x[:, :1].expand(-1, 3, -1)),
}


# -- against NumPy --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NUMPY)
def test_dims_and_layouts(name, rng):
    a = rng.standard_normal((4, 5, 6)).astype("float32")
    for layout, (of_array, of_tensor) in LAYOUTS.items():
        x, wide = of_tensor(torch.from_numpy(a)), of_array(a).astype("float64")
        for dim in (0, -1, (0, 2), (0, 1, 2)):
            if name == "prod" and isinstance(dim, tuple):
                continue
            for keepdim in (False, True):
                extra = {"p": 2} if name == "norm" else {}
                ours = getattr(x, name)(dim=dim, keepdim=keepdim, **extra)
                wanted = NUMPY[name](wide, axis=dim, keepdims=keepdim)
                assert tuple(ours.shape) == wanted.shape and ours.is_contiguous()
                assert np.allclose(ours.numpy(), wanted, 1e-5, 1e-5), (layout, dim)


@pytest.mark.parametrize("shape", [(200_003,), (3, 70_001), (70_001, 3), (7, 300, 41), (300, 700)])
def test_many_elements(shape, rng):
    a = rng.standard_normal(shape).astype("float32")
    x, wide = torch.from_numpy(a), a.astype("float64")
    for dim in (None, *range(len(shape))):
        size = a.size if dim is None else shape[dim]
        ours = x.sum(dim).numpy()
        assert np.abs(ours - wide.sum(dim)).max() < 1e-6 * math.sqrt(size) * 4
        assert np.array_equal(x.argmax(dim).numpy(), wide.argmax(dim))
        assert np.array_equal(x.amax(() if dim is None else dim), a.max(dim))
        whole = torch.from_numpy((a * 3).astype("int32")).sum(dim).numpy()
        assert np.array_equal(whole, (a * 3).astype("int32").astype("int64").sum(dim))


@pytest.mark.parametrize("shape", [(10_000_000,), (1_000_000, 10)])
def test_float32_sums_keep_their_digits(shape, rng):
    a = rng.random(shape, dtype="float32")
    exact = a.astype("float64").sum(0)
    assert np.abs(torch.from_numpy(a).sum(0).numpy() / exact - 1).max() < 7e-8
    if len(shape) == 1:
        assert abs(torch.from_numpy(a).mean().item() / a.astype("float64").mean() - 1) < 7e-8
        assert abs(torch.from_numpy(a + 1000).var().item() - (a + 1000).astype("f8").var()) < 1e-7


def test_half_types_sum_in_float32():
    for dtype in (torch.float16, torch.bfloat16):
        assert torch.ones(40_000, dtype=dtype).sum().item() == 40_000 - (
            64 if dtype is torch.bfloat16 else 0
        )
        assert torch.ones(3000, dtype=dtype).mean().item() == 1


def test_same_bits_for_any_number_of_threads(rng):
    x = torch.from_numpy(rng.standard_normal(600_000).astype("float32"))
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found = [x.sum(), x.view(-1, 3).sum(0), x.view(60, 100, 100).mean((0, 2)), x.norm(3)]
            found += [x.view(60, -1).var(1), x.view(600, 1000).argmax(0), x.prod(), x.amin()]
            results.append([t.numpy().tobytes() for t in found])
    finally:
        torch.set_num_threads(before)
    assert results[0] == results[1]


def test_places_of_extremes():
    nan, inf = math.nan, math.inf
    assert torch.tensor([1.0, 3, 3, 2]).argmax().item() == 1
    assert torch.tensor([1.0, nan, inf, nan]).argmax().item() == 1
    assert torch.tensor([1.0, nan, -inf, nan]).min(0).indices.item() == 1
    assert torch.full((5, 70_000), -inf).max(1).indices.tolist() == [0] * 5
    assert torch.full((70_000,), -(2**63)).argmax().item() == 0
    found = torch.zeros(100_000)
    found[99_998:] = nan
    assert found.argmin().item() == 99_998
    named = torch.tensor([[1, 5, 2], [7, 0, 3]]).max(1)
    assert named.values.tolist() == [5, 7] and named.indices.tolist() == [1, 0]
    low, high = torch.aminmax(torch.tensor([[1, 5], [7, 0]]), dim=0)
    assert low.tolist() == [1, 0] and high.tolist() == [7, 5]


def test_integers_wrap_and_truth():
    assert torch.tensor([127, 127, 3], dtype=torch.int8).sum().item() == 257
    assert torch.tensor([127, 127, 3], dtype=torch.int8).sum(dtype=torch.int8).item() == 1
    assert torch.tensor([2**62, 2**62, 5]).sum().item() == -(2**63) + 5
    assert torch.tensor([True, True]).sum(dtype=torch.bool).item() is True
    assert torch.tensor([0.5, math.nan]).all().item() and not torch.tensor([0.0]).any().item()
    assert torch.empty(0).all().item() and not torch.empty(0).any().item()
    assert torch.tensor([3], dtype=torch.uint8).all().dtype is torch.uint8


def test_nothing_to_reduce():
    none = torch.empty(2, 0, 3)
    assert none.sum(1).tolist() == [[0.0] * 3] * 2 and none.prod(1).tolist() == [[1.0] * 3] * 2
    assert none.mean(1).isnan().all().item() and none.sum().item() == 0
    assert none.logsumexp(1).tolist() == [[-math.inf] * 3] * 2 and none.norm().item() == 0
    assert none.amax(2).shape == (2, 0) and none.sum((0, 2)).shape == (0,)
    for call, kind in (
        (lambda: none.amax(1), IndexError), (lambda: none.max(), RuntimeError),
        (lambda: none.argmax(1), IndexError), (lambda: none.argmin(), IndexError),
        (lambda: torch.linalg.vector_norm(none, math.inf), RuntimeError),
    ):  # fmt: skip
        with pytest.raises(kind):
            call()


def test_degrees_of_freedom():
    text = r"std\(\): degrees of freedom is <= 0. Correction should be strictly less than"
    with pytest.warns(UserWarning, match=text):
        assert torch.tensor([1.0]).std().isnan().item()
    x = torch.tensor([[1.0, 2, 4], [0, 0, 9]])
    for correction in (0, 1, 1.5, -1):
        ours = torch.var(x, 1, correction=correction)
        wanted = ((x.numpy() - x.numpy().mean(1, keepdims=True)) ** 2).sum(1) / (3 - correction)
        assert np.allclose(ours.numpy(), wanted)
    assert torch.equal(x.var(1, False), x.var(1, correction=0))
    assert torch.equal(x.var(False), x.var(unbiased=False))
    assert [t.shape for t in torch.var_mean(x, 0, keepdim=True)] == [(1, 3)] * 2


def test_norms(rng):
    a = rng.standard_normal((4, 5))
    x = torch.from_numpy(a)
    for p in (0, 1, 2, 3, 0.5, -1, math.inf, -math.inf):
        assert np.allclose(torch.linalg.vector_norm(x, p, 1).numpy(), np.linalg.norm(a, p, 1))
        assert np.allclose(x.norm(p).item(), np.linalg.norm(a.ravel(), p))
    assert np.allclose(torch.dist(x, x + 1, 3).item(), 20 ** (1 / 3))
    assert np.linalg.norm(torch.renorm(x, 2, 0, 0.5).numpy(), axis=1).max() < 0.5
    assert np.allclose(x.norm("nuc").item(), np.linalg.norm(a, "nuc"))


def test_writes_and_refusals():
    x = torch.arange(6.0).view(2, 3)
    out = torch.empty(0, dtype=torch.float64)
    assert torch.sum(x, 1, out=out) is out and out.tolist() == [3.0, 12.0]
    values, indices = torch.empty(0), torch.empty(0, dtype=torch.int64)
    torch.max(x, 1, out=(values, indices))
    assert values.tolist() == [2.0, 5.0] and indices.tolist() == [2, 2]
    assert x.sum(axis=1, keepdims=True).shape == (2, 1)
    assert x.sum_to_size(1, 3).tolist() == [[3.0, 5.0, 7.0]]
    for call, kind, text in (
        (lambda: x.mean(0, dtype=torch.int64), RuntimeError, r"mean\(\): could not infer output"),
        (lambda: torch.arange(3).mean(), RuntimeError, "Input dtype must be either"),
        (lambda: x.sum((0, -2)), RuntimeError, "dim 0 appears multiple times"),
        (lambda: x.amax(2), IndexError, r"Dimension out of range \(expected to be in range"),
        (lambda: torch.amax(x, 0, out=out), RuntimeError, "Expected the dtype for input and out"),
        (lambda: torch.argmax(x, 0, out=out), RuntimeError, "to have dtype long int, but got dou"),
        (lambda: x.bool().argmax(), RuntimeError, r"argmax\(\): does not support bool input"),
        (lambda: x.long().var(), RuntimeError, "std and var only support floating point"),
        (lambda: torch.prod(x, (0, 1)), TypeError, "received an invalid combination"),
        (lambda: torch.amax(x, 1.5), TypeError, "'dim' .* must be tuple of ints, not float"),
        (lambda: torch.sum(x, 0, out=torch.empty(0, dtype=torch.uint16)), NotImplementedError,
         '"sum_cpu" not implemented'),
    ):  # fmt: skip
        with pytest.raises(kind, match=text):
            call()


DERIVATIVES = [
    "x.sum()", "x.mean((0, 1), True)", "x.prod()", "x.prod(1)", "x.nansum(0)", "x.amax(1)",
    "x.max(0)[0]", "x.aminmax(dim=1)", "x.logsumexp(1)", "x.var(0)", "x.std((0, 1), correction=0)",
    "torch.std_mean(x, 1)", "x.norm()", "x.norm(1, 0)", "x.norm(3, 1, True)", "x.norm(1.5)",
    "x.norm(math.inf, 1)", "torch.dist(x, x * x, 2.5)", "torch.renorm(x, 2, 0, 0.7)",
]  # fmt: skip


@pytest.mark.parametrize("text", DERIVATIVES)
def test_derivatives(text):
    x = torch.tensor([[0.3, -1.2, 0.9], [-0.4, 1.6, -0.7]], dtype=torch.float64, requires_grad=True)
    function = eval(f"lambda x: {text}", {"torch": torch, "math": math})
    assert torch.autograd.gradcheck(function, x)
    assert torch.autograd.gradgradcheck(function, x)


def test_products_with_zeros_have_derivatives():
    for values in ([0.0, 2, 3], [0.0, 0, 3]):
        x = torch.tensor(values, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(torch.prod, x)
        assert torch.autograd.gradgradcheck(torch.prod, x)


def test_meta():
    x = torch.empty(3, 4, device="meta")
    for found, shape in (
        (x.sum(0), (4,)), (x.max(1)[1], (3,)), (x.var((0, 1), keepdim=True), (1, 1)),
        (x.norm(), ()),
        (x.logsumexp(1), (3,)), (x.prod(1), (3,)), (x.bool().all(), ()),
    ):  # fmt: skip
        assert found.shape == shape and found.device.type == "meta"


# -- against PyTorch ------------------------------------------------------------------------------

NAMES = "sum prod mean amax amin argmax argmin all any nansum nanmean logsumexp var std".split()
NAMES += "var_mean std_mean aminmax max min linalg.vector_norm".split()
SPELLINGS = [
    "()", "(dim=0)", "(dim=(0, 1))", "(dim=[0, -1], keepdim=True)", "(dim=())", "(dim=(1, 1))",
    "(dim=5)", "(dim=(0, 7))", "(dim=None)", "(dim=1.5)", "(dim='a')", "(-1, True)", "(axis=1)",
    "(axis=0, keepdims=True)", "(foo=1)", "(1, True, 3, 4, 5, 6)",
]  # fmt: skip


def spelled(name, spelling, x):
    rest = spelling[1:-1]
    return f"torch.{name}({x}{', ' + rest if rest else ''})"


def expressions(name):
    x, y = "X('float32', 2, 3, 4)", "X('int64', 4, 3, 2).permute(2, 0, 1)[:, ::2]"
    yield from (spelled(name, s, t) for s in SPELLINGS for t in (x, y))
    for dtype in DTYPES:
        yield from (spelled(name, s, f"X('{dtype}', 3, 5)") for s in ("()", "(dim=0)"))
        yield spelled(name, "(dim=0)", f"X('{dtype}')")
        yield spelled(name, "(dim=1)", f"X('{dtype}', 2, 0, 3)")
    for dtype in ("uint16", "complex128"):
        yield spelled(name, "(dim=1)", f"X('{dtype}', 2, 3)")
    for dtype in ("bool", "uint8", "int64", "float16", "float64", "complex64"):
        for source in ("float32", "int32"):
            out = f"out=torch.empty(2, dtype=torch.{dtype})"
            if "_mean" not in name and name not in ("max", "min", "aminmax") and not (
                (name in ("all", "any") and dtype == "uint8") or name == "logsumexp"
            ):  # fmt: skip
                yield spelled(name, f"(dim=1, {out})", f"X('{source}', 2, 3)")
            yield spelled(name, f"(dim=1, dtype=torch.{dtype})", f"X('{source}', 2, 3)")
    for values in ("[1., nan, inf, -inf]", "[2., 1, 2, 1]", "[-inf, -inf]", "[nan, nan]"):
        if "_mean" in name and "-inf, -inf" in values:
            continue  # PyTorch's mean is nan unless the only infinity comes last
        yield spelled(name, "(dim=0)", f"torch.tensor({values})")
    yield spelled(name, "(dim=0)", "X('float32', 3, 2).requires_grad_()")
    yield spelled(name, "(dim=0)", "torch.empty(3, 4, device='meta')")


@pytest.mark.oracle
@pytest.mark.parametrize("name", NAMES)
def test_calls_do_what_pytorch_does(name):
    oracle = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = compare(torch, oracle, [t for t in expressions(name) if _comparable(name, t)])
    assert not report, report


def _comparable(name, text):
    """Leave out where PyTorch follows no rule of its own."""
    odd = {
        "aminmax": ("complex", "uint16", "3, 4, 5"),
        "nansum": tuple(f"dtype=torch.{d}" for d in ("complex64", "bool", "uint8", "int64")),
        "nanmean": ("X('int32', 2, 3), dim=1, out", "dtype=torch.complex64)"),
        "var": ("float64)", "complex64)"), "std": ("float64)", "complex64)"),
        "mean": ("out=torch.empty(2, dtype=torch.bool)",),
    }  # fmt: skip
    return not any(o in text for o in odd.get(name, ()))


GRADIENTS = [
    *(f"torch.{n}(a{d})" for n in "sum mean amax std var_mean".split() for d in ("", ", dim=0")),
    "torch.prod(a)", "torch.prod(a, 1, True)", "torch.max(a)", "a.max(1)", "a.aminmax(dim=0)",
    "a.nanmean(1)", "a.logsumexp((0, 1))", "torch.var(a, 0, correction=3)", "a.std(correction=12)",
    *(f"torch.norm(a, {p}, 1)" for p in (1, 2, 3, 0.5, "inf")), "torch.dist(a, a * a, 1.5)",
    "torch.renorm(a, 2, 1, 0.5)",
]  # fmt: skip


@pytest.mark.oracle
def test_gradients_are_those_of_pytorch():
    oracle = pytest.importorskip("torch")
    texts = [with_gradients(t, (3, 4)) for t in GRADIENTS]
    complexes = ("sum", "mean", "prod", "norm", "logsumexp")
    texts += [
        with_gradients(t, (2, 3), dtype="complex128")
        for t in GRADIENTS
        if any(f"{c}(" in t for c in complexes)
        and "inf" not in t
        and "renorm" not in t
        and "nan" not in t
    ]
    report = compare(torch, oracle, texts)
    assert not report, report


# -- what PyTorch's own tests ask -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "amax", "argmax", "var", "count_nonzero"])
def test_dimensions_are_not_taken_from_tensors_with_more_than_64(name):
    x = torch.ones([1] * 65)
    with pytest.raises(RuntimeError, match="only tensors with up to 64 dims are supported"):
        getattr(torch, name)(x, dim=0)
    assert torch.sum(x).item() == 1


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_the_variance_of_complex_numbers_is_written_into_out(dtype):
    z = torch.tensor([1 + 2j, 3j, 4])
    for function, wanted in ((torch.var, 20 / 3), (torch.std, (20 / 3) ** 0.5)):
        out = torch.empty(0, dtype=getattr(torch, dtype))
        assert function(z, 0, out=out) is out
        assert out.item() == pytest.approx(wanted, rel=1e-6)
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output"):
        torch.var(z, 0, out=torch.empty(0, dtype=torch.int32))


def test_reductions_take_numpys_names_of_arguments():
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.sum(x=x, axis=0).tolist() == torch.sum(a=x, axis=0).tolist() == [3.0, 5.0, 7.0]
    assert torch.max(x1=x, x2=-x).tolist() == x.tolist()
