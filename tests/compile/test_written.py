"""Random Python functions do the same plain and compiled."""

import contextlib
import io
import linecache

import pytest

import flambeau
from tests.compile.test_programs import seen
from tests.compile.written_programs import source


class Box:
    """An object from outside."""

    def __init__(self):
        self.k, self.flag, self.w = 1, False, flambeau.ones(3)

    def step(self):
        self.k += 10


class Made:
    """An object that programs make."""

    def __init__(self, x):
        self.x = x

    def twice(self):
        return self.x * 2


def world(log):
    """What programs find around them."""

    @contextlib.contextmanager
    def noting(name):
        log.append("enter")
        try:
            yield
        finally:
            log.append("leave")

    def count():
        log.append("count")

    space = {"torch": flambeau, "box": Box(), "log": log, "SCALE": 2.0, "noting": noting}
    return {**space, "count": count, "Made": Made, "__name__": "written"}


def calls(space, compile):
    """A few calls with other arguments and other circumstances: all that can be seen of them."""
    run, found = compile(space["program"]), []
    for turn in range(4):
        a = flambeau.arange(3.0) - turn
        b = a * 2 if turn % 2 else a.clone()
        if turn == 2:
            a = (a * 1).requires_grad_() * 1
        items, table = [1, b], {"t": a * 3} if turn else {}
        try:
            result = run(a, b, turn, items, table)
        except Exception as error:
            result = type(error).__name__, str(error).split("\n")[0]
        found += [result, a, b, items, table, flambeau.is_grad_enabled()]
        space["SCALE"] += 1
    return found


def observed(seed, text, compile):
    """Results, effects and prints of a program."""
    filename, log = f"<written {seed}>", []
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    space = world(log)
    exec(compile_text(text, filename), space)
    flambeau.manual_seed(0)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        found = calls(space, compile)
    return seen([found, log, vars(space["box"]), flambeau.rand(1)]), out.getvalue()


def compile_text(text, filename):
    return compile(text, filename, "exec", dont_inherit=True)


def compiled(backend):
    return lambda function: flambeau.compile(function, backend=backend)


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_written_programs(first):
    for seed in range(first, first + 10):
        text = source(seed)
        wanted = observed(seed, text, lambda function: function)
        assert observed(seed, text, compiled("eager")) == wanted, f"program {seed}:\n{text}"
