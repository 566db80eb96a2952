"""Compiled programs give the bits that they give op by op; tapes notice what they cannot repeat."""

import os
import threading

import pytest

import flambeau as torch
from flambeau.compiler import playing, recording
from flambeau.compiler.program import PLAIN, Program
from tests.compile import random_programs

F = torch.nn.functional


def entry_of(program):
    (entry,) = program.entries.values()
    return entry


def taped(function, *inputs):
    """A program that is on tape for these inputs."""
    program = Program(function, len(inputs))
    for _ in range(4):
        program(*inputs)
    assert program.reasons == []
    assert type(entry_of(program)) is playing.Entry
    return program


@pytest.mark.parametrize("seed", [*range(40), *range(100_000, 100_010)])
def test_random_programs_give_the_same_bits(seed):
    wrong, _ = random_programs.check(seed)
    assert wrong is None, wrong


@pytest.mark.slow
def test_thousands_of_random_programs_give_the_same_bits():
    assert random_programs.main(10_000, 3000) == 0
    assert random_programs.main(random_programs.JOINING, 500) == 0


def test_pointwise_launches_become_one():
    program = taped(lambda x: (torch.relu(x * 2 + 1).sub(3),), torch.randn(40, 5))
    (launches, *_) = entry_of(program).tape.kept
    assert len(launches) == 1


def test_a_broadcast_operand_joins_too():
    x, b = torch.randn(40, 5), torch.randn(5)
    program = taped(lambda x, b: (torch.tanh(x * 2) + b,), x, b)
    assert len(entry_of(program).tape.kept[0]) == 1
    assert torch.equal(program(x, b)[0], torch.tanh(x * 2) + b)


def test_what_is_read_in_between_is_stored():
    x = torch.randn(30, 30)

    def f(x):
        y = x * 2
        return (y @ x + y,)

    program = taped(f, x)
    assert torch.equal(program(x)[0], f(x)[0])


def test_new_sizes_make_tapes_but_no_kernels():
    from flambeau.eager import kernels

    program = Program(lambda x: (torch.sin(x) * x + 1,), 1)
    for n in (5, 5):
        program(torch.randn(n))
    kernels.compile_log = []
    try:
        for n in (6, 6, 7, 7):
            x = torch.randn(n)
            assert torch.equal(program(x)[0], torch.sin(x) * x + 1)
        assert kernels.compile_log == []
    finally:
        kernels.compile_log = None
    assert len(program.entries) == 3


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x: (x[x > 0],), "gives a number to Python"),
        (lambda x: (x * x.sum().item(),), "gives a number to Python"),
        (lambda x: (x + torch.tensor([1.0]),), "outside of kernels"),
        (lambda x: (torch.linalg.svd(x)[1],), "outside of kernels"),
    ],
)
def test_what_cannot_be_repeated_runs_op_by_op(function, why):
    program = Program(function, 1)
    for _ in range(3):
        x = torch.randn(4, 4)
        assert torch.equal(program(x)[0], function(x)[0])
    assert entry_of(program) is PLAIN
    assert why in program.reasons[0]


def test_memory_that_nobody_knows_spoils_a_tape():
    secret = torch.ones(3)
    program = Program(lambda x: (x + secret,), 1)
    for _ in range(5):
        assert program(torch.zeros(3))[0].tolist() == [1, 1, 1]
    assert entry_of(program) is PLAIN
    secret.fill_(2)
    assert program(torch.zeros(3))[0].tolist() == [2, 2, 2]


def test_arguments_are_written_once_per_call():
    x = torch.zeros(4)
    program = Program(lambda x, y: (x.add_(y),), 2)
    for turn in range(1, 5):
        (out,) = program(x, torch.ones(4))
        assert x.tolist() == [turn] * 4
        assert x._version == turn
        assert out.data_ptr() == x.data_ptr()


def test_running_statistics_move_once_per_call():
    plain, compiled = torch.nn.BatchNorm1d(3), torch.nn.BatchNorm1d(3)

    def f(x, mean, var):
        return (F.batch_norm(x, mean, var, training=True),)

    program = Program(f, 3)
    for k in range(4):
        x = torch.randn(5, 3, generator=torch.Generator().manual_seed(k))
        expected = f(x, plain.running_mean, plain.running_var)[0]
        found = program(x, compiled.running_mean, compiled.running_var)[0]
        assert torch.equal(expected, found)
        assert torch.equal(plain.running_mean, compiled.running_mean)
        assert torch.equal(plain.running_var, compiled.running_var)


def test_draws_are_those_of_eager_mode():
    program = Program(lambda x: (F.dropout(x, 0.5) + torch.randn(6),), 1)
    torch.manual_seed(3)
    expected = [F.dropout(torch.ones(6), 0.5) + torch.randn(6) for _ in range(4)]
    torch.manual_seed(3)
    found = [program(torch.ones(6))[0] for _ in range(4)]
    assert program.reasons == []
    assert all(torch.equal(a, b) for a, b in zip(expected, found))


def test_results_of_earlier_calls_stay():
    program = taped(lambda x: (x * 2, x + 1), torch.randn(5))
    first = program(torch.ones(5))
    program(torch.zeros(5))
    assert first[0].tolist() == [2] * 5
    assert first[1].tolist() == [2] * 5


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def test_several_calls_may_wait_for_backward():
    program = taped(lambda x: (torch.sin(x) * x,), leaf(5))
    xs = [leaf(5) for _ in range(3)]
    outs = [program(x)[0] for x in xs]
    for x, out in reversed(list(zip(xs, outs))):
        out.sum().backward()
        y = x.detach().requires_grad_()
        (torch.sin(y) * y).sum().backward()
        assert torch.equal(x.grad, y.grad)


def test_changes_of_saved_values_are_noticed():
    x, w = leaf(5), torch.ones(5)
    program = taped(lambda x, w: (x * w,), x, w)
    (out,) = program(x, w)
    w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_backward_a_second_time_needs_the_graph():
    program = taped(lambda x: (x.exp(),), leaf(5))
    x = leaf(5)
    (out,) = program(x)
    out.sum().backward(retain_graph=True)
    once = x.grad.clone()
    out.sum().backward()
    assert torch.equal(x.grad, 2 * once)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        out.sum().backward()


def test_gradients_come_in_any_layout_or_not_at_all():
    def f(x):
        return x.sin(), x.cos()

    program = taped(f, leaf(4, 3))
    x = leaf(4, 3)
    a, b = program(x)
    a.sum().backward()  # one value, expanded; nothing for b
    assert torch.equal(x.grad, x.detach().cos())
    x.grad = None
    a, b = program(x)
    b.backward(torch.ones(3, 4).t())
    assert torch.equal(x.grad, -x.detach().sin())


def test_history_goes_through():
    x = leaf(5)
    program = taped(lambda h: (h * h,), (x * 1))
    h = x * 3
    program(h)[0].sum().backward()
    assert torch.allclose(x.grad, 18 * x.detach())


def test_backward_can_be_differentiated():
    x = leaf(3)
    program = taped(lambda x: (x**3,), x)
    (slope,) = torch.autograd.grad(program(x)[0].sum(), x, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), x)
    assert torch.allclose(bend, 6 * x.detach())


def test_double_backward_of_draws_is_refused():
    x = leaf(3)
    program = taped(lambda x: (F.dropout(x, 0.5) ** 2,), x)
    with pytest.raises(RuntimeError, match="double backward"):
        torch.autograd.grad(program(x)[0].sum(), x, create_graph=True)


def test_hooks_on_saved_tensors_see_them():
    program = taped(lambda x: (x.exp(),), leaf(3))
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        program(leaf(3))[0].sum().backward()
    assert packed


def test_tapes_keep_no_memory_of_the_dry_run():
    import gc

    from flambeau.storage import Storage

    def large():
        gc.collect()
        found = [s for s in gc.get_objects() if type(s) is Storage and s.nbytes == 4 * 12_345]
        return len(found)

    w = leaf(12_345)
    before = large()
    assert before == 1
    program = taped(lambda w: ((w.sin() * w).exp(),), w)
    for _ in range(3):
        program(w)[0].sum().backward()
    w.grad = None
    assert large() == before


def test_memory_in_cycles_is_known_to_be_free(monkeypatch):
    """A write to a value that a derivative keeps makes a cycle, which is freed some time later."""
    import gc

    from flambeau.compiler import program as programs

    filled = programs.filled

    def filled_later(*arguments):
        gc.collect()
        return filled(*arguments)

    def f(x):
        y = F.silu(x)
        y.mul_(F.gelu(y).mean())  # of which nothing is returned
        return (torch.softmax(x, -1),)

    monkeypatch.setattr(programs, "filled", filled_later)
    x, g = leaf(64, 33), torch.randn(64, 33)
    program = taped(f, x)
    (wanted,) = torch.autograd.grad(f(x), x, g)
    (found,) = torch.autograd.grad(program(x), x, g)
    assert torch.equal(found, wanted)


def test_threads_take_turns():
    program = taped(lambda x: ((x @ x).relu().sum(0),), torch.randn(80, 80))
    wrong = []

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        for _ in range(50):
            x = torch.randn(80, 80, generator=generator)
            if not torch.equal(program(x)[0], (x @ x).relu().sum(0)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_forked_processes_play_and_record():
    program = taped(lambda x: (x * 2 + 1,), torch.ones(5))
    child = os.fork()
    if child == 0:
        good = program(torch.ones(5))[0].tolist() == [3.0] * 5
        fresh = Program(lambda x: (x * 3 - 1,), 1)
        good = good and all(fresh(torch.ones(4))[0].tolist() == [2.0] * 4 for _ in range(3))
        os._exit(0 if good and fresh.reasons == [] else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_program_within_a_program():
    inner = Program(lambda x: (x * 2,), 1)
    outer = Program(lambda x: (inner(x)[0] + 1,), 1)
    for _ in range(4):
        assert outer(torch.ones(3))[0].tolist() == [3, 3, 3]
    assert outer.reasons == []
    inner = taped(lambda x: (x * 2,), torch.ones(3))  # this one has a tape of its own
    outer = taped(lambda x: (inner(x)[0] + 1,), torch.ones(3))
    assert outer(torch.ones(3))[0].tolist() == [3, 3, 3]


def test_errors_are_those_of_the_plain_call():
    program = Program(lambda i, w: (F.embedding(i, w),), 2)
    w = torch.randn(4, 2)
    for _ in range(3):
        program(torch.tensor([1, 2]), w)
    with pytest.raises(IndexError):
        program(torch.tensor([1, 9]), w)
    assert torch.equal(program(torch.tensor([1, 3]), w)[0], w[[1, 3]])


def test_nothing_is_recorded_while_others_do():
    with recording._lock:
        assert recording.is_active()
        program = Program(lambda x: (x + 1,), 1)
        for _ in range(3):
            assert program(torch.zeros(2))[0].tolist() == [1, 1]
    program(torch.zeros(2))
    assert entry_of(program) is not PLAIN


# -- whole steps -----------------------------------------------------------------------------------


def stepper(loss_of, params, compiled):
    """A training step over some parameters, plain or compiled; returns the loss."""
    opt = torch.optim.SGD(params, 0.1, momentum=0.5)

    def step(x):
        opt.zero_grad()
        loss = loss_of(x)
        loss.backward()
        opt.step()
        return loss.detach()

    return torch.compile(step) if compiled else step


def shared_gradient(a, b):
    return lambda x: ((a + b) * x).sum()


def unused(a, b):
    return lambda x: (a * x).sin().sum()


def twice(a, b):
    return lambda x: (a * x + a * b).tanh().mean()


@pytest.mark.parametrize("make", [shared_gradient, unused, twice])
def test_steps_change_parameters_as_plain_ones(make):
    ends = []
    for compiled in (False, True):
        torch.manual_seed(1)
        a, b = leaf(4), leaf(4)
        step = stepper(make(a, b), [a, b], compiled)
        losses = [step(torch.ones(4) * k) for k in range(5)]
        grads = [p.grad if p.grad is None else p.grad.clone() for p in (a, b)]
        if a.grad is not None and b.grad is not None:
            assert a.grad.data_ptr() != b.grad.data_ptr()
        ends.append([*losses, a.detach(), b.detach(), *grads])
    for plain, found in zip(*ends):
        assert (plain is None and found is None) or torch.equal(plain, found)


def test_gradients_add_up_without_zero_grad():
    a = leaf(4)

    @torch.compile
    def step(x):
        loss = (a * x).sum()
        loss.backward()
        return loss

    for _ in range(5):
        step(torch.ones(4))
    assert a.grad.tolist() == [5.0] * 4


def test_a_schedule_changes_the_next_step():
    a = leaf(2)
    opt = torch.optim.SGD([a], 0.5)

    @torch.compile
    def step(x):
        opt.zero_grad()
        (a * x).sum().backward()
        opt.step()

    for k in range(5):
        before = a.detach().clone()
        opt.param_groups[0]["lr"] = 1.0 / (k + 1)
        step(torch.ones(2))
        assert torch.allclose(before - a.detach(), torch.full((2,), 1.0 / (k + 1)))


def test_a_step_may_start_from_a_gradient():
    a, b = leaf(4), None

    def step(x, g):
        y = (a * x).sin()
        y.backward(g)
        return y.detach()

    compiled = torch.compile(step)
    for k in range(5):
        x, g = torch.ones(4) * k, torch.arange(4.0) + k
        found, a.grad = (compiled(x, g), a.grad), None
        b, a.grad = (step(x, g), a.grad), None
        assert torch.equal(found[0], b[0])
        assert torch.equal(found[1], b[1])


def test_inference_mode_plays_tapes():
    program = Program(lambda x: (x * 2,), 1)
    with torch.inference_mode():
        for _ in range(3):
            assert program(leaf(3))[0].requires_grad is False
    assert type(entry_of(program)) is playing.Entry
