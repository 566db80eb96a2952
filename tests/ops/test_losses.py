"""Losses: against formulas in NumPy doubles, and against PyTorch where it is installed."""

import math
import warnings

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.autograd import grad, gradcheck, gradgradcheck
from tests.ops.expressions import compare, with_gradients

REDUCTIONS = ("none", "mean", "sum")
REDUCE = {"none": lambda v: v, "mean": np.mean, "sum": np.sum}


def softplus(x):
    return np.logaddexp(0, x)


def huber(x, y, delta):
    z = np.abs(x - y)
    return np.where(z <= delta, z * z / 2, delta * (z - delta / 2))


def entropy(x, y):
    return -(y * np.log(x) + (1 - y) * np.log1p(-x))


def logits(x, y, pos=1.0):
    return (1 - y) * softplus(x) + pos * y * softplus(-x)


def gaussian(x, y, v, full=False):
    return (np.log(v) + (x - y) ** 2 / v + full * math.log(2 * math.pi)) / 2


# name: (function of nn.functional, options, formula of elements, what inputs are drawn from)
CASES = {
    "mse": ("mse_loss", {}, lambda x, y: (x - y) ** 2, "nn"),
    "l1": ("l1_loss", {}, lambda x, y: np.abs(x - y), "nn"),
    "smooth_l1": ("smooth_l1_loss", {"beta": 0.5}, lambda x, y: huber(x, y, 0.5) / 0.5, "nn"),
    "huber": ("huber_loss", {"delta": 0.7}, lambda x, y: huber(x, y, 0.7), "nn"),
    "bce": ("binary_cross_entropy", {}, entropy, "pp"),
    "logits": ("binary_cross_entropy_with_logits", {}, logits, "np"),
    "kl": ("kl_div", {}, lambda x, y: y * np.log(y) - y * x, "np"),
    "kl_log": ("kl_div", {"log_target": True}, lambda x, y: np.exp(y) * (y - x), "nn"),
    "poisson": ("poisson_nll_loss", {}, lambda x, y: np.exp(x) - y * x, "np"),
    "poisson_full": (
        "poisson_nll_loss",
        {"log_input": False, "full": True, "eps": 1e-3},
        lambda x, y: x - y * np.log(x + 1e-3),  # no Stirling term for counts below one
        "pp",
    ),
    "gaussian": ("gaussian_nll_loss", {}, gaussian, "nnp"),
    "gaussian_full": ("gaussian_nll_loss", {"full": True}, lambda *a: gaussian(*a, True), "nnp"),
    "soft_margin": ("soft_margin_loss", {}, lambda x, y: softplus(-x * y), "ns"),
    "hinge": (
        "hinge_embedding_loss",
        {"margin": 0.6},
        lambda x, y: np.where(y == 1, x, np.maximum(0.6 - x, 0)),
        "ns",
    ),
    "ranking": (
        "margin_ranking_loss",
        {"margin": 0.2},
        lambda x, y, s: np.maximum(-s * (x - y) + 0.2, 0),
        "nns",
    ),
}  # fmt: skip


def draw(rng, kinds, shape, dtype="float32"):
    """n: normal numbers, p: probabilities, s: signs; as float64 arrays that dtype holds."""
    found = []
    for kind in kinds:
        a = rng.standard_normal(shape)
        if kind == "p":
            a = rng.uniform(0.05, 0.95, shape)
        elif kind == "s":
            a = np.sign(a)
        found.append(torch.tensor(a, dtype=getattr(torch, dtype)).double().numpy())
    return found


def call(name, tensors, reduction="mean"):
    function, options, _, _ = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(F, function)(*tensors, reduction=reduction, **options)


# -- values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_values(name, rng):
    formula, kinds = CASES[name][2:]
    for shape in ((), (1,), (7,), (3, 5), (2, 3, 37)):
        arrays = draw(rng, kinds, shape)
        tensors = [torch.tensor(a, dtype=torch.float32) for a in arrays]
        for reduction in REDUCTIONS:
            wanted = REDUCE[reduction](formula(*arrays))
            found = call(name, tensors, reduction).numpy()
            assert found.shape == np.shape(wanted) and found.dtype == np.float32
            np.testing.assert_allclose(found, wanted, 2e-5, 1e-6)


@pytest.mark.parametrize("name", ["mse", "bce", "gaussian"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_dtypes(name, dtype, rng):
    formula, kinds = CASES[name][2:]
    limit = {"float16": 2e-3, "bfloat16": 1e-2, "float64": 1e-12}[dtype]
    arrays = draw(rng, kinds, (4, 33), dtype)
    tensors = [torch.tensor(a, dtype=getattr(torch, dtype)) for a in arrays]
    for reduction in REDUCTIONS:
        found = call(name, tensors, reduction)
        assert found.dtype is getattr(torch, dtype)
        wanted = REDUCE[reduction](formula(*arrays))
        np.testing.assert_allclose(found.double().numpy(), wanted, limit, limit)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_layouts(reduction, rng):
    a, b = draw(rng, "nn", (20, 6, 40))
    views = {
        "turned": (lambda t: t.swapaxes(0, 2), lambda t: t.transpose(0, 2)),
        "cut": (lambda t: t[::2, 1:, ::3], lambda t: t[::2, 1:, ::3]),
        "spread": (lambda t: np.broadcast_to(t[:1], t.shape), lambda t: t[:1].expand(20, 6, 40)),
    }
    x, y = torch.tensor(a, requires_grad=True), torch.tensor(b)
    for of_array, of_tensor in views.values():
        for p, q in ((of_tensor(x), of_tensor(y)), (of_tensor(x), of_tensor(y).contiguous())):
            wanted = REDUCE[reduction]((of_array(a) - of_array(b)) ** 2)
            found = F.mse_loss(p, q, reduction=reduction)
            np.testing.assert_allclose(found.detach().numpy(), wanted, 1e-12)
            (slope,) = grad(found.sum(), p)
            share = p.numel() if reduction == "mean" else 1
            difference = 2 * (of_array(a) - of_array(b)) / share
            np.testing.assert_allclose(slope.numpy(), difference, 1e-12)


def test_many_elements_are_added_well_and_alike(rng):
    arrays = [rng.random(1_300_001, dtype="float32") for _ in range(2)]
    found = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        x, y = (torch.tensor(a, requires_grad=True) for a in arrays)
        total = F.mse_loss(x, y)
        total.backward()
        found.append([total.item(), x.grad.numpy().tobytes(), y.grad.numpy().tobytes()])
    assert found[0] == found[1]
    a, b = (t.astype("float64") for t in arrays)
    assert abs(found[0][0] / np.mean((a - b) ** 2) - 1) < 1e-7


def test_nothing(rng):
    x = torch.zeros(0, 4, requires_grad=True)
    assert math.isnan(F.mse_loss(x, x.detach()).item())
    assert F.l1_loss(x, x, reduction="sum").item() == 0
    (slope,) = grad(F.mse_loss(x, x.detach()), x)
    assert slope.shape == (0, 4)
    assert F.mse_loss(torch.empty(3, device="meta"), torch.empty(3, device="meta")).shape == ()


def test_a_certain_mistake_costs_a_hundred():
    x = torch.tensor([0.0, 1.0, 0.5], requires_grad=True)
    loss = F.binary_cross_entropy(x, torch.tensor([1.0, 0.0, 1.0]), reduction="sum")
    assert abs(loss.item() - 200 - math.log(2)) < 1e-5
    loss.backward()
    np.testing.assert_allclose(x.grad.numpy(), [-1e12, 1e12, -2.0], 1e-6)


# -- weights ---------------------------------------------------------------------------------------


def test_weights(rng):
    a, b, w = draw(rng, "ppp", (6, 5), "float64")
    x, y, v = (torch.tensor(t) for t in (a, b, w))
    checks = [
        (F.mse_loss(x, y, weight=v), (w * (a - b) ** 2).sum() / w.sum()),
        (F.l1_loss(x, y, weight=v), (w * np.abs(a - b)).sum() / w.sum()),
        (F.huber_loss(x, y, weight=v, delta=0.1), (w * huber(a, b, 0.1)).mean()),
        (F.mse_loss(x, y, weight=v, reduction="sum"), (w * (a - b) ** 2).sum()),
        (F.binary_cross_entropy(x, y, v), (w * entropy(a, b)).mean()),
        (F.binary_cross_entropy(x, y, v[0]), (w[0] * entropy(a, b)).mean()),
        (F.binary_cross_entropy_with_logits(x, y, v), (w * logits(a, b)).mean()),
        (
            F.binary_cross_entropy_with_logits(x, y, v, pos_weight=v[1]),
            (w * logits(a, b, w[1])).mean(),
        ),
        (
            F.multilabel_soft_margin_loss(x, y, v[0], reduction="sum"),
            (w[0] * logits(a, b)).sum() / 5,
        ),
        (F.kl_div(x, y, reduction="batchmean"), (b * np.log(b) - b * a).sum() / 6),
    ]
    for found, wanted in checks:
        assert abs(found.item() - wanted) < 1e-12
    leaves = [t.clone().requires_grad_() for t in (x, y, v)]
    for function in (F.mse_loss, F.huber_loss):
        assert gradcheck(lambda p, q, r, f=function: f(p, q, weight=r), leaves)


# -- derivatives -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_gradients(name, rng):
    kinds = CASES[name][3]
    arrays = draw(rng, kinds, (3, 4), "float64")
    tensors = [torch.tensor(a, requires_grad=k != "s") for a, k in zip(arrays, kinds)]
    for reduction in REDUCTIONS:
        assert gradcheck(lambda *t, how=reduction: call(name, t, how), tensors)
    assert gradgradcheck(lambda *t: call(name, t), tensors)


def test_weighted_gradients(rng):
    arrays = draw(rng, "npp", (3, 4), "float64")
    x, y, w = (torch.tensor(a) for a in arrays)
    leaves = [x.requires_grad_(), y.requires_grad_()]

    def weighted(p, q):
        return F.binary_cross_entropy_with_logits(p, q, w, pos_weight=w * 2)

    assert gradcheck(weighted, leaves) and gradgradcheck(weighted, leaves)
    assert F.mse_loss(x, y).grad_fn.name() == "MseLossBackward0"


# -- complaints ------------------------------------------------------------------------------------


def test_complaints():
    x, y = torch.rand(3, 4), torch.rand(4)
    with pytest.raises(ValueError, match="other is not a valid value for reduction"):
        F.mse_loss(x, x, reduction="other")
    with pytest.raises(RuntimeError, match="all elements of input should be between 0 and 1"):
        F.binary_cross_entropy(x + 1.5, x)
    with pytest.raises(RuntimeError, match="all elements of target should be between 0 and 1"):
        F.binary_cross_entropy(x, x + 1.5)
    with pytest.raises(ValueError, match="that is different to the input size"):
        F.binary_cross_entropy(x, y)
    with pytest.raises(ValueError, match="var has negative entry/entries"):
        F.gaussian_nll_loss(x, x, -x - 1)
    with pytest.raises(RuntimeError, match="not differentiable with respect to argument 'weight'"):
        F.binary_cross_entropy(x, x, x.clone().requires_grad_())
    with pytest.raises(NotImplementedError, match="\"mse_cpu\" not implemented for 'Long'"):
        F.mse_loss(torch.arange(3), torch.arange(3))


def test_warnings_point_at_the_caller():
    x = torch.rand(3, 4)
    with pytest.warns(UserWarning, match="Using a target size") as seen:
        F.mse_loss(x, x[0])
    with pytest.warns(UserWarning, match="please use reduction='sum' instead") as more:
        F.l1_loss(x, x, size_average=False)
    assert [w.filename for w in (*seen, *more)] == [__file__, __file__]


# -- against PyTorch -------------------------------------------------------------------------------

F_ = "torch.nn.functional."
PROBABILITY = "X('{d}', 3, 5).sigmoid()"
DTYPES = "float16 bfloat16 float32 float64 int64 bool complex64".split()


def expressions():
    names = "mse_loss l1_loss smooth_l1_loss huber_loss soft_margin_loss hinge_embedding_loss"
    names += " kl_div poisson_nll_loss binary_cross_entropy_with_logits"
    # PyTorch rounds in between where dtypes differ, or words differ for bool
    apart = "hinge_embedding_loss poisson_nll_loss binary_cross_entropy_with_logits".split()
    for name in names.split():
        for a in DTYPES:
            others = DTYPES if a == "float32" else (a, "float32")
            for b in (a,) if name in apart else others:
                if name in apart and a == "bool":
                    continue
                yield f"{F_}{name}(X('{a}', 3, 5), X('{b}', 3, 5, seed=1))"
        yield f"{F_}{name}(X('float32', 3, 5), X('float32', 5, seed=1))"
        yield f"{F_}{name}(X('float32', 5), X('float32', 3, 5, seed=1), reduction='none')"
        yield f"{F_}{name}(X('float32', 3), X('float32', 4), reduction='sum')"
        yield f"{F_}{name}(X('float32', 3), X('float32', 3), reduction='any')"
    for old in ("size_average=False", "reduce=False", "size_average=True, reduce=True"):
        yield f"{F_}mse_loss(X('float32', 3), X('float32', 3), {old})"
        yield f"{F_}kl_div(X('float32', 3), X('float32', 3), {old})"
    yield f"{F_}binary_cross_entropy(X('float32', 3), X('float32', 3))"
    yield f"{F_}binary_cross_entropy(X('float32', 3).sigmoid(), X('float32', 3))"
    for a, b in (("float32", "float64"), ("int64", "int64"), ("float16", "float16")):
        first, second = (PROBABILITY.format(d=t) for t in (a, b))
        yield f"{F_}binary_cross_entropy({first}, {second})"
    x = "X('float32', 3, 5)"
    yield f"{F_}mse_loss({x}, {x}, reduction='elementwise_mean')"
    yield f"{F_}smooth_l1_loss({x}, {x}, beta=-1.0)"
    yield f"{F_}smooth_l1_loss({x}, {x} + 1, beta=0)"
    yield f"{F_}huber_loss({x}, {x}, delta=0.0)"
    yield f"{F_}mse_loss({x}, {x}, weight=X('float32', 5))"
    yield f"{F_}huber_loss({x}, {x}, weight=X('float32', 5))"
    yield f"{F_}l1_loss({x}, {x} + 1, weight={x}, reduction='any')"
    for name in ("binary_cross_entropy", "binary_cross_entropy_with_logits"):
        for shape in ("3", "7, 3, 5", "5", "3, 1"):
            yield f"{F_}{name}({x}.sigmoid(), {x}.sigmoid(), weight=X('float32', {shape}))"
    for shape in ("3", "7, 3, 5", "5", "3, 1"):
        call = f"{F_}binary_cross_entropy_with_logits({x}, {x}.sigmoid(), pos_weight="
        yield f"{call}X('float32', {shape}))"
    yield f"{F_}gaussian_nll_loss({x}, {x} + 1, 0.5)"
    yield f"{F_}gaussian_nll_loss({x}, {x} + 1, -0.5)"
    for shape in ("3", "3, 1", "1, 5", "5", "3, 5"):
        yield f"{F_}gaussian_nll_loss({x}, {x} + 1, X('float32', {shape}).abs(), full=True)"
    for call in (
        "torch.kl_div({x}, {x}.sigmoid(), 1)",
        "torch.kl_div({x}, {x}.sigmoid())",
        "torch.kl_div({x}, {x}.sigmoid(), 2, log_target=True)",
        "torch.binary_cross_entropy_with_logits({x}, {x}.sigmoid())",
        "torch.poisson_nll_loss({x}, {x}.abs() * 3, False, True, 1e-8, 0)",
        "torch.hinge_embedding_loss({x}, {x}.sign(), 1.0, 1)",
        "torch.nn.functional.poisson_nll_loss({x}, {x}.abs() * 3, full=True)",
    ):
        yield call.format(x=x)


def linear_expressions():
    x, w = "X('float64', 3, 4)", "X('float64', 5, 4, seed=1)"
    labels = "torch.tensor([1, 4, 0])"
    for rest in ("", ", linear_bias=X('float64', 5)", ", reduction='none'", ", ignore_index=4"):
        yield f"{F_}linear_cross_entropy({x}, {w}, {labels}{rest})"
    yield f"{F_}linear_cross_entropy({x}, {w}, {labels}, weight=X('float64', 5).abs())"
    yield f"{F_}linear_cross_entropy({x}, {w}, {labels}, label_smoothing=0.1)"
    yield f"{F_}linear_cross_entropy({x}[0], {w}, {labels}[0])"
    yield f"{F_}linear_cross_entropy({x}, X('float64', 5, 2, 4), torch.tensor([[1, 2]] * 3))"
    yield f"{F_}linear_cross_entropy({x}, {w}, X('float64', 3, 5).softmax(-1))"
    yield f"{F_}linear_cross_entropy({x}, {w}, X('float64', 3, 5), ignore_index=1)"
    for bad in ("X('float64', 4), 0", "X('float64', 5, 3), 0", "X('float64', 5, 4), 0, b"):
        weight = bad.split(", 0")[0]
        bias = ", linear_bias=X('float64', 4)" if bad.endswith("b") else ""
        yield f"{F_}linear_cross_entropy({x}, {weight}, {labels}{bias})"
    yield f"{F_}linear_cross_entropy({x}[0], X('float64', 5, 2, 4), torch.tensor([1, 2]))"
    yield f"{F_}linear_cross_entropy({x}[None], {w}, {labels})"


@pytest.mark.oracle
def test_linear_cross_entropy_as_pytorch():
    theirs = pytest.importorskip("torch")
    assert not compare(torch, theirs, linear_expressions())


@pytest.mark.oracle
def test_as_pytorch():
    theirs = pytest.importorskip("torch")
    assert not compare(torch, theirs, expressions())


@pytest.mark.oracle
def test_gradients_as_pytorch():
    theirs = pytest.importorskip("torch")
    programs = []
    for reduction in REDUCTIONS:
        last = f"reduction='{reduction}')"
        for name in ("mse_loss", "smooth_l1_loss", "huber_loss"):
            programs.append(with_gradients(f"{F_}{name}(a, b, {last}", (3, 4), (3, 4)))
        programs.append(
            with_gradients(f"{F_}binary_cross_entropy_with_logits(a, b, {last}", (3, 4), (3, 4))
        )
        programs.append(with_gradients(f"{F_}soft_margin_loss(a, torch.ones(3, 4), {last}", (3, 4)))
    assert not compare(torch, theirs, programs)
