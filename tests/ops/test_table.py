"""Every pointwise row of the table, with every dtype and layout, against PyTorch and on its own.

What is tried comes from `samples.py`. With PyTorch installed, values, dtypes, strides, messages,
gradients and second gradients are compared with it; without it, derivatives are compared with
differences, layouts and variants with the plain call. References that need no PyTorch are in
`test_pointwise.py`.
"""

import warnings

import numpy as np
import pytest

import flambeau
from flambeau.eager.methods import function, inplace_function
from flambeau.ops import rules, table
from flambeau.ops.table import TABLE
from tests.ops import samples
from tests.ops.compare import (
    DTYPES,
    build,
    describe,
    differences,
    numbers,
    outcome,
    tensor,
    tensor_count,
)
from tests.ops.samples import calls_of, operands, smooth

FAMILIES = "pointwise comparison elementary complex_numbers special_functions activations".split()
COMPOSITES = (
    "frexp float_power square relu6 softsign tanhshrink mvlgamma prelu special_ndtr".split()
)


def is_public(op):
    return bool(op.variants or op.namespaces)


def in_families(op):
    return op.body.__module__.rpartition(".")[2] in FAMILIES


ROWS = sorted(
    n for n, op in TABLE.items() if op.kind == "pointwise" and in_families(op) and is_public(op)
)
ROWS += COMPOSITES
DIFFERENTIABLE = [n for n in ROWS if TABLE[n].grads or n in COMPOSITES]
NO_DERIVATIVE = {n for n in DIFFERENTIABLE if TABLE[n].node_name == "NotImplemented"}


ORACLE_NAMES = {"conj_kernel": "conj_physical"}


def oracle_function(name):
    """PyTorch's function for a row."""
    import torch

    name = ORACLE_NAMES.get(name, name)
    places = (
        (torch, name),
        (torch.special, name.removeprefix("special_")),
        (torch.nn.functional, name),
    )
    return next(getattr(space, n) for space, n in places if hasattr(space, n))


# -- values, dtypes, messages ----------------------------------------------------------------------

# Where PyTorch's result depends on its vectorisation, is inaccurate, or is an accident of C++.
# Each entry: does this element not count? (dtype, values of the operands)
tiny = lambda x: (np.abs(x) < 1e-37) & (x != 0)
EXCUSED = {
    "remainder": lambda dtype, a, b=1: tiny(b),  # its fmod gives nan where the quotient overflows
    "fmod": lambda dtype, a, b=1: tiny(b),
    "pow": lambda dtype, a, b=1: (
        (dtype == "float16") | ((a == 0) & (b == 0)) | (dtype[0] == "c") & (a == 0)
    ),
    "float_power": lambda dtype, a, b=1: (dtype[0] == "c") & (a == 0),
    "signbit": lambda dtype, a: np.isnan(a),
    "copysign": lambda dtype, a, b=1: np.isnan(b),
    "igamma": lambda dtype, a, b: tiny(a) | (a == b),
    "igammac": lambda dtype, a, b: tiny(a) | (a == b),
    "special_zeta": lambda dtype, a, b=1: np.abs(a) > 1e3,
    "polygamma": lambda dtype, a: (a <= 0) & (np.floor(a) == a),
    "isclose": lambda dtype, a, b: dtype == "bfloat16",
    "ldexp": lambda dtype, a, b: (dtype == "float16") & (np.abs(b) > 15),
    "gelu": lambda dtype, a: np.isinf(a),
}
for _name in ("airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1"):
    # the phase is lost in float32
    EXCUSED["special_" + _name] = lambda dtype, a: np.abs(1.0 * a) > 1000
for _name in [n for n in ROWS if "polynomial" in n]:
    EXCUSED[_name] = lambda dtype, a: np.isnan(a)
LOOSE = {  # (relative, absolute) where PyTorch is far from the last place
    "special_airy_ai": (1e-5, 1e-6), "polygamma": (1e-5, 1e-6), "special_i0e": (3e-2, 1e-6),
    "igamma": (1e-5, 1e-6),
    "igammac": (1e-5, 1e-6),
} | {f"special_bessel_{n}": (3e-5, 3e-6) for n in ("j0", "j1", "y0", "y1")}  # fmt: skip
# nothing comparable at all: rounds in half precision, or has a dtype we do not have
SKIPPED = {
    ("div", "float16", "trunc"), ("div", "bfloat16", "trunc"), ("complex", "float16", None),
}  # fmt: skip
# the words of a refusal that name another kernel
OTHER_WORDS = {"clamp", "mvlgamma", "polygamma"}
REFUSED_HERE = {("pow", "uint16"), ("pow", "uint32"), ("pow", "uint64"), ("addcmul", "uint8")}
SIGNED_ZEROS = {
    "neg", "abs", "sign", "sgn", "copysign", "floor", "ceil", "trunc", "round", "frac", "sqrt",
    "sin", "tan", "asin", "atan",
    "sinh", "tanh", "asinh", "atanh", "expm1", "log1p", "relu", "mul", "div", "add", "sub", "erf",
    "cos", "reciprocal",
}  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("name", ROWS)
def test_values_and_messages_are_those_of_pytorch(name):
    torch = pytest.importorskip("torch")
    op, ours, theirs = TABLE[name], function(name), oracle_function(name)
    wrong = []
    for dtype in DTYPES:
        for call in calls_of(op):
            if (name, dtype, call.kwargs.get("rounding_mode")) in SKIPPED:
                continue
            values = operands(op, dtype, tensor_count(call))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                want = outcome(theirs, *build(torch, call, values, dtype))
            got = outcome(ours, *build(flambeau, call, values, dtype))
            found = compare(name, dtype, values, got, want)
            if found:
                wrong.append(f"{dtype} {call.args} {call.kwargs}: {found}")
    assert not wrong, "\n".join([name, *wrong[:12]])


def compare(name, dtype, values, got, want):
    """None, or what is different."""
    failed = isinstance(want, Exception), isinstance(got, Exception)
    if any(failed):
        if (name, dtype) in REFUSED_HERE:
            return None
        if not all(failed):
            return f"{want!r} became {got!r}"
        same = first_line(want) == first_line(got) or name in OTHER_WORDS
        return None if type(want) is type(got) and same else f"{want!r} became {got!r}"
    wants, gots = (x if isinstance(x, tuple) else (x,) for x in (want, got))
    for w, g in zip(wants, gots, strict=True):
        if str(w.dtype) != str(g.dtype) or tuple(w.shape) != tuple(g.shape):
            return f"{g.dtype} {tuple(g.shape)} instead of {w.dtype} {tuple(w.shape)}"
        kind = str(w.dtype).removeprefix("torch.")
        g, w = numbers(g), numbers(w)
        bad = differences(g, w, kind, name in SIGNED_ZEROS, LOOSE.get(name))
        if name in EXCUSED:
            bad &= ~np.broadcast_to(EXCUSED[name](dtype, *values), bad.shape)
        if bad.any():
            return describe(bad, values, g, w)
    return None


def first_line(error):
    return str(error).split("\n")[0]


# -- layouts ---------------------------------------------------------------------------------------


def arrangements(lib, dtype, rng, op, count):
    """Tensors of one set of values in several layouts: (title, tensors) pairs."""
    base = [smooth(op, rng, (4, 6)) for _ in range(count)]

    def make(values):
        return tensor(lib, values, dtype)

    dense = [make(v) for v in base]
    yield "contiguous", dense
    yield "transposed", [make(v.T.copy()).t() for v in base]
    yield "sliced", [make(np.repeat(v, 3, axis=1))[:, ::3] for v in base]
    yield "offset", [make(np.concatenate([v, v]))[4:] for v in base]
    yield "zero-dim", [make(v[0, 0]) for v in base]
    yield "empty", [make(v[:0]) for v in base]
    yield "permuted", [make(np.stack([v, v])).permute(2, 0, 1) for v in base]
    if count > 1:
        yield "broadcast row", [dense[0], *(d[0] for d in dense[1:])]
        yield "broadcast column", [dense[0], *(d[:, :1] for d in dense[1:])]
        yield "expanded", [dense[0][:1].expand(4, 6), *dense[1:]]
        yield "outer", [dense[0][:, :1], *(d[0] for d in dense[1:])]
        yield "mixed order", [dense[0], *(make(v.T.copy()).t() for v in base[1:])]
        yield "with zero-dim", [dense[0], *(d[0, 0] for d in dense[1:])]


ONE_OR_MORE = [n for n in ROWS if n not in ("where", "prelu", "complex", "polar")]


def plain_call(op):
    """The first call of a row that takes tensors only, or its first one."""
    calls = calls_of(op)
    return next((c for c in calls if tensor_count(c) == len(c.args) + len(c.kwargs)), calls[0])


def with_tensors(call, tensors):
    given = iter(tensors)
    args = [next(given) if a is samples.T else a for a in call.args]
    return args, {k: next(given) if v is samples.T else v for k, v in call.kwargs.items()}


# PyTorch composes these of others, copies the strides of views, or fills a contiguous tensor
OTHER_STRIDES = {
    "isreal",
    "fill",
    "rsub",
    "logsigmoid",
    "deg2rad",
    "rad2deg",
    "frexp",
    "mvlgamma",
    "nan_to_num",
}
DTYPE_FOR = dict.fromkeys(("gcd", "lcm", *(n for n in ROWS if n.startswith("bitwise"))), "int32")


@pytest.mark.oracle
@pytest.mark.parametrize("name", ONE_OR_MORE)
def test_layouts_are_those_of_pytorch(name, seed):
    torch = pytest.importorskip("torch")
    op, ours, theirs = TABLE[name], function(name), oracle_function(name)
    call, dtype = plain_call(op), DTYPE_FOR.get(name, "float32")
    both = [
        arrangements(lib, dtype, np.random.default_rng(seed), op, tensor_count(call))
        for lib in (flambeau, torch)
    ]
    for (title, mine), (_, others) in zip(*both):
        got, want = (
            f(*a, **k)
            for f, (a, k) in (
                (ours, with_tensors(call, mine)),
                (theirs, with_tensors(call, others)),
            )
        )
        got, want = (x[0] if isinstance(x, tuple) else x for x in (got, want))
        assert tuple(got.shape) == tuple(want.shape), title
        assert got.stride() == want.stride() or title == "empty" or name in OTHER_STRIDES, (
            title,
            got.stride(),
            want.stride(),
        )
        kind = str(want.dtype).removeprefix("torch.")
        bad = differences(numbers(got), numbers(want), kind, tolerance=LOOSE.get(name))
        assert not bad.any(), (title, describe(bad, [], numbers(got), numbers(want)))


@pytest.mark.parametrize("name", ONE_OR_MORE)
def test_every_layout_gives_the_values_of_dense_tensors(name, seed):
    op, ours = TABLE[name], function(name)
    call, dtype = plain_call(op), DTYPE_FOR.get(name, "float64")
    for title, tensors in arrangements(
        flambeau, dtype, np.random.default_rng(seed), op, tensor_count(call)
    ):
        shape = np.broadcast_shapes(*(tuple(t.shape) for t in tensors))
        dense = [flambeau.from_numpy(np.array(np.broadcast_to(t.numpy(), shape))) for t in tensors]
        got, want = (ours(*a, **k) for a, k in (with_tensors(call, t) for t in (tensors, dense)))
        got, want = (x[0] if isinstance(x, tuple) else x for x in (got, want))
        np.testing.assert_array_equal(got.numpy(), want.numpy(), err_msg=title)


# -- derivatives -----------------------------------------------------------------------------------


def smooth_arguments(lib, op, call, rng, dtype="float64", shape=(5,)):
    values = [smooth(op, rng, shape) for _ in range(tensor_count(call))]
    if dtype.startswith("complex"):
        values = [v + 1j * smooth(op, rng, shape) for v in values]
    args, kwargs = build(lib, call, values, dtype)
    tensors = [
        a
        for a in (*args, *kwargs.values())
        if hasattr(a, "grad_fn") and not str(a.dtype).endswith("bool")
    ]
    return args, kwargs, tensors


def derivatives(lib, f, args, kwargs, tensors, order, seed):
    """Value, gradients and, for order 2, gradients of a random combination of the gradients."""
    for t in tensors:
        t.requires_grad_()
    rng = np.random.default_rng(seed)

    def weight(t):
        values = rng.uniform(0.5, 1.5, tuple(t.shape))
        return tensor(lib, values, str(t.dtype).removeprefix("torch."))

    out = f(*args, **kwargs)
    out = out[0] if isinstance(out, tuple) else out
    grads = lib.autograd.grad(
        [out], tensors, [weight(out)], create_graph=order == 2, allow_unused=True
    )
    found = [("value", out), *((f"gradient {k}", g) for k, g in enumerate(grads))]
    if order == 2:
        roots = [g for g in grads if g is not None and g.requires_grad]
        if roots:
            again = lib.autograd.grad(roots, tensors, [weight(g) for g in roots], allow_unused=True)
            found += [(f"second gradient {k}", g) for k, g in enumerate(again)]
    return found, out.grad_fn


# Derivatives that PyTorch does not have, or computes in another way at the odd points.
UNEQUAL = {"igamma": "input", "igammac": "input", "special_zeta": "input"}
ODD_POINTS_DIFFER = {
    "pow", "float_power", "logaddexp", "logaddexp2", "xlogy", "special_xlog1py", "igamma",
    "igammac", "special_zeta",
    "polygamma", "mvlgamma", "lgamma", "digamma", "special_log_ndtr", "ldexp", "addcdiv", "mish",
    "silu", "gelu",
}  # fmt: skip


ONCE = {"hardsigmoid"}  # PyTorch cannot differentiate it twice
OTHER_NODES = {"special_ndtr"}  # the same steps, by other overloads


def comparable_calls(op):
    """Calls that have derivatives in PyTorch too."""
    for call in calls_of(op):
        if (
            op.name in ("special_zeta", "remainder")
            and call.args[0] is not samples.T
            and tensor_count(call)
        ):
            continue
        if (
            op.name in UNEQUAL
            or tensor_count(call) == 0
            or (op.name == "pow" and call.args[0] == 0)
        ):
            continue
        yield call


@pytest.mark.oracle
@pytest.mark.parametrize("name", [n for n in DIFFERENTIABLE if n not in NO_DERIVATIVE])
def test_gradients_are_those_of_pytorch(name, seed):
    torch = pytest.importorskip("torch")
    op, ours, theirs = TABLE[name], function(name), oracle_function(name)
    wrong = []
    for call in comparable_calls(op):
        results = []
        for lib, f in ((flambeau, ours), (torch, theirs)):
            rng = np.random.default_rng(seed)
            arguments = smooth_arguments(lib, op, call, rng)
            results.append(derivatives(lib, f, *arguments, 1 if name in ONCE else 2, seed))
        wrong += compare_derivatives(call, *results, nodes=name not in OTHER_NODES)
    assert not wrong, "\n".join(wrong)


def compare_derivatives(call, mine, others, tolerance=(5e-8, 1e-10), nodes=True):
    (got, node), (want, other) = mine, others
    wrong = []
    if nodes and node.name() != other.name():
        wrong.append(f"{call}: node {node.name()} instead of {other.name()}")
    want = dict(want)
    for title, g in got:
        w = want.get(title)
        if g is None or w is None:
            missing = w if g is None else g
            if missing is not None and numbers(missing).any():
                wrong.append(f"{call}: {title} is {g} instead of {w}")
            continue
        if tuple(g.shape) != tuple(w.shape) or str(g.dtype) != str(w.dtype):
            wrong.append(
                f"{call}: {title} is {g.dtype} {tuple(g.shape)}, not {w.dtype} {tuple(w.shape)}"
            )
            continue
        g, w = numbers(g), numbers(w)
        bad = differences(g, w, "float64", tolerance=tolerance)
        if bad.any():
            wrong.append(f"{call}: {title}: {describe(bad, [], g, w)}")
    return wrong


@pytest.mark.oracle
@pytest.mark.parametrize(
    "name", [n for n in DIFFERENTIABLE if n not in NO_DERIVATIVE | ODD_POINTS_DIFFER]
)
def test_gradients_at_odd_points_are_those_of_pytorch(name, seed):
    torch = pytest.importorskip("torch")
    op, ours, theirs = TABLE[name], function(name), oracle_function(name)
    wrong = []
    for call in comparable_calls(op):
        values = operands(op, "float64", tensor_count(call))
        results = []
        for lib, f in ((flambeau, ours), (torch, theirs)):
            args, kwargs = build(lib, call, values, "float64")
            tensors = [
                a
                for a in (*args, *kwargs.values())
                if hasattr(a, "grad_fn") and not str(a.dtype).endswith("bool")
            ]
            results.append(derivatives(lib, f, args, kwargs, tensors, 1, seed))
        wrong += compare_derivatives(call, *results, nodes=name not in OTHER_NODES)
    assert not wrong, "\n".join(wrong)


COMPLEX = (  # rows that PyTorch differentiates for complex numbers
    "abs acos acosh add addcdiv addcmul angle asin asinh atan atanh conj_kernel cos cosh div "
    "exp exp2 expm1 lerp log log10 log1p log2 mul neg pow reciprocal rsqrt rsub sgn sigmoid sin "
    "sinc sinh sqrt square sub tan tanh where softsign"
).split()


@pytest.mark.oracle
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_gradients_are_those_of_pytorch(name, seed):
    torch = pytest.importorskip("torch")
    op, ours, theirs = TABLE[name], function(name), oracle_function(name)
    wrong = []
    for call in comparable_calls(op):
        if "rounding_mode" in call.kwargs:
            continue
        results = []
        for lib, f in ((flambeau, ours), (torch, theirs)):
            rng = np.random.default_rng(seed)
            arguments = smooth_arguments(lib, op, call, rng, "complex128")
            results.append(derivatives(lib, f, *arguments, 1, seed))
        wrong += compare_derivatives(call, *results)
    assert not wrong, "\n".join(wrong)


SMOOTH_ROWS = [n for n in DIFFERENTIABLE if n not in NO_DERIVATIVE and n not in UNEQUAL]


@pytest.mark.parametrize("name", SMOOTH_ROWS)
def test_derivatives_are_those_of_differences(name, seed):
    op, ours = TABLE[name], function(name)
    rng = np.random.default_rng(seed)
    for call in calls_of(op):
        args, kwargs, tensors = smooth_arguments(flambeau, op, call, rng, shape=(3,))
        if not tensors or (
            op.name in ("special_zeta", "remainder") and call.args[0] is not samples.T
        ):
            continue
        if name == "pow" and call.args[0] == 0:  # log(0) twice
            continue
        for t in tensors:
            t.requires_grad_()
        keywords = list(kwargs)

        def run(*given, args=args, keywords=keywords, tensors=tensors, kwargs=kwargs):
            swap = {id(t): g for t, g in zip(tensors, given)}
            out = ours(
                *(swap.get(id(a), a) for a in args),
                **{k: swap.get(id(v), v) for k, v in kwargs.items()},
            )
            return out[0] if isinstance(out, tuple) else out

        assert flambeau.autograd.gradcheck(run, tensors, atol=1e-5, rtol=1e-3), call
        if run(*tensors).requires_grad and name not in FLAT:
            assert flambeau.autograd.gradgradcheck(run, tensors, atol=1e-4, rtol=1e-3), call


FLAT = {
    "floor",
    "ceil",
    "trunc",
    "round",
    "sign",
    "fill",
    "copysign",
    "heaviside",
    "nextafter",
    "frexp",
}


# -- variants --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ONE_OR_MORE)
def test_inplace_and_out_agree_with_the_function(name, seed):
    op, ours = TABLE[name], function(name)
    if name == "frexp":
        pytest.skip("frexp has two results")
    call, dtype = plain_call(op), DTYPE_FOR.get(name, "float64")
    rng = np.random.default_rng(seed)
    tensors = [tensor(flambeau, smooth(op, rng, (3, 4)), dtype) for _ in range(tensor_count(call))]
    args, kwargs = with_tensors(call, tensors)
    want = ours(*args, **kwargs)
    if "out" in op.variants:
        out = flambeau.empty(3, 4, dtype=want.dtype)
        assert ours(*args, **kwargs, out=out) is out
        np.testing.assert_array_equal(out.numpy(), want.numpy())
        wide = flambeau.zeros(8, 3, dtype=want.dtype).t()[:, ::2]
        ours(*args, **kwargs, out=wide)
        np.testing.assert_array_equal(wide.numpy(), want.numpy())
    if "inplace" in op.variants and args[0] is tensors[0]:
        target = tensors[0].clone()
        version = target._version
        again = inplace_function(name)(target, *args[1:], **kwargs)
        assert again is target and target._version > version
        np.testing.assert_array_equal(target.numpy(), want.numpy().astype(target.numpy().dtype))


@pytest.mark.oracle
@pytest.mark.parametrize("name", ROWS)
def test_variants_are_those_of_pytorch(name):
    torch = pytest.importorskip("torch")
    op = TABLE[name]
    for alias in (name, *op.aliases):
        assert ("function" in op.variants) == hasattr(torch, alias) or alias.startswith(
            "special_"
        ), alias
        assert ("method" in op.variants) <= hasattr(torch.Tensor, alias), alias
        if hasattr(torch.Tensor, alias) and name != "where":
            assert hasattr(flambeau.Tensor, alias), alias
        if hasattr(torch.Tensor, alias + "_"):
            assert hasattr(flambeau.Tensor, alias + "_"), alias + "_"


@pytest.mark.parametrize(
    ("options", "words"),
    [({"chek": len}, "no option 'chek'"), ({"settled": 1}, "option 'settled' must be bool")],
)
def test_options_that_no_row_has_are_refused(options, words):
    with pytest.raises(TypeError, match=words):
        table.pointwise(dtype=rules.same, **options)(lambda input: input)
