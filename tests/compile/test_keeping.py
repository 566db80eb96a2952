"""Weights that a compiled program has packed are packed anew when they change, in whatever way."""

import pytest

import flambeau as torch
from flambeau.compiler import playing
from flambeau.compiler.program import Program
from flambeau.runtime import cpu

nn = torch.nn


def linear():
    return nn.Linear(256, 96), torch.randn(40, 256)


def far_rows():
    return nn.Linear(1024, 64), torch.randn(64, 1024)


def blocked():
    return nn.Linear(900, 300, bias=False), torch.randn(600, 900)


def halves():
    model, x = linear()
    return model.bfloat16(), x.bfloat16()


def strips():
    return nn.Conv2d(8, 40, 5), torch.randn(3, 8, 40, 40)


def squares():
    return nn.Conv2d(16, 16, 3, padding=1), torch.randn(2, 16, 16, 16)


CASES = [linear, far_rows, blocked, halves, strips, squares]


def program_of(model):
    parameters = list(model.parameters())

    def run(x, *given):
        return (torch.func.functional_call(model, dict(zip(names, given)), (x,)),)

    names = [name for name, _ in model.named_parameters()]
    program = Program(run, 1 + len(names))
    return lambda x: program(x, *parameters)[0], program


def packed_names(program):
    (entry,) = program.entries.values()
    assert type(entry) is playing.Entry, program.reasons
    kept = entry.text.space.get("kept")
    return [] if kept is None else [cpu.name_of(x.definition) for x in kept.tape.kept[0]]


@pytest.mark.parametrize("make", CASES, ids=lambda f: f.__name__)
def test_packed_weights_give_the_same_bits(make):
    torch.manual_seed(0)
    model, x = make()
    call, program = program_of(model)
    with torch.no_grad():
        for _ in range(4):
            assert torch.equal(call(x), model(x))
        assert packed_names(program)
        model.weight.mul_(0.5)
        assert torch.equal(call(x), model(x))
        assert torch.equal(call(x + 1), model(x + 1))


def in_place(model):
    model.weight.mul_(2)


def by_data(model):
    model.weight.data.mul_(2)


def by_array(model):
    model.weight.detach().numpy()[:] = 1.5


def by_another_array(model):
    torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(model.weight.detach())).mul_(2)


def by_storage(model):
    other = torch.randn_like(model.weight)
    model.weight.untyped_storage().copy_(other.untyped_storage())


def another_storage(model):
    model.weight.data = torch.randn_like(model.weight)


def loaded(model):
    model.load_state_dict({k: v * 3 for k, v in model.state_dict().items()})


def stepped(model):
    with torch.enable_grad():
        model(torch.ones(2, 256)).sum().backward()
    torch.optim.SGD(model.parameters(), 0.1).step()


CHANGES = [in_place, by_data, by_array, by_another_array, by_storage, another_storage]
CHANGES += [loaded, stepped]


@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
def test_changes_are_noticed(change):
    torch.manual_seed(0)
    model, x = linear()
    call, program = program_of(model)
    with torch.no_grad():
        for _ in range(3):
            call(x)
        assert packed_names(program) == ["gemm_keeping"]
        for _ in range(3):
            change(model)
            assert torch.equal(call(x), model(x))


def test_views_that_were_taken_before_are_noticed():
    model, x = linear()
    alias, array = model.weight.data, model.weight.detach().numpy()
    call, _ = program_of(model)
    with torch.no_grad():
        for _ in range(3):
            alias.mul_(2)
            assert torch.equal(call(x), model(x))
            array[:] = 0.25
            assert torch.equal(call(x), model(x))


def test_weights_that_want_gradients_are_not_kept():
    model, x = linear()
    call, program = program_of(model)
    for _ in range(4):
        assert torch.equal(call(x), model(x))
    assert packed_names(program) == []


def test_small_weights_are_not_kept():
    model = nn.Linear(16, 8)
    call, program = program_of(model)
    with torch.no_grad():
        for _ in range(4):
            call(torch.randn(4, 16))
    assert packed_names(program) == []
