"""Loops in exported programs: while_loop, map and scan, with graphs as PyTorch has them."""

import io

import pytest

import flambeau
from flambeau import nn
from flambeau._higher_order_ops import map as mapped
from flambeau._higher_order_ops import scan, while_loop
from flambeau.export import Dim, export
from flambeau.utils import _pytree as pytree


class While(nn.Module):
    def forward(self, x):
        factor = flambeau.tensor(3)
        return while_loop(
            lambda i, y: i > 0, lambda i, y: (i - 1, y * factor + x.sum()), (flambeau.tensor(4), x)
        )


class Map(nn.Module):
    def forward(self, xs, y):
        return mapped(lambda x, y: (x + y).sin(), xs, y)


class MapOfTrees(nn.Module):
    def forward(self, xs, y):
        return mapped(lambda x, t: {"sum": x["a"] + t, "twice": (x["a"] * 2,)}, {"a": xs}, y)


class Scan(nn.Module):
    def forward(self, xs, init):
        return scan(lambda c, x: (c + x, c * 2), init, xs)


class ScanBack(nn.Module):
    def forward(self, xs, init):
        def step(state, row):
            return {"a": state["a"] + row}, (state["a"] * 2, row)

        return scan(step, {"a": init}, xs.t(), dim=1, reverse=True)


N = {0: Dim("n")}
# name -> (module, arguments for a size, sizes that vary, ops of the graph)
PROGRAMS = {
    "while": (While, lambda n: (flambeau.ones(n),), (N,), ["while_loop"]),
    "map": (Map, lambda n: (flambeau.randn(n, 2), flambeau.ones(2)), (N, None), ["map_impl"]),
    "map of trees": (
        MapOfTrees, lambda n: (flambeau.randn(n, 2), flambeau.ones(2)), (N, None), ["map_impl"],
    ),
    "scan": (Scan, lambda n: (flambeau.randn(n, 2), flambeau.zeros(2)), (N, None), ["scan"]),
    "scan back": (
        ScanBack, lambda n: (flambeau.randn(n, 2), flambeau.zeros(2)), (N, None),
        ["t", "movedim", "flip", "scan", "flip", "flip"],
    ),
}  # fmt: skip


def agree(a, b):
    one, two = pytree.tree_leaves(a), pytree.tree_leaves(b)
    return len(one) == len(two) and all(flambeau.equal(x, y) for x, y in zip(one, two))


@pytest.mark.parametrize("varies", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_with_loops(name, varies):
    make, given, shapes, ops = PROGRAMS[name]
    module = make()
    program = export(module, given(3), dynamic_shapes=shapes if varies else None)
    found = [getattr(n.target, "__name__", str(n.target)) for n in program.graph.nodes
             if n.op == "call_function"]  # fmt: skip
    found = [n.split(".")[0] for n in found if n.split(".")[0] not in
             ("getitem", "lift_fresh_copy", "detach_", "sym_size")]  # fmt: skip
    assert found == ops
    saved = io.BytesIO()
    flambeau.export.save(program, saved)
    saved.seek(0)
    loaded = flambeau.export.load(saved)
    for each in (program, loaded, program.run_decompositions()):
        for n in (3, 6) if varies else (3,):
            args = given(n)
            assert agree(each.module()(*args), module(*args))


@pytest.mark.oracle
@pytest.mark.parametrize("name", PROGRAMS)
def test_pytorch_reads_them(name, tmp_path):
    torch = pytest.importorskip("torch")
    make, given, _, _ = PROGRAMS[name]
    args = given(3)
    path = str(tmp_path / "loop.pt2")
    flambeau.export.save(export(make(), args), path)
    found = torch.export.load(path).module()(*[torch.from_numpy(a.numpy()) for a in args])
    wanted = pytree.tree_leaves(make()(*args))
    leaves = torch.utils._pytree.tree_leaves(found)
    assert len(leaves) == len(wanted)
    for mine, theirs in zip(wanted, leaves):
        assert flambeau.allclose(mine, flambeau.from_numpy(theirs.numpy()))


def test_gradients_go_through_loops():
    x = flambeau.ones(3, 2, requires_grad=True)
    Map()(x, flambeau.ones(2)).sum().backward()
    assert flambeau.allclose(x.grad, (x.detach() + 1).cos())


BAD = {
    "no function": (lambda: while_loop(1, lambda x: x, (flambeau.ones(1),)), "callable"),
    "nothing carried": (lambda: while_loop(lambda: True, lambda: (), ()), "carried_inputs"),
    "lengths": (
        lambda: mapped(lambda t: t[0], (flambeau.ones(2), flambeau.ones(3))), "consistent",
    ),
    "no slices": (lambda: scan(lambda c, x: (c, x), flambeau.ones(1), ()), "xs leaves"),
    "no state": (lambda: scan(lambda c, x: (c, x), (), flambeau.ones(1)), "init leaves"),
    "another state": (
        lambda: scan(lambda c, x: (c[:1], x), flambeau.ones(2), flambeau.ones(2, 2)), "same shapes",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused(name):
    call, said = BAD[name]
    with pytest.raises(RuntimeError, match=said):
        call()
