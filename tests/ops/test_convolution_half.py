"""Convolutions of bfloat16: small integers, whose sums are exact, in every shape and layout.

Where the processor multiplies pairs these go two channels (or two pixels) at a time; elsewhere they
are widened. The results are the same.
"""

import numpy as np
import pytest

import flambeau as torch
from flambeau.codegen.templates import squares, tiles
from flambeau.eager import convolution
from flambeau.eager.plans import Plans
from flambeau.planning import convolutions
from flambeau.planning.convolutions import multiplies_pairs
from flambeau.runtime.processor import matrices_allowed
from tests.ops.convolution_cases import CASES, C, T, names
from tests.ops.test_convolution import run, threads

MORE = [
    # odd and even channels; planes narrower than a vector; several blocks of k and of pixels
    C((2, 1, 9, 9), (3, 1, 3, 3), padding=1),
    C((3, 7, 4, 4), (20, 7, 3, 3), padding=1),
    C((2, 5, 33, 3), (4, 5, 1, 1)),
    C((2, 130, 5, 7), (19, 130, 3, 3), padding=1),
    C((5, 3, 21, 19), (9, 3, 5, 4), padding=(2, 1)),
    C((2, 70, 11, 40), (5, 70, 3, 5), stride=(1, 2), padding=2),
    C((2, 9, 6, 5, 7), (4, 9, 2, 3, 3), padding=1, stride=(1, 1, 2)),
    T((2, 5, 6, 7), (5, 3, 4, 4), stride=2, padding=1),
    T((2, 34, 5, 5), (34, 3, 3, 3), stride=2, padding=1, output_padding=1),
]


def integers(rng, shape):
    return torch.from_numpy(rng.integers(-3, 4, shape).astype("float32")).bfloat16()


def results(case, given, g, change=lambda t: t):
    leaves = [change(t.clone()).requires_grad_() for t in given]
    out = run(case, *leaves)
    out.backward(change(g.to(out.dtype)))
    return [out.detach(), *[t.grad for t in leaves]]


@pytest.mark.parametrize("case", [*CASES, *MORE], ids=names)
def test_exact(case, rng):
    given = [integers(rng, shape) for shape in (case.x, case.w, (case.bias,))]
    g = integers(rng, tuple(run(case, *given).shape))
    wanted = results(case, [t.double() for t in given], g)
    for count in (1, 2):
        with threads(count):
            for ours, exact in zip(results(case, given, g), wanted):
                assert ours.dtype is torch.bfloat16
                assert torch.equal(ours, exact.bfloat16())


@pytest.mark.parametrize("case", [c for c in (*CASES, *MORE) if len(c.x) == 4][::2], ids=names)
def test_exact_with_channels_last(case, rng):
    given = [integers(rng, shape) for shape in (case.x, case.w, (case.bias,))]
    g = integers(rng, tuple(run(case, *given).shape))
    wanted = results(case, [t.double() for t in given], g)

    def last(t):
        return t.contiguous(memory_format=torch.channels_last) if t.ndim == 4 else t

    for ours, exact in zip(results(case, given, g, last), wanted):
        assert torch.equal(ours, exact.bfloat16())


def forget_plans(monkeypatch):
    for name in ("FORWARD", "TO_INPUT", "TO_WEIGHT"):
        plans = getattr(convolution, name)
        monkeypatch.setattr(convolution, name, Plans(plans.make, by_default=False))
    for kept in (convolutions.pattern_of, convolutions._product_frame, convolutions._weight_frame):
        kept.cache_clear()


@pytest.mark.parametrize("code", ["bfloat16", "float32"])
def test_caches_of_other_sizes(rng, monkeypatch, code):
    """Small panels change no exact sum; a large cache asks for no larger ones."""
    strided = C((2, 20, 17, 19), (18, 20, 3, 3), padding=1, stride=2)
    for case in (strided, C((2, 20, 27, 29), (18, 20, 3, 3), padding=1)):
        given = [integers(rng, shape) for shape in (case.x, case.w, (case.bias,))]
        given = [t.to(getattr(torch, code)) for t in given]
        g = integers(rng, tuple(run(case, *given).shape))
        wanted = results(case, given, g)
        for size in (1 << 17, 1 << 19, 1 << 22):
            with monkeypatch.context() as patch:
                patch.setattr(convolutions, "second_level", lambda size=size: size)
                forget_plans(patch)
                for ours, exact in zip(results(case, given, g), wanted):
                    assert torch.equal(ours, exact)
            forget_plans(monkeypatch)
    assert convolutions.fitted(384) <= 384


def test_infinity_stays_where_it_is(rng):
    """What fills a pair up is zero on both sides."""
    case = C((1, 3, 6, 7), (5, 3, 3, 3), padding=1)
    x, w, b = (integers(rng, shape) for shape in (case.x, case.w, (case.bias,)))
    x[0, 2, 5, 6] = float("inf")
    found = run(case, x, w.abs() + 1, b).float().numpy()
    assert np.isfinite(found[:, :, :4]).all() and np.isinf(found[:, :, 4:, 5:]).all()
    w = w.abs() + 1
    w[4, 2, 1, 1] = float("inf")
    x = torch.ones(1, 3, 6, 7, dtype=torch.bfloat16)
    found = run(case, x, w, b).float().numpy()
    assert np.isfinite(found[:, :4]).all() and np.isinf(found[:, 4]).all()


@pytest.fixture
def in_squares(monkeypatch):
    """As on a host with matrix registers, which plain code stands in for where there are none."""
    if tiles.lanes("bf16") != squares.SIDE:
        pytest.skip("matrix registers come with vectors of 64 bytes")
    if squares.available() and not matrices_allowed():
        pytest.skip("the processor has matrix registers, but the system does not give them")
    forget_plans(monkeypatch)

    def found(code):
        return code == "bf16" and "square"

    for module in (convolution, convolutions):
        monkeypatch.setattr(module, "multiplies_pairs", found)
    yield
    forget_plans(monkeypatch)


SQUARES = [
    # rows, columns and words that fill registers, and such that do not; several blocks of each
    C((2, 64, 9, 11), (40, 64, 3, 3), padding=1),
    C((1, 32, 40, 40), (33, 32, 1, 1)),
    C((2, 3, 33, 35), (16, 3, 7, 7), stride=2, padding=3),
    C((4, 48, 13, 13), (24, 12, 3, 3), padding=1, groups=4),
    T((2, 34, 5, 5), (34, 20, 4, 4), stride=2, padding=1),
    *MORE[3:],
]


@pytest.mark.parametrize("case", SQUARES, ids=names)
def test_matrix_registers(case, rng, in_squares):
    test_exact(case, rng)
    if len(case.x) == 4:
        test_exact_with_channels_last(case, rng)


def test_matrix_registers_fill_up_with_zeros(rng, in_squares):
    test_infinity_stays_where_it_is(rng)
    x, w = torch.ones(1, 40, 9, 9).bfloat16(), torch.ones(5, 40, 1, 1).bfloat16()
    x[0, 39, 8, 8] = w[4, 39] = float("nan")
    found = torch.isnan(torch.nn.functional.conv2d(x, w)).numpy()
    wanted = np.zeros((1, 5, 9, 9), bool)
    wanted[:, :, 8, 8] = wanted[:, 4] = True
    assert (found == wanted).all()


def test_pairs_are_used_where_they_are():
    from flambeau.codegen.llvm_cpu import host

    assert bool(multiplies_pairs("bf16")) == bool(host().features.get("avx512bf16"))
    assert not multiplies_pairs("f32") and not multiplies_pairs("f16")
