"""Sizes that may change: what they become, what is refused, other sizes at run time."""

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.export import Dim, dims, export
from flambeau.export.dynamic_shapes import UserError
from flambeau.nn import functional as F


def program(body, *shapes, **dynamic):
    """Export a function of x, y with sizes that may change."""

    class Body(nn.Module):
        def forward(self, *args):
            return body(*args)

    args = tuple(torch.randn(*shape) for shape in shapes)
    said = tuple(dynamic.get("xyz"[k]) for k in range(len(shapes)))
    return export(Body(), args, dynamic_shapes=(said,)), args


def size_of(found, k=0):
    """The shape of a result, as text."""
    return str(list(found.graph.output_node().args[0][k].meta["val"].shape))


BATCH = Dim("batch")
EXPRESSIONS = {
    "same": (lambda x: x * 2, "[s0, 4]"),
    "cat": (lambda x: torch.cat([x, x]), "[2*s0, 4]"),
    "slice": (lambda x: x[1:], "[s0 - 1, 4]"),
    "flat": (lambda x: x.reshape(-1), "[4*s0]"),
    "square": (lambda x: x @ x.T, "[s0, s0]"),
    "outer": (lambda x: (x[:, None] + x[None]).reshape(-1), "[4*s0**2]"),
    "pool": (lambda x: F.max_pool1d(x.T[None], 2), "[1, 4, (s0//2)]"),
    "conv": (
        lambda x: F.conv1d(x.T[None], torch.ones(1, 4, 3), stride=2),
        "[1, 1, ((s0 - 3)//2) + 1]",
    ),
    "padded": (lambda x: F.pad(x, (0, 0, 1, 2)), "[s0 + 3, 4]"),
    "size": (lambda x: x.view(x.shape[0] * 2, 2), "[2*s0, 2]"),
    "numel": (lambda x: torch.zeros(x.numel()), "[4*s0]"),
    "repeat": (lambda x: x.repeat(2, 3), "[2*s0, 12]"),
    "sum": (lambda x: x.sum(0), "[4]"),
    "arange": (lambda x: torch.arange(x.size(0)), "[s0]"),
    "capped": (lambda x: x[:100], "[Min(100, s0), 4]"),
    "division": (lambda x: torch.zeros(x.shape[0] // 2 + 1), "[(s0//2) + 1]"),
    "triangle": (lambda x: torch.tril(torch.ones(x.shape[0], x.shape[0])), "[s0, s0]"),
    "attention": (
        lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
        "[1, s0, 4]",
    ),
}


@pytest.mark.parametrize("name", list(EXPRESSIONS))
def test_sizes_become_expressions(name):
    body, expected = EXPRESSIONS[name]
    found, _ = program(body, (6, 4), x={0: BATCH})
    assert size_of(found) == expected
    for size in (3, 6, 11, 23):
        x = torch.randn(size, 4)
        torch.testing.assert_close(found.module()(x), body(x))
    lowered = found.run_decompositions().module()
    torch.testing.assert_close(lowered(torch.ones(9, 4)), body(torch.ones(9, 4)))


def test_sizes_are_shown():
    found, _ = program(
        lambda x: (x.view(x.shape[0] * x.shape[1], -1), x.shape[0] + 1),
        (3, 4, 5),
        x={0: BATCH, 1: Dim("time", max=9)},
    )
    text = str(found)
    assert 'sym_size_int: "Sym(s0)" = torch.ops.aten.sym_size.int(args_0, 0)' in text
    assert 'mul: "Sym(s0*s1)" = sym_size_int * sym_size_int_1' in text
    assert "Range constraints: {s0: VR[0, int_oo], s1: VR[0, 9]}" in text
    assert found.module()(torch.ones(2, 7, 5))[1] == 3


def test_limits_of_programs():
    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(torch.ones(100, 4))

        def forward(self, x):
            return x + self.table[: x.shape[0]]

    with pytest.raises(UserError, match=r"batch = Dim\('batch', max=100\)"):
        export(Positions(), (torch.ones(6, 4),), dynamic_shapes=({0: BATCH},))
    found = export(Positions(), (torch.ones(6, 4),), dynamic_shapes=({0: Dim("b", max=100)},))
    assert found.module()(torch.ones(100, 4)).shape == (100, 4)


REFUSED = {
    "fixed by a constant": (
        lambda x: x + torch.ones(3, 4), (3, 4),
        "You marked batch as dynamic but your code specialized it to be a constant (3)",
        "batch = 3",
    ),
    "fixed by a loop": (
        lambda x: sum(x[k] for k in range(x.shape[0])), (3, 4),
        "You marked batch as dynamic but your code specialized it to be a constant (3)",
        "batch = 3",
    ),
    "narrower": (
        lambda x: x * 2 if x.shape[0] > 2 else x, (3, 4),
        "Not all values of batch = L['args_0'].size()[0] in the specified range satisfy the "
        "generated guard 3 <= L['args_0'].size()[0]",
        "batch = Dim('batch', min=3)",
    ),
    "even": (
        lambda x: x.view(-1, 2, 4), (4, 4),
        "satisfy the generated guard (L['args_0'].size()[0] % 2) == 0",
        "batch = 2*_batch",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(REFUSED))
def test_promises_that_are_not_kept(name):
    body, shape, reason, fix = REFUSED[name]
    with pytest.raises(UserError) as error:
        program(body, shape, x={0: BATCH})
    assert str(error.value).startswith("Constraints violated (batch)!")
    assert reason in str(error.value) and fix in str(error.value)


def test_two_names_for_one_size():
    with pytest.raises(UserError, match="must always be equal") as error:
        program(lambda x, y: x + y, (3, 4), (3, 4), x={0: BATCH}, y={0: Dim("other")})
    assert "other = batch" in str(error.value)
    found, _ = program(lambda x, y: x + y, (3, 4), (3, 4), x={0: BATCH}, y={0: BATCH})
    assert found.module()(torch.ones(8, 4), torch.ones(8, 4)).shape == (8, 4)
    with pytest.raises(AssertionError, match="Guard failed"):
        found.module()(torch.ones(8, 4), torch.ones(1, 4))


def test_hints_give_way():
    auto = {0: Dim.AUTO, 1: Dim.AUTO}
    found, _ = program(lambda x, y: x + y, (3, 4), (3, 4), x=auto, y=auto)
    assert size_of(found) == "[s0, s1]"
    assert str(found.range_constraints) == "{s0: VR[2, int_oo], s1: VR[2, int_oo]}"
    found, _ = program(lambda x: x + torch.ones(3, 4), (3, 4), x=auto)
    assert size_of(found) == "[3, 4]"
    found, _ = program(lambda x: x * 2 if x.shape[0] > 2 else x, (3, 4), x={0: Dim.AUTO})
    assert str(found.range_constraints) == "{s0: VR[3, int_oo]}"
    found, _ = program(lambda x: x.view(-1, 2, 4), (4, 4), x={0: Dim.AUTO})
    with pytest.raises(AssertionError, match="Guard failed"):
        found.module()(torch.ones(5, 4))
    found, _ = program(lambda x: x * 2, (3, 4), x={0: Dim.STATIC, 1: None})
    assert size_of(found) == "[3, 4]"


def test_sizes_that_are_made_of_others():
    half = Dim("half", min=1, max=10)
    found, _ = program(lambda x, y: x[::2] + y, (6, 4), (3, 4), x={0: 2 * half}, y={0: half})
    assert size_of(found) == "[s0, 4]"
    assert found.module()(torch.ones(8, 4), torch.ones(4, 4)).shape == (4, 4)
    with pytest.raises(AssertionError, match="Guard failed"):
        found.module()(torch.ones(8, 4), torch.ones(3, 4))


def test_values_decide_nothing():
    class Branch(nn.Module):
        def forward(self, x):
            if x.sum() > 0:
                return x
            return -x

    with pytest.raises(RuntimeError) as error:
        export(Branch(), (torch.ones(3),))
    assert "Could not guard on data-dependent expression Eq(u0, 1)" in str(error.value)
    assert "test_sizes.py" in str(error.value) and "if x.sum() > 0:" in str(error.value)


def test_sizes_that_depend_on_values():
    found, _ = program(lambda x: torch.nonzero(x), (4, 4))
    assert size_of(found) == "[u0, 2]"
    assert found.module()(torch.eye(4)).shape == (4, 2)
    found, _ = program(lambda x: x[x > 0] * 2, (4, 4))
    assert found.module()(torch.eye(4)).shape == (4,)


def test_dims():
    a, b = dims("a", "b", max=4)
    assert repr(a) == "Dim('a', max=4)" and repr(2 * b + 1) == "2*b + 1"
    assert repr(Dim.AUTO) == "DimHint(AUTO)" and repr(Dim.AUTO(min=2)) == "DimHint(AUTO, min=2)"
    with pytest.raises(AssertionError, match="Dim name must be a valid identifier, got 1x"):
        Dim("1x")
    with pytest.raises(AssertionError, match="Cannot create Dim with inconsistent min=5, max=3"):
        Dim("b", min=5, max=3)
    with pytest.raises(UserError, match="its top-level keys must be the arg names"):
        export(nn.Linear(2, 2), (torch.ones(1, 2),), dynamic_shapes={"y": None})
    with pytest.raises(UserError, match="Expecting `args` to be a tuple"):
        export(nn.Linear(2, 2), torch.ones(1, 2))
    with pytest.raises(ValueError, match="Expected `mod` to be an instance of"):
        export(3, ())
