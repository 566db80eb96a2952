"""Views that classes and modes with `__torch_dispatch__` are told of as other views."""

import pytest

import flambeau
from flambeau.utils import _pytree
from flambeau.utils._python_dispatch import TorchDispatchMode

X = flambeau.arange(24.0).view(4, 6)
# call: what PyTorch tells of it
TOLD = {
    "x.flatten()": "view",
    "flambeau.flatten(x, start_dim=0, end_dim=1)": "view",
    "x.flatten(1)": "",
    "x.t().flatten()": "t clone _unsafe_view",
    "x.unflatten(1, (2, -1))": "view",
    "x.reshape(-1, 3)": "view",
    "flambeau.reshape(x, (24,))": "view",
    "flambeau.reshape(input=x, shape=(24,))": "view",
    "x.reshape(shape=(24,))": "view",
    "x.t().reshape(-1)": "t clone _unsafe_view",
    "x.reshape_as(X.view(6, 4))": "view",
    "x.view_as(X.view(6, 4))": "view",
    "x.unsqueeze(0).expand_as(flambeau.empty(3, 4, 6))": "unsqueeze expand",
    "x.ravel()": "view",
    "x.t().ravel()": "t clone view",
    "x.chunk(2)[1]": "split.Tensor",
    "flambeau.chunk(x, 4, dim=1)[0]": "split.Tensor",
    "x.narrow(0, 1, 2)": "slice.Tensor",
    "x.movedim(0, 1)": "permute",
    "flambeau.moveaxis(x, -1, 0)": "permute",
    "x.T": "permute",
    "x.mT": "transpose.int",
}
REFUSED = {
    "x.reshape(5)": "shape '\\[5\\]' is invalid",
    "x.reshape(-1, -1)": "only one dimension can be inferred",
    "x.chunk(0)": "to be greater than 0",
    "x.narrow(0, 3, 2)": "exceeds dimension size",
    "x.unflatten(0, (3,))": "don't multiply up to the size of dim 0",
}


class Held(flambeau.Tensor):
    """A tensor that holds another, and says what is called."""

    told: list[str] = []

    @staticmethod
    def __new__(cls, held):
        return flambeau.Tensor._make_wrapper_subclass(
            cls, held.shape, dtype=held.dtype, strides=held.stride()
        )

    def __init__(self, held):
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.told.append(str(func))
        plain = _pytree.tree_map_only(Held, lambda t: t.held, args)
        out = func(*plain, **(kwargs or {}))
        return _pytree.tree_map_only(flambeau.Tensor, Held, out)


class Told(TorchDispatchMode):
    def __init__(self):
        self.told = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.told.append(str(func))
        return func(*args, **(kwargs or {}))


def called(call, x):
    return eval(call, {"flambeau": flambeau, "x": x, "X": X})


def names(told):
    return [f"aten.{name}" if "." in name else f"aten.{name}.default" for name in told.split()]


@pytest.mark.parametrize("call", TOLD)
def test_classes_are_told_of_views(call):
    Held.told.clear()
    got = called(call, Held(X))
    assert [name for name in Held.told if "empty" not in name] == names(TOLD[call])
    assert got.held.tolist() == called(call, X).tolist()


@pytest.mark.parametrize("call", TOLD)
def test_modes_are_told_of_views(call):
    expected = called(call, X)
    others = ("aten.empty.memory_format",) * call.count("empty")
    others += ("aten.view.default",) * call.count("X.view")
    with Told() as outer, Told() as inner:
        got = called(call, X)
    assert outer.told == inner.told
    assert sorted(outer.told) == sorted([*names(TOLD[call]), *others])
    assert got.tolist() == expected.tolist()


@pytest.mark.parametrize("call", TOLD)
def test_views_have_gradients(call):
    x, plain = (X.clone().requires_grad_() for _ in range(2))
    with Told():
        called(call, x).square().sum().backward()
    called(call, plain).square().sum().backward()
    assert x.grad.tolist() == plain.grad.tolist()


@pytest.mark.parametrize("call", REFUSED)
def test_what_is_refused_is_refused_in_the_same_words(call):
    with pytest.raises(RuntimeError, match=REFUSED[call]), Told():
        called(call, X)
    with pytest.raises(RuntimeError, match=REFUSED[call]):
        called(call, Held(X))
