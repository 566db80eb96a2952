"""fold, unfold and shuffles: against loops written out here, against PyTorch where installed."""

import numpy as np
import pytest

import flambeau
import flambeau.nn.functional as F
from flambeau.autograd import gradcheck, gradgradcheck
from tests.ops.both import bits_with_threads, check, draw, outcome, tensor

BLOCKS = [  # kernel_size, dilation, padding, stride
    ((2, 2), (1, 1), (0, 0), (1, 1)),
    ((3, 3), (1, 1), (1, 1), (2, 2)),
    ((3, 2), (2, 1), (2, 0), (1, 3)),
    ((1, 1), (1, 1), (0, 0), (1, 1)),
    ((2, 5), (1, 1), (1, 4), (3, 1)),
    ((1, 4), (3, 3), (0, 7), (2, 2)),
]
SHAPES = [(2, 3, 9, 20), (3, 7, 37), (2, 1, 40, 70)]


def unfolded(x, kernel, dilation, padding, stride):
    """Columns of blocks, element by element."""
    x = np.pad(x, [(0, 0)] * (x.ndim - 2) + [(p, p) for p in padding])
    counts = [
        (n - d * (k - 1) - 1) // s + 1 for n, k, d, s in zip(x.shape[-2:], kernel, dilation, stride)
    ]
    rows = []
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            y, z = i * dilation[0], j * dilation[1]
            piece = x[..., y :: stride[0], z :: stride[1]][..., : counts[0], : counts[1]]
            rows.append(piece.reshape(*piece.shape[:-2], -1))
    out = np.stack(rows, -2)
    return out.reshape(*x.shape[:-3], -1, out.shape[-1])


@pytest.mark.parametrize("blocks", BLOCKS, ids=str)
def test_unfold_and_fold(blocks):
    for seed, shape in enumerate(SHAPES):
        x = draw(shape, seed)
        wanted = unfolded(x, *blocks)
        t = tensor(flambeau, x, "float64", grad=False)
        ours = F.unfold(t, *blocks)
        assert ours.is_contiguous()
        np.testing.assert_array_equal(ours.numpy(), wanted)
        # fold is the transpose of unfold
        columns = draw(wanted.shape, seed + 1)
        image = F.fold(tensor(flambeau, columns, "float64", grad=False), shape[-2:], *blocks)
        assert np.isclose((image.numpy() * x).sum(), (columns * wanted).sum())


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float32", "complex64", "complex128", "bool"]
)
def test_dtypes(dtype):
    blocks = BLOCKS[1]
    x = draw((2, 3, 6, 21))
    if dtype.startswith("complex"):
        x = x + 1j * draw(x.shape, 1)
    t = flambeau.from_numpy(x).to(getattr(flambeau, dtype))
    columns = F.unfold(t, *blocks)
    assert columns.dtype is t.dtype
    wide = (lambda v: v.float().numpy()) if dtype == "bfloat16" else (lambda v: v.numpy())
    np.testing.assert_array_equal(wide(columns), unfolded(wide(t), *blocks))
    image = F.fold(columns, (6, 21), *blocks)
    assert image.dtype is t.dtype
    counts = unfolded(np.ones((1, 1, 6, 21)), *blocks)
    counts = F.fold(flambeau.from_numpy(counts), (6, 21), *blocks).numpy()
    limit = {"float16": 1e-3, "bfloat16": 1e-2}.get(dtype, 1e-6)
    wanted = wide(t) * (counts > 0 if dtype == "bool" else counts)
    np.testing.assert_allclose(wide(image), wanted, rtol=limit, atol=limit)


def test_strides_empties_and_meta():
    x = draw((2, 3, 8, 9))
    t = tensor(flambeau, x, grad=False)
    for view, array in ((t.transpose(2, 3), x.swapaxes(2, 3)), (t[:, ::2, 1:], x[:, ::2, 1:])):
        wanted = unfolded(array.astype("float32"), *BLOCKS[0])
        np.testing.assert_array_equal(F.unfold(view, 2).numpy(), wanted)
    assert F.unfold(t[:0], 2).shape == (0, 12, 56)
    assert F.fold(flambeau.ones(0, 8, 9), (4, 4), 2).shape == (0, 2, 4, 4)
    assert F.fold(flambeau.ones(8, 9), (4, 4), 2).shape == (2, 4, 4)
    assert F.unfold(t.to("meta"), [2, 2], stride=[1, 2]).shape == (2, 12, 28)


@pytest.mark.parametrize("blocks", BLOCKS[:4], ids=str)
def test_gradients(blocks):
    x = tensor(flambeau, draw((1, 2, 5, 6)), "float64")
    assert gradcheck(lambda t: F.unfold(t, *blocks), (x,))
    assert gradgradcheck(lambda t: F.unfold(t, *blocks), (x,))
    columns = tensor(flambeau, draw(F.unfold(x, *blocks).shape), "float64")
    assert gradcheck(lambda t: F.fold(t, (5, 6), *blocks), (columns,))
    assert gradgradcheck(lambda t: F.fold(t, (5, 6), *blocks), (columns,))


def test_threads_give_the_same_bits():
    x = tensor(flambeau, draw((4, 8, 40, 41)))

    def run():
        y = F.unfold(x, 3, padding=1)
        return y, flambeau.autograd.grad(y, x, y.detach())[0]

    one, two = bits_with_threads(run)
    assert one == two


def shuffled(x, r):
    *batch, c, h, w = x.shape
    x = x.reshape(*batch, c // (r * r), r, r, h, w)
    n = len(batch)
    x = x.transpose(*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return x.reshape(*batch, c // (r * r), h * r, w * r)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "uint8", "bool", "complex128"])
def test_pixel_shuffle(dtype):
    for r, shape in ((2, (2, 8, 3, 5)), (2, (4, 6, 37)), (3, (9, 4, 33)), (4, (1, 16, 2, 70))):
        for factor in (r, 1):
            x = np.arange(np.prod(shape)).reshape(shape) % 200
            t = flambeau.from_numpy(x).to(getattr(flambeau, dtype))
            wanted = shuffled(
                t.to(flambeau.float64 if dtype != "complex128" else t.dtype).numpy(), factor
            )
            forms = [t, t.transpose(-1, -2).contiguous().transpose(-1, -2)]
            if t.dim() == 4:
                forms.append(t.contiguous(memory_format=flambeau.channels_last))
            for form in forms:
                ours = F.pixel_shuffle(form, factor)
                np.testing.assert_array_equal(ours.to(flambeau.complex128).numpy(), wanted)
                back = F.pixel_unshuffle(ours, factor)
                assert back.shape == t.shape and (back == t).all().item()
    x = flambeau.arange(2 * 25 * 3 * 18.0).reshape(2, 25, 3, 18)
    np.testing.assert_array_equal(F.pixel_shuffle(x, 5).numpy(), shuffled(x.numpy(), 5))
    assert (F.pixel_unshuffle(F.pixel_shuffle(x, 5), 5) == x).all().item()


def test_channel_shuffle():
    x = flambeau.arange(48.0).reshape(1, 6, 2, 4)
    wanted = x.numpy()[:, [0, 3, 1, 4, 2, 5]]
    for form in (x, x.contiguous(memory_format=flambeau.channels_last)):
        ours = F.channel_shuffle(form, 2)
        np.testing.assert_array_equal(ours.numpy(), wanted)
        assert ours.stride() == form.stride()
    assert (flambeau.native_channel_shuffle(x, 3) == flambeau.channel_shuffle(x, 3)).all().item()
    assert F.channel_shuffle(x[:0], 3).shape == (0, 6, 2, 4)


@pytest.mark.parametrize("name", ["pixel_shuffle", "pixel_unshuffle", "channel_shuffle"])
def test_gradients_of_shuffles(name):
    x = tensor(flambeau, draw((2, 8, 4, 6)), "float64")
    assert gradcheck(lambda t: getattr(F, name)(t, 2), (x,))
    assert gradgradcheck(lambda t: getattr(F, name)(t, 2), (x,))


BAD = {
    "unfold 2d": lambda lib, x, y, p: lib.nn.functional.unfold(x[0, 0], 2),
    "unfold 5d": lambda lib, x, y, p: lib.nn.functional.unfold(x[None], 2),
    "unfold large": lambda lib, x, y, p: lib.nn.functional.unfold(x, 7),
    "unfold stride": lambda lib, x, y, p: lib.nn.functional.unfold(x, 2, stride=0),
    "unfold kernel": lambda lib, x, y, p: lib.nn.functional.unfold(x, 0),
    "unfold dilation": lambda lib, x, y, p: lib.nn.functional.unfold(x, 2, dilation=0),
    "unfold padding": lambda lib, x, y, p: lib.nn.functional.unfold(x, 2, padding=-1, stride=0),
    "unfold three": lambda lib, x, y, p: lib.nn.functional.unfold(x, (2, 2, 2)),
    "unfold one": lambda lib, x, y, p: lib.nn.functional.unfold(x, 2, 1, 1, (1,)),
    "unfold float": lambda lib, x, y, p: lib.nn.functional.unfold(x, 2.5),
    "unfold int": lambda lib, x, y, p: lib.nn.functional.unfold(x.int(), 2),
    "unfold empty": lambda lib, x, y, p: lib.nn.functional.unfold(x[:, :0], 2),
    "fold blocks": lambda lib, x, y, p: lib.nn.functional.fold(y, (5, 4), 2),
    "fold unbatched": lambda lib, x, y, p: lib.nn.functional.fold(y[0], (5, 4), 2),
    "fold channels": lambda lib, x, y, p: lib.nn.functional.fold(y[:, :7], (4, 4), 2),
    "fold channels 2d": lambda lib, x, y, p: lib.nn.functional.fold(y[0, :7], (4, 4), 2),
    "fold 4d": lambda lib, x, y, p: lib.nn.functional.fold(y[None], (4, 4), 2),
    "fold kernel": lambda lib, x, y, p: lib.nn.functional.fold(y, (4, 4), 0),
    "fold stride": lambda lib, x, y, p: lib.nn.functional.fold(y, (4, 4), 2, 1, -1, 0),
    "fold size": lambda lib, x, y, p: lib.nn.functional.fold(y, (4, 4, 4), 2),
    "fold size 0": lambda lib, x, y, p: lib.nn.functional.fold(y, (0, 4), 2),
    "fold too small": lambda lib, x, y, p: lib.nn.functional.fold(lib.ones(1, 4, 1), (0, 0), 2),
    "fold float": lambda lib, x, y, p: lib.nn.functional.fold(y, 4.5, 2),
    "fold int": lambda lib, x, y, p: lib.nn.functional.fold(y.int(), (4, 4), 2),
    "shuffle float": lambda lib, x, y, p: lib.pixel_shuffle(p, 2.0),
    "shuffle negative": lambda lib, x, y, p: lib.pixel_shuffle(p, -2),
    "shuffle 2d": lambda lib, x, y, p: lib.pixel_shuffle(p[0, 0], 2),
    "shuffle channels": lambda lib, x, y, p: lib.pixel_shuffle(p, 3),
    "unshuffle height": lambda lib, x, y, p: lib.pixel_unshuffle(p, 3),
    "unshuffle width": lambda lib, x, y, p: lib.pixel_unshuffle(p[..., :3], 2),
    "groups": lambda lib, x, y, p: lib.channel_shuffle(p, 3),
    "groups 0": lambda lib, x, y, p: lib.channel_shuffle(p, 0),
    "groups float": lambda lib, x, y, p: lib.channel_shuffle(p, 2.0),
    "groups 2d": lambda lib, x, y, p: lib.channel_shuffle(p[0, 0], 2),
}


def given(lib):
    return lib, lib.ones(1, 2, 4, 4), lib.ones(1, 8, 9), lib.ones(1, 8, 4, 4)


def test_complaints():
    for name in BAD:
        kind, text = outcome(BAD[name], *given(flambeau))
        assert kind in ("RuntimeError", "TypeError", "IndexError", "NotImplementedError"), name
        assert text


@pytest.mark.oracle
@pytest.mark.parametrize("name", BAD)
def test_complaints_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    assert outcome(BAD[name], *given(flambeau)) == outcome(BAD[name], *given(torch))


@pytest.mark.oracle
@pytest.mark.parametrize("blocks", BLOCKS, ids=str)
def test_as_pytorch(blocks):
    torch = pytest.importorskip("torch")
    for seed, shape in enumerate(SHAPES):
        x = draw(shape, seed)
        columns = draw(unfolded(x, *blocks).shape, seed)
        for dtype in ("float32", "float64", "float16", "bfloat16"):
            check(torch, lambda lib, t: lib.nn.functional.unfold(t, *blocks), [x], dtype)

            def function(lib, t, size=shape[-2:]):
                return lib.nn.functional.fold(t, size, *blocks)

            check(torch, function, [columns], dtype)


@pytest.mark.oracle
def test_shuffles_as_pytorch():
    torch = pytest.importorskip("torch")
    for name in ("pixel_shuffle", "pixel_unshuffle", "channel_shuffle"):
        for shape in ((2, 8, 4, 6), (8, 4, 40), (2, 4, 4, 6, 2)):
            for last in (False, True) if len(shape) == 4 else (False,):
                x = draw(shape)
                check(torch, lambda lib, t, n=name: getattr(lib, n)(t, 2), [x], last=last)
