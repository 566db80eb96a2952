"""Programs do the same compiled as they do plain: results, effects, errors."""

import contextlib
import io

import pytest

import flambeau
from tests.compile import cases, odd_cases

CASES = {**cases.CASES, **odd_cases.CASES}


def compiler(backend):
    """A `compile` for cases."""

    def compile(function):
        return flambeau.compile(function, backend=backend)

    compile.disable = flambeau._dynamo.disable
    return compile


def plain(function):
    return function


def seen(value):
    """All that can be seen of a value, in a form that compares."""
    if isinstance(value, flambeau.Tensor):
        return (
            "tensor", type(value).__name__, str(value.dtype), tuple(value.shape), value.stride(),
            value.requires_grad, value.detach().contiguous().numpy().tobytes()
            if value.dtype != flambeau.bfloat16 else value.tolist(),
        )  # fmt: skip
    if isinstance(value, dict):
        return [
            (k if not isinstance(k, flambeau.Tensor) else "key", seen(v)) for k, v in value.items()
        ]
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [seen(v) for v in value])
    if isinstance(value, (int, float, str, bool, type(None))):
        return type(value).__name__, repr(value)
    if hasattr(value, "__dict__"):
        return type(value).__name__, seen(vars(value))
    return repr(value)


def run(program, compile):
    """What a program gives and prints."""
    flambeau.manual_seed(0)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        found = program(flambeau, compile)
    return seen(found), out.getvalue()


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("name", CASES)
def test_compiled_is_plain(name, backend):
    wanted = run(CASES[name], plain)
    found = run(CASES[name], compiler(backend))
    assert found[1] == wanted[1]
    assert found[0] == wanted[0]
