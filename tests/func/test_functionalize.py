"""functionalize: programs without writes read as PyTorch's, and do what they did with them."""

import json
from pathlib import Path

import pytest

import flambeau as torch
from flambeau.func import functionalize, grad, vmap
from flambeau.fx.experimental.proxy_tensor import make_fx
from tests.func import functional_cases as cases

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "functional.json").read_text())
ONLY_WITHOUT = {"write to expanded"}  # refused with writes
DRAWN = {"random", "dropout", "bernoulli"}
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def a():
    return torch.arange(4.0).reshape(2, 2)


@pytest.mark.parametrize("remove", cases.REMOVES)
@pytest.mark.parametrize("name", cases.PROGRAMS)
def test_texts_are_those_of_pytorch(name, remove):
    assert cases.text(torch, name, remove) == GOLDEN["texts"][remove][name]


@pytest.mark.parametrize("remove", cases.REMOVES)
@pytest.mark.parametrize("name", sorted(set(cases.PROGRAMS) - ONLY_WITHOUT))
def test_results_and_inputs_are_as_with_writes(name, remove):
    plain = cases.function(torch, name)
    given, others = cases.arguments(torch), cases.arguments(torch)
    torch.manual_seed(0)
    wanted = cases.numbers(plain(*given))
    torch.manual_seed(0)
    found = cases.numbers(functionalize(plain, remove=remove)(*others))
    assert str(found) == str(wanted)  # nan is not nan
    assert cases.numbers(others) == cases.numbers(given)


@pytest.mark.parametrize("name", sorted(set(cases.PROGRAMS) - ONLY_WITHOUT - DRAWN))
def test_what_is_recorded_does_the_same(name):
    plain = cases.function(torch, name)
    given, others = cases.arguments(torch), cases.arguments(torch)
    module = make_fx(functionalize(plain))(*cases.arguments(torch))
    assert str(cases.numbers(module(*others))) == str(cases.numbers(plain(*given)))
    assert cases.numbers(others) == cases.numbers(given)


@pytest.mark.parametrize("remove", cases.REMOVES)
@pytest.mark.parametrize("name", cases.SEEN)
def test_modes_see_no_writes(name, remove):
    assert cases.seen(torch, name, remove) == GOLDEN["seen"][remove][name]


def close(found, wanted):
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(close, found, wanted))
    return found == pytest.approx(wanted, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", cases.NESTED)
def test_it_nests_with_other_transforms(name):
    assert close(cases.worked_out(torch, name), GOLDEN["nested"][name])


def test_a_tensor_from_around_cannot_be_written_with_one_from_inside(a):
    around = torch.ones(2, 2)
    with pytest.raises(RuntimeError, match="mutating a non-functional tensor with a functional"):
        functionalize(lambda a: around.add_(a))(a)
    with pytest.raises(RuntimeError, match="mutating a non-functional tensor with a functional"):
        functionalize(lambda a: torch.add(a, 1, out=around))(a)
    functionalize(lambda a: around.add_(1))(a)
    assert around.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_writes_that_cannot_be_are_refused_as_with_writes(a):
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type Long"):
        functionalize(lambda a: torch.ones(2, dtype=torch.long).add_(1.5))(a)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        functionalize(lambda a: torch.ones(2).add_(a[:, None]))(a)
    with pytest.raises(RuntimeError, match="that has internal overlap"):
        functionalize(lambda a: (a + 1).unfold(1, 2, 1).unfold(0, 2, 1).add_(1))(a)


def test_what_it_removes_is_one_of_two():
    for other in ("views", None, 1):
        with pytest.raises(RuntimeError, match=f"received invalid argument for remove={other}"):
            functionalize(torch.sin, remove=other)


def test_an_input_may_change_its_size(a):
    result = functionalize(lambda a: a.resize_(3, 3).zero_())(a)
    assert a.shape == result.shape == (3, 3) and not a.any()


def test_numbers_and_sizes_are_known_inside(a):
    def f(a):
        b = a.clone()
        b[0].add_(1)
        assert b.shape == (2, 2) and b.t().stride() == (1, 2) and b.device.type == "cpu"
        return (b + 1 if b.sum() > 0 else b), b.sum().item(), b.tolist()

    assert functionalize(f)(a)[1:] == (8.0, [[1.0, 2.0], [2.0, 3.0]])
    with pytest.raises(RuntimeError, match="trying to get value out of a tracing tensor"):
        make_fx(functionalize(lambda a: a.sum().item()))(a)


def test_history_goes_through(a):
    x = a.requires_grad_()
    functionalize(lambda x: x.clone().mul_(x).view(-1).mul_(2))(x).sum().backward()
    assert x.grad.tolist() == (4 * x).tolist()


def test_a_value_that_derivatives_need_may_not_be_written(a):
    def f(a):
        b = a * a
        c = b.sin()
        b.add_(1)
        return c.sum()

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        functionalize(grad(f))(a)
    assert grad(functionalize(f))(a).shape == (2, 2)  # there, nothing is


def test_functions_without_a_form_that_writes_not_work_on_copies(a):
    def f(a):
        b = [a + 1, a + 2]
        torch._foreach_add_(b, 1)
        view = b[0].view(-1)
        b[0].fill_diagonal_(0.0)
        return b, view

    assert cases.numbers(functionalize(f)(a)) == cases.numbers(f(a))


def test_sizes_may_be_symbols(a):
    def f(a):
        b = a.reshape(a.shape[0] * a.shape[1])
        b[0].zero_()
        return b.sum() / a.shape[0]

    module = make_fx(functionalize(f), tracing_mode="symbolic")(torch.ones(3, 4))
    other = torch.ones(5, 6)
    assert module(other) == 29 / 5 and other[0, 0] == 0


def test_a_leaf_that_is_written_is_refused(a):
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in"):
        grad(functionalize(lambda a: a.mul_(2).sum()))(a)


@pytest.mark.parametrize("again", range(2))
def test_gradients_of_samples_are_recorded_without_detours(again):
    assert "arg0_1" in make_fx(vmap(torch.sin))(torch.ones(2)).code
    module = make_fx(vmap(grad(lambda x: (x * x).sum())))(torch.ones(2, 2))
    assert module.code.strip().splitlines() == [
        "def forward(self, x_1):",
        "    mul = torch.ops.aten.mul.Tensor(x_1, x_1)",
        "    sum_1 = torch.ops.aten.sum.dim_IntList(mul, [1]);  mul = None",
        "    ones_like = torch.ops.aten.ones_like.default(sum_1, pin_memory = False, "
        "memory_format = torch.preserve_format);  sum_1 = None",
        "    view = torch.ops.aten.view.default(ones_like, [2, 1]);  ones_like = None",
        "    expand = torch.ops.aten.expand.default(view, [2, 2]);  view = None",
        "    mul_1 = torch.ops.aten.mul.Tensor(expand, x_1)",
        "    mul_2 = torch.ops.aten.mul.Tensor(expand, x_1);  expand = x_1 = None",
        "    add = torch.ops.aten.add.Tensor(mul_2, mul_1);  mul_2 = mul_1 = None",
        "    return add",
    ]


def test_out_is_written_by_what_is_recorded(a):
    module = make_fx(lambda a, o: torch.add(a, 1, out=o))(a, torch.zeros(2, 2))
    out = torch.zeros(2, 2)
    module(a, out)
    assert out.tolist() == (a + 1).tolist()


def test_it_nests_with_itself(a):
    f = cases.function(torch, "chain")
    found = functionalize(functionalize(f), remove="mutations_and_views")(a, a)
    assert cases.numbers(found) == cases.numbers(f(a, a))


def test_samples_may_write_what_has_samples():
    rows = torch.arange(4.0).reshape(2, 2)
    found = vmap(functionalize(lambda r, s: r.clone().mul_(s)))(rows, rows)
    assert found.tolist() == (rows * rows).tolist()


@pytest.mark.oracle
@pytest.mark.parametrize("name", cases.PROGRAMS)
def test_the_record_is_what_pytorch_says(name):
    pytorch = pytest.importorskip("torch")
    for remove in cases.REMOVES:
        assert cases.text(pytorch, name, remove) == GOLDEN["texts"][remove][name]
