"""Sizes that change: a program is read once for one size, once for all others."""

import gc
import math
import operator

import pytest

import flambeau
import flambeau.nn.functional as F
from flambeau import _dynamo, nn
from flambeau._dynamo.testing import CompileCounter, CompileCounterWithBackend
from flambeau._dynamo.utils import counters
from flambeau.fx.experimental.symbolic_shapes import ConstraintViolationError
from tests.compile.test_programs import seen

WEIGHT = flambeau.arange(24.0).reshape(6, 4) / 24


def numbers(*shape):
    return flambeau.arange(float(math.prod(shape))).reshape(shape) * 0.01 - 1


def heads(x):
    b, t, c = x.size()
    q = x.view(b, t, 2, c // 2).transpose(1, 2)
    scores = (q @ q.transpose(-1, -2)) / math.sqrt(q.size(-1))
    mask = flambeau.ones(t, t, dtype=flambeau.bool).tril()
    y = scores.masked_fill(~mask, -math.inf).softmax(-1) @ q
    return y.transpose(1, 2).contiguous().view(b, t, c)


def ints_and_lists(x):
    total = [x.shape[0], x.numel(), len(x), x.shape]
    return x.sum(0), total, {"half": x.shape[0] // 2, "mean": x.numel() / x.shape[0]}


def in_place(x):
    y = x.clone()
    y[: x.shape[0] // 2] += 1
    y.mul_(2)
    return y, y.shape[0] * 2


def between(x):
    n = x.shape[0]
    y = x * n
    _dynamo.graph_break()
    return y.view(n, -1) + n, flambeau.arange(n)


def nested(x):
    def count(t):
        return t.size(0) + 1

    parts = [x[k : count(x) - 3 + k] for k in range(2)]
    return flambeau.cat(parts), flambeau.stack([p.mean() for p in parts])


# name -> (function of a tensor, shape of it for n, most readings of any one piece)
PROGRAMS = {
    "pointwise": (lambda x: x.sin() * 2 + x, lambda n: (n, 3)),
    "view": (lambda x: x.view(-1, x.shape[0]).t() + 1, lambda n: (n, 4)),
    "reshape": (lambda x: x.reshape(x.shape[0] * 2, -1).sum(1), lambda n: (n, 4)),
    "expand": (lambda x: x[:, None].expand(x.shape[0], 3) * 2, lambda n: (n,)),
    "arange": (lambda x: x + flambeau.arange(x.size(0), dtype=x.dtype), lambda n: (n,)),
    "made": (lambda x: flambeau.zeros(x.shape) + x.new_ones(x.size(0), 1), lambda n: (n, 3)),
    "linear": (lambda x: F.relu(F.linear(x, WEIGHT.t().contiguous())), lambda n: (n, 6)),
    "mean by hand": (lambda x: x.sum() / x.numel() + x.shape[0], lambda n: (n, 2)),
    "slices": (lambda x: x[1 : x.shape[0] - 1] - x[2:], lambda n: (n, 2)),
    "two sizes": (lambda x: x.transpose(0, 1).reshape(-1) * x.shape[1], lambda n: (n, n + 1)),
    "pooling": (lambda x: F.max_pool1d(x, 2).mean(-1), lambda n: (2, 3, n + 3)),
    "convolution": (lambda x: F.conv1d(x, WEIGHT[:2].view(2, 2, 2)), lambda n: (1, 2, n + 2)),
    "attention": (heads, lambda n: (2, n, 8)),
    "sort": (lambda x: x.sort(0, descending=True), lambda n: (n, 2)),
    "cumsum": (lambda x: x.cumsum(0).flip(0), lambda n: (n, 2)),
    "in place": (in_place, lambda n: (n, 2)),
    "numbers": (ints_and_lists, lambda n: (n, 2)),
    "break": (between, lambda n: (n, 2)),
    "nested": (nested, lambda n: (n + 4, 2)),
    "random": (lambda x: F.dropout(x, 0.5) + flambeau.rand(x.shape[0], 2), lambda n: (n, 2)),
    "steps": (lambda x: x[: x.shape[0] // 2 * 2].view(-1, 2, 2).sum(1), lambda n: (n, 2)),
}


def compared(function, made, x):
    flambeau.manual_seed(1)
    wanted = function(x.clone())
    flambeau.manual_seed(1)
    found = made(x.clone())
    assert seen(found) == seen(wanted)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_read_twice_for_all_sizes(name, backend):
    function, shape = PROGRAMS[name]
    counter = CompileCounterWithBackend(backend)
    counter.takes_any_size = True
    made = flambeau.compile(function, backend=counter)
    pieces = 2 if name == "break" else 1
    for n in (5, 8, 3, 17, 8, 30, 8, 2, 11):
        compared(function, made, numbers(*shape(n)))
    assert counter.frame_count <= 2 * pieces


def test_two_hundred_sizes():
    model = nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5), nn.GELU(), nn.Linear(5, 2))
    made = flambeau.compile(model)
    counters.clear()
    for n in range(2, 202):
        x = numbers(n, 3).requires_grad_()
        y = made(x)
        wanted = model(x)
        assert flambeau.equal(y, wanted)
        if n % 10 == 0:
            again = [flambeau.autograd.grad(f(x).pow(2).sum(), x)[0] for f in (made, made, model)]
            assert flambeau.equal(again[0], again[2]) and flambeau.equal(again[1], again[2])
    assert counters["frames"]["total"] == 2


def test_memory_stays_flat():
    from flambeau.compiler.program import ENTRIES, Program

    def function(x):
        return (x * 2).cumsum(0)[: x.shape[0] // 2]

    made = flambeau.compile(function)
    for n in range(2, 202):
        made(numbers(n, 2))
        made(numbers(n, 2))
    programs = [p for p in gc.get_objects() if type(p) is Program]
    assert all(len(p.entries) <= ENTRIES for p in programs)
    frame = made._torchdynamo_settings.frames[function.__code__]
    assert len(frame.entries) == 2 and len(frame.by_layouts) <= 4


def test_a_training_step_with_other_batches():
    def trained(compile):
        flambeau.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        optimizer = flambeau.optim.Adam(model.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = (model(x).squeeze(1) - x.sum(1)).pow(2).sum() / x.shape[0]
            loss.backward()
            optimizer.step()
            return loss

        made = compile(step)
        losses = [made(numbers(n, 4)).item() for n in (4, 6, 6, 6, 5, 9, 5, 5, 9, 9, 3)]
        return losses, [p.tolist() for p in model.parameters()]

    counters.clear()
    assert trained(flambeau.compile) == trained(lambda f: f)
    assert counters["frames"]["total"] == 2


# -- what a program decides by sizes ---------------------------------------------------------------


def small_or_large(x):
    return x + 1 if x.shape[0] > 10 else x * 2


def only_four(x):
    return x + 1 if x.shape[0] == 4 else x * 2


def a_loop(x):
    total = x[0]
    for k in range(1, x.shape[0]):
        total = total + x[k] * k
    return total


def a_text(x):
    return x + 1, f"{x.shape[0]} rows"


def rows(x):
    return [row * 2 for row in x]


def least(x):
    return x[:5].sum() / min(x.shape[0], 5)


def a_slice_that_ends(x):
    y = x[:6]
    return y.view(2, -1) if y.shape[0] == 6 else y


def contiguous_or_not(x):
    return x + 1 if x.is_contiguous() else x * 2


def squeezed(x):
    y = x[: x.shape[0] - 3].squeeze()
    return y.dim() * y


# name -> (function, how often it is read at most for these sizes)
DECISIONS = {
    "a branch": (small_or_large, 3),
    "equality": (only_four, 4),
    "a loop": (a_loop, 8),
    "a text": (a_text, 8),
    "rows": (rows, 8),
    "the least of two": (least, 3),
    "a slice that ends": (a_slice_that_ends, 3),
    "contiguous": (contiguous_or_not, 2),
    "a size of one": (squeezed, 3),
}


@pytest.mark.parametrize("name", DECISIONS)
def test_decisions_are_guarded(name):
    function, most = DECISIONS[name]
    counters.clear()
    made = flambeau.compile(function)
    for n in (4, 12, 6, 4, 20, 5, 12, 8, 5, 4):
        compared(function, made, numbers(n, 2))
    assert counters["frames"]["total"] <= most


def test_many_decisions_end_in_plain_sizes():
    made = flambeau.compile(a_loop)
    for n in range(2, 40):
        compared(a_loop, made, numbers(n, 2))
        compared(a_loop, made, numbers(n, 2))
    frame = made._torchdynamo_settings.frames[a_loop.__code__]
    assert sum(entry.varies for entry in frame.entries) <= _dynamo.config.recompile_limit + 1


def test_other_things_than_sizes_are_guarded():
    def function(x):
        return x * x.shape[0]

    made = flambeau.compile(function)
    cases = [
        numbers(3, 2), numbers(4, 2), numbers(5, 2).double(), numbers(6, 2).t(), numbers(7),
        numbers(2, 5), numbers(4, 2).requires_grad_(), numbers(8, 2, 2), numbers(0, 2),
        numbers(1, 2), flambeau.arange(6).view(3, 2),
    ]  # fmt: skip
    for x in cases * 2:
        assert seen(made(x)) == seen(function(x))


# -- numbers among arguments -----------------------------------------------------------------------


def with_number(x, n):
    return x * n + flambeau.arange(4) // n, n + 1


@pytest.mark.parametrize("kind", [int, float])
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_numbers_vary(kind, backend):
    counters.clear()
    made = flambeau.compile(with_number, backend=backend)
    x = numbers(4)
    for n in (2, 3, 4, 9, 3, 3, 50, 1, 4):
        assert seen(made(x, kind(n))) == seen(with_number(x, kind(n)))
    assert counters["frames"]["total"] == 3  # 2, the others, 1


def test_numbers_that_are_decided_by():
    def function(x, n):
        return x + n if n > 5 else x - n

    counters.clear()
    made = flambeau.compile(function)
    for n in range(2, 20):
        assert seen(made(WEIGHT, n)) == seen(function(WEIGHT, n))
    assert counters["frames"]["total"] == 3


# -- what users say --------------------------------------------------------------------------------


def read_by(options, *sizes, mark=None):
    counter = CompileCounter()
    made = flambeau.compile(lambda x: x * x.shape[0], backend=counter, **options)
    for n in sizes:
        x = numbers(n, 2)
        if mark is not None:
            mark(x, 0)
        made(x)
    return counter.frame_count


SAID = {
    "nothing": ({}, None, 2),
    "dynamic": ({"dynamic": True}, None, 1),
    "static": ({"dynamic": False}, None, 6),
    "marked": ({}, _dynamo.mark_dynamic, 1),
    "perhaps": ({}, _dynamo.maybe_mark_dynamic, 1),
    "marked as static": ({}, _dynamo.mark_static, 6),
    "marked, static by option": ({"dynamic": False}, _dynamo.mark_dynamic, 1),
}


@pytest.mark.parametrize("name", SAID)
def test_what_is_said_of_sizes(name):
    options, mark, count = SAID[name]
    assert read_by(options, 3, 4, 5, 6, 7, 8, mark=mark) == count


SETTINGS = {
    "automatic_dynamic_shapes": (False, 4),
    "assume_static_by_default": (False, 1),
    "dynamic_shapes": (False, 4),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings(name):
    value, count = SETTINGS[name]
    with _dynamo.config.patch({name: value}):
        assert read_by({}, 3, 4, 5, 6) == count


SPECIALISED = {
    "a branch": lambda x: x + 1 if x.shape[0] == 4 else x,
    "a loop": a_loop,
    "another tensor": lambda x: x + WEIGHT[:4, :2],
    "a list": lambda x: [1, 2, 3, 4, 5][x.shape[0]] * x,
}


@pytest.mark.parametrize("name", SPECIALISED)
def test_a_marked_size_must_be_free(name):
    x = numbers(4, 2)
    _dynamo.mark_dynamic(x, 0)
    with pytest.raises(
        ConstraintViolationError, match=r"Constraints violated \(L\['x'\]\.size\(\)\[0\]\)"
    ):
        flambeau.compile(SPECIALISED[name])(x)
    y = numbers(4, 2)
    _dynamo.maybe_mark_dynamic(y, 0)
    assert seen(flambeau.compile(SPECIALISED[name])(y)) == seen(SPECIALISED[name](y))


def test_marked_sizes_that_must_be_equal():
    x, y = numbers(4, 2), numbers(4, 2)
    for t in (x, y):
        _dynamo.mark_dynamic(t, 0)
    assert seen(flambeau.compile(operator.add)(x, y)) == seen(x + y)
