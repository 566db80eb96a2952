"""Every kind of guard is needed: without it some program goes wrong. And none is there in vain."""

import re

import pytest

import flambeau
from flambeau._dynamo.guards import GuardWriter
from flambeau._dynamo.testing import CompileCounter
from tests.compile.cases import CASES, numbers
from tests.compile.test_programs import compiler, plain, run

# kind of guard: (what its condition looks like, a program that needs it)
KINDS = {
    "grad mode": (r"^K\d+\.grad is", "grad_mode"),
    "inference mode": (r"^K\d+\.inference is", "inference_mode"),
    "default dtype": (r"^K\d+\.dtype is", "default_dtype"),
    "number of arguments": (r"^len\(args\)", "flags_and_none"),
    "keywords": (r"kwargs", "many_kinds_of_arguments"),
    "types": (r"^type\(v\d+\) is K\d+$", "classes_of_arguments_change"),
    "layouts": (r"_layout is", "dtypes_shapes_strides"),
    "requires_grad": (r"_requires_grad is", "requires_grad_changes"),
    "leaf or not": (r"_grad_fn is", "leaf_or_not"),
    "numbers": (r"^v\d+ is K\d+ or type", "numbers_change"),
    "globals": (r"^v\d+ is K\d+ or type", "globals_change"),
    "variables of closures": (r"^v\d+ is K\d+ or type", "closures_change"),
    "attributes": (r"^v\d+ is K\d+ or type", "objects_change"),
    "functions": (r"^v\d+ is K\d+$", "called_functions_change"),
    "methods of classes": (r"^v\d+ is K\d+$", "module_classes_change"),
    "flags and None": (r"^v\d+ is (None|True|False)$", "modules_change"),
    "training": (r"^v\d+ is (None|True|False)$", "buffers_in_place"),
    "lengths": (r"and len\(v", "lists_change"),
    "keys": (r"tuple\(v\d+\) ==", "lists_change"),
    "absence": (r"not in", "objects_change"),
    "presence": (r"^'\w+' (not )?in", "attributes_appear"),
    "absence on classes": (r"not hasattr", "attributes_appear"),
    "truth of dictionaries": (r"^(not )?v\d+$", "attributes_appear"),
    "sets": (r"^v\d+ == K", "attributes_appear"),
    "hooks of a module": (r"^not \(v", "module_hooks"),
    "hooks of all modules": (r"^not \(K", "module_hooks"),
    "one tensor under two names": (r"^v\d+ is v\d+$", "shared_parameters"),
    "two objects": (r"^v\d+ is not v\d+$", "same_object_or_not"),
    "distinct tensors": (r"^len\(\{id\(v\d+\)", "same_object_or_not"),
}


def without(monkeypatch, pattern):
    """Leave out guards that look like this."""
    require = GuardWriter.require

    def some(self, condition):
        if not re.search(pattern, condition):
            require(self, condition)

    monkeypatch.setattr(GuardWriter, "require", some)


@pytest.mark.parametrize("kind", KINDS)
def test_each_guard_is_needed(kind, monkeypatch):
    pattern, name = KINDS[kind]
    wanted = run(CASES[name], plain)
    without(monkeypatch, pattern)
    try:
        found = run(CASES[name], compiler("eager"))
    except Exception:
        return  # wrong in another way
    assert found != wanted


def graphs_of(function, *calls):
    """How many graphs some calls make."""
    counter = CompileCounter()
    compiled = flambeau.compile(function, backend=counter)
    for args in calls:
        compiled(*args)
    return counter.frame_count


def write(x, y):
    x.add_(1)
    return y * 2


def test_memory_of_what_is_written_to_is_guarded():
    x, y = numbers(flambeau, 4), numbers(flambeau, 4)
    assert graphs_of(write, (x, y), (y, x), (x.clone(), y)) == 1
    view = flambeau.zeros(8)[4:]
    assert graphs_of(write, (x, y), (view, y)) == 2  # a view is not what it was
    assert graphs_of(write, (x, y), (x, x.view_as(x))) == 1  # shared memory is not captured


def test_functions_are_guarded_by_their_code():
    def f(x):
        return x * 2

    def caller(x):
        return f(x)

    x = numbers(flambeau, 3)
    compiled = flambeau.compile(caller)
    compiled(x)
    f.__code__ = (lambda x: x * 7).__code__
    assert flambeau.equal(compiled(x), x * 7)


SAME = {
    "same arguments": lambda x: [(x,), (x,), (x.clone(),)],
    "other numbers": lambda x: [(x,), (x + 1,), (x * 2,)],
    "new memory of a size met before": lambda x: [(x[:2].clone(),), (x[:2] * 1,)],
}


@pytest.mark.parametrize("name", SAME)
def test_nothing_is_read_again_without_need(name):
    def f(x):
        return x.sin() + 1

    assert graphs_of(f, *SAME[name](numbers(flambeau, 4))) == 1


def test_arguments_that_are_not_looked_at_are_not_guarded():
    def f(x, note, flag=None):
        return x + 1

    x = numbers(flambeau, 3)
    calls = [(x, "a"), (x, "b", 3), (x, [1], 4), (x, x, x)]
    assert graphs_of(f, *calls) == 2  # two numbers of arguments


def test_equal_modules_share_what_was_compiled():
    class Block(flambeau.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = flambeau.nn.Linear(3, 3)

        def forward(self, x):
            return self.linear(x).relu()

    blocks = [Block() for _ in range(4)]

    def f(x):
        for block in blocks:
            x = block(x)
            print(end="")
        return x

    assert graphs_of(f, (numbers(flambeau, 2, 3).requires_grad_() * 1,)) == 1


def test_a_limit_for_numbers_but_not_for_sizes():
    def f(x, n):
        return x * n

    x = numbers(flambeau, 64)
    limit = flambeau._dynamo.config.recompile_limit
    with flambeau._dynamo.config.patch(automatic_dynamic_shapes=False):
        assert graphs_of(f, *[(x, n) for n in range(40)]) == limit + 1
        assert graphs_of(f, *[(x[:n], 2) for n in range(1, 60)]) == 59
    assert graphs_of(f, *[(x, n) for n in range(40)]) == 4  # 0, 1, 2, others
    assert graphs_of(f, *[(x[:n], 2) for n in range(1, 60)]) == 2


def test_what_was_compiled_serves_for_all_sizes():
    def f(x):
        return x.sin() * 2 + x.sum()

    made = flambeau.compile(f, backend="eager", dynamic=False)
    for n in range(1, 40):
        x = numbers(flambeau, n)
        assert flambeau.equal(made(x), f(x)) and flambeau.equal(made(x), f(x))
    settings = made._torchdynamo_settings
    assert len(settings.graphs) == 1
    [frame] = settings.frames.values()
    assert len(frame.entries) == 39
    with flambeau._dynamo.config.patch(sizes_limit=10):
        made(numbers(flambeau, 50))
        assert len(frame.entries) == 6
    for n in (3, 30, 50):
        assert flambeau.equal(made(numbers(flambeau, n)), f(numbers(flambeau, n)))


def test_numbers_in_graphs_are_told_apart():
    made = flambeau.compile(lambda x, n: x * n, backend="eager")
    x = flambeau.arange(3)
    for n in (1, 1.0, True, 0.0, -0.0, 2):
        found, wanted = made(x, n), x * n
        assert found.dtype is wanted.dtype and str(found) == str(wanted)


def test_sizes_in_variables_do_not_count_as_numbers():
    def f(x):
        n = len(x)
        print(end="")
        return x * n

    xs = [(numbers(flambeau, n),) for n in range(1, 21)]
    assert graphs_of(f, *xs) == 3


def test_reset_forgets():
    counter = CompileCounter()
    compiled = flambeau.compile(lambda x: x + 1, backend=counter)
    x = numbers(flambeau, 3)
    compiled(x), compiled(x)
    flambeau._dynamo.reset()
    compiled(x)
    assert counter.frame_count == 2


def test_recompiling_may_be_forbidden():
    compiled = flambeau.compile(lambda x: x + 1)
    compiled(numbers(flambeau, 3))
    refused = pytest.raises(flambeau._dynamo.exc.RecompileError)
    with flambeau._dynamo.config.patch(error_on_recompile=True), refused:
        compiled(numbers(flambeau, 4))
