"""Storages as programs see them: bytes, and elements of a dtype."""

import copy

import pytest

import flambeau as torch

F = torch.FloatStorage
VALUES = (
    (lambda: F(3).size(), 3),
    (lambda: F([1, 2, 3])[-1], 3.0),
    (lambda: F([1, 2, 3]).double().tolist(), [1.0, 2.0, 3.0]),
    (lambda: F([1, 2, 3]).type(), "torch.FloatStorage"),
    (lambda: torch.IntStorage([-1, 3]).byte().tolist(), [255, 3]),
    (lambda: torch.BoolStorage([2, 0]).tolist(), [True, False]),
    (lambda: torch.ComplexFloatStorage([1 + 2j]).complex_double().tolist(), [1 + 2j]),
    (lambda: torch.UntypedStorage([1, 2]).float().tolist(), [1.0, 2.0]),
    (lambda: F([1, 2]).copy_(F([4, 5])).tolist(), [4.0, 5.0]),
    (lambda: F([1, 2]).fill_(2).tolist(), [2.0, 2.0]),
    (lambda: F([1, 2]).nbytes(), 8),
    (lambda: F([1, 2]).element_size(), 4),
    (lambda: F([1, 2]).pickle_storage_type(), "FloatStorage"),
    (lambda: F([1, 2]).get_device(), None),
    (lambda: torch.IntStorage.from_buffer(b"abcdefgh", "big").tolist(), [1633837924, 1701209960]),
    (lambda: torch.ByteStorage.from_buffer(b"abc").tolist(), [97, 98, 99]),
    (lambda: isinstance(torch.zeros(2).storage(), F), True),
    (lambda: isinstance(torch.zeros(2).storage(), torch.IntStorage), False),
    (lambda: torch.zeros(2).storage_type() is F, True),
    (lambda: torch.zeros(2, device="meta").untyped_storage().resize_(100).nbytes(), 100),
    (lambda: torch.TypedStorage([1, 2], device="meta", dtype=torch.int16).data_ptr(), 0),
    (lambda: repr(torch.zeros(1, device="meta").storage())[:20], "...\n[torch.storage.T"),
    (lambda: torch.zeros(3).storage().resizable(), True),
    (lambda: torch.QUInt8Storage([1, 2]).tolist(), [1, 2]),
    (lambda: torch.UntypedStorage([1, 2])[-1], 2),
    (lambda: len(torch.UntypedStorage(5)[1:3]), 2),
    (lambda: torch.storage._dtype_to_storage_type_map()[torch.int64], "LongStorage"),
    (lambda: torch.cuda.FloatStorage in torch._storage_classes, True),
)


@pytest.mark.parametrize("number", range(len(VALUES)))
def test_value(number):
    call, value = VALUES[number]
    assert call() == value


META = "Not available for 'meta' device type"
REFUSED = (
    (lambda: F([1, 2])[5], IndexError, "index 5 out of range for storage of size 2"),
    (lambda: F([1, 2])[0:1], RuntimeError, "slices are only supported in UntypedStorage"),
    (lambda: torch.zeros(2, device="meta").untyped_storage().tolist(), NotImplementedError, META),
    (lambda: torch.zeros(2, device="meta").storage()[0], NotImplementedError, META),
    (lambda: torch.zeros(2, device="meta").storage().cpu(), NotImplementedError, "Cannot copy out"),
    (lambda: torch.UntypedStorage([1])[3], IndexError, "index 3 out of range"),
    (lambda: F(device="cpu"), RuntimeError, "'device' cannot be specified"),
    (lambda: F(0, 0), RuntimeError, "Too many positional arguments"),
    (lambda: F("a"), TypeError, "invalid data type"),
    (lambda: F(torch.ones(1)), TypeError, "Argument type not recognized"),
    (lambda: F(wrap_storage=F()), TypeError, "must be UntypedStorage"),
    (lambda: torch.TypedStorage(wrap_storage=torch.UntypedStorage()), RuntimeError, "'dtype' must"),
    (lambda: torch.TypedStorage(device="xla"), RuntimeError, "Storage device not recognized"),
    (lambda: torch.storage._LegacyStorage(), RuntimeError, "Only child classes of"),
    (lambda: torch.cuda.FloatStorage.from_buffer(), RuntimeError, "Not available for CUDA storage"),
    (lambda: F([1]).fill_(F([1])), RuntimeError, "cannot set item with value type"),
)


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_refused(number):
    call, kind, message = REFUSED[number]
    with pytest.raises(kind, match=message):
        call()


def test_copies_of_tensors_and_their_storages_stay_together():
    a = torch.arange(4.0)
    t, (typed, untyped), view = copy.deepcopy([a, [a.storage(), a.untyped_storage()], a[1:]])
    t.fill_(7)
    assert typed.tolist() == [7.0] * 4 and view.tolist() == [7.0] * 3
    assert untyped.data_ptr() == t.data_ptr() != a.data_ptr()


def test_bytes_turn_around():
    storage = torch.UntypedStorage(list(range(8)))
    storage.byteswap(torch.complex64)
    assert storage.tolist() == [3, 2, 1, 0, 7, 6, 5, 4]
    storage.byteswap(torch.int16)
    assert storage.tolist() == [2, 3, 0, 1, 6, 7, 4, 5]


def test_memory_that_arrays_look_at_does_not_grow():
    x = torch.randn(5)
    x.numpy()
    assert not x.storage().resizable()


@pytest.fixture
def exactly():
    torch.use_deterministic_algorithms(True)
    yield
    torch.utils.deterministic.fill_uninitialized_memory = True
    torch.use_deterministic_algorithms(False)


NEW = (
    lambda dtype: torch.empty(3, 4, dtype=dtype),
    lambda dtype: torch.empty((3, 4), dtype=dtype, memory_format=torch.contiguous_format),
    lambda dtype: torch.empty(3, 4, out=torch.zeros(1, dtype=dtype)),
    lambda dtype: torch.empty_like(torch.zeros(3, 4, dtype=dtype)),
    lambda dtype: torch.empty_strided((3, 4), (1, 5), dtype=dtype),
    lambda dtype: torch.empty_permuted((3, 4), (1, 0), dtype=dtype),
    lambda dtype: torch.zeros(1, dtype=dtype).new_empty(3, 4),
    lambda dtype: torch.zeros(0, dtype=dtype).resize_(12),
)


@pytest.mark.parametrize("number", range(len(NEW)))
def test_new_memory_is_filled_where_runs_must_agree(number, exactly):
    assert NEW[number](torch.float32).isnan().all()
    assert NEW[number](torch.complex64).isnan().all()
    assert (NEW[number](torch.int16) == 32767).all()
    assert NEW[number](torch.bool).all()


def test_filling_can_be_turned_off(exactly):
    grown = torch.zeros(2, dtype=torch.int16).resize_(4)
    assert grown.tolist() == [0, 0, 32767, 32767] and torch.empty(2)._version == 0
    torch.utils.deterministic.fill_uninitialized_memory = False
    assert not torch._C._get_deterministic_fill_uninitialized_memory()
    with pytest.raises(RuntimeError, match="expected a bool, but got int"):
        torch.utils.deterministic.fill_uninitialized_memory = 1


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float32])
def test_tensors_of_storages_copy_the_elements(dtype):
    a = torch.ones(3, dtype=dtype)
    for storage in a.storage(), a.untyped_storage():
        found = torch.tensor(storage, dtype=dtype)
        assert found.tolist() == a.tolist() and found.data_ptr() != a.data_ptr()
    with pytest.raises(RuntimeError, match="Expected a Storage of type"):
        torch.tensor(a.storage(), dtype=torch.int16)


def test_parts_of_storages_are_read_where_they_lie():
    part = torch.UntypedStorage(list(range(8)))[2:5]
    assert part.tolist() == [2, 3, 4]
    assert part.fill_(7).tolist() == [7, 7, 7] and part.clone().tolist() == [7, 7, 7]


def test_storages_of_bytes_are_storage_bases():
    assert isinstance(torch.ones(2).untyped_storage(), torch.StorageBase)
    assert not issubclass(torch.TypedStorage, torch.StorageBase)
    with pytest.raises(RuntimeError, match="Cannot directly construct StorageBase"):
        torch.StorageBase()
