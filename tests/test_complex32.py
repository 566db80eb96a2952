"""complex32: pairs of float16, computed with as complex64 and rounded after every operation."""

import io
import json
import pathlib

import numpy as np
import pytest

import flambeau as torch
from tests.complex32_cases import SNIPPETS
from tests.snippets import outcome

GOLDEN = pathlib.Path(__file__).parent / "golden/front.json"
RECORDED = json.loads(GOLDEN.read_text())["complex32"]
H = torch.complex32


def test_outcomes_are_the_recorded_ones():
    wrong = [(s, outcome(torch, s)) for s in SNIPPETS if outcome(torch, s) != RECORDED[s]]
    assert not wrong, "\n".join(f"{s}: {found}, not {RECORDED[s]}" for s, found in wrong)


@pytest.mark.oracle
def test_outcomes_are_those_of_torch():
    oracle = pytest.importorskip("torch")
    wrong = [s for s in SNIPPETS if outcome(torch, s) != outcome(oracle, s)]
    assert not wrong


# -- rounding, against NumPy's float16 ------------------------------------------------------------


def pairs(count, seed):
    """Parts of complex numbers, as float16 arrays (count, 2)."""
    drawn = np.random.default_rng(seed).standard_normal((count, 2)) * 2
    return drawn.astype(np.float16)


def tensor_of(parts):
    return torch.view_as_complex(torch.from_numpy(parts.copy()))


def parts_of(t):
    return torch.view_as_real(t).numpy()


def rounded(parts):
    """Parts in float32, each rounded to float16 and back."""
    return parts.astype(np.float16).astype(np.float32)


def times(a, b):
    a, b = a.astype(np.float32), b.astype(np.float32)
    re = a[:, 0] * b[:, 0] - a[:, 1] * b[:, 1]
    im = a[:, 0] * b[:, 1] + a[:, 1] * b[:, 0]
    return rounded(np.stack([re, im], 1))


def constant(z, like):
    return rounded(np.broadcast_to(np.array([z.real, z.imag], np.float32), like.shape))


A, B, C = (pairs(999, seed) for seed in range(3))
NUMBER = 0.1 + 0.7j
REFERENCES = {
    "a + b": rounded(A.astype(np.float32) + B),
    "a - b": rounded(A.astype(np.float32) - B),
    "a * b": times(A, B),
    "a * z": times(A, constant(NUMBER, A)),
    "a + z": rounded(A + constant(NUMBER, A)),
    "z - a": rounded(constant(NUMBER, A) - A),
    "a.add(b, alpha=z)": rounded(A + times(constant(NUMBER, A), B)),
    "a.sub(b, alpha=0.3)": rounded(A - times(constant(0.3, A), B)),
    "a.addcmul(b, c)": rounded(A + times(B, C)),
    "a.addcmul(b, c, value=z)": rounded(A + times(times(B, constant(NUMBER, A)), C)),
    "a.real * z": times(np.stack([A[:, 0], 0 * A[:, 0]], 1), constant(NUMBER, A)),
    "a.conj()": A * np.array([1, -1], np.float16),
    "-a": -A,
    "a * b.to(torch.complex64).to(a.dtype)": times(A, B),
    "a.clone().mul_(b)": times(A, B),
    "torch.where(a.real > 0, a, b)": np.where(A[:, :1] > 0, A, B),
}


@pytest.mark.parametrize("text", REFERENCES)
def test_every_operation_rounds_to_float16(text):
    space = {"torch": torch, "z": NUMBER, **dict(zip("abc", map(tensor_of, (A, B, C))))}
    found = eval(text, space)
    assert found.dtype is H
    np.testing.assert_array_equal(parts_of(found), REFERENCES[text].astype(np.float16))


@pytest.mark.parametrize("layout", ["strided", "transposed", "reversed", "expanded", "single"])
def test_all_accesses_of_memory_read_pairs(layout):
    change = {
        "strided": lambda t: t.view(27, 37)[::2, 1::3],
        "transposed": lambda t: t.view(27, 37).t(),
        "reversed": lambda t: t.view(27, 37)[1:, 2:].t(),
        "expanded": lambda t: t[:37].view(1, 37).expand(5, 37),
        "single": lambda t: t[4],
    }[layout]
    a, b = change(tensor_of(A)), change(tensor_of(B))
    wide = (a.to(torch.complex64) * b.to(torch.complex64)).to(H)
    np.testing.assert_array_equal(parts_of(a * b), parts_of(wide))
    np.testing.assert_array_equal(parts_of(a.contiguous()), parts_of(a.clone()))


def test_size_and_comparisons():
    a, b = tensor_of(A), tensor_of(B)
    size = np.hypot(A[:, 0].astype(np.float32), A[:, 1].astype(np.float32))
    np.testing.assert_array_equal(a.abs().numpy(), size.astype(np.float16))
    assert (a == a).all() and not (a == b).any() and (a != b).all()


@pytest.mark.parametrize("name", "bool uint8 int16 int64 float16 bfloat16 float32 float64".split())
def test_casts_from_and_to_real_dtypes(name):
    dtype = getattr(torch, name)
    x = torch.tensor([0.0, 1.0, 3.0, 100.0]).to(dtype)
    found = x.to(H)
    assert found.tolist() == [complex(v) for v in x.tolist()]
    if dtype is torch.bool:
        assert found.to(dtype).tolist() == x.tolist()
    else:
        with pytest.warns(UserWarning, match="discards the imaginary part"):
            assert found.to(dtype).tolist() == x.tolist()


def test_numbers_that_are_halfway_round_to_even():
    x = np.random.default_rng(4).integers(0, 1 << 15, 4000, dtype=np.uint16).view(np.float16)
    x = x[np.isfinite(x)].astype(np.float64)
    middles = np.concatenate([x, (x[1:] + x[:-1]) / 2, [65519.9, 65520.0, 2.0**-25, 0.0]])
    t = torch.from_numpy(middles)
    found = torch.complex(t, -t).to(H)
    with np.errstate(over="ignore"):
        wanted = np.stack([middles, -middles], 1).astype(np.float16)
    np.testing.assert_array_equal(parts_of(found), wanted)


def test_elements_move_bit_for_bit():
    bits = np.random.default_rng(5).integers(-(2**31), 2**31, 512, dtype=np.int32)
    t = torch.from_numpy(bits).view(H)
    places = torch.arange(511, -1, -1)
    moved = [t.clone(), torch.cat([t[:5], t[5:]]), t[places][places], t.roll(7).roll(-7)]
    moved += [t.index_select(0, places)[places], t.view(16, 32).t().contiguous().t().reshape(-1)]
    assert all(m.view(torch.int32).tolist() == bits.tolist() for m in moved)


def test_saved_and_loaded():
    t, file = tensor_of(A), io.BytesIO()
    torch.save({"whole": t, "part": t[::2], "dtype": H}, file)
    file.seek(0)
    back = torch.load(file)
    assert back["dtype"] is H and back["part"].stride() == (2,)
    np.testing.assert_array_equal(parts_of(back["whole"]), A)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")  # PyTorch, once
def test_files_go_both_ways():
    oracle = pytest.importorskip("torch")
    theirs = oracle.view_as_complex(oracle.from_numpy(A.copy()))
    for save, load, t in (
        (torch.save, oracle.load, tensor_of(A)),
        (oracle.save, torch.load, theirs),
    ):
        file = io.BytesIO()
        save(t, file)
        file.seek(0)
        back = load(file)
        assert repr(back.dtype) == "torch.complex32"
        np.testing.assert_array_equal(back.view(back.real.dtype).numpy(), A.ravel())


def test_gradients_round_as_operations_do():
    a, b = (tensor_of(p).requires_grad_() for p in (A, B))
    (a * b).backward(tensor_of(C))
    np.testing.assert_array_equal(parts_of(a.grad), times(C, B * np.array([1, -1])))
    np.testing.assert_array_equal(parts_of(b.grad), times(C, A * np.array([1, -1])))
