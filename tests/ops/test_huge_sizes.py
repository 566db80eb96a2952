"""Sizes that nothing can hold are refused at once; rows of nothing are not walked."""

import time

import pytest

import flambeau as torch
from flambeau.nn import functional as F

SECONDS = 5.0  # including compiling; the work itself would take years


def expressions(text):
    """Expressions, several in a line."""
    return [part.strip() for line in text.splitlines() for part in line.split("; ") if part.strip()]


REFUSED = """
torch.fft.fft(x, n=HUGE); torch.fft.rfft(x, n=HUGE); torch.fft.irfft(x, n=HUGE)
torch.fft.hfft(x, n=HUGE); torch.fft.ifft(x, n=2**62); torch.fft.fft2(m, s=(2**40, 2**40))
torch.fft.irfftn(m, s=(2**62,)); torch.fft.fftfreq(2**62)
F.interpolate(p, size=[2**45, 1]); F.interpolate(p, size=[2**40, 2**40])
F.interpolate(p, size=[2**45, 1], mode="bicubic"); F.interpolate(p, size=[2**45, 1], mode="area")
F.interpolate(p, size=[2**45, 1], mode="bilinear", antialias=True); F.interpolate(p, size=HUGE)
F.interpolate(p, scale_factor=1e300); F.interpolate(p, scale_factor=float("inf"))
F.interpolate(p, scale_factor=float("nan")); F.interpolate(p, scale_factor=2.0**45)
F.adaptive_avg_pool2d(p, (2**45, 1)); F.adaptive_max_pool2d(p, (2**45, 1))
F.adaptive_avg_pool1d(m, 2**62); F.fractional_max_pool2d(p, 2, output_size=(2**40, 1))
F.pad(x, (2**45, 0)); F.pad(x, (2**62, 2**62)); F.pad(m, (2**45, 1), mode="replicate")
F.local_response_norm(p, 2**45); torch.constant_pad_nd(x, (2**62, 2**62))
F.conv1d(p[0], w, padding=2**62); F.conv_transpose1d(p[0], w, stride=2**44)
F.conv3d(p[None], w[None, None], padding=2**20); F.unfold(p, 2, padding=2**40)
F.one_hot(i, 2**62); F.affine_grid(torch.ones(1, 2, 3), (1, 1, 2**30, 2**30), False)
torch.tril_indices(2**40, 2**40); torch.triu_indices(2**31, 2**31); torch.eye(2**40)
torch.mvlgamma(x, 2**45); torch.tensor_split(x, 2**40); wide.unbind(); wide.split(1); list(wide)
torch.combinations(x, 2**20); torch.combinations(x[:1], 2**20); torch.vander(x, 2**62)
torch.nn.utils.rnn.pad_packed_sequence(packed, total_length=2**45)
torch.linspace(0, 1, 2**62); torch.arange(2**62); torch.arange(0, 1e30); torch.randperm(2**62)
x.repeat(2**62); x.repeat(2**40, 2**40); x.tile(2**62); wide.repeat_interleave(2**40)
torch.repeat_interleave(torch.tensor([2**62])); torch.bincount(torch.tensor([2**62]))
torch.bincount(i, minlength=2**62); torch.histc(x, 2**62); torch.hann_window(2**62)
torch.outer(wide, wide); torch.kron(wide, wide); wide + 1; wide.clone(); wide.sort(); wide.nonzero()
torch.cartesian_prod(wide, wide); torch.cat([wide, wide]); torch.stack([wide] * 2)
torch.diag_embed(x, 2**62); torch.block_diag(wide, wide); x.expand(2**62, 3); wide.tolist()
torch.zeros(2**62, device="meta"); x.as_strided((2**62,), (1,)); x.unfold(0, 2**62, 1)
torch.multinomial(x, 2**62, True); x.resize_(2**62); x.new_full((2**62,), 1)
"""


def names():
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.ones(3, 2, 1), [3, 2])
    return {
        "torch": torch, "F": F, "HUGE": 2**63 - 1, "x": torch.ones(3), "m": torch.ones(2, 2, 2),
        "p": torch.ones(1, 1, 4, 4), "i": torch.tensor([0, 1]), "w": torch.ones(4, 4, 1),
        "wide": torch.ones(1).expand(2**45), "packed": packed,
    }  # fmt: skip


@pytest.mark.parametrize("expression", expressions(REFUSED))
def test_huge_results_are_refused_at_once(expression):
    start = time.process_time()
    with pytest.raises((RuntimeError, MemoryError)):
        eval(expression, names())
    assert time.process_time() - start < SECONDS


EMPTY = {
    "torch.empty(2**26, 512, 0).sum()": 0.0,
    "torch.empty(2**40, 0).prod()": 1.0,
    "torch.empty(2**40, 2, 0).sum((0, 2))": [0.0, 0.0],
    "torch.empty(2**30, 3, 0).logsumexp((0, 1, 2))": float("-inf"),
    "torch.empty(2**40, 0).norm()": 0.0,
    "torch.empty(2**40, 0, 1).nonzero()": [],
    "torch.empty(2**40, 0)[5:7]": [[], []],
    "torch.tril_indices(2**33, 2**33, 1 - 2**33)": [[2**33 - 1], [0]],
    "torch.triu_indices(2**62, 1)": [[0], [0]],
    "torch.tril_indices(2, 2, 2**62)": [[0, 0, 1, 1], [0, 1, 0, 1]],
    "torch.triu_indices(2, 3, 1)": [[0, 0, 1], [1, 2, 2]],
    "torch.tril_indices(3, 2, -1)": [[1, 2, 2], [0, 0, 1]],
}


@pytest.mark.parametrize("expression", EMPTY)
def test_rows_of_nothing_take_no_time(expression):
    start = time.process_time()
    assert eval(expression, names()).tolist() == EMPTY[expression]
    assert time.process_time() - start < SECONDS


POLYNOMIALS = [name for name in dir(torch.special) if "_polynomial_" in name]


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_degrees_that_are_none_give_zero(name):
    x = torch.tensor([0.5, 1.0, -1.0, 2.0, float("inf"), float("nan")])
    for degree in (float("inf"), 1e30, 2.0**63, -1.0, float("nan")):
        assert getattr(torch.special, name)(x, torch.tensor(degree)).tolist() == [0.0] * 6


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_high_degrees_take_no_time(name):
    start = time.process_time()
    x = torch.tensor([0.25, 0.75, 1.0], dtype=torch.float64)
    for degree in (1e9, 2.0**62):
        getattr(torch.special, name)(x, torch.tensor(degree, dtype=torch.float64))
    assert time.process_time() - start < SECONDS


# x = 0.25, 1, -1; from the recurrence in exact fractions, and from closed forms
HIGH = {
    ("chebyshev_polynomial_t", 129): [0.9245398613254207, 1.0, -1.0],
    ("chebyshev_polynomial_u", 1001): [None, 1002.0, -1002.0],
    ("chebyshev_polynomial_v", 200): [None, 1.0, 401.0],
    ("chebyshev_polynomial_w", 200): [None, 401.0, 1.0],
    ("legendre_polynomial_p", 10**7): [0.00016789341259952842, 1.0, 1.0],
    ("laguerre_polynomial_l", 10**7): [0.0079986, -0.0160024, None],
}


@pytest.mark.parametrize("name, degree", HIGH)
def test_values_of_high_degrees(name, degree):
    x = torch.tensor([0.25, 1.0, -1.0], dtype=torch.float64)
    found = getattr(torch.special, name)(x, torch.tensor(degree, dtype=torch.float64)).tolist()
    for value, wanted in zip(found, HIGH[name, degree]):
        assert wanted is None or value == pytest.approx(wanted, rel=1e-4)


INFINITE = """
torch.linalg.svd(a); torch.linalg.pinv(a); torch.linalg.lstsq(a, b, driver="gelsd")
torch.linalg.svd(n); torch.linalg.svdvals(n); torch.linalg.eig(a)
"""


@pytest.mark.parametrize("expression", expressions(INFINITE))
def test_decompositions_of_infinite_matrices_end(expression):
    a, n = torch.eye(9), torch.eye(9)
    a[2, 1], n[1, 2] = float("inf"), float("nan")
    with pytest.raises(RuntimeError, match=r"converge|infs or NaNs|full rank"):
        eval(expression, {"torch": torch, "a": a, "n": n, "b": torch.ones(9, 1)})


def test_values_of_infinite_matrices_are_no_numbers():
    a = torch.eye(9)
    a[2, 1] = float("inf")
    for found in (torch.linalg.svdvals(a), torch.linalg.norm(a, "nuc"), torch.linalg.eigvalsh(a)):
        assert found.isnan().all()
