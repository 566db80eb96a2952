"""What is said about memory is checked before it becomes a tensor."""

import numpy as np
import pytest

import flambeau as torch
from flambeau._tensor.admission import reach

OVERFLOW = "Storage size calculation overflowed with sizes="


def storage(count=4):
    return torch.arange(float(count)).untyped_storage()


# (offset, size, stride), then elements, offset and bytes of the storage afterwards
GROWING = [
    ((0, [100], [1]), 100, 0, 400),
    ((0, [100]), 100, 0, 400),
    ((2, [4], [1]), 4, 2, 24),
    ((1, [2, 2], [3, 1]), 4, 1, 24),
    ((3, [1], [1]), 1, 3, 16),
    ((0, [2, 2], []), 4, 0, 16),
    ((100, [0], [1]), 0, 100, 16),
    ((0, [1 << 40], [0]), 1 << 40, 0, 16),
]


@pytest.mark.parametrize("place, numel, offset, nbytes", GROWING)
@pytest.mark.parametrize("kind", ["storage", "tensor", "data"])
def test_set_grows_a_storage(place, numel, offset, nbytes, kind):
    owner = torch.arange(4.0)
    source = {"storage": owner.untyped_storage(), "tensor": owner, "data": owner.data}[kind]
    x = torch.zeros(1).set_(source, *place)
    assert (x.numel(), x.storage_offset()) == (numel, offset)
    assert x.untyped_storage().nbytes() == nbytes
    assert owner.tolist() == [0.0, 1.0, 2.0, 3.0]
    if nbytes > 16:
        x.fill_(7.0)
        assert x.sum() == 7 * numel


REFUSED = [
    ((-1, [4], [1]), "Tensor: invalid storage offset -1"),
    ((1 << 62, [4], [1]), OVERFLOW + "[4] and strides=[1]"),
    ((1 << 61, [4], [1]), OVERFLOW + "[4] and strides=[1]"),
    ((0, [4], [-1]), OVERFLOW + "[4] and strides=[-1]"),
    ((0, [2], [1 << 62]), OVERFLOW + "[2] and strides=[4611686018427387904]"),
    ((0, [1 << 33, 1 << 33], [1, 1]), "numel: integer multiplication overflow"),
    ((0, [2, 2], [1]), "unequal size length (2) and stride length (1)"),
    ((0, [1 << 45], [1]), "DefaultCPUAllocator: can't allocate memory"),
    ((0, [-1], [1]), "negative dimension"),
]


@pytest.mark.parametrize("place, words", REFUSED)
def test_set_refuses_what_no_storage_can_hold(place, words):
    memory, x = storage(), torch.ones(2)
    with pytest.raises(RuntimeError) as caught:
        x.set_(memory, *place)
    assert words in str(caught.value)
    assert x.tolist() == [1.0, 1.0] and memory.nbytes() == 16


def test_set_refuses_what_is_no_memory_of_its_own():
    with pytest.raises(RuntimeError, match="storage that is not resizable"):
        torch.zeros(1).set_(torch.from_numpy(np.zeros(4, "f4")).untyped_storage(), 0, [100], [1])
    with pytest.raises(RuntimeError, match="Expected a Storage of type float"):
        torch.zeros(1).set_(torch.zeros(4, dtype=torch.int32).storage(), 0, [3], [1])
    with pytest.raises(TypeError, match="invalid combination"):
        torch.zeros(1).set_(3)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        torch.zeros(3, requires_grad=True).set_(torch.zeros(2))


def test_set_counts_from_where_a_tensor_begins():
    x = torch.zeros(1).set_(torch.arange(4.0)[1:], 1, [2], [1])
    assert x.storage_offset() == 2 and x.tolist() == [2.0, 3.0]


@pytest.mark.parametrize(
    "size, stride, offset, words",
    [
        ((2,), (1,), 1 << 62, OVERFLOW + "[2] and strides=[1]"),
        ((2,), (1 << 62,), 0, OVERFLOW + "[2] and strides=[4611686018427387904]"),
        ((1 << 33, 1 << 33), (0, 0), 0, "numel: integer multiplication overflow"),
        ((5,), (1,), 0, "requiring a storage size of 20 are out of bounds for storage of size 16"),
        ((2,), (1,), -3, "Tensor: invalid storage offset -3"),
        ((2, -1), (1, 1), 0, OVERFLOW + "[2, -1] and strides=[1, 1]"),
    ],
)
def test_any_strides_stay_inside(size, stride, offset, words):
    for call in ("as_strided", "as_strided_"):
        with pytest.raises(RuntimeError) as caught:
            getattr(torch.arange(4.0), call)(size, stride, offset)
        assert words in str(caught.value)


def test_elements_of_another_size_do_not_reach_further():
    assert torch.view_as_complex(torch.zeros(2, 2, dtype=torch.float16)).nbytes == 8
    x = torch.arange(8, dtype=torch.int16)
    assert x.view(torch.int64).shape == (2,) and x[:4].view(torch.float64).shape == (1,)


def test_arrays_bring_the_bytes_that_they_reach():
    spread = torch.from_numpy(np.broadcast_to(np.ones(1), (1000,)).copy()[::3])
    assert spread.untyped_storage().nbytes() == 999 * 8 + 8
    with pytest.warns(UserWarning, match="not writable"):
        one = torch.from_numpy(np.broadcast_to(np.ones(1), (1000,)))
    assert one.untyped_storage().nbytes() == 8
    with pytest.raises(RuntimeError, match="out of bounds for storage of size 8"):
        one.as_strided((1000,), (1,))


@pytest.mark.parametrize("nbytes", [-1, -(1 << 40)])
def test_storages_have_no_negative_size(nbytes):
    for make in (torch.UntypedStorage, storage().resize_):
        with pytest.raises(RuntimeError, match="negative number"):
            make(nbytes)


def test_no_layout_has_more_than_native_code_can_count():
    for sizes in ((1 << 40, 1 << 40), (1 << 62,), (1 << 40, 1 << 40, 0), (1 << 63,)):
        for device in ("cpu", "meta"):
            with pytest.raises((RuntimeError, TypeError)):
                torch.empty(sizes, device=device)
    with pytest.raises(RuntimeError, match="Stride calculation overflowed"):
        torch.empty(0, 1 << 40, 1 << 40)
    with pytest.raises(RuntimeError, match="numel: integer multiplication overflow"):
        torch.zeros(1).expand(1 << 40, 1 << 40)
    assert torch.empty((1 << 63) - 1, 0).numel() == 0


def test_where_a_tensor_ends():
    assert reach((2, 3), (3, 1), 4, 4) == 28
    assert reach((0, 3), (3, 1), 4, 4) == 0
    assert reach((), (), 8, 8) == 16
