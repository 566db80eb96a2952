"""autograd.Function in compiled programs: forward and backward are part of one graph."""

import pytest

import flambeau
from flambeau import nn
from flambeau._dynamo.exc import Unsupported
from flambeau.autograd import Function, grad
from flambeau.autograd.function import once_differentiable
from flambeau.testing import assert_close

WEIGHT = nn.Parameter(flambeau.linspace(0, 1, 12).reshape(4, 3))


class Relu(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        g = g.clone()
        g[x < 0] = 0  # writes what is its own
        return g


class Exp(Function):
    """Saves its result, and a number."""

    @staticmethod
    def forward(ctx, x, k):
        result = x.exp() * k
        ctx.save_for_backward(result)
        ctx.k = k
        return result

    @staticmethod
    def backward(ctx, g):
        return ctx.saved_tensors[0] * g, None


class Several(Function):
    """Several results, one without gradient, and a context of its own."""

    @staticmethod
    def forward(x, y):
        return x * y, (x + y).sum(), x > 0

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.mark_non_differentiable(output[2])

    @staticmethod
    def backward(ctx, first, second, third):
        x, y = ctx.saved_tensors
        return first * y + second, first * x + second if ctx.needs_input_grad[1] else None


class Linear(Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.x, ctx.rows = x, x.shape[0]
        ctx.save_for_backward(weight)
        return x @ weight.t()

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return g @ ctx.saved_tensors[0] * ctx.rows, g.t() @ ctx.x


class Reverse(Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -g


class Half(Function):
    """Gives back what it was given."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 0.5


class Writes(Half):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)


PROGRAMS = {
    "relu": lambda x: Relu.apply(x) * 2,
    "its result": lambda x: Exp.apply(x.sin(), 3.0) + Exp.apply(x, 2),
    "several": lambda x: Several.apply(x, x.cos())[0] * Several.apply(x.tanh(), x)[1],
    "twice the same": lambda x: Several.apply(x, x)[0],
    "a parameter": lambda x: Linear.apply(x, WEIGHT).tanh(),
    "a view": lambda x: Reverse.apply(x * 2).exp(),
    "what it was given": lambda x: Half.apply(x) + Half.apply(x * 3),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_gradients_are_those_of_backward(name, backend):
    program = PROGRAMS[name]
    made = flambeau.compile(program, backend=backend, fullgraph=True)
    for rows in (2, 2, 2, 5, 7):  # sizes that vary, in the end
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


@pytest.mark.parametrize("name", ["relu", "its result", "several", "what it was given"])
def test_backward_may_be_differentiated(name):
    found = []
    for function in (PROGRAMS[name], flambeau.compile(PROGRAMS[name], fullgraph=True)):
        x = flambeau.linspace(-1, 1, 6).reshape(2, 3).requires_grad_()
        (first,) = grad(function(x).sum(), x, create_graph=True)
        found.append(grad(first.square().sum(), x)[0] if first.requires_grad else first)
    assert_close(*found)


def test_once_means_once():
    x = flambeau.ones(2, 3, requires_grad=True)
    made = flambeau.compile(lambda x: Linear.apply(x, WEIGHT), fullgraph=True)
    (first,) = grad(made(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_what_it_reads_is_guarded():
    class Scaled(Half):
        factor = 2.0

        @staticmethod
        def backward(ctx, g):
            return g * Scaled.factor

    made = flambeau.compile(lambda x: Scaled.apply(x), fullgraph=True, backend="eager")
    x = flambeau.ones(2, requires_grad=True)
    assert_close(grad(made(x).sum(), x)[0], flambeau.full((2,), 2.0))
    Scaled.factor = 3.0
    assert_close(grad(made(x).sum(), x)[0], flambeau.full((2,), 3.0))


def test_functions_that_write_run_as_they_are():
    program = lambda x: Writes.apply(x * 1)
    x = flambeau.ones(2, requires_grad=True)
    assert_close(flambeau.compile(program)(x), flambeau.full((2,), 2.0))
    with pytest.raises(Unsupported, match="writes its inputs"):
        flambeau.compile(program, fullgraph=True)(x)
