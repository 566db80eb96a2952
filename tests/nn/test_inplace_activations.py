"""`inplace=True` of activations: the same numbers, written over the input, with its gradients."""

import pytest

import flambeau
from flambeau.nn import functional as F

CALLS = [
    ("relu", ()),
    ("relu6", ()),
    ("elu", (0.7,)),
    ("celu", (0.7,)),
    ("selu", ()),
    ("leaky_relu", (0.2,)),
    ("hardtanh", (-0.5, 0.7)),
    ("threshold", (0.1, 3.0)),
    ("hardsigmoid", ()),
    ("hardswish", ()),
    ("silu", ()),
    ("mish", ()),
    ("rrelu", (0.1, 0.3)),
]


@pytest.mark.parametrize(("name", "args"), CALLS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_the_input_is_written_over(name, args, dtype):
    function = getattr(F, name)
    x = flambeau.linspace(-4, 4, 23).to(getattr(flambeau, dtype))
    want = function(x.clone(), *args)
    assert function(x, *args, inplace=True) is x
    assert flambeau.equal(x, want)
    rows = flambeau.linspace(-4, 4, 24).reshape(4, 6).t()
    want = function(rows.clone(), *args)
    function(rows, *args, inplace=True)
    assert flambeau.equal(rows, want)


@pytest.mark.parametrize(("name", "args"), CALLS)
def test_gradients_are_those_of_the_function(name, args):
    function = getattr(F, name)
    gradients = []
    for inplace in (False, True):
        x = flambeau.linspace(-4, 4, 23, requires_grad=True)
        out = function(x * 1, *args, inplace=inplace)
        (out * flambeau.arange(23.0)).sum().backward()
        gradients.append(x.grad)
    assert flambeau.allclose(*gradients, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "args"), CALLS)
def test_a_leaf_that_wants_a_gradient_is_refused(name, args):
    x = flambeau.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used"):
        getattr(F, name)(x, *args, inplace=True)


@pytest.mark.oracle
@pytest.mark.parametrize(("name", "args"), CALLS)
def test_values_are_those_of_pytorch(name, args):
    torch = pytest.importorskip("torch")
    want = getattr(torch.nn.functional, name)(torch.linspace(-4, 4, 23), *args, inplace=True)
    got = getattr(F, name)(flambeau.linspace(-4, 4, 23), *args, inplace=True)
    assert got.tolist() == pytest.approx(want.tolist(), rel=1e-5, abs=1e-6)
