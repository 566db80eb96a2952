"""nan_check: who is to blame for the first nan or inf, and who is not."""

import warnings

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.debug import NonFiniteError, nan_check


class Log(nn.Module):
    def forward(self, x):
        return x.log()  # the line to blame


class Bad(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g / 0


def leaf(*values):
    return torch.tensor(values, requires_grad=True)


def overflow():
    x = torch.full((4,), 60000.0).half()
    return x + x


def broken_step():
    p = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adam([p], lr=1e39)
    (p * p).sum().backward()
    optimizer.step()


GUILTY = [
    (lambda: torch.zeros(2).log(), "aten::log", "inf", False),
    (lambda: torch.zeros(2) / 0, "aten::div", "nan", False),
    (lambda: torch.tensor([0.0, 1.0]).log().exp() * leaf(-1.0, 1.0).sqrt(), "aten::log", "inf", 0),
    (overflow, "aten::add", "inf", False),
    (lambda: leaf(0.0, 1.0).sqrt().sum().backward(), "SqrtBackward0", "inf", True),
    (lambda: Bad.apply(leaf(1.0)).sum().backward(), "aten::div", "inf", True),
    (broken_step, "aten::_fused_adam_", "inf", False),
    (lambda: torch.ones(3, 3).mul(1e30) @ torch.ones(3, 3).mul(1e30), "aten::matmul", "inf", False),
]


@pytest.mark.parametrize("call, op, what, backward", GUILTY)
def test_the_first_is_named(call, op, what, backward):
    with pytest.raises(NonFiniteError) as caught, nan_check():
        call()
    finding = caught.value.finding
    assert (finding.op, finding.what, finding.is_backward) == (op, what, bool(backward))
    assert finding.file == __file__ and f":{finding.line}: " in str(caught.value)


def causal():
    q = torch.randn(4, 4, requires_grad=True)
    q.masked_fill(torch.ones(4, 4).triu(1).bool(), float("-inf")).softmax(-1).sum().backward()


def attention():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    layer(torch.randn(2, 5, 8), src_mask=mask).sum().backward()


def large():
    return torch.full((4,), 3e38) * 1.0  # its sum overflows, it does not


@pytest.mark.parametrize("call", [causal, attention, large, lambda: torch.full((2,), torch.inf)])
def test_nobody_is_to_blame(call):
    with nan_check():
        call()


def test_module_and_line():
    model = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.ReLU(), Log()))
    model[0].weight.data.fill_(-1.0)
    model[0].bias.data.fill_(0.0)
    with pytest.raises(NonFiniteError, match="# the line to blame") as caught, nan_check():
        model(torch.ones(2, 3))
    assert caught.value.finding.module == "1.1 (Log)"
    x = torch.zeros(3, requires_grad=True)
    with nan_check(inf=False):
        y = nn.Sequential(Log())(x + 1e-45)  # finite, its derivative is not
    with pytest.raises(NonFiniteError) as caught, nan_check():
        y.sum().backward()
    assert caught.value.finding.op == "LogBackward0" and caught.value.finding.module == "0 (Log)"


def test_it_may_go_on():
    x = torch.tensor([0.0, 1.0])
    with warnings.catch_warnings(record=True) as told, nan_check(raises=False) as checked:
        warnings.simplefilter("always")
        (x.log() * x).sum()
    assert [f.op for f in checked.findings] == ["aten::log", "aten::mul"] and len(told) == 2
    with nan_check(inf=False):
        x.log()
    (x.log() * x).sum()  # outside nothing is looked at


def test_arguments_with_inf_are_told():
    with pytest.raises(
        NonFiniteError, match=r"first nan .* from arguments with inf of shapes"
    ) as e:
        nan_check()(lambda: torch.softmax(torch.full((2,), -float("inf")), 0))()
    assert e.value.finding.from_inf


def test_compiled_modules_go_by_their_own_names():
    model = torch.compile(nn.Sequential(nn.Identity(), Log()))
    for _ in range(2):
        with pytest.raises(NonFiniteError) as e, nan_check():
            model(-torch.ones(2))
        assert e.value.finding.module == "1 (Log)"


def test_warnings_have_the_line_of_the_op():
    with pytest.warns(RuntimeWarning, match="aten::div made") as said, nan_check(raises=False):
        torch.ones(1) / 0
    assert said[0].filename == __file__
