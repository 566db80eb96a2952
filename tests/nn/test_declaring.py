"""Layers that are told by their arguments: what follows from a class body, and what does not."""

import inspect
import pickle

import pytest

import flambeau
from flambeau import nn
from flambeau.nn.modules.declaring import layer, told


@layer("leaky_relu(input, slope)")
class Leaky(nn.Module):
    slope: float = 0.5


@layer("leaky_relu(input, slope)", constants="slope")
class Checked(Leaky):
    slope: float
    inplace: bool = False

    def _settle(self):
        if self.inplace:
            raise ValueError("not in place")


@pytest.mark.parametrize(
    "function, signature",
    [
        (Leaky.__init__, "(self, slope: float = 0.5) -> None"),
        (Checked.__init__, "(self, slope: float, inplace: bool = False) -> None"),
        (nn.Linear.forward, "(self, input: torch.Tensor) -> torch.Tensor"),
        (nn.Threshold.__init__, "(self, threshold: float, value: float, inplace: bool = False)"),
        (nn.GroupNorm.__init__, "dtype: Any = None, *, bias: bool = True) -> None"),
        (nn.GaussianNLLLoss.__init__, "(self, *, full: bool = False, eps: float = 1e-06"),
    ],
)
def test_signatures_are_real(function, signature):
    assert signature in str(inspect.signature(function))


def test_the_text_can_be_read():
    lines = inspect.getsource(nn.Dropout.forward).splitlines()
    assert lines[1] == "    return F.dropout(input, self.p, self.training, self.inplace)"
    assert nn.Dropout.forward.__qualname__ == "Dropout.forward"
    assert nn.Dropout.forward.__module__ == "flambeau.nn.modules.dropout"


def test_arguments_are_attributes_of_instances_only():
    assert vars(Leaky(0.25))["slope"] == 0.25 and not hasattr(Leaky, "slope")
    assert Leaky().__constants__ == ["slope"] and repr(Leaky()) == "Leaky(slope=0.5)"
    assert told(Leaky(), "slope", "training") == "slope=0.5, training=True"


def test_bases_take_what_they_know_and_settle_has_the_last_word():
    assert Checked(0.1).slope == 0.1
    with pytest.raises(ValueError, match="not in place"):
        Checked(0.1, inplace=True)


def test_annotations_of_a_users_subclass_are_no_arguments():
    class Scaled(nn.ReLU):
        scale: float = 2.0

        def forward(self, input):
            return super().forward(input) * self.scale

    out = Scaled(inplace=False)(flambeau.tensor([-1.0, 3.0]))
    assert out.tolist() == [0.0, 6.0] and str(inspect.signature(Scaled)).count("scale") == 0


def test_pickles_hold_attributes():
    twin = pickle.loads(pickle.dumps(nn.Softplus(2.0)))
    assert (twin.beta, twin.threshold) == (2.0, 20.0)
