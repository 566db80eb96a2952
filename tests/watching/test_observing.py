"""Observers of ops: what they are told, and that nothing is left when they stop."""

import threading
import types

import pytest

import flambeau as torch
from flambeau import nn
from flambeau._tensor import Tensor
from flambeau.eager import methods, observing, op_names
from flambeau.ops.table import TABLE


class Log(observing.Observer):
    """Names of calls, indented by how deep they are nested."""

    def __init__(self, *kinds, all_threads=False):
        self.kinds = frozenset({"op", *kinds})
        self.all_threads = all_threads
        self.depth, self.lines, self.ended = 0, [], []

    def before(self, name, args, kwargs):
        self.lines.append("  " * self.depth + name)
        self.depth += 1
        return name

    def after(self, token, name, args, kwargs, result, error):
        assert token == name
        self.depth -= 1
        self.ended.append((name, result, error))


def seen(function, *kinds):
    with observing.observed(Log(*kinds)) as log:
        function()
    assert log.depth == 0
    return log.lines


x = torch.arange(6.0).reshape(2, 3)
CALLS = [
    (lambda: x + 1, ["aten::add"]),
    (lambda: x + x[:1], ["aten::slice", "aten::add"]),
    (lambda: 1 - x, ["aten::rsub"]),
    (lambda: x.clone().add_(1), ["aten::clone", "aten::add_"]),
    (lambda: torch.add(x, x), ["aten::add"]),
    (lambda: x[0], ["aten::select"]),
    (lambda: x[x > 1], ["aten::gt", "aten::index"]),
    (lambda: x.double(), ["aten::to"]),
    (lambda: torch.zeros(2), ["aten::zeros"]),
    (lambda: x.sum().item(), ["aten::sum", "aten::item"]),
    (lambda: nn.functional.relu(x), ["aten::relu"]),
    (lambda: -x, ["aten::neg"]),
    (lambda: torch.multiply(x, 2), ["aten::mul"]),
    (lambda: nn.functional.softmax(x, 1), ["aten::softmax"]),
]


@pytest.mark.parametrize("call, names", CALLS, ids=[" ".join(n) for _, n in CALLS])
def test_calls_are_seen_under_names_of_aten(call, names):
    assert [line for line in seen(call) if not line.startswith(" ")] == names


@pytest.mark.oracle
def test_every_name_of_aten_exists_in_torch():
    torch_ = pytest.importorskip("torch")
    known = {s.name for s in torch_._C._jit_get_all_schemas()}
    names = {op_names.row_name(name) for name in TABLE} - {None}
    names |= {n for n in op_names.METHODS.values() if type(n) is str}
    names |= {"aten::" + n for n in op_names.CREATION}
    assert {n for n in names if n.startswith("aten::")} - known == set()


def test_results_and_errors_are_told():
    with observing.observed(Log()) as log:
        found = x * 2
        with pytest.raises(RuntimeError, match="size of tensor"):
            x + torch.ones(5)
    assert log.ended[0][:2] == ("aten::mul", found)
    name, result, error = log.ended[-1]
    assert (name, result) == ("aten::add", None) and "size of tensor" in str(error)


def functions():
    found = list(methods._functions.values())
    found += [f for f in Tensor.__dict__.values() if isinstance(f, types.FunctionType)]
    return [f for f in found if isinstance(f, types.FunctionType)]


def test_nothing_is_left_of_an_observer():
    x + x  # so that this operator is built
    before = {f: f.__code__ for f in functions()}
    with observing.observed(Log()):
        assert Tensor.__add__.__code__ is not before[Tensor.__add__]
        torch.heaviside(x, x)  # likely built only now
    for f in functions():
        assert f.__code__ is before.get(f, f.__code__)
        assert f.__code__.co_name != "_template" and "observed" not in f.__code__.co_varnames
    assert methods.on_build is None


def test_an_error_in_the_block_leaves_nothing():
    with pytest.raises(ZeroDivisionError), observing.observed(Log()):
        1 / 0  # noqa: B018
    assert not observing.active()


def test_two_observers_see_the_same_and_end_in_any_order():
    first, second = Log(), Log()
    observing.start(first)
    x + x
    observing.start(second)
    x * x
    observing.stop(first)
    x / x
    observing.stop(second)
    x - x
    assert first.lines == ["aten::add", "aten::mul"]
    assert second.lines == ["aten::mul", "aten::div"]


def test_only_the_thread_that_started_it_is_seen():
    with observing.observed(Log()) as log:
        t = threading.Thread(target=lambda: x + x)
        t.start()
        t.join()
        x * x
    assert log.lines == ["aten::mul"]
    with observing.observed(Log(all_threads=True)) as log:
        t = threading.Thread(target=lambda: x + x)
        t.start()
        t.join()
        x * x
    assert log.lines == ["aten::add", "aten::mul"]


def test_ops_of_an_observer_are_not_observed():
    class Summing(Log):
        def after(self, token, name, args, kwargs, result, error):
            super().after(token, name, args, kwargs, result.sum().item(), error)

    with observing.observed(Summing()) as log:
        x + 1
    assert log.lines == ["aten::add"] and log.ended == [("aten::add", 21.0, None)]


def test_backward_nodes_are_seen():
    w = torch.ones(3, requires_grad=True)
    loss = (w * 2).exp().sum()
    lines = seen(loss.backward, "node")
    assert [n for n in lines if "Backward" in n] == [
        "SumBackward0",
        "ExpBackward0",
        "MulBackward0",
    ]
    assert w.grad.tolist() == pytest.approx([2 * 7.389056] * 3)


@pytest.mark.parametrize("observed_first", [True, False])
def test_autocast_works_under_an_observer(observed_first):
    a = torch.ones(2, 2)
    log = Log()
    if observed_first:
        observing.start(log)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        if not observed_first:
            observing.start(log)
        assert torch.mm(a, a).dtype is torch.bfloat16
        if not observed_first:
            observing.stop(log)
            assert torch.mm(a, a).dtype is torch.bfloat16
    assert torch.mm(a, a).dtype is torch.float32
    if observed_first:
        observing.stop(log)
    assert torch.mm(a, a).dtype is torch.float32
    assert next(n for n in log.lines if "mm" in n) == "aten::mm"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.mm(a, a).dtype is torch.bfloat16


def test_autocast_may_end_while_observed():
    a = torch.ones(2, 2)
    cast = torch.autocast("cpu", dtype=torch.bfloat16)
    cast.__enter__()
    with observing.observed(Log()):
        cast.__exit__(None, None, None)
        assert torch.mm(a, a).dtype is torch.float32
    assert torch.mm(a, a).dtype is torch.float32


def test_functions_keep_defaults_and_keywords():
    log = Log()
    with observing.observed(log):
        assert torch.sum(input=x, dim=0, keepdim=True).shape == (1, 3)
        assert torch.full((2,), fill_value=3).tolist() == [3, 3]
        out = torch.empty(2, 3)
        assert torch.add(x, x, alpha=2, out=out) is out
    assert log.lines[0] == "aten::sum"
