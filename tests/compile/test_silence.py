"""Recordings that run no kernel: where that is possible, and what happens where it is not."""

import ctypes

import pytest

import flambeau as torch
from flambeau.compiler import playing, recording
from flambeau.compiler.program import PLAIN, Program
from flambeau.runtime.allocator import Allocator, room_in, size_class

F = torch.nn.functional


@pytest.fixture
def runs(monkeypatch):
    """Whether recordings were silent, and what came of them."""
    found = []
    plain = recording.Recording.run

    def run(self, function, silent=False):
        try:
            result = plain(self, function, silent)
        except Exception as error:
            found.append((silent, type(error).__name__))
            raise
        found.append((silent, "recorded"))
        return result

    monkeypatch.setattr(recording.Recording, "run", run)
    return found


def called(function, *inputs, times=3):
    """(program, its results of the last call)."""
    program = Program(function, len(inputs))
    for _ in range(times):
        outs = program(*inputs)
    return program, outs


def entry_of(program):
    (entry,) = program.entries.values()
    return entry


def test_known_kernels_are_noted_only(runs):
    x, w = torch.randn(6, 5), torch.randn(4, 5, requires_grad=True)
    program, (out,) = called(lambda x, w: (F.linear(x, w).relu().sum(),), x, w)
    assert type(entry_of(program)) is playing.Entry
    assert runs == [(True, "recorded"), (True, "recorded")]  # there and back
    assert torch.equal(out, F.linear(x, w).relu().sum())


def test_nothing_is_written_while_it_is_noted():
    """Memory of the dry run stays as it was."""
    seen = []

    def f(x):
        y = x * 2 + 1
        if recording.is_active():
            address = y._storage.pointer
            seen.append(bytes(ctypes.string_at(address, 16)))
        return (y,)

    _, (out,) = called(f, torch.ones(4))
    assert len(seen) == 1 and seen[0] != bytes(torch.full((4,), 3.0).numpy())
    assert out.tolist() == [3, 3, 3, 3]


@pytest.mark.parametrize(
    "function",
    [lambda x: (x.sort()[0] * 2,), lambda x: (torch.special.i0(x).topk(3)[0],)],
)
def test_an_unknown_kernel_runs(runs, function):
    x = torch.randn(4, 9)
    program, (out,) = called(function, x)
    assert type(entry_of(program)) is playing.Entry
    assert runs == [(True, "Unheard"), (False, "recorded")]
    assert torch.equal(out, function(x)[0])


def test_an_unknown_kernel_on_the_way_back_runs_both_ways(runs):
    x = torch.randn(5, requires_grad=True)
    program = Program(lambda x: (x.cumprod(0),), 1)
    for _ in range(3):
        (out,) = program(x)
        x.grad = None
        out.sum().backward()
    found = x.grad
    x.grad = None
    x.cumprod(0).sum().backward()
    assert torch.equal(found, x.grad)
    assert (False, "recorded") in runs


def test_a_value_that_is_looked_at_ends_it(runs):
    program, (out,) = called(lambda x: (x * float(x.numpy()[0]),), torch.full((3,), 2.0))
    assert entry_of(program) is PLAIN and out.tolist() == [4, 4, 4]
    assert runs == [(True, "Spoiled")]


def test_what_an_error_says_is_what_the_op_says(runs):
    table = torch.randn(4, 2)
    program = Program(lambda table, at: (table[at] * 2,), 2)
    for _ in range(3):
        program(table, torch.tensor([1, 3]))
    assert runs == [(True, "recorded")]
    with pytest.raises(IndexError, match="out of bounds"):
        program(table, torch.tensor([1, 9]))


def test_arguments_that_are_written_are_noticed(runs):
    mean, var = torch.zeros(3), torch.ones(3)

    def f(x, mean, var, total):
        total.add_(1)
        return (F.batch_norm(x, mean, var, training=True),)

    total = torch.zeros(2)
    program, _ = called(f, torch.randn(5, 3), mean, var, total)
    assert runs == [(True, "recorded")]
    assert sorted(entry_of(program).written) == [1, 2, 3]
    assert total.tolist() == [3, 3]


def test_draws_are_noted_and_made_later(runs):
    def f(x):
        return (x + torch.rand(4) + torch.randn(20)[:4] + F.dropout(x, 0.5),)

    x = torch.ones(4)
    torch.manual_seed(5)
    _, (out,) = called(f, x)
    assert runs == [(True, "recorded")]
    torch.manual_seed(5)
    for _ in range(3):
        (expected,) = f(x)
    assert torch.equal(out, expected)


kept: dict = {}


def remembering(x):
    """A function of a user that keeps what it computed, every second time."""
    kept["calls"] = kept.get("calls", 0) + 1
    if kept["calls"] == 2:
        kept["ones"] = torch.ones(3) * 2
    return x * 2


def test_functions_of_users_run(runs):
    torch._dynamo.allow_in_graph(remembering)

    @torch.compile
    def f(x):
        return remembering(x) + 1

    for _ in range(3):
        assert f(torch.ones(3)).tolist() == [3, 3, 3]
    assert runs == [(False, "recorded")]
    assert kept["ones"].tolist() == [2, 2, 2]


def test_memory_that_nobody_touched_is_handed_out_last():
    x = torch.randn(300, 300)
    program = Program(lambda x: ((x * 2) @ x,), 1)
    program(x)
    touched = torch.empty(300, 300)._storage.pointer
    program(x)
    assert torch.empty(300, 300)._storage.pointer == touched


def test_large_blocks_are_pieces_of_their_own():
    x, w = torch.randn(300, 300), torch.randn(300, 300, requires_grad=True)
    program = Program(lambda x, w: (torch.tanh((x @ w).sin() @ w).sum(),), 2)
    for _ in range(3):
        (out,) = program(x, w)
        w.grad = None
        out.backward()
    memory = entry_of(program).text.memory
    assert memory.alone and memory.size < playing.LARGE
    found, w.grad = w.grad, None
    torch.tanh((x @ w).sin() @ w).sum().backward()
    assert torch.equal(found, w.grad)


@pytest.mark.parametrize("nbytes", [1, 64, 1000, 4000, 4096, 4097, 1 << 17, 1 << 20, (1 << 20) + 1])
def test_the_room_in_a_pool_comes_from_that_pool(nbytes):
    size = size_class(nbytes)
    assert nbytes <= room_in(size) <= size
    assert Allocator().pool_for(room_in(size)).size == size
