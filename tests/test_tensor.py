"""Tensors are made, shared, converted, copied and asked about as in PyTorch."""

import gc
import json
import pathlib
import pickle
import weakref

import numpy as np
import pytest

import flambeau as torch
from tests.snippets import outcome
from tests.tensor_cases import SNIPPETS

GOLDEN = pathlib.Path(__file__).parent / "golden/front.json"
RECORDED = json.loads(GOLDEN.read_text())["tensor"]


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_outcome_is_the_recorded_one(snippet):
    assert outcome(torch, snippet) == RECORDED[snippet]


@pytest.mark.oracle
def test_outcome_is_that_of_torch():
    oracle = pytest.importorskip("torch")
    for snippet in SNIPPETS:
        assert outcome(torch, snippet) == outcome(oracle, snippet), snippet


def test_an_array_keeps_the_memory_of_its_tensor_alive():
    array = torch.arange(1000).numpy()
    gc.collect()
    others = [torch.full((1000,), 7) for _ in range(3)]
    assert array.sum() == 499500 and others


def test_a_tensor_keeps_its_array_alive():
    array = np.arange(4.0)
    t, watch = torch.from_numpy(array), weakref.ref(array)
    del array
    assert t.tolist() == [0.0, 1.0, 2.0, 3.0] and watch() is not None
    view = t[1:]
    del t
    assert watch() is not None and view.tolist() == [1.0, 2.0, 3.0]
    del view
    assert watch() is None


def test_a_pickle_of_a_slice_does_not_carry_the_whole():
    large = torch.zeros(100_000)
    small = pickle.dumps(large[:10])
    assert len(small) < 2000
    assert pickle.loads(small).tolist() == [0.0] * 10


def test_a_subclass_survives_pickling_and_copying():
    import copy

    t = torch.ones(2).as_subclass(Marked)
    t.mark = "kept"
    for other in (pickle.loads(pickle.dumps(t)), copy.deepcopy(t)):
        assert type(other) is Marked and other.mark == "kept" and other.tolist() == [1.0, 1.0]


class Marked(torch.Tensor):
    pass


def test_casting_complex_numbers_to_real_ones_is_mentioned():
    with pytest.warns(UserWarning, match="Casting complex values to real discards"):
        assert torch.tensor([1 + 2j]).to(torch.float32).tolist() == [1.0]


def test_large_lists_are_taken_in():
    rows = [[float(i * 100 + j) for j in range(100)] for i in range(50)]
    assert torch.tensor(rows).tolist() == rows
    assert torch.tensor(rows).shape == (50, 100)


def test_numpy_functions_give_tensors_back():
    t = torch.tensor([0.0, 1.0])
    assert isinstance(np.exp(t), torch.Tensor)
    assert np.exp(t).dtype is torch.float32
    assert isinstance(t * np.ones(2), torch.Tensor)


# -- numbers out of memory -------------------------------------------------------------------------

NAMES = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint64 uint32 uint16 uint8".split()


@pytest.mark.parametrize("name", [*NAMES, "bool", "complex64", "complex128"])
def test_lists_hold_the_numbers_that_item_gives(name):
    dtype = getattr(torch, name)
    t = torch.tensor([[0, 1, 2], [3, 100, 7]]).to(dtype)
    assert t.tolist() == [[x.item() for x in row] for row in t]
    assert t.t().tolist() == [[x.item() for x in row] for row in t.t()]
    assert {type(x) for row in t.tolist() for x in row} == {type(t[0, 0].item())}
    assert t[:, 1:].tolist() == [row[1:] for row in t.tolist()]
    assert t[:0].tolist() == [] and t[:, :0].tolist() == [[], []]


def test_arrays_keep_the_memory_that_they_show():
    array = torch.full((3, 5), 4.0).t()[1:].numpy()
    others = [torch.zeros(3, 5) for _ in range(10)]  # would be given the same block
    assert array.shape == (4, 3) and array.strides == (4, 20) and (array == 4).all()
    array[...] = 9
    assert not any(t.any() for t in others)


def test_a_list_that_contains_itself_is_refused():
    data: list = []
    data.append(data)
    with pytest.raises(ValueError, match="too many dimensions 'list'"):
        torch.tensor(data)


def test_memory_that_numpy_looks_at_stays_where_it_is():
    t = torch.ones(3)
    array = t.numpy()
    with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
        t.resize_(100)
    t.resize_(2).fill_(7)
    assert array.tolist() == [7, 7, 1]
    copy = torch.ones(3)
    assert copy.resize_(5).shape == (5,)


def test_determinism_is_yes_or_no():
    with pytest.raises(TypeError, match=r"argument 'mode' \(position 1\) must be bool, not int"):
        torch.use_deterministic_algorithms(1)
