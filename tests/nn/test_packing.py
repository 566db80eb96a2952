"""Padded and packed sequences: values, gradients, round trips, errors."""

import pickle

import numpy as np
import pytest

import flambeau
from flambeau.nn.utils import rnn as R
from tests.nn import case_checks as checks
from tests.nn.layer_cases import bits, differentiate, flat, names, numbers
from tests.nn.rnn_cases import PACKING, PACKING_ERRORS

GOLDEN = checks.recorded("nn_rnn.json")


def seen(lib, call):
    """Results and gradients of a call, as arrays."""
    inputs, known = names(lib)
    found = [t for t in flat(eval(call, {**known, "R": lib.nn.utils.rnn})) if t is not None]
    results = [numbers(t) for t in found]
    differentiate(found)
    return results + [numbers(t.grad) for t in inputs.made if t.grad is not None]


@pytest.mark.parametrize("call", PACKING)
def test_a_call_gives_what_is_recorded(call):
    assert [[list(a.shape), bits(a)] for a in seen(flambeau, call)] == GOLDEN["packing"][call]


@pytest.mark.oracle
@pytest.mark.parametrize("call", PACKING)
def test_a_call_gives_what_pytorch_gives(call):
    torch = pytest.importorskip("torch")
    for mine, theirs in zip(seen(flambeau, call), seen(torch, call), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("call", PACKING_ERRORS)
def test_a_bad_call_is_refused_as_recorded(call):
    assert checks.refusal(flambeau, call.replace("R.", "utils.rnn.")) == GOLDEN["errors"][call]


def test_lengths_beyond_the_padding_are_refused():
    with pytest.raises(RuntimeError, match="at most 4"):
        R.pack_padded_sequence(flambeau.ones(4, 3), [5, 4, 1])


def test_a_packed_sequence_is_a_tuple_with_names():
    packed = R.pack_sequence([flambeau.ones(2), flambeau.ones(3)], enforce_sorted=False)
    assert packed._fields == ("data", "batch_sizes", "sorted_indices", "unsorted_indices")
    assert packed.batch_sizes.tolist() == [2, 2, 1]
    assert packed.to(flambeau.float32) is packed
    assert not packed.is_cuda
    other = pickle.loads(pickle.dumps(packed))
    assert isinstance(other, R.PackedSequence) and other.data.tolist() == [1.0] * 5
    other = packed.double()
    assert isinstance(other, R.PackedSequence) and other.data.dtype is flambeau.float64
    assert other.sorted_indices.dtype is flambeau.int64


def test_what_is_packed_comes_back(rng):
    for batch_first in (False, True):
        lengths = rng.integers(1, 9, 6)
        shape = (6, 9, 2) if batch_first else (9, 6, 2)
        x = flambeau.from_numpy(rng.standard_normal(shape))
        packed = R.pack_padded_sequence(x, lengths.tolist(), batch_first, enforce_sorted=False)
        assert len(packed.data) == lengths.sum()
        padded, found = R.pad_packed_sequence(packed, batch_first, total_length=9)
        assert found.tolist() == lengths.tolist()
        lines = x if batch_first else x.transpose(0, 1)
        back = padded if batch_first else padded.transpose(0, 1)
        for line, same, n in zip(lines, back, lengths):
            assert line[:n].tolist() == same[:n].tolist()
            assert same[n:].abs().sum().item() == 0


def test_gradients_reach_what_was_packed():
    x = flambeau.randn(4, 3, 2, dtype=flambeau.float64, requires_grad=True)

    def there_and_back(t):
        packed = R.pack_padded_sequence(t, [2, 4, 1], enforce_sorted=False)
        return R.pad_packed_sequence(packed)[0]

    assert flambeau.autograd.gradcheck(there_and_back, (x,))
    assert flambeau.autograd.gradgradcheck(there_and_back, (x,))
