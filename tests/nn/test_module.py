"""Module answers as PyTorch's does: registration, walking, hooks, state. Lines: module_cases.py."""

import json
from pathlib import Path

import pytest

import flambeau
import flambeau.nn
from tests.nn.module_cases import LINES, SETUP
from tests.nn.said import agree, said

RECORDED = json.loads((Path(__file__).parents[1] / "golden/nn_said.json").read_text())["modules"]


@pytest.mark.parametrize("line", LINES)
def test_a_module_answers_as_recorded(line):
    got, want = said(flambeau, line, SETUP), RECORDED[line]
    assert agree(got, want), (got, want)


@pytest.mark.oracle
def test_modules_answer_as_in_pytorch():
    torch = pytest.importorskip("torch")
    assert {line: said(torch, line, SETUP) for line in LINES} == RECORDED


# -- registered names are found through the class -------------------------------------------------


def make_class():
    class Net(flambeau.nn.Module):
        def __init__(self, plain=False):
            super().__init__()
            self.layer = "text" if plain else flambeau.nn.Linear(2, 2)

    return Net


def test_a_name_may_be_another_thing_in_another_instance():
    Net = make_class()
    assert isinstance(Net().layer, flambeau.nn.Linear)
    assert Net(plain=True).layer == "text"
    other = Net(plain=True)
    del other.layer
    assert not hasattr(other, "layer")
    assert "layer" not in dir(other)
    assert not hasattr(Net, "layer")
    other.layer = flambeau.nn.Parameter(flambeau.ones(1))
    assert other.layer is other._parameters["layer"]
    other._parameters["layer"] = None
    assert other.layer is None


def test_a_tensor_may_take_the_place_of_a_parameter():
    layer = flambeau.nn.Linear(2, 2)
    weight = layer.weight
    del layer._parameters["weight"]
    layer.weight = weight * 2
    assert layer.weight is layer.__dict__["weight"]
    assert flambeau.nn.Linear(2, 2).weight.is_leaf


def test_a_method_of_another_base_is_not_hidden():
    Net = make_class()
    Net()

    class Mixin:
        def layer(self):
            return "method"

    class Both(Net, Mixin):
        def __init__(self):
            flambeau.nn.Module.__init__(self)

    assert Both().layer() == "method"


def test_modules_that_answer_for_another_one_do_so():
    class Wrapper(flambeau.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(super().__getattr__("inner"), name)

    wrapper = Wrapper(flambeau.nn.Linear(2, 3))
    assert wrapper.in_features == 2
    assert wrapper.weight is wrapper.inner.weight
    with pytest.raises(AttributeError, match="'Linear' object has no attribute 'nothing'"):
        _ = wrapper.nothing


def test_a_plain_module_leaves_no_names_behind():
    plain = flambeau.nn.Module()
    plain.anything = flambeau.nn.Linear(1, 1)
    assert plain.anything.in_features == 1
    assert "anything" not in vars(flambeau.nn.Module)


# -- errors tell the layer -------------------------------------------------------------------------


def test_an_error_names_the_layer_it_comes_from():
    nn = flambeau.nn
    model = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU(), nn.Linear(4, 1)))
    with pytest.raises(RuntimeError, match="cannot be multiplied") as caught:
        model(flambeau.ones(1, 2))
    assert any("'1.1'" in note for note in caught.value.__notes__)


# -- loading is all or nothing ---------------------------------------------------------------------


@pytest.mark.parametrize("strict", [True, False])
def test_a_load_that_fails_changes_nothing(strict):
    nn = flambeau.nn
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    before = {key: value.clone() for key, value in model.state_dict().items()}
    state = {key: value + 1 for key, value in before.items()}
    state["2.weight"] = flambeau.ones(5, 5)
    with pytest.raises(RuntimeError, match=r"size mismatch for 2\.weight"):
        model.load_state_dict(state, strict=strict)
    for key, value in model.state_dict().items():
        assert flambeau.equal(value, before[key]), key


def test_a_load_that_is_not_strict_takes_what_fits():
    nn = flambeau.nn
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    found = model.load_state_dict({"0.bias": flambeau.ones(3), "other": 3}, strict=False)
    assert found.unexpected_keys == ["other"]
    assert found.missing_keys == ["0.weight", "1.weight", "1.bias"]
    assert model[0].bias.tolist() == [1.0, 1.0, 1.0]


def test_buffers_may_be_like_tensors():
    class Like:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise NotImplementedError

    first, second, module = Like(), Like(), flambeau.nn.Module()
    module.register_buffer("x", first)
    assert module.get_buffer("x") is first
    module.x = second
    assert module._buffers == {"x": second}
