"""Members of Tensor that native code answers (runtime/descriptors.py): as Python's, but quicker."""

import gc
import inspect
import subprocess
import sys
import types

import numpy as np
import pytest

import flambeau as torch
from flambeau import interposing
from flambeau._tensor import attachment

NAMES = (
    "size stride dim numel nelement ndimension element_size is_contiguous __len__ item __float__ "
    "__int__ __index__ __bool__ tolist numpy shape dtype device ndim requires_grad"
).split()


@pytest.fixture(autouse=True)
def native():
    torch.zeros(1)


@pytest.mark.parametrize("name", NAMES)
def test_the_class_shows_the_python_function(name):
    assert type(torch.Tensor.__dict__[name]) in attachment.NATIVE
    shown = getattr(torch.Tensor, name)
    assert isinstance(shown, (types.FunctionType, property))
    assert attachment.member_of(name) is shown


def test_a_bound_method_is_that_of_the_python_function():
    x = torch.tensor([1.5])
    kept = x.item
    assert kept.__func__.__code__ is torch.Tensor.item.__code__
    assert kept.__self__ is x and kept() == 1.5 and kept.__name__ == "item"
    assert inspect.signature(kept) == inspect.signature(x.detach().item)
    assert torch.Tensor.item(x) == 1.5 and torch.Tensor.shape.__get__(x) == (1,)


DTYPES = (
    "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool uint16 complex64 "
    "float8_e4m3fn"
).split()


def test_lines_that_run_often_see_the_same():
    x, items, shapes = torch.tensor([1.5]), set(), set()
    for _ in range(300):  # CPython looks closer at what it runs often
        items.add(torch.Tensor.item)
        shapes.add(torch.Tensor.shape)
        assert x.item() == torch.Tensor.item(x) == 1.5 and x.size() == x.shape == (1,)
    assert items == {vars(torch.Tensor)["item"].__get__(None, torch.Tensor)}
    assert {type(f) for f in items} == {types.FunctionType}
    assert {type(p) for p in shapes} == {property} and len(shapes) == 1


@pytest.mark.parametrize("name", DTYPES)
def test_elements_of_every_dtype(name):
    x = torch.tensor([1, 0, 1]).to(getattr(torch, name))
    kind = bool if name == "bool" else complex if name == "complex64" else float
    kind = int if "int" in name else kind
    assert x[0].item() == 1 and type(x[0].item()) is kind
    assert x.tolist() == [1, 0, 1] and type(x.tolist()[0]) is kind
    assert [bool(one) for one in x] == [True, False, True]
    assert float(x[0]) == 1.0 and int(x[0]) == 1


def test_views_read_where_they_lie():
    x = torch.arange(12.0).reshape(3, 4)
    assert x[1, 2].item() == 6.0 and x.t()[1].tolist() == [1.0, 5.0, 9.0]
    assert x.t().size() == (4, 3) and x.t().stride() == (1, 4) and x.size(-1) == x.shape[1] == 4
    assert not x.t().is_contiguous() and len(x.t()) == 4


@pytest.mark.parametrize(
    "call, kind, text",
    [
        (lambda x: x.item(), RuntimeError, "a Tensor with 4 elements cannot be"),
        (lambda x: x.size(3), IndexError, "Dimension out of range"),
        (lambda x: x.size("a"), TypeError, "argument 'dim'"),
        (lambda x: x.size(1 << 70), (IndexError, RuntimeError, ValueError), r"verflow|range"),
        (lambda x: len(x[0, 0]), TypeError, r"len\(\) of a 0-d tensor"),
        (lambda x: bool(x), RuntimeError, "more than one value is ambiguous"),
        (lambda x: float(x), ValueError, "only one element tensors"),
        (lambda x: setattr(x, "shape", 3), AttributeError, "shape"),
        (lambda x: x.requires_grad_().numpy(), RuntimeError, "Can't call numpy"),
        (lambda x: x[0, 0].to("meta").item(), RuntimeError, "meta"),
    ],
)
def test_mistakes_are_those_of_the_python_function(call, kind, text):
    with pytest.raises(kind, match=text):
        call(torch.ones(2, 2))


def test_handlers_are_told():
    seen = []

    class Telling(interposing.Handler):
        kinds = frozenset({"op", "data", "method", "property"})

        def around(self, name, function, args, kwargs):
            seen.append(str(name))
            return function(*args, **kwargs)

    x = torch.tensor([2.0])
    with interposing.handling(Telling()):
        assert (x.shape, x.size(0), x.item(), len(x), float(x)) == ((1,), 1, 2.0, 1, 2.0)
    assert [n.rpartition(":")[2].rpartition(".")[2] for n in seen][:2] == ["__get__", "size"]
    assert len(seen) == 5 or "item" in " ".join(seen)
    before = len(seen)
    assert x.shape == (1,) and len(seen) == before


def test_subclasses_answer():
    told = []

    class Own(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            told.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    x = torch.ones(2).as_subclass(Own)
    assert x.shape == (2,) and x.sum().item() == 2.0 and len(x) == 2
    assert told[0] == torch.Tensor.shape.__get__
    assert torch.Tensor.item in told and torch.Tensor.__len__ in told


def test_a_program_may_replace_them(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "item", lambda self: "mine")
    assert torch.ones(1).item() == "mine"


def test_what_a_program_put_there_before_the_first_kernel_stays():
    code = (
        "import flambeau as torch\n"
        "kept = torch.Tensor.item\n"
        "torch.Tensor.item = lambda self: ('mine', kept(self))\n"
        "print(torch.ones(1).item(), torch.ones(3).shape)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "('mine', 1.0) torch.Size([3])\n", done.stderr


def test_arrays_share_memory_and_keep_it():
    x = torch.arange(6).reshape(2, 3)
    x.numpy()  # NumPy is known from now on
    array = x.t().numpy()
    array[0, 1] = 7
    assert x[1, 0] == 7 and array.strides == (8, 24) and array.flags.writeable
    del x
    gc.collect()
    torch.zeros(2, 3)
    assert array.tolist() == [[0, 7], [1, 4], [2, 5]]


def test_tensors_share_memory_of_arrays_and_keep_it():
    for dtype in ("f4", "f8", "i2", "?", "c8"):
        for _ in range(2):
            x = torch.from_numpy(np.ones((2, 3), dtype))
            gc.collect()
            assert x.sum().item() == 6 and x.stride() == (3, 1)
    array = np.zeros(3)
    x = torch.from_numpy(array)
    x += 1
    assert array.tolist() == [1.0, 1.0, 1.0] and x._version == 1
    assert torch.from_numpy(np.ones((4, 3)).T).stride() == (1, 3)
    assert torch.from_numpy(np.ones(4)[::2]).stride() == (2,)
    assert torch.from_numpy(np.ones((0, 2))).shape == (0, 2)


def test_odd_arrays_are_told_about():
    torch.from_numpy(np.zeros(1))
    frozen = np.zeros(2)
    frozen.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        torch.from_numpy(frozen)
    with pytest.raises(ValueError, match="negative"):
        torch.from_numpy(np.zeros(3)[::-1])
    with pytest.raises(TypeError, match=r"can.t convert np\.ndarray of type"):
        torch.from_numpy(np.array(["a"]))
    with pytest.raises(TypeError, match=r"expected np\.ndarray"):
        torch.from_numpy([1])
