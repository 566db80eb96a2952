"""pad in all modes: against NumPy everywhere, against PyTorch where it is installed."""

import itertools

import numpy as np
import pytest

import flambeau
import flambeau.nn.functional as F
from flambeau.autograd import gradcheck, gradgradcheck
from tests.ops.both import bits_with_threads, check, draw, outcome, tensor

NUMPY = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
PADS = {  # number of spatial dimensions -> widths
    1: [(1, 1), (3, 0), (0, 2), (-1, 2), (-1, -1), (0, 0)],
    2: [(1, 1, 1, 1), (3, 2, 0, 1), (0, 0, 2, 2), (-1, 2, 1, -1), (-2, -1, 0, 0)],
    3: [(1, 2, 1, 0, 1, 1), (0, 1, -1, 2, 2, -1)],
}
CASES = [(mode, dims) for mode, dims in itertools.product(NUMPY, PADS)]
SIZES = (4, 5, 6)


def padded(x, pad, mode):
    """What NumPy gives: cut first, then pad (edges that are not cut are read as they were)."""
    widths = [(0, 0)] * x.ndim
    for k in range(len(pad) // 2):
        widths[x.ndim - 1 - k] = (pad[2 * k], pad[2 * k + 1])

    def cut(x):
        slices = tuple(slice(max(0, -a), n - max(0, -b)) for n, (a, b) in zip(x.shape, widths))
        return x[slices]

    def grow(x):
        return np.pad(x, [(max(0, a), max(0, b)) for a, b in widths], NUMPY[mode])

    if mode in ("constant", "circular"):
        return grow(cut(x))
    x = grow(x)
    # the sides stay where they are, and negative widths cut the grown tensor
    return cut(x)


def shapes(dims):
    return [(2, 3, *SIZES[-dims:]), (3, *SIZES[-dims:])]


@pytest.mark.parametrize(("mode", "dims"), CASES)
def test_values(mode, dims):
    for pad, shape in itertools.product(PADS[dims], shapes(dims)):
        x = draw(shape)
        ours = F.pad(tensor(flambeau, x, "float64", grad=False), pad, mode=mode)
        assert ours.is_contiguous()
        np.testing.assert_array_equal(ours.numpy(), padded(x, pad, mode), err_msg=str((pad, shape)))


def test_long_rows():
    for mode, n in itertools.product(NUMPY, (33, 64, 130)):
        x = draw((2, 3, 5, n))
        ours = F.pad(tensor(flambeau, x, "float64", grad=False), (20, 17, 1, 2), mode=mode)
        np.testing.assert_array_equal(ours.numpy(), padded(x, (20, 17, 1, 2), mode))


@pytest.mark.parametrize("mode", NUMPY)
def test_dtypes_and_strides(mode):
    for dtype in "uint8 int16 int32 int64 float16 bfloat16 float32 complex64 complex128".split():
        t = (flambeau.from_numpy(draw((2, 3, 5, 6))) * 50).to(getattr(flambeau, dtype))
        wide = t.to(flambeau.complex128 if t.is_complex() else flambeau.float64)
        wanted = padded(wide.numpy(), (2, 1, 0, 3), mode)
        for form in (t, t.transpose(2, 3).contiguous().transpose(2, 3), t[:, :, ::1]):
            ours = F.pad(form, (2, 1, 0, 3), mode=mode)
            assert ours.dtype is t.dtype
            np.testing.assert_array_equal(ours.to(wide.dtype).numpy(), wanted, err_msg=dtype)
        ours = F.pad(t.contiguous(memory_format=flambeau.channels_last), (2, 1, 0, 3), mode=mode)
        np.testing.assert_array_equal(ours.to(wide.dtype).numpy(), wanted, err_msg=dtype)


def test_constants():
    for dtype, value in itertools.product(
        "float16 bfloat16 float32 float64 int32".split(), (2.7, -1)
    ):
        t = flambeau.ones(3, dtype=getattr(flambeau, dtype))
        wanted = flambeau.full((1,), value, dtype=flambeau.float64).to(t.dtype).item()
        assert F.pad(t, (1, 2), value=value).tolist() == [wanted, 1, 1, 1, wanted, wanted]
    for value in (float("inf"), float("nan")):
        assert str(F.pad(flambeau.ones(1), (1, 0), value=value)[0].item()) == str(value)
    for dtype, value in (("float32", 1e300), ("float16", 2**40), ("int8", 255), ("uint8", 256)):
        with pytest.raises(RuntimeError, match="value cannot be converted to type"):
            F.pad(flambeau.ones(1, dtype=getattr(flambeau, dtype)), (1, 0), value=value)
    assert F.pad(flambeau.ones(2).bool(), (1, 0), value=3).tolist() == [True, True, True]
    complexes = F.pad(flambeau.ones(1, dtype=flambeau.complex64), (1, 0), value=2.5)
    assert complexes.tolist() == [2.5, 1]
    assert F.pad(flambeau.ones(2, 3), (0, 0, 1, 0)).tolist() == [[0] * 3, [1] * 3, [1] * 3]
    assert F.pad(flambeau.ones(1, 1, 1, 1, 1), (0, 0) * 4 + (1, 1)).shape == (3, 1, 1, 1, 1)


def test_empty_and_meta():
    assert F.pad(flambeau.ones(0, 2, 3, 3), (1, 1, 1, 1), mode="reflect").shape == (0, 2, 5, 5)
    assert F.pad(flambeau.ones(0, 3), (0, 0, 1, 1), value=2.0).tolist() == [[2.0] * 3] * 2
    assert F.pad(flambeau.tensor(1.0), ()).item() == 1.0
    meta = F.pad(flambeau.ones(1, 2, 3, 3, device="meta"), (1, 1, 1, 1), mode="replicate")
    assert meta.shape == (1, 2, 5, 5) and meta.device.type == "meta"


@pytest.mark.parametrize(("mode", "dims"), CASES)
def test_gradients(mode, dims):
    for pad in PADS[dims][:4]:
        x = tensor(flambeau, draw((1, 2, *(3, 3, 4)[-dims:])), "float64")
        assert gradcheck(lambda t, p=pad: F.pad(t, p, mode=mode), (x,))
        assert gradgradcheck(lambda t, p=pad: F.pad(t, p, mode=mode), (x,))


def test_gradients_of_complex_numbers():
    x = flambeau.ones(1, 2, 3, dtype=flambeau.complex128).requires_grad_()
    for mode in NUMPY:
        assert gradcheck(lambda t, m=mode: F.pad(t, (1, 2), mode=m), (x,))


def test_threads_give_the_same_bits():
    x = tensor(flambeau, draw((8, 16, 40, 41)))

    def run():
        y = F.pad(x, (3, 2, 1, 0), mode="reflect")
        return y, flambeau.autograd.grad(y, x, y.detach())[0]

    one, two = bits_with_threads(run)
    assert one == two


BAD = {
    "odd": lambda pad, x: pad(x, (1, 1, 1)),
    "too many": lambda pad, x: pad(x[0, 0, 0], (1, 1, 1, 1)),
    "too much cut": lambda pad, x: pad(x, (-5, 0)),
    "cut more than there is": lambda pad, x: pad(x, (-5, 9)),
    "float": lambda pad, x: pad(x, (1.5, 1)),
    "int": lambda pad, x: pad(x, 1),
    "text": lambda pad, x: pad(x, "ab"),
    "value": lambda pad, x: pad(x, (1, 1), value="a"),
    "complex value": lambda pad, x: pad(x, (1, 1), value=1j),
    "value for edges": lambda pad, x: pad(x, (1, 1, 1, 1), mode="reflect", value=1),
    "mode": lambda pad, x: pad(x, (1, 1, 1, 1), mode="mirror"),
    "dims": lambda pad, x: pad(x, (1, 1), mode="reflect"),
    "reflect": lambda pad, x: pad(x, (4, 1, 1, 1), mode="reflect"),
    "reflect height": lambda pad, x: pad(x, (1, 1, 1, 4), mode="reflect"),
    "circular": lambda pad, x: pad(x, (5, 1, 1, 1), mode="circular"),
    "empty": lambda pad, x: pad(x[:, :0], (1, 1, 1, 1), mode="replicate"),
    "bool": lambda pad, x: pad(x.bool(), (1, 1, 1, 1), mode="replicate"),
    "bool reflect": lambda pad, x: pad(x.bool()[0], (1, 1), mode="reflect"),
    "bytes": lambda pad, x: pad(x.byte(), (1, 1), value=300),
}


def test_complaints():
    for name, call in BAD.items():
        kind, text = outcome(call, F.pad, flambeau.ones(1, 2, 4, 4))
        assert kind in ("RuntimeError", "TypeError", "NotImplementedError"), name
        assert text


@pytest.mark.oracle
@pytest.mark.parametrize("name", BAD)
def test_complaints_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    ours, theirs = (
        outcome(BAD[name], lib.nn.functional.pad, lib.ones(1, 2, 4, 4)) for lib in (flambeau, torch)
    )
    assert ours == theirs


@pytest.mark.oracle
@pytest.mark.parametrize(("mode", "dims"), CASES)
def test_as_pytorch(mode, dims):
    torch = pytest.importorskip("torch")
    for pad, shape in itertools.product(PADS[dims], shapes(dims)):
        for dtype in ("float32", "float64", "float16", "bfloat16"):
            for last in (False, True) if len(shape) == 4 and dims == 2 else (False,):

                def function(lib, t, pad=pad):
                    # times one, because PyTorch records a circular pad as writes into slices
                    return lib.nn.functional.pad(t, pad, mode=mode) * 1

                check(torch, function, [draw(shape)], dtype, last, strides=not last)


@pytest.mark.oracle
def test_nodes_are_pytorchs():
    torch = pytest.importorskip("torch")
    for mode, dims in itertools.product(("constant", "reflect", "replicate"), PADS):
        names = []
        for lib in (flambeau, torch):
            x = lib.ones((1, 2, *SIZES[-dims:]), requires_grad=True)
            y = lib.nn.functional.pad(x, (1, 1) * dims, mode=mode)
            g = lib.ones(tuple(y.shape), requires_grad=True)
            (first,) = lib.autograd.grad(y, x, g, create_graph=True)
            names.append([type(t.grad_fn).__name__ for t in (y, first)])
        assert names[0] == names[1]
