"""Fourier transforms on GPUs: results and gradients are those of the host, by cuFFT on a real GPU,
by a stand-in for it here; without either, by our own kernels.
"""

import math

import pytest

import flambeau
from flambeau.runtime import cufft
from tests.cuda.stand_in_fft import Cufft

fft = flambeau.fft
FAR = {"float32": 3e-6, "float64": 1e-13}


def runtime():
    return flambeau.device("cuda").runtime


@pytest.fixture
def library(cuda):
    """The library of the GPU, or a stand-in."""
    own = cuda.part(None).transforms
    before = own.library()
    if before is not None:
        yield before
        return
    found = cufft.Library(cuda.part(None), Cufft(cuda.driver))
    own.use(found)
    yield found
    own.use(None)


def drawn(*shape, dtype="float32", seed=0):
    generator = flambeau.Generator().manual_seed(seed + 7 * len(shape))
    real = getattr(flambeau, dtype)
    if not real.is_complex:
        return flambeau.randn(*shape, generator=generator, dtype=flambeau.float64).to(real)
    return flambeau.randn(*shape, generator=generator, dtype=flambeau.complex128).to(real)


def close(host, gpu, far):
    assert gpu.device.type == "cuda" and host.shape == gpu.shape and host.dtype is gpu.dtype
    host, gpu = host.detach(), gpu.detach().cpu()
    assert float((host - gpu).abs().norm()) <= far * float(host.abs().norm()) + 1e-12


def compare(work, t, far, view=lambda t: t):
    """Result and gradient of work on a view, on the GPU and on the host."""
    found = []
    for place in ("cpu", "cuda"):
        given = t.detach().to(place).requires_grad_()
        out = work(view(given))
        weights = drawn(*out.shape, dtype=str(out.dtype)[6:].split(".")[-1], seed=3).to(place)
        out.backward(weights)
        found.append((out, given.grad))
    for host, gpu in zip(*found):
        close(host, gpu, far)
    return found[1][0]


LINES = {
    "fft": (8, 30),
    "ifft": (8, 30),
    "rfft": (8, 30),
    "irfft": (8, 16),
    "hfft": (8, 16),
    "ihfft": (8, 31),
}
COMPLEX = {"irfft", "hfft", "irfftn", "hfftn", "irfft2", "hfft2"}


def argument(name, shape, dtype, complex_too=False):
    return drawn(*shape, dtype={"float32": "complex64", "float64": "complex128"}[dtype]
                 if name in COMPLEX or complex_too else dtype)  # fmt: skip


@pytest.mark.parametrize("dtype", FAR)
@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize("name", LINES)
def test_lines(library, name, norm, dtype):
    t = argument(name, LINES[name], dtype)
    compare(lambda x: getattr(fft, name)(x, norm=norm), t, FAR[dtype])
    if name in ("fft", "ifft"):
        t = argument(name, LINES[name], dtype, True)
        compare(lambda x: getattr(fft, name)(x, norm=norm), t, FAR[dtype])


@pytest.mark.parametrize("n", [1, 2, 3, 7, 16, 33])
@pytest.mark.parametrize("name", LINES)
def test_lengths(library, name, n):
    t = argument(name, (3, 16), "float64")
    compare(lambda x: getattr(fft, name)(x, n=n), t, FAR["float64"])


PLANES = {
    "last two": ((3, 6, 8), (-2, -1)),
    "first two": ((6, 8, 3), (0, 1)),
    "apart": ((4, 5, 6), (0, 2)),
    "turned": ((4, 5, 6), (2, 0)),
    "middle": ((3, 6, 4), (1,)),
    "first": ((6, 5), (0,)),
    "three": ((2, 4, 5, 6), (1, 2, 3)),
    "four": ((4, 3, 2, 6), (0, 1, 2, 3)),
    "ones": ((1, 4, 1, 6), (0, 1, 2, 3)),
    "inside": ((2, 3, 4, 5), (1, 2)),
}


@pytest.mark.parametrize("where", PLANES)
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn"])
def test_planes(library, name, where):
    shape, dims = PLANES[where]
    t = argument(name, shape, "float64")
    work = lambda x: getattr(fft, name)(x, dim=dims)
    compare(work, t, FAR["float64"])
    if name in ("fftn", "ifftn"):
        compare(work, argument(name, shape, "float64", True), FAR["float64"])


VIEWS = {
    "turned": lambda t: t.mT,
    "part": lambda t: t[:, 1:5, 2:],
    "odd": lambda t: t[..., 1:],
    "steps": lambda t: t[:, ::2, ::2],
    "repeated": lambda t: t[:1].expand(5, -1, -1),
    "repeated inside": lambda t: t[:, :, :1].expand(-1, -1, 5),
    "moved": lambda t: t.permute(2, 0, 1),
    "conjugate": lambda t: t.conj(),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", ["fft2", "rfft2", "irfft2", "fft", "rfft", "irfft"])
def test_views(library, name, view):
    compare(getattr(fft, name), argument(name, (4, 6, 9), "float32"), FAR["float32"], VIEWS[view])


def test_halves_that_do_not_mirror(library):
    """Parts of half spectra that cannot be of real numbers are not looked at."""
    for n in (8, 9):
        t = drawn(3, 5, dtype="complex128")
        compare(lambda x, n=n: fft.irfft(x, n=n), t, 1e-13)
        t = drawn(4, 6, 5, dtype="complex128")
        compare(lambda x, n=n: fft.irfft2(x, s=(6, n)), t, 1e-13)


def test_inputs_stay_as_they_are(library):
    for name in ("irfft", "irfft2", "hfft", "irfftn"):
        t = drawn(4, 5, 6, dtype="complex64").to("cuda")
        before = t.cpu()
        getattr(fft, name)(t)
        assert flambeau.equal(t.cpu(), before)


def test_spectrograms(library):
    window = flambeau.hann_window(32)

    def there(x):
        return flambeau.stft(x, 32, 8, window=window.to(x.device), return_complex=True)

    def back(x):
        return flambeau.istft(there(x), 32, 8, window=window.to(x.device), length=200)

    compare(there, drawn(2, 200), 1e-5)
    compare(back, drawn(2, 200), 1e-5)


def test_half_types(library):
    t = drawn(4, 12).to("cuda").half()
    for name in ("fft", "rfft", "fft2", "rfft2", "ihfft"):
        found, wanted = getattr(fft, name)(t), getattr(fft, name)(t.cpu().float())
        assert found.dtype is flambeau.complex32
        close(wanted, found.to(flambeau.complex64), 1e-3)
    half = fft.rfft(t)
    assert fft.irfft(half).dtype is flambeau.float16
    close(t.cpu().float(), fft.irfft(half, n=12).float(), 2e-3)
    close(fft.fft(half.to(flambeau.complex64).cpu()), fft.fft(half).to(flambeau.complex64), 2e-3)
    t.requires_grad_()
    fft.rfft(t).abs().sum().backward()
    assert t.grad.dtype is flambeau.float16
    for dtype in (flambeau.float16, flambeau.bfloat16, flambeau.complex32):
        with pytest.raises(RuntimeError, match=r"Unsupported dtype|doesn't support tensors"):
            fft.fft(flambeau.zeros(4, dtype=dtype))
    with pytest.raises(RuntimeError, match="Unsupported dtype BFloat16"):
        fft.fft(flambeau.zeros(4, dtype=flambeau.bfloat16, device="cuda"))


def test_second_derivatives(library):
    t = drawn(3, 4, dtype="float64").to("cuda").requires_grad_()
    assert flambeau.autograd.gradgradcheck(lambda x: fft.rfft2(x).abs().square(), (t,))
    assert flambeau.autograd.gradcheck(lambda x: fft.irfft(fft.rfft(x)), (t,))


def test_nothing_to_transform(library):
    for shape in ((0, 4), (3, 0, 4)):
        t = flambeau.empty(*shape, dtype=flambeau.complex64, device="cuda")
        assert fft.fft(t).shape == shape
    t = drawn(3, dtype="complex64").to("cuda")
    assert flambeau.equal(fft.fftn(t, dim=()), t)


def test_batches_are_walked_through_or_copied(library):
    if not isinstance(library.api, Cufft):
        pytest.skip("a stand-in tells how it was called")
    calls = library.api.calls
    calls.clear()
    fft.fft(drawn(2, 6, 5, dtype="complex64").to("cuda"), dim=1)
    assert calls == [(0x29, (6,), 5)] * 2  # few are walked through
    calls.clear()
    fft.fft(drawn(8, 6, 5, dtype="complex64").to("cuda"), dim=1)
    assert calls == [(0x29, (6,), 40)]
    calls.clear()
    fft.rfft2(drawn(8, 6, 5).to("cuda"))
    assert calls == [(0x2A, (6, 5), 8)]


def test_plans_are_kept(library):
    cache = flambeau.backends.cuda.cufft_plan_cache
    assert cache.max_size == 4096 and cache[0].max_size == 4096
    cache.clear()
    assert cache.size == 0
    t = drawn(5, 24, dtype="complex64").to("cuda")
    results = [fft.fft(t[:, :n]) for n in (24, 12, 6)]
    assert cache.size == 3
    fft.fft(t)
    assert cache.size == 3
    try:
        cache.max_size = 2
        assert cache.size == 2 and cache.max_size == 2
        again = [fft.fft(t[:, :n]) for n in (24, 12, 6)]  # made again
        assert cache.size == 2
    finally:
        cache.max_size = 4096
    for a, b in zip(results, again):
        assert flambeau.equal(a.cpu(), b.cpu())
    cache.max_size = 0
    try:
        close(fft.fft(t.cpu()), fft.fft(t), 3e-6)
        assert cache.size == 0
    finally:
        cache.max_size = 4096
    with pytest.raises(RuntimeError, match="size must be non-negative"):
        cache.max_size = -1
    with pytest.raises(RuntimeError, match="read-only property"):
        cache.size = 3
    with pytest.raises(RuntimeError, match="cufft_plan_cache: expected 0 <= device index"):
        cache[99]


def test_what_the_library_refuses(library):
    if not isinstance(library.api, Cufft):
        pytest.skip("a stand-in can be told to refuse")
    library.api.refuses = True
    try:
        for name in ("fft", "rfft2", "irfft", "irfft2"):
            t = argument(name, (3, 5, 11), "float64", name == "fft")
            compare(getattr(fft, name), t, 1e-12)
    finally:
        library.api.refuses = False


def test_streams(library):
    t = drawn(64, 256, dtype="complex64").to("cuda")
    stream = flambeau.cuda.Stream()
    stream.wait_stream(flambeau.cuda.current_stream())
    with flambeau.cuda.stream(stream):
        found = fft.fft2(t)
    flambeau.cuda.current_stream().wait_stream(stream)
    close(fft.fft2(t.cpu()), found, 3e-6)


def test_compiled(library):
    def work(t):
        return fft.irfft(fft.rfft(t * 2) * 0.5) + 1

    compiled = flambeau.compile(work)
    for seed in range(6):
        t = drawn(4, 64, seed=seed).to("cuda")
        close(work(t.cpu()), compiled(t), 3e-6)


@pytest.mark.gpu
def test_graphs(library):
    t = drawn(4, 64, dtype="complex64").to("cuda")
    fft.fft(t)
    graph = flambeau.cuda.CUDAGraph()
    with flambeau.cuda.graph(graph):
        found = fft.fft(t, norm="ortho")
    t.copy_(drawn(4, 64, dtype="complex64", seed=5))
    graph.replay()
    close(fft.fft(t.cpu(), norm="ortho"), found, 3e-6)


@pytest.mark.gpu
def test_the_library_is_there(library):
    assert isinstance(library, cufft.Library)


@pytest.mark.gpu
@pytest.mark.parametrize("n", [1000, 1009, 4096, 1 << 17, 3 * 5 * 7 * 11 * 13, 99991])
def test_long_lines(library, n):
    for name in ("fft", "rfft", "irfft"):
        t = argument(name, (3, n), "float32", name == "fft")
        compare(getattr(fft, name), t, 1e-5)
    assert math.isfinite(n)
