"""vmap, grad and their kin inside of compiled programs: one graph."""

import pytest

import flambeau
from flambeau import nn
from flambeau._dynamo.exc import Unsupported
from flambeau.autograd import Function
from flambeau.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, vmap
from flambeau.testing import assert_close

WEIGHT = nn.Parameter(flambeau.linspace(-1, 1, 9).reshape(3, 3))
PARAMETERS = {"w": flambeau.linspace(0, 1, 9).reshape(3, 3), "b": flambeau.ones(3)}


def loss(x):
    return (x @ WEIGHT).sin().sum()


def of_both(a, b):
    return (a * b).sum()


def of_parameters(p, x):
    return (x @ p["w"] + p["b"]).tanh().sum()


def with_sizes(x):
    return (x * x).sum() / x.shape[0]


def in_part(x):
    with flambeau.no_grad():
        weight = x.exp()
    return (x * weight).sum()


net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
OTHERS = {name: (p * 3).detach() for name, p in net.named_parameters()}
tied = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
tied[1].weight = tied[0].weight


def of_module(p, x):
    return functional_call(net, p, (x,)).square().sum()


def learned(x):
    """One step of learning, as part of what is computed."""
    grads = grad(of_module)(OTHERS, x)
    return functional_call(net, {name: OTHERS[name] - 0.1 * grads[name] for name in OTHERS}, x)


PROGRAMS = {
    "samples": lambda x: vmap(lambda row: row.sum() * row @ WEIGHT)(x),
    "some for all": lambda x: vmap(flambeau.dot, in_dims=(0, None))(x, x[0]),
    "other dimensions": lambda x: vmap(lambda c: (c + 1, {"s": c.sum()}), 1, (1, 0))(x)[0],
    "within": lambda x: vmap(vmap(lambda item: item * 2 + 1))(x),
    "grad": lambda x: grad(loss)(x) * 2,
    "value": lambda x: grad_and_value(loss)(x)[0] * grad_and_value(loss)(x)[1],
    "aux": lambda x: grad(lambda t: (t.square().sum(), (t, t + 1)), has_aux=True)(x)[1][1],
    "several": lambda x: sum(grad(of_both, argnums=(0, 1))(x, x.cos())),
    "of each sample": lambda x: vmap(grad(of_parameters), in_dims=(None, 0))(PARAMETERS, x)["w"],
    "a module": lambda x: functional_call(net, OTHERS, x),
    "a module in part": lambda x: functional_call(net, [{"0.weight": OTHERS["0.weight"]}], (x,)),
    "a module's samples": lambda x: vmap(grad(of_module), (None, 0))(OTHERS, x)["2.weight"],
    "a step": learned,
    "twice": lambda x: grad(lambda t: grad(lambda u: u.pow(4).sum())(t).sum())(x),
    "rows": lambda x: jacrev(lambda row: row.sin() * 2)(x[0]),
    "columns": lambda x: jacfwd(lambda row: row.sin() * row.sum())(x[0]),
    "hessian": lambda x: hessian(lambda row: row.pow(3).sum())(x[0]),
    "sizes": lambda x: grad(with_sizes)(x) + vmap(with_sizes, in_dims=1)(x).sum(),
    "without recording": lambda x: grad(in_part)(x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_transforms_are_part_of_the_graph(name):
    program = PROGRAMS[name]
    made = flambeau.compile(program, fullgraph=True)
    for rows in (2, 2, 5, 7):  # sizes that vary, in the end
        for wants in (True, False):
            found = []
            for function in (program, made):
                x = flambeau.linspace(-1, 1, rows * 3).reshape(rows, 3).requires_grad_(wants)
                y = function(x)
                WEIGHT.grad = None
                if y.requires_grad:
                    (y * flambeau.arange(y.numel()).reshape(y.shape)).sum().backward()
                found.append((y, x.grad, WEIGHT.grad))
            assert_close(*found)


class Lister(nn.Linear):
    def __init__(self):
        super().__init__(3, 3)

    def forward(self, x):
        return sum(x @ p for p in self.parameters())


lister = Lister()


class Straight(Function):
    @staticmethod
    def forward(ctx, x):
        return x.sign()

    @staticmethod
    def backward(ctx, g):
        return g


REFUSED = {
    "tied weights": lambda x: functional_call(tied, {"0.weight": x[:1] * WEIGHT}, x),
    "the members of a module": lambda x: functional_call(lister, {"weight": WEIGHT}, x),
    "inside of a transform": lambda x: vmap(lambda row: row * row.requires_grad)(x),
    "writes its arguments": lambda x: grad(lambda t: t.mul(1).add_(t.neg_()).sum())(x),
    "autograd.Function inside": lambda x: grad(lambda t: Straight.apply(t).sum())(x),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_cannot_be_known_is_not_read(reason):
    with pytest.raises(Unsupported, match=reason):
        flambeau.compile(REFUSED[reason], fullgraph=True)(flambeau.ones(2, 3))


def test_errors_are_those_of_the_program():
    made = flambeau.compile(lambda x: vmap(lambda row: row * flambeau.rand(3))(x), fullgraph=True)
    with pytest.raises(RuntimeError, match="randomness"):
        made(flambeau.ones(2, 3))
