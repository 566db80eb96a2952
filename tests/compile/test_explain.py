"""How many graphs programs become: as many as in PyTorch."""

import pytest

import flambeau
from tests.compile.explain_cases import PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_number_of_graphs(name):
    make, graphs = PROGRAMS[name]
    function, args = make(flambeau)
    found = flambeau._dynamo.explain(function)(*args)
    assert found.graph_count == graphs
    assert found.graph_break_count == max(graphs - 1, 0)
    assert (len(found.break_reasons) > 0) == (graphs > 1 or name == "prints_at_the_end")


@pytest.mark.oracle
@pytest.mark.parametrize("name", PROGRAMS)
def test_number_of_graphs_in_pytorch(name):
    torch = pytest.importorskip("torch")
    torch._dynamo.reset()
    make, graphs = PROGRAMS[name]
    function, args = make(torch)
    assert torch._dynamo.explain(function)(*args).graph_count == graphs


def test_text():
    def f(x):
        y = x + 1
        print(end="")
        return y * 2

    found = flambeau._dynamo.explain(f)(flambeau.ones(3))
    text = str(found)
    for line in ("Graph Count: 2", "Graph Break Count: 1", "Op Count: 2", "Break Reason 1:"):
        assert line in text
    assert "test_explain.py" in text and found.out_guards
