"""Floats of eight bits, against their formats written out in Python."""

import bisect
import io
import itertools
import math
import struct

import pytest

import flambeau as torch

# bits behind the point, bias, number of positive finite codes
FORMATS = {
    "float8_e4m3fn": (3, 7, 127),
    "float8_e4m3fnuz": (3, 8, 128),
    "float8_e5m2": (2, 15, 124),
    "float8_e5m2fnuz": (2, 16, 128),
}
ALL = [*FORMATS, "float8_e8m0fnu"]


def positive(name):
    """Finite numbers that are not negative, in the order of their codes."""
    if name == "float8_e8m0fnu":
        return [2.0 ** (k - 127) for k in range(255)]
    m, bias, count = FORMATS[name]
    found = []
    for code in range(count):
        exponent, rest = code >> m, code & ((1 << m) - 1)
        whole = 1 if exponent else 0
        found.append((whole + rest / (1 << m)) * 2.0 ** (max(exponent, 1) - bias))
    return found


def encoded(name, x):
    """The code of a float32: the nearest number, the even one of two."""
    values = positive(name)
    sign = 0x80 if math.copysign(1, x) < 0 and name != "float8_e8m0fnu" else 0
    fnuz = name.endswith("fnuz")
    if name == "float8_e8m0fnu":
        if not math.isfinite(x) or abs(x) >= 1.5 * values[-1]:
            return 255
        if abs(x) < values[1]:
            return int(abs(x) > values[0])
        code = bisect.bisect_right(values, abs(x)) - 1
        return code + (abs(x) >= 1.5 * values[code])
    if math.isnan(x):
        return 0x80 if fnuz else 0x7F | sign
    above = values[-1] + (values[-1] - values[-2])
    ladder = [*values, above]
    code = min(bisect.bisect_right(ladder, abs(x)) - 1, len(values))
    if code < len(values):
        middle = (ladder[code] + ladder[code + 1]) / 2
        code += abs(x) > middle or (abs(x) == middle and code % 2 == 1)
    if code == len(values):
        code = {"float8_e4m3fn": 126, "float8_e5m2": 0x7C}.get(name, 0x80)
    return code if fnuz and code in (0, 0x80) else code | sign


def samples(name):
    values = positive(name)
    middles = [(a + b) / 2 for a, b in itertools.pairwise(values)]
    near = [m * f for m in middles for f in (1 - 2**-20, 1.0, 1 + 2**-20)]
    wide = [0.0, 1e-40, 3e38, 449.0, 470.0, 500.0, 61440.0, 70000.0, math.inf, math.nan]
    torch.manual_seed(0)
    drawn = (torch.randn(500) * 50).tolist()
    known = [struct.unpack("f", struct.pack("f", x))[0] for x in [*values, *near, *wide, *drawn]]
    return known + [-x for x in known]


def code_of(t):
    return t.view(torch.uint8).tolist()


@pytest.mark.parametrize("name", ALL)
def test_bits(name):
    dtype, given = getattr(torch, name), samples(name)
    found = code_of(torch.tensor(given).to(dtype))
    wrong = [(x, c, encoded(name, x)) for x, c in zip(given, found) if c != encoded(name, x)]
    assert not wrong
    values = positive(name)
    back = torch.arange(len(values), dtype=torch.uint8).view(dtype).float()
    assert back.tolist() == values
    if name != "float8_e8m0fnu":
        turned = (torch.arange(1, len(values)) + 128).to(torch.uint8).view(dtype).double()
        assert turned.tolist() == [-v for v in values[1:]]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("source", "float64 float16 bfloat16 int64".split())
def test_casts_from_other_dtypes(name, source):
    x = torch.tensor([0.0, 1.0, 3.0, 100.0, 7.0]).to(getattr(torch, source))
    found = x.to(getattr(torch, name))
    assert code_of(found) == [encoded(name, v) for v in x.double().tolist()]
    assert found.to(getattr(torch, source)).dtype is x.dtype


@pytest.mark.oracle
@pytest.mark.parametrize("name", ALL)
def test_bits_are_pytorchs(name):
    import torch as oracle

    given = samples(name)
    theirs = oracle.tensor(given).to(getattr(oracle, name)).view(oracle.uint8).tolist()
    assert code_of(torch.tensor(given).to(getattr(torch, name))) == theirs


def test_elements_move_as_they_are():
    t = torch.tensor([[0.0, 1.0], [-2.5, math.nan]]).to(torch.float8_e4m3fn)
    same = code_of(t)
    assert code_of(t.clone()) == same and code_of(t.t().contiguous().t()) == same
    assert code_of(torch.cat([t, t])) == same + same
    assert code_of(t.flip(0)) == same[::-1] and code_of(t[torch.tensor([1])]) == same[1:]
    assert t[1, 0].item() == -2.5 and t.tolist()[0] == [0.0, 1.0]
    assert torch.ones(2, dtype=t.dtype).tolist() == [1.0, 1.0]
    assert torch.full((1,), 1.5, dtype=t.dtype).tolist() == [1.5]
    assert torch.tensor([2.0], dtype=t.dtype).fill_(3).item() == 3.0
    assert repr(t[0]) == "tensor([0., 1.], dtype=torch.float8_e4m3fn)"


def test_saved_and_loaded():
    for name in ALL:
        t = torch.tensor([0.5, 2.0]).to(getattr(torch, name))
        file = io.BytesIO()
        torch.save(t, file)
        file.seek(0)
        back = torch.load(file)
        assert back.dtype is t.dtype and code_of(back) == code_of(t)


def test_product_with_scales():
    torch.manual_seed(0)
    a, b = (torch.randn(16, 32).to(torch.float8_e4m3fn) for _ in range(2))
    one, plain = torch.tensor(1.0), a.float() @ b.float().t()
    out = torch._scaled_mm(a, b.t(), one * 2, one, out_dtype=torch.float32)
    assert torch.allclose(out, plain * 2)
    rows, columns = torch.rand(16, 1), torch.rand(1, 16)
    bias = torch.rand(16)
    out = torch._scaled_mm(a, b.t(), rows, columns, bias=bias, out_dtype=torch.bfloat16)
    assert torch.allclose(out.float(), plain * rows * columns + bias, rtol=0.01, atol=0.01)
    assert torch._scaled_mm(a, b.t(), one, one).dtype is torch.float8_e4m3fn
    with pytest.raises(ValueError, match="Invalid scaling configuration"):
        torch._scaled_mm(a.float(), b.t(), one, one)


def test_what_pytorch_has_not_is_refused():
    t = torch.ones(2).to(torch.float8_e5m2)
    with pytest.raises(NotImplementedError, match="\"add_stub\" not implemented for 'Float8_e5m2'"):
        t + t
    with pytest.raises(RuntimeError, match="Promotion for Float8 Types is not supported"):
        torch.promote_types(t.dtype, torch.float32)
    with pytest.raises(TypeError, match="Got unsupported ScalarType Float8_e5m2"):
        t.numpy()


def test_limits_of_exponents_alone():
    found = torch.finfo(torch.float8_e8m0fnu)
    assert (found.min, found.max, found.eps, found.tiny) == (2.0**-127, 2.0**127, 1, 2.0**-127)
    with pytest.raises(RuntimeError, match="Unknown Complex ScalarType for Float8_e4m3fn"):
        torch.float8_e4m3fn.to_complex()
    with pytest.raises(
        NotImplementedError, match="\"arange_cpu\" not implemented for 'Float8_e5m2'"
    ):
        torch.arange(3, dtype=torch.float8_e5m2)


def test_scales_by_recipes():
    from flambeau.nn import functional as F

    by, one = F.ScalingType, torch.tensor(1.0)
    a = torch.arange(32.0).sub(16).reshape(2, 16).to(torch.float8_e4m3fn)
    b = torch.arange(256.0).remainder(7).reshape(16, 16).to(torch.float8_e4m3fn).t()
    whole = F.scaled_mm(a, b, one * 2, by.TensorWise, [one * 3], [by.TensorWise])
    assert whole.dtype is torch.bfloat16
    wanted = a.float() @ b.float()
    assert torch.equal(whole, (wanted * 6).bfloat16())
    rows, columns = torch.tensor([[1.0], [2.0]]), torch.arange(1.0, 17)[None]
    found = F.scaled_mm(a, b, rows, by.RowWise, columns, by.RowWise, output_dtype=torch.float32)
    assert torch.equal(found, wanted * rows * columns)
    with pytest.raises(ValueError, match="Invalid scaling configuration"):
        F.scaled_mm(a, b, rows, by.BlockWise1x32, columns, by.BlockWise1x32)
    with pytest.raises(ValueError, match="Invalid scaling configuration"):
        F.scaled_mm(a, b, rows, by.RowWise, one, by.TensorWise)
