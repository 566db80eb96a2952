"""Windows of torch.signal, against formulas of one sample; histogramdd and nonzero_static."""

import math

import pytest

import flambeau as torch
from flambeau.signal import windows

OPTIONS = {
    "gaussian": {"std": 2.5},
    "kaiser": {"beta": 4.0},
    "exponential": {"tau": 3.0},
    "general_cosine": {"a": [0.3, 0.4, 0.2, 0.1]},
    "general_hamming": {"alpha": 0.6},
}


def bessel(x):
    return sum((x / 2) ** (2 * k) / math.factorial(k) ** 2 for k in range(60))


def cosines(k, n, weights):
    return sum((-1) ** i * w * math.cos(2 * math.pi * i * k / n) for i, w in enumerate(weights))


# sample k of a window whose period has n steps
FORMULAS = {
    "bartlett": lambda k, n: 1 - abs(2 * k / n - 1),
    "blackman": lambda k, n: cosines(k, n, [0.42, 0.5, 0.08]),
    "cosine": lambda k, n: math.sin(math.pi * (k + 0.5) / (n + 1)),
    "exponential": lambda k, n: math.exp(-abs(k - n / 2) / 3),
    "gaussian": lambda k, n: math.exp(-(((k - n / 2) / 2.5) ** 2) / 2),
    "general_cosine": lambda k, n: cosines(k, n, [0.3, 0.4, 0.2, 0.1]),
    "general_hamming": lambda k, n: cosines(k, n, [0.6, 0.4]),
    "hamming": lambda k, n: cosines(k, n, [0.54, 0.46]),
    "hann": lambda k, n: cosines(k, n, [0.5, 0.5]),
    "kaiser": lambda k, n: bessel(4 * math.sqrt(max(1 - (2 * k / n - 1) ** 2, 0))) / bessel(4),
    "nuttall": lambda k, n: cosines(k, n, [0.3635819, 0.4891775, 0.1365995, 0.0106411]),
}


@pytest.mark.parametrize("name", windows.__all__)
@pytest.mark.parametrize("sym", [True, False])
@pytest.mark.parametrize("M", [0, 1, 2, 7, 50])
def test_window(name, sym, M):
    n = M - 1 if sym else M
    expected = [1.0] * M if M < 2 else [FORMULAS[name](k, n) for k in range(M)]
    for dtype, close in ((torch.float32, 1e-5), (torch.float64, 1e-11)):
        found = getattr(windows, name)(M, sym=sym, dtype=dtype, **OPTIONS.get(name, {}))
        assert found.dtype is dtype and found.tolist() == pytest.approx(expected, abs=close)


@pytest.mark.oracle
@pytest.mark.parametrize("name", windows.__all__)
def test_window_is_pytorchs(name):
    import torch as oracle

    for M in (1, 2, 8, 51):
        for sym in (True, False):
            options = {"sym": sym, **OPTIONS.get(name, {})}
            theirs = getattr(oracle.signal.windows, name)(M, **options).tolist()
            assert getattr(windows, name)(M, **options).tolist() == pytest.approx(theirs, abs=1e-6)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: windows.hann(-1), ValueError, "requires non-negative window length, got M=-1"),
        (lambda: windows.gaussian(3, std=-1), ValueError, "Standard deviation must be positive"),
        (lambda: windows.exponential(5, center=1), ValueError, "Center must be None"),
        (lambda: windows.kaiser(5, beta=-1), ValueError, "beta must be non-negative"),
        (lambda: windows.hann(5, dtype=torch.int64), ValueError, "expects float32 or float64"),
        (lambda: windows.exponential(5, tau=0), ValueError, "Tau must be positive"),
        (lambda: windows.general_cosine(4, a=[]), ValueError, "Coefficients cannot be empty"),
        (lambda: windows.general_cosine(4, a=0.5), TypeError, "must be a list/tuple"),
    ],
)
def test_complaints(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_points_in_bins():
    x = torch.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 0.0], [2.0, 2.0]])
    hist, edges = torch.histogramdd(x, bins=[3, 3], weight=torch.tensor([1.0, 2, 4, 8]))
    assert hist.tolist() == [[0, 1, 0], [2, 0, 0], [4, 0, 8]]
    assert edges[0].tolist() == pytest.approx([0, 2 / 3, 4 / 3, 2])
    dense = torch.histogramdd(x, bins=2, range=[0.0, 1.0, 0.0, 1.0], density=True).hist
    assert dense.tolist() == [[0, 2], [2, 0]]
    given = [torch.tensor([0.0, 1.0, 2.0])] * 2
    assert torch.histogramdd(x, given).hist.tolist() == [[0, 1], [2, 1]]
    with pytest.raises(RuntimeError, match="size of bins must be equal to the innermost"):
        torch.histogramdd(x, bins=[3])


def test_nonzero_of_a_fixed_size():
    x = torch.tensor([[1, 0], [0, 1]])
    assert torch.nonzero_static(x, size=3).tolist() == [[0, 0], [1, 1], [-1, -1]]
    assert x.nonzero_static(size=1).tolist() == [[0, 0]]
    assert torch.nonzero_static(torch.tensor([1, 0]), size=2, fill_value=7).tolist() == [[0], [7]]
    with pytest.raises(RuntimeError, match="'size' must be an non-negative integer"):
        x.nonzero_static(size=-1)
