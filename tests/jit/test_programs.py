"""Programs from source: they compute what Python computes, and read as PyTorch's do."""

import io
import json
import warnings

import pytest

import flambeau as torch
from flambeau.jit import frontend
from tests.jit.loading import HERE, close, copied_inputs, fill, normal_graph, plain, programs

P = programs()
ALL = [*P.FUNCTIONS, *P.MODULES]
NAMES = [program.__name__ for program, _ in ALL]
TEXTS = json.loads((HERE / "texts.json").read_text())

# Jumps out of loops, refined names in conditions, scalars written to tensors and lengths of tuples
# are said with other nodes; unions list their types in another order.
OTHER_CODE = set("""loops search nested_returns optionals unions anything indexing tuples maths
Recurrent Helpers Mixed beam_search suppression CellLayer Gpt""".split())  # fmt: skip


def scripted(program):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(fill(program()).eval() if isinstance(program, type) else program)


def by_python(program, inputs):
    """What Python computes; where it cannot run a script, what the script is known to give."""
    if program.__name__ == "scripted_or_not":
        return [plain(x + 1) for (x,) in inputs]
    if program.__name__ == "maths":  # numbers that scripts round to floats
        return [plain((*found[:6], float(found[6]), *found[7:])) for found in
                (program(*i) for i in inputs)]  # fmt: skip
    if program.__name__ == "arithmetic":
        found = [list(program(*i)) for i in inputs]
        return [plain([*f[:10], float(f[10]), *f[11:]]) for f in found]
    model = fill(program()).eval() if isinstance(program, type) else program
    found = [plain(model(*copied_inputs(i))) for i in inputs]
    if program.__name__ in ("shapes", "tuples"):
        return json.loads(json.dumps(found))
    return found


@pytest.mark.parametrize(("program", "inputs"), ALL, ids=NAMES)
def test_a_script_computes_what_python_computes(program, inputs):
    made = scripted(program)
    found = [plain(made(*copied_inputs(i))) for i in inputs()]
    assert close(by_python(program, inputs()), found)


@pytest.mark.parametrize(("program", "inputs"), ALL, ids=NAMES)
def test_a_saved_script_computes_the_same(program, inputs):
    file = io.BytesIO()
    torch.jit.save(scripted(program), file)
    file.seek(0)
    made = torch.jit.load(file)
    wanted = scripted(program)
    for given in inputs():
        assert close(plain(wanted(*copied_inputs(given))), plain(made(*copied_inputs(given))))


@pytest.mark.parametrize("name", [n for n in NAMES if n not in OTHER_CODE])
def test_code_reads_as_pytorchs(name):
    assert scripted(vars(P)[name]).code == TEXTS["code"][name]


SAME_GRAPHS = """arithmetic branches early containers strings classes shapes functionals asserts
casts calls zips scripted_or_not in_place typed_comment chained empties grads_off Mlp ConvNet ResNet
Attributes Dicts Encoder Attention"""


@pytest.mark.parametrize("name", SAME_GRAPHS.split())
def test_graphs_read_as_pytorchs(name):
    made = scripted(vars(P)[name])
    made.graph.lint()
    assert normal_graph(str(made.graph)) == TEXTS["graph"][name]


@pytest.mark.parametrize("name", NAMES)
def test_graphs_are_in_order(name):
    made = scripted(vars(P)[name])
    made.graph.lint()
    made.inlined_graph.lint()
    assert not made.inlined_graph.findAllNodes("prim::CallFunction")


BAD = programs(name="bad_programs")


@pytest.mark.parametrize("name", list(TEXTS["errors"]))
def test_errors_are_pytorchs(name):
    kind, first = TEXTS["errors"][name]
    with pytest.raises(getattr(frontend, kind, RuntimeError)) as caught:
        torch.jit.script(vars(BAD)[name])
    assert str(caught.value).strip().splitlines()[0].strip() == first
    assert "<--- HERE" in str(caught.value)


CALLS = [
    ((1, 2), {}, "scale() Expected a value of type 'Tensor (inferred)' for argument 'x'"),
    ((torch.ones(1), "a"), {}, "scale() Expected a value of type 'int' for argument 'n'"),
    ((torch.ones(1),), {}, "scale() is missing value for argument 'n'. Declaration:"),
    ((torch.ones(1), 1, 2), {}, "scale() expected at most 2 argument(s) but received 3"),
    ((torch.ones(1), 1), {"m": 3}, "Unknown keyword argument 'm' for operator 'scale'"),
]


def scale(x, n: int):
    return x * n


@pytest.mark.parametrize(("args", "kwargs", "start"), CALLS)
def test_arguments_are_checked(args, kwargs, start):
    with pytest.raises(RuntimeError) as caught:
        torch.jit.script(scale)(*args, **kwargs)
    assert str(caught.value).startswith(start)


def test_what_a_script_raises_is_an_error_with_its_place():
    made = scripted(P.asserts)
    with pytest.raises(torch.jit.Error, match="AssertionError: bad -1"):
        made(torch.ones(1), -1)
    with pytest.raises(torch.jit.Error, match=r"builtins.ValueError: too large"):
        made(torch.ones(1), 1000)


def test_gradients_go_through_scripts():
    made = scripted(P.Mlp)
    x = P.ramp(2, 4).requires_grad_()
    made(x).sum().backward()
    other = fill(P.Mlp()).eval()
    other(x.detach()).sum().backward()
    assert x.grad is not None
    for a, b in zip(made.parameters(), other.parameters()):
        assert torch.equal(a.grad, b.grad)


def test_lists_of_a_caller_are_its_own():
    def grow(items: list[int]):
        items.append(1)
        return items

    mine = [5]
    assert torch.jit.script(grow)(mine) == [5, 1]
    assert mine == [5]
