"""Fourier transforms: against NumPy's in double, inverses, gradients, and PyTorch."""

import numpy as np
import pytest

import flambeau as fl
from flambeau.autograd import gradcheck, gradgradcheck

# powers of two, mixed factors, large primes (a convolution), long lines (a square)
LENGTHS = [
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    11,
    12,
    16,
    30,
    37,
    64,
    121,
    128,
    257,
    300,
    512,
    1000,
    5000,
    8192,
]
ONE = "fft ifft rfft ihfft irfft hfft".split()
SEVERAL = [n + k for n in ONE for k in "2n"]
NORMS = [None, "ortho", "forward"]


def _data(shape, kind, seed=3):
    random = np.random.default_rng(seed)
    x = random.standard_normal(shape)
    return x + 1j * random.standard_normal(shape) if kind == "complex" else x


def _close(found, expected, tolerance):
    scale = np.abs(expected).max(initial=1e-30)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max(initial=0) <= tolerance * scale


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("lines", [1, 3, 35])
def test_lines(n, lines):
    if n * lines > 100_000:
        lines = 9
    for dtype, tolerance in ((np.complex128, 1e-13), (np.complex64, 3e-6)):
        z = _data((lines, n), "complex").astype(dtype)
        x = np.ascontiguousarray(z.real)
        wide = z.astype(np.complex128)
        _close(fl.fft.fft(fl.tensor(z)).numpy(), np.fft.fft(wide), tolerance)
        _close(fl.fft.ifft(fl.tensor(z)).numpy(), np.fft.ifft(wide), tolerance)
        half = fl.fft.rfft(fl.tensor(x))
        assert half.numpy().dtype == dtype
        _close(half.numpy(), np.fft.rfft(wide.real), tolerance)
        _close(fl.fft.fft(fl.tensor(x)).numpy(), np.fft.fft(wide.real), tolerance)
        _close(fl.fft.irfft(half, n=n).numpy(), wide.real, tolerance)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_any_dimension_and_strides(dim):
    z = _data((6, 20, 18), "complex")
    t = fl.tensor(z)
    for view, array in (
        (t, z),
        (t.permute(2, 0, 1), z.transpose(2, 0, 1)),
        (t[::2, 1:, ::3], z[::2, 1:, ::3]),
        (t[:1].expand(4, 20, 18), np.broadcast_to(z[:1], (4, 20, 18))),
    ):
        _close(fl.fft.fft(view, dim=dim).numpy(), np.fft.fft(array, axis=dim), 1e-13)
        _close(fl.fft.ifft(view, dim=dim - 3).numpy(), np.fft.ifft(array, axis=dim), 1e-13)
        _close(fl.fft.rfft(view.real, dim=dim).numpy(), np.fft.rfft(array.real, axis=dim), 1e-13)
        _close(fl.fft.irfft(view, dim=dim).numpy(), np.fft.irfft(array, axis=dim), 1e-12)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", "fft ifft rfft irfft hfft ihfft".split())
def test_points_and_norms(name, norm):
    data = _data((3, 8), "real" if name in ("rfft", "ihfft") else "complex")
    for n in (None, 3, 8, 11):
        found = getattr(fl.fft, name)(fl.tensor(data), n=n, norm=norm).resolve_conj().numpy()
        _close(found, getattr(np.fft, name)(data, n=n, norm=norm), 1e-12)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", "fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn".split())
def test_several_dimensions(name, norm):
    data = _data((4, 6, 5), "real" if name[0] == "r" else "complex")
    for options in ({}, {"s": (3, 7)}, {"dim": (0, 1)}, {"s": (5, 9), "dim": (2, 0)}):
        theirs = {("axes" if k == "dim" else k): v for k, v in options.items()}
        if "s" in theirs and "axes" not in theirs:
            theirs["axes"] = (-2, -1)
        found = getattr(fl.fft, name)(fl.tensor(data), norm=norm, **options)
        expected = getattr(np.fft, name)(data, norm=norm, **theirs)
        _close(found.resolve_conj().numpy(), expected, 1e-12)


def test_pairs_undo_each_other():
    z, x = fl.tensor(_data((4, 6, 7), "complex")), fl.tensor(_data((4, 6, 7), "real"))
    for name, given, options in (
        ("fft2", z, {}),
        ("fftn", z, {}),
        ("rfftn", x, {"s": (4, 6, 7)}),
        ("rfft2", x, {"s": (6, 7)}),
    ):
        there = getattr(fl.fft, name)(given)
        back = getattr(fl.fft, "i" + name)(there, **options)
        _close(back.resolve_conj().numpy(), given.numpy(), 1e-13)
    there = fl.fft.ihfftn(x)
    _close(fl.fft.hfftn(there, s=(4, 6, 7)).numpy(), x.numpy(), 1e-13)
    _close(fl.fft.hfft2(fl.fft.ihfft2(x), s=(6, 7)).numpy(), x.numpy(), 1e-13)


@pytest.mark.parametrize("n", [5, 6, 37])
def test_gradients(n):
    real = fl.tensor(_data((2, n), "real")).requires_grad_()
    wide = fl.tensor(_data((2, n), "complex")).requires_grad_()
    for name in "fft ifft rfft ihfft rfft2 ihfftn".split():
        assert gradcheck(getattr(fl.fft, name), (real,))
    for name in "fft ifft irfft hfft ifft2 irfftn".split():
        assert gradcheck(getattr(fl.fft, name), (wide,))
    assert gradcheck(lambda t: fl.fft.irfft(t, n=7, norm="ortho"), (wide,))
    assert gradcheck(lambda t: fl.fft.rfft(t, n=9, norm="forward"), (real,))
    if n < 10:
        assert gradgradcheck(fl.fft.fft, (wide,))
        assert gradgradcheck(fl.fft.rfft, (real,))
        assert gradgradcheck(fl.fft.irfft, (wide,))


def test_shifts_and_frequencies():
    x = _data((4, 5), "real")
    for options in ({}, {"dim": 1}, {"dim": (0, 1)}):
        axes = {"axes": options["dim"]} if options else {}
        for name in ("fftshift", "ifftshift"):
            found = getattr(fl.fft, name)(fl.tensor(x), **options)
            np.testing.assert_array_equal(found.numpy(), getattr(np.fft, name)(x, **axes))
    for n in (1, 4, 5):
        for name in ("fftfreq", "rfftfreq"):
            found = getattr(fl.fft, name)(n, 0.3, dtype=fl.float64).numpy()
            np.testing.assert_allclose(found, getattr(np.fft, name)(n, 0.3), 1e-15)


def test_empty_batches_integers_and_meta():
    assert fl.fft.fft(fl.zeros(0, 4)).shape == (0, 4)
    assert fl.fft.fft(fl.arange(4)).dtype is fl.complex64
    assert fl.fft.rfft(fl.zeros(3, 8, device="meta")).shape == (3, 5)


def test_bits_do_not_depend_on_threads():
    threads = fl.get_num_threads()
    z = fl.tensor(_data((300, 96), "complex"))
    long = fl.tensor(_data((1 << 16,), "complex"))
    results = []
    for count in (1, 2):
        fl.set_num_threads(count)
        results.append(fl.fft.fft2(z).numpy().tobytes() + fl.fft.fft(long).numpy().tobytes())
    fl.set_num_threads(threads)
    assert results[0] == results[1]


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda x: fl.fft.fft(x, n=0), RuntimeError, "Invalid number of data points (0) specified"),
        (lambda x: fl.fft.fft(x, dim=3), IndexError, "Dimension out of range"),
        (lambda x: fl.fft.fft(x, norm="foo"), RuntimeError, 'Invalid normalization mode: "foo"'),
        (lambda x: fl.fft.rfft(x + 0j), RuntimeError, "rfft expects a real input tensor"),
        (lambda x: fl.fft.fft(x.half()), RuntimeError, "Unsupported dtype Half"),
        (lambda x: fl.fft.fftn(x, dim=(0, 0)), RuntimeError, "FFT dims must be unique"),
        (
            lambda x: fl.fft.fftn(x, s=(2, 2, 2)),
            RuntimeError,
            "Got shape with 3 values but input tensor only has 2 dimensions.",
        ),
        (
            lambda x: fl.fft.fftn(x, s=(2, 2), dim=(0,)),
            RuntimeError,
            "When given, dim and shape arguments must have the same length",
        ),
        (lambda x: fl.fft.irfft(x[:, :1]), RuntimeError, "Invalid number of data points (0)"),
    ],
)
def test_refuses(call, error, text):
    with pytest.raises(error) as caught:
        call(fl.ones(2, 3))
    assert text in str(caught.value)


@pytest.mark.oracle
@pytest.mark.parametrize("name", ONE + SEVERAL)
def test_like_pytorch(name):
    torch = pytest.importorskip("torch")
    kind = "real" if name.rstrip("2n") in ("rfft", "ihfft") else "complex"
    data = _data((4, 6, 5), kind)
    options = [{}, {"norm": "ortho"}]
    if name[-1] in "2n":
        options += [{"s": (3, 7)}, {"s": (-1, 4)}, {"s": (5, 9), "dim": (0, -1)}]
    else:
        options += [{"n": 3}, {"n": 9}, {"dim": 0, "norm": "forward"}]
    for given in options:
        mine, theirs = fl.tensor(data).requires_grad_(), torch.tensor(data).requires_grad_()
        a, b = getattr(fl.fft, name)(mine, **given), getattr(torch.fft, name)(theirs, **given)
        expected = b.detach().resolve_conj().numpy()
        _close(a.detach().resolve_conj().numpy(), expected, 1e-12)
        a.abs().sum().backward()
        b.abs().sum().backward()
        _close(mine.grad.resolve_conj().numpy(), theirs.grad.resolve_conj().numpy(), 1e-10)


# -- short-time transforms ------------------------------------------------------------------------


def _frames(x, window, hop):
    count = 1 + (x.shape[-1] - len(window)) // hop
    return np.stack([x[..., k * hop : k * hop + len(window)] * window for k in range(count)], -2)


@pytest.mark.parametrize("center", [False, True])
def test_stft_and_back(center):
    x, window = _data((3, 400), "real"), np.hanning(66)[1:-1]
    options = {"n_fft": 64, "hop_length": 16, "window": fl.tensor(window), "center": center}
    found = fl.stft(fl.tensor(x), return_complex=True, **options)
    padded = np.pad(x, ((0, 0), (32, 32)), "reflect") if center else x
    expected = np.fft.rfft(_frames(padded, window, 16)).swapaxes(1, 2)
    _close(found.numpy(), expected, 1e-12)
    back = fl.istft(found, length=400, **options).numpy()
    _close(back, x, 1e-12)
    single = fl.stft(fl.tensor(x[0]), return_complex=False, **options)
    _close(single[..., 1].numpy(), expected[0].imag, 1e-12)


def test_stft_gradient():
    x = fl.tensor(_data((40,), "real")).requires_grad_()
    window = fl.hann_window(8, dtype=fl.float64)
    assert gradcheck(lambda t: fl.stft(t, 8, 4, window=window, return_complex=True), (x,))


def test_stft_refuses():
    with pytest.raises(RuntimeError, match="stft requires the return_complex parameter"):
        fl.stft(fl.zeros(100), 64, window=fl.ones(64))
    with pytest.raises(RuntimeError, match="expected a 1D window tensor of size equal to"):
        fl.stft(fl.zeros(100), 64, window=fl.ones(3), return_complex=True)
    with pytest.raises(RuntimeError, match="istft requires a complex-valued input tensor"):
        fl.istft(fl.zeros(5, 5), 8, window=fl.ones(8))
    with pytest.raises(RuntimeError, match="window overlap add min: 1"):
        fl.istft(fl.zeros(9, 5) + 0j, 16, window=fl.zeros(16))


@pytest.mark.parametrize("lines", [(), (3,), (21,)], ids=["alone", "few", "many"])
@pytest.mark.parametrize("n", [11, 37, 74, 101, 149, 151, 257, 397, 401, 1111])
def test_lengths_with_large_prime_factors(n, lines):
    """Mirrored sums, convolutions and vectors of every width give what NumPy gives."""
    rng = np.random.default_rng(n)
    real, imaginary = rng.standard_normal((2, *lines, n))
    x = real + 1j * imaginary
    for dtype, error in ((np.complex128, 1e-13), (np.complex64, 3e-6)):
        given = fl.from_numpy(x.astype(dtype))
        for ours, theirs in ((fl.fft.fft, np.fft.fft), (fl.fft.ifft, np.fft.ifft)):
            expected = theirs(x)
            gap = np.abs(ours(given).numpy() - expected).max()
            assert gap <= error * np.abs(expected).max()
        half = fl.fft.rfft(given.real)
        assert np.abs(half.numpy() - np.fft.rfft(real)).max() <= error * n
        assert np.abs(fl.fft.irfft(half, n).numpy() - real).max() <= error * 10


def test_frequencies_into_a_tensor_of_another_size_warn():
    out = fl.ones(1)
    with pytest.warns(UserWarning, match="The out tensor will be resized to a tensor of shape"):
        assert fl.fft.fftfreq(4, out=out) is out
    assert out.tolist() == [0.0, 0.25, -0.5, -0.25]


def test_a_signal_that_is_too_short_is_padded_with_a_warning():
    window = fl.hann_window(8)
    spectra = fl.stft(fl.arange(20.0), 8, hop_length=4, window=window, return_complex=True)
    with pytest.warns(UserWarning, match="The length of signal is shorter than the length param"):
        signal = fl.istft(spectra, 8, hop_length=4, window=window, length=40)
    assert signal.shape == (40,) and not signal[24:].any()
