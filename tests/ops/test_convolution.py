"""Convolutions: against their definition everywhere, against PyTorch where it is installed."""

import contextlib

import numpy as np
import pytest

import flambeau
import flambeau.nn.functional as F
from flambeau.autograd import gradcheck, gradgradcheck
from tests.ops.convolution_cases import CASES, C, Case, T, names, reference


def tensors(case, rng, dtype="float64"):
    """Input, weight and bias as NumPy arrays."""
    shapes = (case.x, case.w, (case.bias,))
    if dtype.startswith(("int", "uint")):
        return [rng.integers(0, 5, s).astype(dtype) for s in shapes]
    return [rng.standard_normal(s).astype(dtype) for s in shapes]


def run(case, *args, module=F):
    return getattr(module, case.name)(*args, **case.options)


def with_gradients(case, arrays, seed, module=F, package=flambeau, change=lambda t: t):
    """Result and gradients of input, weight and bias, for the incoming gradient `seed`."""
    leaves = [change(package.from_numpy(a.copy())).requires_grad_() for a in arrays]
    out = run(case, *leaves, module=module)
    out.backward(change(package.from_numpy(seed.copy())))
    return [out.detach(), *[t.grad for t in leaves]]


# -- against the definition -----------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=names)
def test_values(case, rng):
    x, w, b = tensors(case, rng)
    wanted = reference(case, x, w, b)
    for dtype, tolerance in (("float64", 1e-12), ("float32", 3e-5)):
        ours = run(case, *[flambeau.from_numpy(a.astype(dtype)) for a in (x, w, b)])
        assert tuple(ours.shape) == wanted.shape and ours.is_contiguous()
        assert np.allclose(ours.numpy(), wanted, tolerance, tolerance)
    plain = run(case, *[flambeau.from_numpy(a) for a in (x, w)])
    assert np.allclose(plain.numpy(), reference(case, x, w), 1e-12, 1e-12)


@pytest.mark.parametrize("case", CASES, ids=names)
def test_gradients(case, rng):
    """A convolution is bilinear: <g, conv(x, w)> has the gradients that its adjoints give."""
    x, w, b = tensors(case, rng)
    out = reference(case, x, w, b)
    g = rng.standard_normal(out.shape)
    _, dx, dw, db = with_gradients(case, (x, w, b), g)
    for _ in range(3):
        u, v = rng.standard_normal(x.shape), rng.standard_normal(w.shape)
        assert np.isclose((dx.numpy() * u).sum(), (g * reference(case, u, w)).sum())
        assert np.isclose((dw.numpy() * v).sum(), (g * reference(case, x, v)).sum())
    assert np.allclose(db.numpy(), g.sum((0, *range(2, g.ndim))))


SMALL = [
    C((2, 2, 5), (2, 1, 2), stride=2, padding=1, groups=2),
    C((1, 2, 4, 5), (3, 2, 2, 3), padding=1, dilation=(1, 2)),
    C((1, 2, 4, 4), (4, 1, 3, 2), stride=(2, 1), groups=2),
    C((1, 3, 4, 5), (3, 1, 2, 2), groups=3, padding=1),
    T((1, 2, 3, 3), (2, 2, 3, 2), stride=2, padding=1, output_padding=1),
    T((1, 2, 2, 2, 2), (2, 1, 2, 1, 2), groups=2),
    T((1, 2, 3, 2), (2, 1, 2, 2), dilation=3, output_padding=2),
]


@pytest.mark.parametrize("case", SMALL, ids=names)
def test_second_gradients(case, rng):
    leaves = [flambeau.from_numpy(a).requires_grad_() for a in tensors(case, rng)]
    assert gradcheck(lambda *args: run(case, *args), leaves)
    assert gradgradcheck(lambda *args: run(case, *args), leaves)


def test_second_gradients_by_squares(rng):
    """The 3 x 3 kernels for many channels, too large for gradcheck: <u, d/dw <v, dx>>."""
    case = C((2, 16, 14, 15), (16, 16, 3, 3), padding=1)
    x, w, _ = tensors(case, rng)
    g = rng.standard_normal((2, 16, 14, 15))
    v, u = rng.standard_normal(x.shape), rng.standard_normal(w.shape)
    xs, ws = (flambeau.from_numpy(a).requires_grad_() for a in (x, w))
    out = F.conv2d(xs, ws, padding=1)
    (dx,) = flambeau.autograd.grad(out, xs, flambeau.from_numpy(g), create_graph=True)
    (dw,) = flambeau.autograd.grad(dx, ws, flambeau.from_numpy(v))
    assert np.isclose((dw.numpy() * u).sum(), (g * reference(case, v, u)).sum())


def test_accuracy_by_squares(rng):
    """Sums and differences before the products may cost two bits, not more."""
    case = C((2, 64, 28, 28), (64, 64, 3, 3), padding=1)
    x, w, _ = tensors(case, rng, "float32")
    wide = reference(case, x.astype("float64"), w.astype("float64"))
    ours = run(case, flambeau.from_numpy(x), flambeau.from_numpy(w)).numpy()
    assert np.abs(ours - wide).max() < 2e-6 * np.abs(wide).max()


# -- dtypes, layouts, threads ---------------------------------------------------------------------

FEW = [CASES[k] for k in (1, 3, 4, 6, 15, 18, 19, 23, 28, 29)]


@pytest.mark.parametrize("case", FEW, ids=names)
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_types(case, name, rng):
    dtype = getattr(flambeau, name)
    given = [flambeau.from_numpy(a).to(dtype) for a in tensors(case, rng)]
    ours = run(case, *given)
    wide = reference(case, *[t.double().numpy() for t in given])
    assert ours.dtype is dtype
    step = 2.0**-10 if name == "float16" else 2.0**-7
    assert np.allclose(ours.double().numpy(), wide, step, step)
    leaves = [t.clone().requires_grad_() for t in given]
    run(case, *leaves).sum().backward()
    singles = [t.double().requires_grad_() for t in given]
    run(case, *singles).sum().backward()
    for a, b in zip(leaves, singles):
        scale = b.grad.abs().max().item()
        assert a.grad.dtype is dtype
        assert np.allclose(a.grad.double().numpy(), b.grad.numpy(), step, step * scale)


@pytest.mark.parametrize("name", ["int64", "int32", "int16", "int8", "uint8"])
def test_integers(name, rng):
    for case in (CASES[3], C((2, 12, 8, 8), (8, 3, 3, 3), groups=4, padding=1)):
        x, w, b = tensors(case, rng, name)
        ours = run(case, *[flambeau.from_numpy(a) for a in (x, w, b)])
        wanted = reference(case, *[a.astype("int64") for a in (x, w, b)]).astype(name)
        assert ours.dtype is getattr(flambeau, name) and (ours.numpy() == wanted).all()


def test_complex(rng):
    for case in (CASES[3], CASES[28]):
        parts = [a + 1j * b for a, b in zip(tensors(case, rng), tensors(case, rng))]
        ours = run(case, *[flambeau.from_numpy(a) for a in parts])
        assert np.allclose(ours.numpy(), reference(case, *parts))
    small = SMALL[1]
    parts = [a + 1j * b for a, b in zip(tensors(small, rng), tensors(small, rng))]
    leaves = [flambeau.from_numpy(a).requires_grad_() for a in parts]
    assert gradcheck(lambda *args: run(small, *args), leaves)


LAYOUTS = {
    "transposed": lambda t: t.transpose(-1, -2).contiguous().transpose(-1, -2),
    "sliced": lambda t: flambeau.cat([t, t], -1)[..., ::2],
    "expanded": lambda t: t[:1].expand(t.shape),
    "channels_last": lambda t: t.to(memory_format=flambeau.channels_last),
    "flipped_batch": lambda t: flambeau.cat([t, t])[::2],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", [CASES[k] for k in (3, 4, 7, 15, 18, 19, 28)], ids=names)
def test_layouts(case, layout, rng):
    change = LAYOUTS[layout]
    x, w, b = (flambeau.from_numpy(a) for a in tensors(case, rng))
    strided = change(x)
    dense = strided.clone(memory_format=flambeau.contiguous_format)
    for weight in (w, change(w)):
        same = weight.clone(memory_format=flambeau.contiguous_format)
        assert np.allclose(run(case, strided, weight, b).numpy(), run(case, dense, same, b).numpy())
    leaves = [t.detach().requires_grad_() for t in (strided, w, b)]
    out = run(case, *leaves)
    g = change(flambeau.from_numpy(rng.standard_normal(out.shape)))
    grads = flambeau.autograd.grad(out, leaves, g)
    plain = [t.detach().requires_grad_() for t in (dense, w, b)]
    wanted = flambeau.autograd.grad(
        run(case, *plain), plain, g.clone(memory_format=flambeau.contiguous_format)
    )
    for ours, theirs in zip(grads, wanted):
        assert np.allclose(ours.numpy(), theirs.numpy())


@contextlib.contextmanager
def threads(count):
    before = flambeau.get_num_threads()
    flambeau.set_num_threads(count)
    try:
        yield
    finally:
        flambeau.set_num_threads(before)


BITS = [
    C((8, 16, 30, 30), (24, 16, 3, 3), padding=1),
    C((8, 16, 30, 30), (24, 16, 3, 3), stride=2),
    C((8, 3, 60, 60), (16, 3, 7, 7), stride=2, padding=3),
    C((8, 16, 30, 30), (16, 1, 3, 3), groups=16),
    C((4, 200, 4, 4), (300, 200, 3, 3), padding=1),
]


@pytest.mark.parametrize("case", BITS, ids=names)
def test_same_bits_for_any_number_of_threads(case, rng):
    arrays = tensors(case, rng, "float32")
    g = rng.standard_normal(reference(case, *arrays).shape).astype("float32")
    found = []
    for count in (1, 2):
        with threads(count):
            found.append([t.numpy().tobytes() for t in with_gradients(case, arrays, g)])
    assert found[0] == found[1]


# -- corners --------------------------------------------------------------------------------------


def test_unbatched(rng):
    for case in (CASES[0], CASES[3], CASES[23], CASES[27]):
        x, w, b = (flambeau.from_numpy(a) for a in tensors(case, rng))
        ours = run(case, x[1 % x.shape[0]], w, b)
        assert np.allclose(ours.numpy(), run(case, x, w, b)[1 % x.shape[0]].numpy())


def test_padding_in_words(rng):
    x = flambeau.from_numpy(rng.standard_normal((2, 3, 8, 9)))
    for kernel, dilation in (((3, 5), 1), ((3, 3), 2), ((1, 2), 2)):
        w = flambeau.from_numpy(rng.standard_normal((4, 3, *kernel)))
        same = F.conv2d(x, w, padding="same", dilation=dilation)
        total = [dilation * (k - 1) for k in kernel]
        wanted = F.conv2d(x, w, padding=[t // 2 for t in total], dilation=dilation)
        assert same.shape == (2, 4, 8, 9) and flambeau.equal(same, wanted)
        valid = F.conv2d(x, w, padding="valid", dilation=dilation)
        assert flambeau.equal(valid, F.conv2d(x, w, dilation=dilation))
    w = flambeau.from_numpy(rng.standard_normal((4, 3, 2, 4)))
    with pytest.warns(UserWarning, match="zero-padded copy") if _first() else nothing():
        same = F.conv2d(x, w, padding="same")
    wide = flambeau.from_numpy(np.pad(x.numpy(), [(0, 0), (0, 0), (0, 1), (1, 2)]))
    assert np.allclose(same.numpy(), F.conv2d(wide, w).numpy())


def _first():
    from flambeau.ops import convolution

    return "same" not in convolution._warned


nothing = contextlib.nullcontext


def test_empty():
    w = flambeau.randn(6, 4, 3, 3, requires_grad=True)
    x = flambeau.randn(0, 4, 8, 8, requires_grad=True)
    b = flambeau.randn(6, requires_grad=True)
    out = F.conv2d(x, w, b)
    assert out.shape == (0, 6, 6, 6)
    out.sum().backward()
    assert x.grad.shape == x.shape and not w.grad.any() and not b.grad.any()
    assert F.conv2d(flambeau.randn(2, 0, 8, 8), flambeau.randn(6, 0, 3, 3)).shape == (2, 0, 6, 6)
    assert F.conv_transpose2d(flambeau.randn(0, 6, 8, 8), w).shape == (0, 4, 10, 10)


def test_without_channels_a_bias_has_a_gradient_of_zeros():
    for function, shape in ((F.conv1d, (6, 0, 3)), (F.conv2d, (6, 0, 3, 3))):
        w, b = flambeau.randn(shape, requires_grad=True), flambeau.randn(6, requires_grad=True)
        function(flambeau.randn((2, 0, 8, 8)[: len(shape)]), w, b).sum().backward()
        assert w.grad.shape == w.shape and b.grad.tolist() == [0.0] * 6


def test_meta():
    x, w = flambeau.empty(2, 4, 8, 8, device="meta"), flambeau.empty(6, 4, 3, 3, device="meta")
    out = F.conv2d(x, w, padding=1)
    assert out.shape == (2, 6, 8, 8) and out.device.type == "meta"
    assert F.conv_transpose2d(x, w.transpose(0, 1), stride=2).shape == (2, 6, 17, 17)


def test_channels_last_results(rng):
    x = flambeau.from_numpy(rng.standard_normal((2, 4, 8, 8)))
    w = flambeau.from_numpy(rng.standard_normal((6, 4, 3, 3)))
    last = x.to(memory_format=flambeau.channels_last)
    for a, b in ((last, w), (x, w.to(memory_format=flambeau.channels_last))):
        out = F.conv2d(a, b)
        assert out.is_contiguous(memory_format=flambeau.channels_last)
        assert np.allclose(out.numpy(), F.conv2d(x, w).numpy())
    last.requires_grad_()
    F.conv2d(last, w).sum().backward()
    assert last.grad.is_contiguous(memory_format=flambeau.channels_last)


def test_pointwise_channels_last(rng):
    """Pixels as rows of a matrix product, forward and backward, also with half types."""
    case = C((2, 6, 5, 7), (9, 6, 1, 1))
    x, w, b = tensors(case, rng)
    g = rng.standard_normal((2, 9, 5, 7))
    plain = with_gradients(case, (x, w, b), g)

    def last(t):
        return t.to(memory_format=flambeau.channels_last) if t.ndim == 4 else t

    for ours, wanted in zip(with_gradients(case, (x, w, b), g, change=last), plain):
        assert np.allclose(ours.numpy(), wanted.numpy())
    half = [last(flambeau.from_numpy(a).bfloat16()) for a in (x, w, b)]
    wide = reference(case, *[t.double().numpy() for t in half])
    assert np.allclose(run(case, *half).double().numpy(), wide, 2.0**-7, 2.0**-7)


def test_no_matrix_of_patches():
    """What a thread needs besides the operands does not grow with the images."""
    from flambeau.planning.convolution_squares import square_plan, square_weight_plan
    from flambeau.planning.convolutions import Geometry, product_plan, weight_plan

    def scratch(side, step):
        shape = (8, 64, 1, side, side)
        out = (8, 64, 1, side // step, side // step)
        strides, out_strides = (
            (64 * n * n * 4, n * n * 4, 0, n * 4, 4) for n in (side, side // step)
        )
        rest = (1, 3, 3), (1, step, step), (0, 1, 1), (1, 1, 1), 1
        g = Geometry(shape, strides, out, out_strides, *rest)
        if step == 1:
            return [
                square_plan(g, "f32", False, True).slot_bytes,
                square_weight_plan(g, "f32").slot_bytes,
            ]
        return [
            product_plan(g, "f32", False, True).slot_bytes,
            product_plan(g, "f32", True, True).slot_bytes,
            weight_plan(g, "f32", True).slot_bytes,
        ]

    for count in (2, 16):
        with threads(count):
            for step in (1, 2):
                for small, large in zip(scratch(56, step), scratch(448, step)):
                    # many threads cut small images into smaller blocks
                    assert large < (1.2 if count == 2 else 2) * small < 4 << 20


def test_nodes():
    x, w = flambeau.randn(2, 4, 8, 8, requires_grad=True), flambeau.randn(6, 4, 3, 3)
    assert F.conv2d(x, w).grad_fn.name() == "ConvolutionBackward0"
    assert flambeau.conv2d(x[0], w).grad_fn.name() == "SqueezeBackward1"
    out = flambeau.convolution(x, w, None, [1], [0], [1], False, [0], 1)
    assert out.grad_fn.name() == "ConvolutionBackward0" and out.shape == (2, 6, 6, 6)
    assert len(out.grad_fn.next_functions) == 3


def test_conv_tbc(rng):
    x, w = rng.standard_normal((9, 2, 4)), rng.standard_normal((3, 4, 5))
    b = rng.standard_normal(5)
    ours = flambeau.conv_tbc(*[flambeau.from_numpy(a) for a in (x, w, b)], 1)
    wide = np.pad(x, [(1, 1), (0, 0), (0, 0)])
    wanted = sum(wide[k : k + 9] @ w[k] for k in range(3)) + b
    assert ours.shape == (9, 2, 5) and np.allclose(ours.numpy(), wanted)


def test_infinity_stays_where_it_is(rng):
    """Padding and unused lanes never multiply what they do not see."""
    for case in (CASES[3], CASES[18], CASES[6]):
        x, w, _ = tensors(case, rng)
        x[0, 0, -1, -1] = np.inf
        with np.errstate(invalid="ignore"):
            wanted = reference(case, x, w)
        ours = run(case, flambeau.from_numpy(x), flambeau.from_numpy(w)).numpy()
        finite = np.isfinite(wanted)
        assert (np.isfinite(ours) == finite).all() and np.allclose(ours[finite], wanted[finite])


# -- with PyTorch ---------------------------------------------------------------------------------


@pytest.mark.oracle
@pytest.mark.parametrize("case", CASES, ids=names)
def test_like_pytorch(case, rng):
    torch = pytest.importorskip("torch")
    arrays = tensors(case, rng, "float32")
    g = rng.standard_normal(reference(case, *arrays).shape).astype("float32")
    ours = with_gradients(case, arrays, g)
    theirs = with_gradients(case, arrays, g, torch.nn.functional, torch)
    for a, b in zip(ours, theirs):
        assert a.stride() == b.stride()
        assert np.allclose(a.numpy(), b.numpy(), 2e-5, 2e-5 * np.abs(b.numpy()).max())


@pytest.mark.oracle
@pytest.mark.parametrize("which", ["input", "weight"])
def test_strides_like_pytorch(which, rng):
    torch = pytest.importorskip("torch")
    for case in (CASES[3], CASES[15], CASES[28]):
        x, w, _ = tensors(case, rng)
        found = []
        for package, module in ((flambeau, F), (torch, torch.nn.functional)):
            a, b = package.from_numpy(x), package.from_numpy(w)
            if which == "input":
                a = a.to(memory_format=package.channels_last)
            else:
                b = b.to(memory_format=package.channels_last)
            leaves = a.requires_grad_(), b.requires_grad_()
            out = run(case, *leaves, module=module)
            out.sum().backward()
            found.append([tuple(t.stride()) for t in (out, a.grad, b.grad)])
        assert found[0] == found[1], case


Z = "randn(2, 4, 8, 8)"
ERRORS = [
    "conv2d(randn(4, 8), randn(6, 4, 3, 3))",
    "conv1d(randn(8), randn(1, 1, 3))",
    "conv3d(randn(8, 8, 8), randn(1, 1, 3, 3, 3))",
    "conv_transpose2d(randn(8, 8), randn(4, 3, 3, 3))",
    f"conv2d({Z}, randn(6, 4, 3))",
    f"conv2d({Z}, randn(6, 4))",
    "conv1d(randn(1, 2, 4), randn(6, 4, 3, 3))",
    "conv2d(randn(2, 3, 8, 8), randn(6, 4, 3, 3))",
    "conv2d(randn(3, 8, 8), randn(6, 4, 3, 3))",
    f"conv2d({Z}, randn(6, 4, 3, 3), groups=2)",
    f"conv2d({Z}, randn(6, 1, 3, 3), groups=4)",
    f"conv2d({Z}, randn(6, 4, 3, 3), groups=0)",
    f"conv2d({Z}, randn(6, 4, 3, 3), groups=-1, stride=0)",
    f"conv2d({Z}, randn(6, 4, 9, 3))",
    f"conv2d({Z}, randn(6, 4, 11, 3), padding=1)",
    f"conv2d({Z}, randn(6, 4, 3, 3), dilation=5)",
    f"conv2d({Z}, randn(6, 4, 3, 3), randn(5))",
    f"conv2d({Z}, randn(6, 4, 3, 3), randn(6, 1))",
    f"conv2d({Z}, randn(6, 4, 3, 3).double())",
    f"conv2d({Z}.double(), randn(6, 4, 3, 3))",
    f"conv2d({Z}.half(), randn(6, 4, 3, 3))",
    f"conv2d({Z}.long(), randn(6, 4, 3, 3))",
    f"conv2d({Z}, randn(6, 4, 3, 3), randn(6).double())",
    f"conv2d({Z} + 1j, randn(6, 4, 3, 3))",
    f"conv2d({Z}, randn(6, 4, 3, 3), stride=0)",
    f"conv2d({Z}, randn(6, 4, 3, 3), stride=(1, 2, 3))",
    f"conv2d({Z}, randn(6, 4, 3, 3), stride=-1, padding=-1)",
    f"conv2d({Z}, randn(6, 4, 3, 3), padding=-1)",
    f"conv2d({Z}, randn(6, 4, 3, 3), padding=(1, 2, 3))",
    f"conv2d({Z}, randn(6, 4, 3, 3), dilation=0)",
    f"conv2d({Z}, randn(6, 4, 3, 3), dilation=-1)",
    f"conv2d({Z}, randn(6, 4, 3, 3), padding='full')",
    f"conv2d({Z}, randn(6, 4, 3, 3), padding='same', stride=2)",
    f"conv2d({Z}, randn(6, 4, 3), padding='same')",
    f"conv2d({Z}, randn(6, 4, 3, 3), padding='same', dilation=(1, 2, 3))",
    "conv2d(randn(2, 4, 0, 8), randn(6, 4, 3, 3), padding=2)",
    "conv2d(randn(2, 4, 0, 8), randn(6, 4, 3, 3))",
    f"conv2d({Z}, randn(0, 4, 3, 3))",
    "conv2d(ones(1, 1, 3, 3).bool(), ones(1, 1, 2, 2).bool())",
    "conv2d(ones(1, 1, 5, 5).int(), ones(1, 1, 2, 2).int(), dilation=2)",
    f"conv_transpose2d({Z}.int(), randn(4, 3, 3, 3).int())",
    "conv_transpose2d(randn(2, 3, 8, 8), randn(4, 3, 3, 3))",
    f"conv_transpose2d({Z}, randn(4, 3, 3, 3), groups=3)",
    f"conv_transpose2d({Z}, randn(4, 3, 3, 3), randn(4))",
    f"conv_transpose2d({Z}, randn(4, 3, 3, 3), stride=2, output_padding=2)",
    f"conv_transpose2d({Z}, randn(4, 3, 3, 3), stride=2, output_padding=-1)",
    f"conv_transpose2d({Z}, randn(4, 3, 3, 3), output_padding=(1, 2, 3))",
    f"conv_transpose2d({Z}.double(), randn(4, 3, 3, 3).double(), padding=6)",
    "conv_transpose1d(randn(2, 4, 8), randn(4, 3, 3), stride=2, output_padding=2)",
    "conv_transpose3d(randn(2, 4, 4, 4, 4), randn(4, 3, 3, 3, 3), stride=2, output_padding=2)",
    "conv_transpose2d(randn(2, 4, 0, 8), randn(4, 3, 3, 3))",
    f"convolution({Z}[0], randn(6, 4, 3, 3), None, [1], [0], [1], False, [0], 1)",
    "conv_tbc(randn(8, 2), randn(3, 4, 6), randn(6))",
    "conv_tbc(randn(8, 2, 4), randn(3, 4), randn(6))",
    "conv_tbc(randn(8, 2, 5), randn(3, 4, 6), randn(6))",
    "conv_tbc(randn(8, 2, 4), randn(3, 4, 6), randn(5))",
]


def complaint(module, text):
    space = {n: getattr(module, n) for n in ("randn", "ones")}
    call = text.split("(")[0]
    with pytest.raises((RuntimeError, TypeError, NotImplementedError)) as caught:
        eval(text, space | {call: getattr(module, call)})
    return caught.value


def test_every_error_has_words():
    for text in ERRORS:
        assert str(complaint(flambeau, text)), text


@pytest.mark.oracle
@pytest.mark.parametrize("text", ERRORS)
def test_errors_like_pytorch(text):
    torch = pytest.importorskip("torch")
    ours, theirs = complaint(flambeau, text), complaint(torch, text)
    assert type(ours) is type(theirs)
    assert str(ours).split("\n")[0] == str(theirs).split("\n")[0]


def test_case_names_are_distinct():
    assert len({names(case) for case in CASES}) == len(CASES) and isinstance(CASES[0], Case)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    "size, kernel, options",
    [
        ((5, 6), (3, 3), {"padding": 1}),
        ((7, 4), (3, 2), {"stride": (2, 1), "padding": (0, 2), "dilation": (1, 2)}),
        ((8, 8), (1, 1), {"stride": 2}),
        ((12,), (5,), {"padding": 2}),
    ],
)
def test_one_image_of_few_pixels_is_like_one_of_several(size, kernel, options, bias):
    """A single small image takes another way than a batch; both give the same numbers."""
    flambeau.manual_seed(1)
    dims = len(size)
    call = getattr(F, f"conv{dims}d")
    x = flambeau.randn(2, 512, *size, dtype=flambeau.float64)
    w = flambeau.randn(512 if max(kernel) == 1 else 128, 512, *kernel, dtype=flambeau.float64)
    w = w if w.numel() >= 1 << 18 else flambeau.cat([w, w])
    b = flambeau.randn(len(w), dtype=flambeau.float64) if bias else None
    batch = call(x, w, b, **options)
    for k in range(2):
        single = call(x[k : k + 1], w, b, **options)
        assert flambeau.allclose(single, batch[k : k + 1], rtol=1e-11, atol=1e-10)
        strided = call(x.transpose(0, 1).contiguous().transpose(0, 1)[k : k + 1], w, b, **options)
        assert flambeau.allclose(strided, single)
