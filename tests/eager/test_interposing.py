"""Handlers around calls: what they are told, what they may change, and what is left of them."""

import contextlib
import importlib
import inspect
import sys
import threading
import types

import pytest

import flambeau as torch
from flambeau import interposing, nn
from flambeau._tensor import Tensor
from flambeau.aten import names as op_names
from flambeau.eager import methods
from flambeau.ops.table import TABLE


class Log(interposing.Observer):
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
    with interposing.handling(Log(*kinds)) as log:
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
    importlib.import_module("flambeau.ao.nn.quantized")  # whose rows load late
    torch_ = pytest.importorskip("torch")
    known = {s.name for s in torch_._C._jit_get_all_schemas()}
    names = {op_names.row_name(name) for name in TABLE} - {None}
    names |= {n for n in op_names.METHODS.values() if type(n) is str}
    names |= {"aten::" + n for n in op_names.CREATION}
    assert {n for n in names if n.startswith("aten::")} - known == set()


def test_results_and_errors_are_told():
    with interposing.handling(Log()) as log:
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
    interposing.disarm()
    before = {f: f.__code__ for f in functions()}
    with interposing.handling(Log()):
        assert Tensor.__add__.__code__ is not before[Tensor.__add__]
        torch.heaviside(x, x)  # likely built only now
    interposing.disarm()  # as some thousand calls would
    for f in functions():
        assert f.__code__ is before.get(f, f.__code__)
        assert "nobody" not in f.__code__.co_varnames


def test_an_error_in_the_block_leaves_nothing():
    with pytest.raises(ZeroDivisionError), interposing.handling(Log()):
        1 / 0  # noqa: B018
    assert not interposing.is_active()


def test_two_observers_see_the_same_and_end_in_any_order():
    first, second = Log(), Log()
    interposing.push(first)
    x + x
    interposing.push(second)
    x * x
    interposing.pop(first)
    x / x
    interposing.pop(second)
    x - x
    assert first.lines == ["aten::add", "aten::mul"]
    assert second.lines == ["aten::mul", "aten::div"]


def test_only_the_thread_that_started_it_is_seen():
    with interposing.handling(Log()) as log:
        t = threading.Thread(target=lambda: x + x)
        t.start()
        t.join()
        x * x
    assert log.lines == ["aten::mul"]
    with interposing.handling(Log(all_threads=True)) as log:
        t = threading.Thread(target=lambda: x + x)
        t.start()
        t.join()
        x * x
    assert log.lines == ["aten::add", "aten::mul"]


def test_ops_of_an_observer_are_not_observed():
    class Summing(Log):
        def after(self, token, name, args, kwargs, result, error):
            super().after(token, name, args, kwargs, result.sum().item(), error)

    with interposing.handling(Summing()) as log:
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
        interposing.push(log)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        if not observed_first:
            interposing.push(log)
        assert torch.mm(a, a).dtype is torch.bfloat16
        if not observed_first:
            interposing.pop(log)
            assert torch.mm(a, a).dtype is torch.bfloat16
    assert torch.mm(a, a).dtype is torch.float32
    if observed_first:
        interposing.pop(log)
    assert torch.mm(a, a).dtype is torch.float32
    assert next(n for n in log.lines if "mm" in n) == "aten::mm"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.mm(a, a).dtype is torch.bfloat16


def test_autocast_may_end_while_observed():
    a = torch.ones(2, 2)
    cast = torch.autocast("cpu", dtype=torch.bfloat16)
    cast.__enter__()
    with interposing.handling(Log()):
        cast.__exit__(None, None, None)
        assert torch.mm(a, a).dtype is torch.float32
    assert torch.mm(a, a).dtype is torch.float32


def test_functions_keep_defaults_and_keywords():
    log = Log()
    with interposing.handling(log):
        assert torch.sum(input=x, dim=0, keepdim=True).shape == (1, 3)
        assert torch.full((2,), fill_value=3).tolist() == [3, 3]
        out = torch.empty(2, 3)
        assert torch.add(x, x, alpha=2, out=out) is out
    assert log.lines[0] == "aten::sum"


# -- changing and answering ------------------------------------------------------------------------


def doubling(name, function, args, kwargs):
    result = function(*args, **kwargs)
    return result * 2 if name == "aten::exp" else result


def answering(name, function, args, kwargs):
    return "here" if name == "aten::exp" else function(*args, **kwargs)


def halving(name, function, args, kwargs):
    if name == "aten::exp":
        args = (args[0] / 2, *args[1:])
    return function(*args, **kwargs)


@pytest.mark.parametrize(
    "handlers, expected",
    [
        ([doubling], [2.0, 2.0]),
        ([answering], "here"),
        ([doubling, doubling], [4.0, 4.0]),
        ([answering, doubling], "herehere"),
        ([doubling, answering], "here"),
        ([halving], [1.0, 1.0]),
    ],
)
def test_handlers_change_and_answer_calls_the_last_one_first(handlers, expected):
    with contextlib.ExitStack() as stack:
        for handler in handlers:
            stack.enter_context(interposing.handling(handler))
        found = torch.zeros(2).exp()
    assert (found.tolist() if isinstance(found, Tensor) else found) == expected


class Numbered(interposing.Handler):
    def __init__(self, level, log):
        self.level, self.log = level, log

    def around(self, name, function, args, kwargs):
        self.log.append(self.level)
        return function(*args, **kwargs)


def test_the_level_decides_who_is_asked_first():
    log = []
    with contextlib.ExitStack() as stack:
        for level in (20, 40, 0, 30, 10):
            stack.enter_context(interposing.handling(Numbered(level, log)))
        x + x
    assert log == [40, 30, 20, 10, 0]


@pytest.mark.parametrize(
    "sees, expected",
    [("nothing", ["aten::to"]), ("inside", ["aten::to", "aten::_to_copy"])],
)
def test_a_handler_chooses_whether_it_sees_calls_within_calls(sees, expected):
    class Own(interposing.Handler):
        def __init__(self):
            self.sees, self.log = sees, []

        def around(self, name, function, args, kwargs):
            self.log.append(name)
            x.exp()  # never told of
            return function(*args, **kwargs)

    with interposing.handling(Own()) as own:
        x.to(torch.complex64)
    assert own.log == expected


def test_functions_stay_armed_for_a_while():
    interposing.disarm()
    own = Tensor.__add__.__code__
    with interposing.handling(Log()):
        pass
    armed = Tensor.__add__.__code__
    assert armed is not own
    for _ in range(interposing.IDLE_CALLS - 10):
        x + x
    assert Tensor.__add__.__code__ is armed
    for _ in range(20):
        x + x
    assert Tensor.__add__.__code__ is own


def test_a_handler_in_another_thread_keeps_functions_armed():
    ready, done, log = threading.Event(), threading.Event(), Log()

    def work():
        with interposing.handling(log):
            ready.set()
            done.wait()
            x * x

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait()
    for _ in range(interposing.IDLE_CALLS + 10):
        x + x
    done.set()
    thread.join()
    assert log.lines == ["aten::mul"]


def test_handlers_that_start_inside_of_a_call_stay():
    log, inner = Log(), Log()

    class Starting(interposing.Observer):
        def before(self, name, args, kwargs):
            if name == "aten::exp":
                interposing.push(inner)

        def after(self, token, name, args, kwargs, result, error):
            if name == "aten::sin":
                interposing.pop(inner)

    with interposing.handling(log), interposing.handling(Starting()):
        x.exp()
        x.cos()
        x.sin()
        x.tan()
    assert inner.lines == ["aten::cos", "aten::sin"]
    assert log.lines == ["aten::exp", "aten::cos", "aten::sin", "aten::tan"]


DATA = [
    (lambda: torch.tensor([1, 2]), "aten::tensor"),
    (lambda: torch.as_tensor([1, 2]), "aten::as_tensor"),
    (lambda: x.tolist(), "flambeau::tolist"),
    (lambda: x.numpy(), "flambeau::numpy"),
    (lambda: torch.from_numpy(x.numpy()), "flambeau::from_numpy"),
    (lambda: torch.from_dlpack(x), "flambeau::from_dlpack"),
    (lambda: torch.frombuffer(bytearray(4), dtype=torch.int32), "flambeau::frombuffer"),
]


@pytest.mark.parametrize("call, name", DATA, ids=[n for _, n in DATA])
def test_data_that_comes_and_goes_is_seen(call, name):
    log = Log("data")
    with interposing.handling(log):
        call()
    assert name in [line.strip() for line in log.lines]


def test_attributes_that_are_read_and_written_are_seen():
    y = torch.ones(2)
    with interposing.handling(Log("property")) as log:
        y.data = torch.zeros(2)
        y.grad = torch.ones(2)
        y.shape  # noqa: B018
    found = [line for line in log.lines if line[0] != " "]
    assert {"aten::set_data", "Tensor.grad.__set__", "Tensor.shape.__get__"} <= set(found)


RULES = {"SGD": "aten::_fused_sgd_", "Adam": "aten::_fused_adam_", "NAdam": "flambeau::nadam_"}


@pytest.mark.parametrize("name", RULES)
def test_updates_of_optimizers_are_seen(name):
    w = torch.ones(3, requires_grad=True)
    optimizer = getattr(torch.optim, name)([w], lr=0.1)
    w.grad = torch.ones(3)
    assert RULES[name] in [line.strip() for line in seen(optimizer.step)]


def test_an_update_can_be_refused():
    w = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)
    w.grad = torch.ones(3)

    def refuse(name, function, args, kwargs):
        return None if name == "aten::_fused_sgd_" else function(*args, **kwargs)

    with interposing.handling(refuse):
        optimizer.step()
    assert w.tolist() == [1, 1, 1]


def test_ops_of_a_library_are_seen():
    @torch.library.custom_op("here::twice", mutates_args=())
    def twice(a: Tensor) -> Tensor:
        return a * 2

    assert seen(lambda: twice(x))[0] == "here::twice"


def test_signatures_of_armed_functions_are_their_own():
    interposing.disarm()
    functions = [torch.zeros_like, nn.Module.__call__, Tensor.backward, torch.optim.SGD.step]
    before = [str(inspect.signature(f)) for f in functions]
    with interposing.handling(Log("method", "module", "optimizer")):
        assert [str(inspect.signature(f)) for f in functions] == before
    interposing.disarm()
    assert [str(inspect.signature(f)) for f in functions] == before
    assert not hasattr(torch.zeros_like, "__wrapped__")


def test_frames_of_armed_functions_can_be_looked_at():
    found = []

    def look(name, function, args, kwargs):
        frame = sys._getframe()
        while frame is not None:
            found.append(dict(frame.f_locals))
            frame = frame.f_back
        return function(*args, **kwargs)

    with interposing.handling(look):
        torch.linalg.norm(x)  # a function with a closure
        x.to(torch.float64)
    assert any("chain" in variables for variables in found)
