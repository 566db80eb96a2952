"""Pooling: against windows walked in plain Python, and against PyTorch where it is installed.

The reference pads with what the op ignores and cuts windows out with NumPy slices; indices, ties
and nan follow from the order in which it walks. Calls and complaints are in pooling_cases.py.
"""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

import flambeau as F
import flambeau.nn.functional as nn
from flambeau.autograd import grad, gradcheck, gradgradcheck
from tests.ops import pooling_cases as cases

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "pooling.json").read_text())
FLOATS = ["float16", "bfloat16", "float32", "float64"]
FORMATS = [("float32", False), ("float32", True), ("float64", False), ("float64", True)]
FORMATS += [("float16", False), ("bfloat16", True)]
TOLERANCE = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 1e-5, "float64": 1e-12}


def some(items, dtype):
    """All cases for float32; a share of them for others, so that fewer kernels are compiled."""
    items = list(items)
    return items if dtype == "float32" else items[FLOATS.index(dtype) % 3 :: 3]


def spread(value, dims):
    return tuple(value) if isinstance(value, tuple) else (value,) * dims


def plain_windows(sizes, kernel, stride=None, padding=0, dilation=1, ceil_mode=False):
    """Per dimension the windows, each as (places inside, size with padding)."""
    dims = len(sizes)
    kernel = spread(kernel, dims)
    stride = kernel if stride is None else spread(stride, dims)
    found = []
    for n, k, s, p, d in zip(sizes, kernel, stride, spread(padding, dims), spread(dilation, dims)):
        round_up = math.ceil if ceil_mode else math.floor
        count = round_up((n + 2 * p - d * (k - 1) - 1) / s) + 1
        if ceil_mode and (count - 1) * s >= n + p:
            count -= 1
        starts = [o * s - p for o in range(count)]
        places = [[a + t * d for t in range(k)] for a in starts]
        inside = [[i for i in w if 0 <= i < n] for w in places]
        found.append([(i, min(a + k, n + p) - a) for i, a in zip(inside, starts)])
    return found


def adaptive_windows(sizes, outs):
    found = []
    for n, out in zip(sizes, outs):
        bounds = [(o * n // out, -(-(o + 1) * n // out)) for o in range(out)]
        found.append([(list(range(a, b)), b - a) for a, b in bounds])
    return found


def walk(a, windows):
    """(number of the window, its elements in order as flat places, size) for one plane."""
    strides = [math.prod(a.shape[k + 1 :]) for k in range(a.ndim)]
    for at in itertools.product(*(range(len(w)) for w in windows)):
        parts = [w[o] for w, o in zip(windows, at)]
        places = [
            sum(i * s for i, s in zip(place, strides))
            for place in itertools.product(*(p for p, _ in parts))
        ]
        yield at, places, math.prod(size for _, size in parts)


def planes(x, dims):
    return x.reshape(-1, *x.shape[x.ndim - dims :])


def pooled(x, dims, windows, kind, count_include_pad=True, divisor=None):
    """(values, indices) and what each gradient element does, for a reference of any pooling."""
    outs = tuple(len(w) for w in windows)
    values, indices = [], []
    for plane in planes(x, dims):
        flat = plane.reshape(-1)
        for _, places, size in walk(plane, windows):
            inside = flat[places]
            if kind == "max":
                best, where = -math.inf, places[0]
                for i, v in zip(places, inside):
                    if v > best or v != v:
                        best, where = v, i
                values.append(best)
                indices.append(where)
            else:
                size = divisor or (size if count_include_pad else len(places))
                values.append(inside.sum() / size)
    shape = (*x.shape[: x.ndim - dims], *outs)
    return np.array(values).reshape(shape), np.array(indices or [0] * len(values)).reshape(shape)


def pooled_grad(x, g, dims, windows, kind, count_include_pad=True, divisor=None):
    _, indices = pooled(x, dims, windows, "max")
    found = np.zeros((planes(x, dims).shape[0], math.prod(x.shape[x.ndim - dims :])))
    for k, plane in enumerate(planes(x, dims)):
        gs = planes(g, dims)[k].reshape(-1)
        chosen = planes(indices, dims)[k].reshape(-1)
        for o, (_, places, size) in enumerate(walk(plane, windows)):
            if kind == "max":
                found[k, chosen[o]] += gs[o]
            else:
                size = divisor or (size if count_include_pad else len(places))
                found[k, places] += gs[o] / size
    return found.reshape(x.shape)


def tensor(a, dtype="float64", channels_last=False):
    t = F.from_numpy(np.array(a, dtype="float32" if dtype == "bfloat16" else dtype))
    if channels_last and t.ndim > 3:
        t = t.contiguous(memory_format=F.channels_last if t.ndim == 4 else F.channels_last_3d)
    return t.to(getattr(F, dtype))


def numbers(t):
    t = t.detach()
    return t.float().numpy() if t.dtype is F.bfloat16 else t.numpy()


def near(got, want, dtype):
    tolerance = TOLERANCE.get(dtype, 0)
    got, want = numbers(got).astype("float64"), np.asarray(want, "float64")
    assert got.shape == want.shape
    assert np.allclose(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)


def check(function, x, dims, windows, kind, dtype, channels_last, **how):
    """Values, indices and gradients of a call against the walk."""
    t = tensor(x, dtype, channels_last).requires_grad_()
    x = numbers(t).astype("float64")
    out = function(t)
    want, _ = pooled(x, dims, windows, kind, **how)
    near(out, want, dtype)
    with F.no_grad():
        near(function(t), want, dtype)
    g = np.random.standard_normal(want.shape)
    g = numbers(tensor(g, dtype)).astype("float64")
    (found,) = grad(out, t, tensor(g, dtype))
    near(found, pooled_grad(x, g, dims, windows, kind, **how), dtype)
    if channels_last and t.ndim == 4 and dims == 2:
        assert out.is_contiguous(memory_format=F.channels_last)


# -- values and gradients --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype, channels_last", FORMATS)
def test_max_pool(dtype, channels_last, rng):
    for dims, shape, args in some(cases.PLAIN + cases.DILATED, dtype):
        x = rng.integers(-9, 9, shape) / 2  # ties
        function = getattr(nn, f"max_pool{dims}d")
        for ceil_mode in (False, True):
            windows = plain_windows(shape[-dims:], *args, ceil_mode=ceil_mode)
            check(
                lambda t, f=function, a=args, c=ceil_mode: f(t, *a, ceil_mode=c),
                x, dims, windows, "max", dtype, channels_last,
            )  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "int64", "int32", "uint8"])
def test_max_pool_indices(dtype, rng):
    for dims, shape, args in (cases.PLAIN + cases.DILATED)[:: 1 if dtype == "float32" else 3]:
        x = rng.integers(0, 9, shape)
        function = getattr(nn, f"max_pool{dims}d")
        want, places = pooled(x, dims, plain_windows(shape[-dims:], *args), "max")
        for channels_last in (False, True):
            out, indices = function(tensor(x, dtype, channels_last), *args, return_indices=True)
            assert indices.dtype is F.int64 and out.dtype is getattr(F, dtype)
            assert (numbers(out) == want).all() and (indices.numpy() == places).all()


def test_gradients_by_indices_asked_for(rng):
    x = tensor(rng.standard_normal((2, 3, 11, 13)), "float32").requires_grad_()
    for args in ((3, 2, 1), (2,), (5, 5)):
        out, _ = nn.max_pool2d(x, *args, return_indices=True)
        g = tensor(rng.standard_normal(out.shape), "float32")
        (a,) = grad(out, x, g)
        (b,) = grad(nn.max_pool2d(x, *args), x, g)
        assert (a == b).all()
        y = x.detach().contiguous(memory_format=F.channels_last).requires_grad_()
        (c,) = grad(nn.max_pool2d(y, *args, return_indices=True)[0], y, g)
        near(c, a.numpy(), "float32")


@pytest.mark.parametrize("dtype, channels_last", FORMATS)
def test_avg_pool(dtype, channels_last, rng):
    options = [
        ({}, {}),
        ({"ceil_mode": True}, {}),
        ({"count_include_pad": False, "ceil_mode": True}, {"count_include_pad": False}),
        ({"divisor_override": 3}, {"divisor": 3}),
    ]
    for number, (dims, shape, args) in enumerate(some(cases.PLAIN, dtype)):
        x = rng.standard_normal(shape)
        function = getattr(nn, f"avg_pool{dims}d")
        for kwargs, how in options[number % 2 :: 2] if dims > 1 else options[:3]:
            ceil_mode = kwargs.get("ceil_mode", False)
            windows = plain_windows(shape[-dims:], *args, ceil_mode=ceil_mode)
            check(
                lambda t, f=function, a=args, k=kwargs: f(t, *a, **k),
                x, dims, windows, "mean", dtype, channels_last and dims == 2, **how,
            )  # fmt: skip


def test_avg_pool_of_integers():
    x = F.arange(-8, 8).reshape(1, 1, 4, 4)
    assert nn.avg_pool2d(x, 2).tolist() == [[[[-5, -3], [2, 4]]]]  # towards zero
    assert nn.avg_pool2d(x.contiguous(memory_format=F.channels_last), 2).dtype is F.int64


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_adaptive_pool(kind, dtype, rng):
    for dims, shape, size in some(cases.ADAPTIVE, dtype):
        sizes = shape[-dims:]
        outs = [n if o is None else o for o, n in zip(spread(size, dims), sizes)]
        x = rng.standard_normal(shape)
        function = getattr(nn, f"adaptive_{kind}_pool{dims}d")
        if 0 in outs:
            assert function(tensor(x, dtype), size).shape == (*shape[:-dims], *outs)
            continue
        windows = adaptive_windows(sizes, outs)
        for channels_last in (False, True) if dims == 2 else (False,):
            check(
                lambda t, f=function, s=size: f(t, s),
                x, dims, windows, kind if kind == "max" else "mean", dtype, channels_last,
            )  # fmt: skip
        if kind == "max":
            _, places = pooled(numbers(tensor(x, dtype)), dims, windows, "max")
            assert (function(tensor(x, dtype), size, True)[1].numpy() == places).all()


def test_lp_pool(rng):
    for dims, shape, kernel in ((1, (2, 3, 9), 3), (2, (2, 3, 8, 7), (3, 2)), (3, (2, 4, 5, 6), 2)):
        x = np.abs(rng.standard_normal(shape)) + 0.1
        count = math.prod(spread(kernel, dims))
        for norm, ceil_mode in ((2, False), (3.0, True)):
            windows = plain_windows(shape[-dims:], kernel, ceil_mode=ceil_mode)
            means, _ = pooled(x**norm, dims, windows, "mean")
            got = getattr(nn, f"lp_pool{dims}d")(tensor(x), norm, kernel, ceil_mode=ceil_mode)
            near(got, (means * count) ** (1 / norm), "float64")


def test_nan_and_infinity():
    nan, inf = math.nan, math.inf
    x = np.full((1, 1, 4, 34), -inf)
    x[0, 0, 1, 2] = x[0, 0, 0, 9] = x[0, 0, 1, 8] = nan
    x[0, 0, 2, :4] = (3, 3, inf, inf)
    for dtype in FLOATS:
        for kernel in (2, (1, 9), (4, 17)):
            windows = plain_windows((4, 34), kernel)
            want, places = pooled(x, 2, windows, "max")
            for channels_last in (False, True):
                t = tensor(x, dtype, channels_last)
                out, indices = nn.max_pool2d(t, kernel, return_indices=True)
                near(out, want, dtype)
                assert (indices.numpy() == places).all()
                near(nn.max_pool2d(t, kernel), want, dtype)


# -- fractional pooling and unpooling --------------------------------------------------------------


def test_fractional_pooling_draws_as_pytorch_does():
    for key, want in GOLDEN["drawn"].items():
        dims, dtype = key.split()
        shape = {"2": (2, 2, 9, 11), "3": (2, 2, 7, 8, 9)}[dims]
        x = (np.arange(math.prod(shape)) * 7919 % 1009).reshape(shape)
        F.manual_seed(5)
        pool = getattr(nn, f"fractional_max_pool{dims}d")
        out, indices = pool(tensor(x, dtype), 2, 4, return_indices=True)
        assert indices.tolist() == want
        flat = tensor(x, dtype).flatten(2).gather(2, indices.flatten(2))
        assert (flat.reshape(out.shape) == out).all()


def test_fractional_gradients(rng):
    samples = tensor(rng.random((2, 3, 2)))
    x = tensor(rng.standard_normal((2, 3, 7, 8))).requires_grad_()

    def pool(t):
        return nn.fractional_max_pool2d(t, 2, output_ratio=(0.5, 0.6), _random_samples=samples)

    assert pool(x).shape == (2, 3, 3, 4)
    assert gradcheck(pool, (x,)) and gradgradcheck(pool, (x,))


def test_unpooling(rng):
    for dims, shape in ((1, (2, 3, 11)), (2, (2, 3, 9, 10)), (3, (2, 3, 4, 5, 6)), (2, (3, 8, 8))):
        x = tensor(rng.standard_normal(shape))
        pool, unpool = getattr(nn, f"max_pool{dims}d"), getattr(nn, f"max_unpool{dims}d")
        out, indices = pool(x, 2, return_indices=True)
        back = unpool(out, indices, 2, output_size=shape[-dims:])
        assert back.shape == x.shape
        assert ((back == 0) | (back == x)).all() and (back != 0).sum() == out.numel()
        assert (pool(back.abs(), 2) == out.abs()).all()
        y = out.detach().requires_grad_()
        sizes = shape[-dims:]
        assert gradcheck(lambda t, u=unpool, i=indices, s=sizes: u(t, i, 2, output_size=s), (y,))
    last = out.unsqueeze(0).contiguous(memory_format=F.channels_last)
    where = indices.unsqueeze(0).contiguous(memory_format=F.channels_last)
    back = nn.max_unpool2d(last, where, 2)
    assert back.is_contiguous(memory_format=F.channels_last)
    assert (back[0] == nn.max_unpool2d(out, indices, 2)).all()


# -- second derivatives, names, forms --------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda t: nn.max_pool2d(t, 3, 2, 1),
        lambda t: nn.max_pool2d(t, 2, 1, 0, 2),
        lambda t: nn.max_pool2d(t, 3, 2, 1, return_indices=True)[0],
        lambda t: nn.avg_pool2d(t, 3, 2, 1, count_include_pad=False),
        lambda t: nn.adaptive_avg_pool2d(t, (3, 4)),
        lambda t: nn.adaptive_max_pool2d(t, (3, 4)),
        lambda t: nn.max_pool1d(t[0], 3, 2, 1),
        lambda t: nn.avg_pool3d(t, (2, 3, 2)),
        lambda t: nn.max_pool3d(t, 2),
    ],
)
def test_second_derivatives(call, rng):
    x = rng.permutation(2 * 2 * 6 * 7).reshape(2, 2, 6, 7) / 10.0
    for channels_last in (False, True):
        t = tensor(x, channels_last=channels_last).requires_grad_()
        assert gradcheck(call, (t,)) and gradgradcheck(call, (t,))


def test_node_names():
    x = F.randn(2, 3, 8, 8, requires_grad=True)
    line, cube = F.randn(2, 3, 8, requires_grad=True), F.randn(1, 2, 4, 4, 4, requires_grad=True)
    names = {
        "MaxPool2DWithIndicesBackward0": nn.max_pool2d(x, 2),
        "MaxPool3DWithIndicesBackward0": nn.max_pool3d(cube, 2),
        "AvgPool2DBackward0": nn.avg_pool2d(x, 2),
        "AvgPool3DBackward0": nn.avg_pool3d(cube, 2),
        "AdaptiveAvgPool2DBackward0": nn.adaptive_avg_pool2d(x, 3),
        "AdaptiveMaxPool2DBackward0": nn.adaptive_max_pool2d(x, 3),
        "FractionalMaxPool2DBackward0": nn.fractional_max_pool2d(x, 2, 3),
        "MeanBackward1": nn.adaptive_avg_pool2d(x, 1),
        "SqueezeBackward1": nn.max_pool1d(line, 2),
    }
    assert [t.grad_fn.name() for t in names.values()] == list(names)
    assert names["SqueezeBackward1"].grad_fn.next_functions[0][0].name().startswith("MaxPool2D")
    (g,) = grad(nn.max_pool2d(x, 2).pow(2).sum(), x, create_graph=True)
    assert g.grad_fn.name() == "MaxPool2DWithIndicesBackwardBackward0"


def test_top_level_functions():
    x = F.randn(2, 3, 8)
    assert len(F.adaptive_max_pool1d(x, 2)) == len(F.max_pool1d_with_indices(x, 2)) == 2
    assert nn.adaptive_max_pool1d(x, 2).shape == (2, 3, 2)
    assert F.max_pool1d(x, 2).shape == F.avg_pool1d(x, 2).shape == (2, 3, 4)
    assert F.adaptive_avg_pool1d(x, 2).shape == (2, 3, 2)
    assert not hasattr(F, "avg_pool2d") and not hasattr(F, "lp_pool1d")
    y = F.randn(2, 3, 8, 8)
    assert (F.max_pool2d(y, [2, 2], []) == nn.max_pool2d(y, kernel_size=2)).all()
    for name in ("max_pool2d", "adaptive_max_pool2d", "fractional_max_pool2d"):
        sizes = (2, 3) if name.startswith("fr") else (2,)
        assert len(getattr(nn, f"{name}_with_indices")(y, *sizes)) == 2


def test_strided_inputs_and_gradients(rng):
    x = tensor(rng.standard_normal((4, 9, 22, 3)), "float32").requires_grad_()
    y = x.permute(3, 0, 1, 2)[..., ::2]
    for call in (lambda t: nn.max_pool2d(t, 3, 2, 1), lambda t: nn.avg_pool2d(t, 2)):
        (a,) = grad(call(y).sum(), x)  # an expanded gradient
        dense = y.detach().contiguous().requires_grad_()
        (b,) = grad(call(dense).sum(), dense)
        assert (call(y) == call(dense)).all()
        assert (a.permute(3, 0, 1, 2)[..., ::2] == b).all()


def _indices(x):
    larger = x.detach().contiguous().repeat(1, 1, 2, 2)
    return nn.max_pool2d(larger, 2, return_indices=True)[1]


CALLS = {
    "max": lambda x: nn.max_pool2d(x, 2),
    "max, wide": lambda x: nn.max_pool2d(x, 9, 5, 2),
    "max, dilated": lambda x: nn.max_pool2d(x, 3, 2, 1, 2),
    "max, indices": lambda x: nn.max_pool2d(x, 3, return_indices=True)[1].double(),
    "mean": lambda x: nn.avg_pool2d(x, 3, 2, 1),
    "mean, wide": lambda x: nn.avg_pool2d(x, 9, 4, 3, count_include_pad=False),
    "mean, divided": lambda x: nn.avg_pool2d(x, (2, 5), divisor_override=3),
    "adaptive": lambda x: nn.adaptive_avg_pool2d(x, (5, 3)),
    "adaptive max": lambda x: nn.adaptive_max_pool2d(x, (4, 7)),
    "fractional": lambda x: nn.fractional_max_pool2d(
        x, 2, (5, 4), _random_samples=F.full((2, 3, 2), 0.3, dtype=x.dtype)
    ),
    "unpooled": lambda x: nn.max_unpool2d(x, _indices(x), 2),
}


@pytest.mark.parametrize("name", CALLS)
def test_planes_are_read_where_they_lie(name, rng):
    """Slices along the height, of one batch and of several, and along images."""
    whole = F.from_numpy(rng.standard_normal((2, 3, 40, 19)))
    for cut in (whole[:, :, :23], whole[:1, :, 3:26], whole[:, 1:, :23], whole[:, :, 5:28].mT.mT):
        if name == "fractional" and cut.shape[:2] != (2, 3):
            continue
        found = []
        for x in (cut.detach(), cut.detach().contiguous()):
            x.requires_grad_()
            out = CALLS[name](x)
            found.append(out.detach())
            if out.requires_grad:
                found.append(grad((out * out).sum(), x)[0])
        half = len(found) // 2
        for a, b in zip(found[:half], found[half:]):
            assert F.equal(a, b)


def test_empty_batches_and_meta():
    for name, args in (("max_pool2d", (2,)), ("avg_pool2d", (2,)), ("adaptive_max_pool2d", (2,))):
        function = getattr(nn, name)
        x = F.zeros(0, 3, 4, 5, requires_grad=True)
        out = function(x, *args)
        assert out.shape == (0, 3, 2, 2)
        assert grad(out.sum(), x)[0].shape == x.shape
        y = F.zeros(2, 3, 4, 5, device="meta", requires_grad=True)
        out = function(y, *args)
        assert out.shape == (2, 3, 2, 2) and out.device.type == "meta"
        assert grad(out.sum(), y)[0].shape == y.shape
    x = F.ones(2, 3, 4, 4, requires_grad=True)
    with pytest.raises(RuntimeError, match="grad_output to have non-zero size for non-batch"):
        grad(nn.adaptive_avg_pool2d(x, 0).sum(), x)


def test_same_bits_for_any_number_of_threads():
    x = F.randn(4, 16, 57, 61, requires_grad=True)
    calls = [
        lambda t: nn.max_pool2d(t, 3, 2, 1),
        lambda t: nn.avg_pool2d(t, 3, 2, 1),
        lambda t: nn.max_pool2d(t, 9, 7),
        lambda t: nn.adaptive_avg_pool2d(t, 7),
        lambda t: nn.avg_pool2d(t.contiguous(memory_format=F.channels_last), 3, 1, 1),
    ]
    before = F.get_num_threads()
    try:
        results = []
        for threads in (1, 2):
            F.set_num_threads(threads)
            outs = [call(x) for call in calls]
            grads = [grad(o, x, o.detach())[0] for o in outs]
            results.append([t.detach().numpy().tobytes() for t in outs + grads])
    finally:
        F.set_num_threads(before)
    assert results[0] == results[1]


def test_backward_keeps_one_byte_per_window():
    x = F.randn(2, 3, 16, 16, requires_grad=True)
    saved = []
    with F.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        nn.max_pool2d(x, 2)
    assert [(t.dtype, t.numel()) for t in saved] == [(F.uint8, 2 * 3 * 8 * 8)]


# -- complaints ------------------------------------------------------------------------------------


def test_refusals():
    got = cases.refusals(F, nn)
    assert len(got) == len(GOLDEN["refusals"])
    for ours, wanted in zip(got, GOLDEN["refusals"]):
        assert ours == wanted


def test_refused_dtypes():
    x = F.ones(1, 2, 4, 4)
    for call, text in (
        (lambda: nn.max_pool2d(x.bool(), 2), "\"max_pool2d\" not implemented for 'Bool'"),
        (lambda: nn.max_pool1d(x[0].long(), 2), "\"max_pool1d_impl\" not implemented for 'Long'"),
        (lambda: nn.avg_pool2d(x.int(), 2), "\"avg_pool2d\" not implemented for 'Int'"),
        (lambda: nn.max_unpool2d(x.long(), x.long(), 2), '"max_unpool2d" not implemented'),
        (lambda: nn.adaptive_max_pool2d(x.long(), 2), '"adaptive_max_pool2d" not implemented'),
    ):
        with pytest.raises(NotImplementedError, match=text):
            call()
    with pytest.raises(RuntimeError, match="elements in indices should be type int64 but got: Int"):
        nn.max_unpool2d(x, x.int(), 2)
    with pytest.raises(RuntimeError, match="same dtype as input"):
        nn.fractional_max_pool2d(x, 2, 2, _random_samples=F.rand(1, 2, 2, dtype=F.float64))


# -- PyTorch itself --------------------------------------------------------------------------------


def _calls():
    for dims, shape, args in cases.PLAIN + cases.DILATED:
        yield f"max_pool{dims}d", shape, args, {"return_indices": True}
        yield f"max_pool{dims}d", shape, args, {"ceil_mode": True}
    for dims, shape, args in cases.PLAIN:
        yield f"avg_pool{dims}d", shape, args, {}
        yield f"avg_pool{dims}d", shape, args, {"ceil_mode": True, "count_include_pad": False}
    for dims, shape, size in cases.ADAPTIVE:
        if size == 0:
            continue  # PyTorch has no gradient of nothing
        yield f"adaptive_avg_pool{dims}d", shape, (size,), {}
        yield f"adaptive_max_pool{dims}d", shape, (size,), {"return_indices": True}
    yield "lp_pool2d", (2, 3, 8, 9), (2, 3), {}
    yield "fractional_max_pool2d", (2, 3, 8, 9), (2, 3), {"return_indices": True}
    yield "fractional_max_pool3d", (2, 3, 8, 9, 7), (2, 3), {"return_indices": True}


@pytest.mark.oracle
@pytest.mark.parametrize("dtype, channels_last", FORMATS)
def test_like_pytorch(dtype, channels_last):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    for name, shape, args, kwargs in some(_calls(), dtype):
        if dtype in ("float16", "bfloat16") and name in ("avg_pool3d", "lp_pool2d"):
            continue  # which PyTorch has no kernel for, or computes step by step
        x = rng.standard_normal(shape)
        last = channels_last and len(shape) == int(name[-2]) + 2
        mine = tensor(x, dtype, last).requires_grad_()
        theirs = torch.from_numpy(x).to(getattr(torch, dtype))
        if last and theirs.ndim > 3:
            form = torch.channels_last if theirs.ndim == 4 else torch.channels_last_3d
            theirs = theirs.contiguous(memory_format=form)
        theirs.requires_grad_()
        F.manual_seed(1), torch.manual_seed(1)
        got = getattr(nn, name)(mine, *args, **kwargs)
        want = getattr(torch.nn.functional, name)(theirs, *args, **kwargs)
        if isinstance(want, tuple):
            assert (got[1].numpy() == want[1].numpy()).all()
            got, want = got[0], want[0]
        where = (name, shape, args, kwargs)
        assert got.stride() == want.stride() and got.shape == want.shape, where
        assert got.grad_fn.name() == want.grad_fn.name(), where
        near(got, want.detach().double().numpy(), dtype)
        g = rng.standard_normal(want.shape)
        (a,) = grad(got, mine, tensor(g, dtype))
        (b,) = torch.autograd.grad(want, theirs, torch.from_numpy(g).to(want.dtype))
        assert a.stride() == b.stride(), where
        if dtype not in ("float16", "bfloat16"):  # which PyTorch rounds after every addition
            near(a, b.double().numpy(), dtype)


@pytest.mark.oracle
def test_pytorch_says_what_is_recorded():
    torch = pytest.importorskip("torch")
    assert cases.refusals(torch, torch.nn.functional) == GOLDEN["refusals"]


def test_windows_of_padding_alone_have_no_gradient():
    x = F.arange(4.0).reshape(4, 1, 1).requires_grad_()
    out, chosen = nn.max_pool1d(x, 2, 2, 1, 2, return_indices=True)
    out.sum().backward()
    assert out.isneginf().all() and (chosen == 1).all()  # behind the only element of a plane
    assert x.grad.tolist() == [[[0.0]]] * 4
