"""interpolate: against sums written out here everywhere, against PyTorch where it is installed."""

import itertools
import math
from functools import partial

import numpy as np
import pytest

import flambeau
import flambeau.nn.functional as F
from flambeau.autograd import gradcheck, gradgradcheck
from tests.ops.both import bits_with_threads, check, draw, outcome, tensor

MODES = {  # mode -> numbers of spatial dimensions
    "nearest": (1, 2, 3),
    "nearest-exact": (1, 2, 3),
    "linear": (1,),
    "bilinear": (2,),
    "trilinear": (3,),
    "bicubic": (2,),
}
SMOOTH = ("bilinear", "bicubic", "lanczos")


def weights(mode, size, wanted, scale, align_corners, antialias):
    """A matrix (wanted, size), in float64 and straight from the definitions."""
    step = size / wanted if scale is None else 1 / scale
    if align_corners:
        step = (size - 1) / (wanted - 1) if wanted > 1 else 0.0
    found = np.zeros((wanted, size))
    for k in range(wanted):
        if mode == "nearest":
            found[k, min(int(k * step), size - 1)] = 1
        elif mode == "nearest-exact":
            found[k, min(int((k + 0.5) * step), size - 1)] = 1
        elif antialias:
            found[k] = smooth_row(mode, k, step, size)
        else:
            at = k * step if align_corners else (k + 0.5) * step - 0.5
            add_neighbours(found[k], mode, at)
    return found


def add_neighbours(row, mode, at):
    size = len(row)
    if mode.endswith("cubic"):
        low = math.floor(at)
        for j in range(low - 1, low + 3):
            row[min(max(j, 0), size - 1)] += cubic(j - at, -0.75)
    else:
        at = max(at, 0.0)
        low = min(int(at), size - 1)
        row[low] += 1 - (at - low)
        row[min(low + 1, size - 1)] += at - low


def cubic(x, a):
    x = abs(x)
    if x < 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else 0.0


def smooth_row(mode, k, step, size):
    stretch = max(step, 1.0)
    reach = {"bilinear": 1, "bicubic": 2, "lanczos": 3}[mode] * stretch
    center = step * (k + 0.5)
    row = np.zeros(size)
    low, high = max(int(center - reach + 0.5), 0), min(int(center + reach + 0.5), size)
    for j in range(low, high):
        x = (j + 0.5 - center) / stretch
        if mode == "bilinear":
            row[j] = max(0.0, 1 - abs(x))
        elif mode == "bicubic":
            row[j] = cubic(x, -0.5)
        else:
            row[j] = np.sinc(x) * np.sinc(x / 3) if abs(x) < 3 else 0.0
    return row / row.sum()


def reference(x, size, scales, mode, align_corners=False, antialias=False):
    for k, n in enumerate(size):
        scale = scales[k] if scales else None
        w = weights(mode, x.shape[k + 2], n, scale, align_corners, antialias)
        x = np.moveaxis(np.tensordot(x, w, (k + 2, 1)), -1, k + 2)
    return x


CASES = [  # mode, spatial dimensions, align_corners, antialias
    *[
        (mode, d, align, False)
        for mode, dims in MODES.items()
        for d, align in itertools.product(dims, (False, True))
        if not (align and mode.startswith("nearest"))
    ],
    *[(mode, 2, False, True) for mode in SMOOTH],
]


SIZES = [
    ((5, 7, 9), 2.0),
    ((4, 9, 33), 0.5),
    ((3, 6, 17), 1.7),
    ((1, 1, 1), 3.0),
    ((5, 20, 50), 2.3),
]


@pytest.mark.parametrize(("mode", "dims", "align", "antialias"), CASES)
def test_values(mode, dims, align, antialias):
    options = {} if mode.startswith("nearest") else {"align_corners": align}
    for seed, (sizes, scale) in enumerate(SIZES):
        x = draw((2, 3, *sizes[-dims:]), seed)
        size = tuple(int(n * scale) for n in x.shape[2:])
        given = {"size": size, "scales": None}, {"scale_factor": scale, "scales": (scale,) * dims}
        for kwargs in given:
            scales = kwargs.pop("scales")
            if mode.startswith("nearest") and scales:
                continue  # which of two equally near, float32 decides
            ours = F.interpolate(
                tensor(flambeau, x, "float64"), mode=mode, antialias=antialias, **options, **kwargs
            )
            wanted = reference(x, size, scales, mode, align, antialias)
            np.testing.assert_allclose(ours.detach().numpy(), wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_dtypes_and_strides(mode):
    x = draw((2, 5, 9, 21))
    wanted = reference(x.transpose(0, 1, 3, 2)[:, ::2], (30, 13), None, mode)
    for dtype, limit in (("float16", 3e-2), ("bfloat16", 8e-2), ("float32", 2e-5)):
        t = tensor(flambeau, x, dtype, grad=False)
        given = t.transpose(2, 3)[:, ::2]
        for view in (given, given.contiguous(memory_format=flambeau.channels_last)):
            ours = F.interpolate(view, size=(30, 13), mode=mode)
            assert ours.dtype is t.dtype
            np.testing.assert_allclose(ours.float().numpy(), wanted, rtol=limit, atol=limit)
    last = tensor(flambeau, x, last=True)
    assert F.interpolate(last, scale_factor=2, mode=mode).stride() == (5 * 18 * 42, 1, 42 * 5, 5)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("dtype", [flambeau.uint8, flambeau.float32])
def test_channels_stay_last(mode, dtype):
    whole = flambeau.arange(2 * 5 * 20 * 20).remainder(199).reshape(2, 5, 20, 20).to(dtype)
    last = whole.contiguous(memory_format=flambeau.channels_last)
    for part in (lambda t: t, lambda t: t[:, :, 2:-2, 3:], lambda t: t[:, :, ::2, ::2]):
        out = F.interpolate(part(last), size=(9, 30), mode=mode)
        assert out.is_contiguous(memory_format=flambeau.channels_last)
        wanted = F.interpolate(part(whole).contiguous(), size=(9, 30), mode=mode)
        assert wanted.is_contiguous() and flambeau.allclose(out.float(), wanted.float(), 1e-4)
    assert F.interpolate(last[0][None], size=(9, 30), mode=mode).is_contiguous()


def test_sizes_are_ints_also_after_equal_ones():
    x = flambeau.ones(1, 1, 4, 4)
    assert F.interpolate(x, (2, 2)).shape == (1, 1, 2, 2)
    with pytest.raises(TypeError, match="expected size to be one of int or Tuple"):
        F.interpolate(x, (2.0, 2.0))


@pytest.mark.parametrize(("mode", "dims", "align", "antialias"), CASES)
def test_gradients(mode, dims, align, antialias):
    options = {} if mode.startswith("nearest") else {"align_corners": align}
    x = tensor(flambeau, draw((1, 2, *(3, 4, 5)[-dims:])), "float64")
    for scale in (1.6, 0.7):

        def function(x, scale=scale):
            return F.interpolate(x, scale_factor=scale, mode=mode, antialias=antialias, **options)

        assert gradcheck(function, (x,))
        assert gradgradcheck(function, (x,))


def test_an_infinite_gradient_stays_where_it_belongs():
    x = tensor(flambeau, np.ones((1, 1, 4, 40)))
    y = F.interpolate(x, scale_factor=2, mode="bilinear")
    g = np.ones(tuple(y.shape))
    g[0, 0, 0, 0] = np.inf
    y.backward(tensor(flambeau, g, grad=False))
    assert np.isfinite(x.grad.numpy()).sum() == 4 * 40 - 1


def test_bytes():
    x = flambeau.arange(12).to(flambeau.uint8).reshape(1, 1, 3, 4)
    assert F.interpolate(x, scale_factor=2)[0, 0, 1].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    ours = F.interpolate(x * 20, size=(2, 2), mode="bilinear")
    assert ours.dtype is flambeau.uint8
    assert ours.flatten().tolist() == [30, 70, 150, 190]


def test_empty_batches_and_meta():
    assert F.interpolate(flambeau.ones(0, 2, 4, 4), size=(3, 5)).shape == (0, 2, 3, 5)
    x = flambeau.ones(2, 3, 4, 5, device="meta")
    y = F.interpolate(x, scale_factor=2, mode="bilinear")
    assert y.shape == (2, 3, 8, 10) and y.device.type == "meta"


def test_threads_give_the_same_bits():
    x = tensor(flambeau, draw((4, 16, 40, 41)))

    def run():
        y = F.interpolate(x, scale_factor=2, mode="bicubic")
        return y, flambeau.autograd.grad(y, x, flambeau.ones_like(y))[0]

    one, two = bits_with_threads(run)
    assert one == two


def test_deprecated_names_warn():
    x = flambeau.arange(4.0).reshape(1, 1, 2, 2)
    for name, kwargs in (("upsample_nearest", {}), ("upsample", {"mode": "bilinear"})):
        with pytest.warns(UserWarning, match=f"`nn.functional.{name}` is deprecated"):
            assert getattr(F, name)(x, scale_factor=2, **kwargs).shape == (1, 1, 4, 4)
    with pytest.warns(UserWarning, match="is deprecated") as seen:
        assert F.upsample_bilinear(x, size=3)[0, 0, 1].tolist() == [1.0, 1.5, 2.0]
    assert seen[0].filename == __file__


BAD = [
    {},
    {"size": 3, "scale_factor": 2},
    {"size": (3,)},
    {"size": (3, 2.5)},
    {"size": 2.5},
    {"size": (0, 3)},
    {"size": (-1, 3), "mode": "bilinear"},
    {"scale_factor": (2.0,)},
    {"scale_factor": 0.1},
    {"scale_factor": "a", "mode": "bilinear"},
    {"size": 3, "recompute_scale_factor": True},
    {"size": 3, "align_corners": False},
    {"size": 3, "mode": "linear"},
    {"size": 3, "mode": "trilinear"},
    {"size": 3, "mode": "cubic"},
    {"size": 3, "antialias": True},
    {"size": 3, "mode": "lanczos"},
    {"size": 3, "mode": "lanczos", "antialias": True, "align_corners": True},
]


def test_complaints():
    x = flambeau.ones(1, 2, 4, 4)
    with pytest.raises(ValueError, match="only one of size or scale_factor should be defined"):
        F.interpolate(x, size=3, scale_factor=2)
    with pytest.raises(RuntimeError, match="Input and output sizes should be greater than 0"):
        F.interpolate(x, size=(0, 3))
    with pytest.raises(NotImplementedError, match="Got 4D input, but linear mode needs 3D input"):
        F.interpolate(x, size=3, mode="linear")
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        F.interpolate(x.long(), size=3)


@pytest.mark.oracle
@pytest.mark.parametrize("kwargs", BAD, ids=str)
def test_complaints_are_pytorchs(kwargs):
    torch = pytest.importorskip("torch")
    results = [
        outcome(lambda lib=lib: lib.nn.functional.interpolate(lib.ones(1, 2, 4, 4), **kwargs))
        for lib in (flambeau, torch)
    ]
    assert results[0] == results[1]


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["uint8", "int64", "bool", "complex64", "float16"])
def test_dtypes_are_pytorchs(dtype):
    torch = pytest.importorskip("torch")
    for mode, dims, _, antialias in CASES:
        options = {"scale_factor": 2, "mode": mode, "antialias": antialias}
        results = []
        for lib in (flambeau, torch):
            x = lib.ones((1, 2, *(4,) * dims), dtype=getattr(lib, dtype))
            results.append(outcome(partial(lib.nn.functional.interpolate, x, **options)))
        assert results[0] == results[1], (mode, dims, antialias)


@pytest.mark.oracle
@pytest.mark.parametrize(("mode", "dims", "align", "antialias"), CASES)
def test_as_pytorch(mode, dims, align, antialias):
    torch = pytest.importorskip("torch")
    options = {} if mode.startswith("nearest") else {"align_corners": align}
    dtypes = ["float32", "float64"] if antialias else ["float32", "float64", "bfloat16"]
    if mode.startswith("nearest"):
        dtypes.remove("float64")  # where PyTorch's two directions may disagree about neighbours
    for seed, (sizes, scale) in enumerate(SIZES):
        x = draw((2, 3, *sizes[-dims:]), seed)
        for dtype in dtypes:
            for last in (False, True) if dims > 1 and x.shape[-1] > 1 else (False,):

                def function(lib, t, scale=scale):
                    return lib.nn.functional.interpolate(
                        t, scale_factor=scale, mode=mode, antialias=antialias, **options
                    )

                check(torch, function, [x], dtype, last)


@pytest.mark.oracle
def test_bytes_as_pytorch(rng):
    torch = pytest.importorskip("torch")
    for mode, antialias in [("nearest", False), ("bilinear", False), ("bicubic", False)] + [
        (mode, True) for mode in SMOOTH
    ]:
        for channels, size in ((1, (17, 31)), (3, (64, 99)), (8, (37, 20))):
            x = rng.integers(0, 256, (2, channels, 37, 41))
            found = [
                lib.nn.functional.interpolate(
                    tensor(lib, x, "uint8"), size=size, mode=mode, antialias=antialias
                )
                for lib in (flambeau, torch)
            ]
            assert np.array_equal(found[0].numpy(), found[1].numpy()), (mode, antialias, channels)


@pytest.mark.oracle
def test_nearest_neighbours_are_pytorchs(rng):
    torch = pytest.importorskip("torch")
    for _ in range(150):
        n, scale = int(rng.integers(1, 200)), round(float(rng.uniform(0.2, 4)), 1)
        if int(n * scale) in (0, n):
            continue
        for mode in ("nearest", "nearest-exact"):
            for dtype in ("float32", "float64"):
                x = np.arange(n).reshape(1, 1, n)
                found = [
                    lib.nn.functional.interpolate(
                        tensor(lib, x, dtype, grad=False), scale_factor=scale, mode=mode
                    )
                    for lib in (flambeau, torch)
                ]
                assert found[0].tolist() == found[1].tolist(), (n, scale, mode, dtype)


def test_area_is_the_mean_of_windows():
    x = tensor(flambeau, draw((1, 2, 6, 9)), "float64")
    ours = F.interpolate(x, scale_factor=(0.5, 1 / 3), mode="area")
    wanted = x.detach().numpy().reshape(1, 2, 3, 2, 3, 3).mean((3, 5))
    np.testing.assert_allclose(ours.detach().numpy(), wanted, rtol=1e-12)
    assert type(ours.grad_fn).__name__ == "AdaptiveAvgPool2DBackward0"


def test_scales_beside_a_size_are_the_steps_of_smooth_resampling():
    x = flambeau.arange(200.0).reshape(1, 1, 10, 20)

    def row(*rest):
        return flambeau.ops.aten._upsample_bilinear2d_aa(x, [3, 3], *rest)[0, 0, 0]

    by_sizes = flambeau.tensor([33.3049, 39.3305, 45.3562])
    assert flambeau.allclose(
        row(False, 1.7, 0.9), flambeau.tensor([0.1364, 1.2273, 2.3182]), atol=1e-4
    )
    assert flambeau.allclose(row(False, None, None), by_sizes, atol=1e-4)
    assert flambeau.allclose(row(False, 0.3, 0.15), by_sizes, atol=1e-4)
