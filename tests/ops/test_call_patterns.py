"""Pointwise calls with keywords and numbers: the first call and the quick ones after it agree.

The first call of a pattern is bound and checked at length; later ones take a route
(`eager/routes.py`). Here every pattern is called several times, with other values in between, with
and without gradients, and compared with the long way and with PyTorch, complaints included.
"""

import re

import numpy as np
import pytest

import flambeau
from flambeau.eager.methods import _functions
from flambeau.nn import functional as F

NUMBERS = ("2", "0.5", "True", "1", "1.0", "-1", "0", "1e30")
FRESH = [
    *(f"x.add(y, alpha={n})" for n in NUMBERS),
    *(f"lib.add(x, {n}, alpha=2)" for n in NUMBERS[:4]),
    *(f"lib.sub(input=x, other=y, alpha={n})" for n in NUMBERS[:5]),
    *(f"lib.rsub(x, y, alpha={n})" for n in NUMBERS[:3]),
    *(f"lib.add({n}, x)" for n in NUMBERS[:3]),
    *(f"lib.where(c, x, {n})" for n in NUMBERS[:4]),
    *(f"lib.where(c, {n}, x)" for n in NUMBERS[:4]),
    *(f"x.lerp(y, {n})" for n in NUMBERS[:4]),
    *(f"{n} ** x" for n in NUMBERS[:3]),
    *(f"F.leaky_relu(x, {n})" for n in NUMBERS[:4]),
    *(f"x.masked_fill(c, {n})" for n in NUMBERS),
    *(f"x.pow({n})" for n in (*NUMBERS, "-2", "3", "2.5")),
    *(f"x.clamp({a}, max={b})" for a in ("None", "0", "0.5") for b in ("1", "1.5", "None")),
    *(f"x.clamp({a}, max={b})" for a in ("None", "y") for b in ("z", "None")),
    "x.clamp(min=0)", "x.clamp(0, 1)", "lib.clamp(x, max=1.)", "lib.clip(x, 0.1, 2)",
    "x.lerp(y, z)", "x.lerp(weight=0.1, end=y)", "x.addcmul(y, z)", "x.addcmul(y, z, value=2)",
    "x.addcmul(y, z, value=0.5)", "lib.addcmul(x, tensor1=y, tensor2=z, value=True)",
    "x.addcdiv(y, z, value=-0.1)", "x.addcdiv(y, z, value=2)", "F.gelu(x, approximate='tanh')",
    "F.gelu(x, approximate='none')", "F.gelu(x, approximate='x')", "F.softplus(x, 2.)",
    "F.softplus(x, beta=2., threshold=1)", "F.softplus(x, 3, 4)", "F.elu(x)", "F.elu(x, 0.5)",
    "F.elu(x, 2)", "F.celu(x, 0.5)", "F.celu(x, 0)", "F.celu(x, 0.)", "F.hardtanh(x)",
    "F.hardtanh(x, -2, 2)", "F.hardtanh(x, 0., 6.)", "F.relu6(x)", "F.softshrink(x, 0.3)",
    "F.hardshrink(x, 0.3)", "F.threshold(x, 0.1, 20.)", "F.threshold(x, 1, 0)", "x.nan_to_num()",
    "x.nan_to_num(1.)", "x.nan_to_num(1, 2., neginf=-3)", "x.div(y, rounding_mode='floor')",
    "x.div(z, rounding_mode='trunc')", "x.div(y, rounding_mode='up')", "x.round(decimals=1)",
    "x.logit(0.1)", "x.logit(eps=0.2)", "x.logit(None)", "lib.isclose(x, y, rtol=0.5)",
    "lib.isclose(x, y, atol=1., equal_nan=True)", "lib.isclose(x, y, rtol=-1.)",
    "x.add(y.t(), alpha=3)", "x.add(y[0], alpha=0.5)", "lib.where(c[0], x, 2.)",
    "x.add(lib.tensor(2.), alpha=3)", "x.add(y, alpha=1j)",
]  # fmt: skip
WRITES = [
    *(f"x.add_(y, alpha={n})" for n in NUMBERS),
    *(f"x.sub_(2, alpha={n})" for n in NUMBERS[:4]),
    *(f"x.mul_({n})" for n in NUMBERS[:5]),
    *(f"x.pow_({n})" for n in ("2", "-2", "0.5", "3")),
    *(f"x.masked_fill_(c, {n})" for n in NUMBERS[:5]),
    "x.lerp_(y, 0.1)", "x.lerp_(y, z)", "x.addcmul_(y, z)", "x.addcmul_(y, y, value=0.1)",
    "x.addcmul_(y, z, value=2)", "x.addcdiv_(y, z, value=-0.1)", "x.addcmul_(x, x, value=2)",
    "x.clamp_(min=0)", "x.clamp_(0.1, 0.5)", "x.clamp_(max=y)", "x.sqrt_()", "x.relu_()",
    "x.sigmoid_()", "x.neg_()", "x.mul_(x)", "x.mul_(y)", "x.add_(x, alpha=2)",
    "x.add_(x.t(), alpha=2)", "x[0].add_(x[1], alpha=2)", "x[:, 0].mul_(x[:, 1])",
    "x.add_(y[0], alpha=2)", "x[0].add_(y, alpha=2)", "x[0:1].expand(3, 3).add_(y, alpha=2)",
    "x[0:1].expand(3, 3).neg_()", "F.leaky_relu(x, 0.2, True)", "F.elu(x, 0.5, inplace=True)",
    "F.hardtanh(x, inplace=True)", "F.relu6(x, inplace=True)", "F.celu(x, 0.5, True)",
    "F.silu(x, inplace=True)", "F.threshold(x, 0.1, 20., True)", "x.div_(y, rounding_mode='floor')",
    "x.round_(decimals=1)", "x.nan_to_num_(1.)", "x.fill_(2)", "x.fill_(y[0, 0])", "x.logit_(0.1)",
    "x.add_(y, alpha=1j)", "x.add_(y.double(), alpha=2)", "x.add_(1.5, alpha=2)", "x.atan2_(y)",
    "x.clamp_()", "x.remainder_(2)",
]  # fmt: skip
ODD = [  # only the first and later calls are compared: PyTorch's words differ
    "x.clamp(0, max=y)", "x.clamp(y, max=0.5)", "x.div(y, rounding_mode=None)",
    "x.round(decimals=0)", "x.add(y, alpha='a')", "x.add('a', alpha=2)", "x.lerp(y, 'a')",
    "x.addcmul(y, 2)", "x.lerp(y)", "x.lerp(y, 0.1, weight=1.)", "x.clamp('a')", "x.add(y, beta=2)",
    "x.where(c, 0.)", "lib.lerp()", "F.softshrink(x, -0.3)", "x.add(y[:, :2], alpha=0.5)",
    "x.pow(True)", "x.add(lib, alpha=2)", "lib.where(c, x, y, z)", "x.lerp(y, 0.1, 3)",
    "x.add(y, alpha=y)", "x.add(y, alpha=y[0, 0])", "x.lerp(y, lib.tensor(0.5))",
    "x.add(y, alpha=np.float32(2))", "x.masked_fill(c, np.int64(3))", "x.add(y, alpha=None)",
    "x.add(y, alpha=2 ** 70)", "x.add(y, alpha=np.ones(2))",
]  # fmt: skip
ODD_WRITES = [
    "F.leaky_relu(x, -0.2, True)", "x.fill_(y)", "x.lerp_(y)", "x.eq_(y)", "x.floor_divide_(z)",
    "x.lerp_(y, 'a')", "x.lerp_(y, 0.1, 2)", "x.addcmul_(y)", "x.clamp_(minimum=2)", "x.neg_(2)",
    "x.add_(y, alpha=[])", "x.lerp_(y.double().half(), 0.1)", "x.clamp_(min=lib.tensor(0.5))",
]  # fmt: skip
DTYPES = ("float32", "float64", "int64", "bool", "float16", "uint8")
VALUES = np.random.default_rng(0).uniform(0.2, 2.5, (3, 3, 3))


def operands(lib, dtype, grad, seed=0):
    x, y, z = (lib.from_numpy(v.copy()).to(getattr(lib, dtype)) for v in VALUES + 0.1 * seed)
    if grad:
        x.requires_grad_(), y.requires_grad_()
    return {"lib": lib, "F": lib.nn.functional, "x": x, "y": y, "z": z, "c": z > 1, "np": np}


def outcome(lib, source, dtype, grad, seed=0, writes=False):
    """Everything a caller can see of a call: values, dtype, gradients, or the complaint."""
    names = operands(lib, dtype, grad, seed)
    leaves = names["x"], names["y"]
    if writes and grad == "inner":
        names["x"] = names["x"] * 1
    version = names["x"]._version
    try:
        if writes and grad == "leaf":
            with lib.no_grad():
                result = eval(source, names)
        else:
            result = eval(source, names)
    except Exception as error:
        return type(error).__name__, _sentence(error)
    if writes:
        assert names["x"]._version == version + 1, source
        result = names["x"]
    node = None if writes or result.grad_fn is None else type(result.grad_fn).__name__
    found = [str(result.dtype), node, result.requires_grad, _array(result)]
    if result.requires_grad and grad != "leaf":
        try:
            result.sum().backward()
        except Exception as error:
            return type(error).__name__, _sentence(error)
        found += [None if t.grad is None else _array(t.grad) for t in leaves]
    return found


def _array(t):
    return np.array(t.detach().to(dtype=_wide(t)).numpy())


def _wide(t):
    lib = flambeau if isinstance(t, flambeau.Tensor) else __import__("torch")
    return lib.float64 if t.dtype.is_floating_point else lib.int64


def _sentence(error):
    return str(error).split("\n")[0].split(". ")[0].rstrip(".")


def same(a, b, tolerance):
    if len(a) != len(b):
        return False
    for u, v in zip(a, b):
        if isinstance(u, np.ndarray) and isinstance(v, np.ndarray):
            if not np.allclose(u, v, tolerance, tolerance, equal_nan=True):
                return False
        elif type(u) is not type(v) or u != v:
            return False
    return True


def modes_of(dtype, writes):
    if not dtype.startswith("float"):
        return (False,)
    return (False, "leaf", "inner") if writes else (False, True)


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.filterwarnings("ignore")
def test_patterns_agree_with_pytorch(dtype, writes):
    torch = pytest.importorskip("torch")
    wrong, tolerance = [], 2e-3 if dtype == "float16" else 2e-5
    for source in WRITES if writes else FRESH:
        for grad in modes_of(dtype, writes):
            for seed in (0, 0, 1, 0):  # the second call is the first quick one
                ours = outcome(flambeau, source, dtype, grad, seed, writes)
                if known_gap(source, dtype):
                    continue
                theirs = outcome(torch, source, dtype, grad, seed, writes)
                if not same(ours, theirs, tolerance):
                    wrong.append((source, dtype, grad, seed, ours, theirs))
                    break
    assert not wrong, "\n".join(map(str, wrong))


def known_gap(source, dtype):
    """Numbers beyond float16 are refused by PyTorch; ours become infinite. Others are its bugs."""
    if "1e30" in source:
        return dtype == "float16"
    if dtype == "bool":
        return "sub" in source or "clamp_" in source or source == "x.pow(True)"
    return source.startswith("True **") or source == "x.clamp_(0.1, 0.5)"


def forget():
    """No call is known: the next one of each pattern goes the long way."""
    for function in list(_functions.values()):
        getattr(function, "__globals__", {}).get("_routes", {}).clear()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.filterwarnings("ignore")
def test_first_and_later_calls_agree(dtype, writes):
    cases = [
        (source, grad)
        for source in (WRITES + ODD_WRITES if writes else FRESH + ODD)
        for grad in modes_of(dtype, writes)
    ]
    wanted = {}
    for case in cases:
        for seed in (0, 1):
            forget()
            wanted[case, seed] = outcome(flambeau, case[0], dtype, case[1], seed, writes)
    for case in (*cases, *cases, *reversed(cases)):
        for seed in (0, 1):
            got = outcome(flambeau, case[0], dtype, case[1], seed, writes)
            assert same(got, wanted[case, seed], 0), (case, seed, got, wanted[case, seed])


def test_numbers_do_not_make_kernels():
    x, y = flambeau.ones(4), flambeau.ones(4)
    x.add(y, alpha=0.1), x.add_(y, alpha=0.1), x.lerp(y, 0.1)
    before = len(x.device.runtime.kernels)
    for k in range(20):
        x.add(y, alpha=0.3 + k), x.add_(y, alpha=0.3 + k), x.lerp(y, 0.3 + k)
    assert len(x.device.runtime.kernels) == before


def test_a_new_default_dtype_forgets_plans():
    x = flambeau.arange(4)
    try:
        for dtype in (flambeau.float32, flambeau.float64, flambeau.float32):
            flambeau.set_default_dtype(dtype)
            for _ in range(3):
                assert (x * 0.5).dtype is dtype
                assert flambeau.where(x > 1, x, 0.5).dtype is dtype
                assert x.clamp(min=0.5).dtype is dtype
    finally:
        flambeau.set_default_dtype(flambeau.float32)


def test_negative_powers_of_integers_are_refused_every_time():
    for _ in range(3):
        assert flambeau.arange(4).pow_(2).tolist() == [0, 1, 4, 9]
        with pytest.raises(RuntimeError, match="negative integer powers"):
            flambeau.arange(4).pow_(-2)


def test_parameters_and_views_in_place():
    p = flambeau.nn.Parameter(flambeau.ones(4))
    for k in range(3):
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            p.add_(p.detach().clone(), alpha=2)
        with flambeau.no_grad():
            p.add_(flambeau.ones(4), alpha=2)
        assert p.tolist() == [3.0 + 2 * k] * 4 and p.grad_fn is None
    base = flambeau.ones(2, 3, requires_grad=True)
    for _ in range(3):
        copy = base * 1
        copy[0].lerp_(flambeau.full((3,), 5.0), 0.25)
        base.grad = None
        copy.sum().backward()
        assert copy.tolist() == [[2.0] * 3, [1.0] * 3]
        assert base.grad.tolist() == [[0.75] * 3, [1.0] * 3]


def test_comparisons_in_place_end_a_history():
    for _ in range(3):
        x = flambeau.ones(3, requires_grad=True)
        y = x * 2
        y.gt_(1).add_(x)
        y.sum().backward()
        assert y.tolist() == [2.0] * 3 and x.grad.tolist() == [1.0] * 3
        y = x * 2
        y[0].eq_(2.0)
        x.grad = None
        y.sum().backward()
        assert x.grad.tolist() == [0.0, 2.0, 2.0]


WARM = {  # calls whose 1 may stand for a dimension, a size or a count
    "max_pool2d": lambda x, n: F.max_pool2d(x, n),
    "max_pool2d stride": lambda x, n: F.max_pool2d(x, (1, 1), n),
    "avg_pool2d": lambda x, n: F.avg_pool2d(x, n),
    "adaptive_avg_pool2d": lambda x, n: F.adaptive_avg_pool2d(x, n),
    "adaptive_max_pool2d": lambda x, n: F.adaptive_max_pool2d(x, n),
    "lp_pool2d": lambda x, n: F.lp_pool2d(x, 2.0, n),
    "unfold": lambda x, n: F.unfold(x, n),
    "fold": lambda x, n: F.fold(flambeau.ones(1, 1, 1), n, 1),
    "conv2d padding": lambda x, n: F.conv2d(x, x[:1], None, 1, n),
    "interpolate": lambda x, n: F.interpolate(x, n),
    "sum": lambda x, n: x.sum(n),
    "sum of some": lambda x, n: x.sum((n, 0)),
    "max": lambda x, n: x.max(n),
    "flip": lambda x, n: x.flip((n, 0)),
    "repeat": lambda x, n: x.repeat(n, 1, 1, 1),
    "layer_norm": lambda x, n: F.layer_norm(flambeau.ones(2, 1), (n,)),
}


@pytest.mark.parametrize("name", WARM)
def test_true_and_one_point_zero_are_no_ones_after_a_one(name):
    x, call = flambeau.ones(1, 2, 4, 4), WARM[name]
    for _ in range(3):
        call(x, 1)
    for odd in (True, 1.0):
        with pytest.raises(TypeError):
            call(x, odd)


def test_reductions_in_several_launches_look_at_their_dims():
    x = flambeau.ones(3, 1 << 18)
    for name in ("sum", "amax", "logsumexp", "max", "all"):
        reduce = getattr(x, name)
        reduce(1), reduce(dim=1, keepdim=True)
        for arguments in ({"dim": True}, {"dim": 1.0}, {"dim": 1, "keepdim": 1}):
            with pytest.raises(TypeError):
                reduce(**arguments)


REFUSED = [  # calls, with PyTorch's complaint
    ("norm(x, out=2)", TypeError, "must be Tensor, not int"),
    ("norm(x, dtype='sum')", TypeError, "argument 'dtype' must be torch.dtype, not str"),
    ("index_put(x, 'sum', x)", TypeError, "'indices' (position 2) must be tuple of Tensors, not s"),
    ("index_put(x, [1], x)", TypeError, "expected Tensor as element 0 in argument 1, but got int"),
    ("repeat_interleave(x, 1.5)", TypeError, "received an invalid combination of arguments"),
    ("masked_fill(x, 3, 2)", TypeError, "argument 'mask' (position 2) must be Tensor, not int"),
    ("searchsorted(x, x, sorter=3)", TypeError, "'sorter' (position 6) must be Tensor, not int"),
    ("bucketize(x, 3)", TypeError, "'boundaries' (position 2) must be Tensor, not int"),
    ("tensordot(x, x.mT, 1, out=3)", TypeError, "must be Tensor, not int"),
    ("clone(x, memory_format=1)", TypeError, "must be torch.memory_format, not int"),
    ("tril_indices(2, 2, layout=1)", TypeError, "must be torch.layout, not int"),
    ("addbmm(x, x, x)", IndexError, "Dimension out of range (expected to be in range of [-2, 1]"),
    ("lstm(x)", TypeError, "lstm() received an invalid combination of arguments - got (Tensor)"),
    ("nn.functional.adaptive_max_pool2d(x, (2, 2))", ValueError, "dimension should be at least 3"),
    ("nn.functional.lp_pool2d(x, 2, (2,))", ValueError, "not enough values to unpack (expected 2"),
]


@pytest.mark.parametrize(("call", "kind", "text"), REFUSED, ids=[c for c, *_ in REFUSED])
def test_complaints_about_arguments(call, kind, text):
    with pytest.raises(kind, match=re.escape(text)):
        eval(f"flambeau.{call}", {"flambeau": flambeau, "x": flambeau.ones(2, 3)})
