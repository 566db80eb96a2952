"""Tensors travel to other libraries and back without a copy, and memory is freed in time."""

import ctypes
import gc
import weakref

import numpy as np
import pytest

import flambeau as torch
from flambeau.runtime import dlpack as native
from flambeau.utils.dlpack import DLDeviceType, from_dlpack, to_dlpack

NUMPY = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 float32 float64 complex64 "
    "complex128"
).split()
ALL = [*NUMPY, "bfloat16"]


@pytest.fixture(autouse=True)
def nothing_leaks():
    gc.collect()
    before = len(native._exported)
    yield
    gc.collect()
    assert len(native._exported) == before


@pytest.mark.parametrize("name", NUMPY)
def test_numpy_sees_our_memory(name):
    t = torch.ones(2, 3, dtype=getattr(torch, name))
    a = np.from_dlpack(t)
    assert a.dtype == np.dtype(name) and a.shape == (2, 3) and a.tolist() == t.tolist()
    t[0, 1] = 0
    assert a.tolist() == t.tolist()


@pytest.mark.parametrize("name", NUMPY)
def test_we_see_numpys_memory(name):
    a = np.ones((2, 3), dtype=name)
    t = torch.from_dlpack(a)
    assert t.dtype is getattr(torch, name) and t.shape == (2, 3)
    a[1, 2] = 0
    assert t.tolist() == a.tolist()
    t[0, 0] = 0
    assert t.tolist() == a.tolist()


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("version", [None, (0, 8), (1, 0)])
def test_a_round_trip_shares_memory(name, version):
    t = torch.ones(3, dtype=getattr(torch, name))
    back = from_dlpack(t.__dlpack__(max_version=version))
    assert back.dtype is t.dtype and back.data_ptr() == t.data_ptr()
    back[1] = 0
    assert t.tolist() == back.tolist()


def test_strides_and_offsets_are_kept():
    t = torch.arange(24).view(2, 3, 4)[:, 1:].permute(2, 0, 1)
    a = np.from_dlpack(t)
    assert a.tolist() == t.tolist() and a.strides == tuple(8 * s for s in t.stride())
    back = torch.from_dlpack(a)
    assert back.stride() == t.stride() and back.storage_offset() == 0
    assert back.data_ptr() == t.data_ptr()


@pytest.mark.parametrize("t", [torch.arange(16)[::3][:1], torch.ones(4, 1, 3).transpose(0, 1)])
def test_strides_of_single_elements_are_kept(t):
    assert 3 in t.stride() and from_dlpack(t).stride() == t.stride()


FLOATS = ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]


@pytest.mark.parametrize("code, name", list(enumerate(FLOATS, 10)))
def test_floats_of_eight_bits_go_by_the_numbers_of_the_standard(code, name):
    t = torch.tensor([1.0, 2.0]).to(getattr(torch, name))
    capsule = t.__dlpack__()
    address = ctypes.pythonapi.PyCapsule_GetPointer(id(capsule), b"dltensor")
    found = native._Managed.from_address(address).tensor.dtype
    assert (found.code, found.bits, found.lanes) == (code, 8, 1)
    back = from_dlpack(capsule)
    assert back.dtype is t.dtype and back.tolist() == [1, 2]


def test_an_expanded_tensor_stays_expanded():
    a = np.from_dlpack(torch.arange(3).expand(2, 3))
    assert a.strides == (0, 8) and a.tolist() == [[0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,), (1, 1)])
def test_shapes_at_the_edge(shape):
    t = torch.zeros(shape)
    assert np.from_dlpack(t).shape == shape
    assert torch.from_dlpack(np.zeros(shape)).shape == shape


def quantized():
    return torch.quantize_per_tensor(torch.ones(2), 0.1, 10, torch.qint8)


def test_the_version_decides_the_name_of_the_capsule():
    t = torch.ones(2)
    assert '"dltensor"' in repr(t.__dlpack__())
    assert '"dltensor"' in repr(t.__dlpack__(max_version=(0, 8)))
    assert '"dltensor_versioned"' in repr(t.__dlpack__(max_version=(1, 0)))
    assert '"dltensor_versioned"' in repr(t.__dlpack__(max_version=(3, 1)))
    assert '"dltensor"' in repr(to_dlpack(t))
    assert t.__dlpack_device__() == (DLDeviceType.kDLCPU, 0)


def test_a_used_capsule_says_so_and_cannot_be_used_again():
    capsule = torch.ones(2).__dlpack__()
    kept = from_dlpack(capsule)
    assert '"used_dltensor"' in repr(capsule)
    with pytest.raises(RuntimeError, match="from_dlpack received an invalid capsule"):
        from_dlpack(capsule)
    del capsule
    assert kept.tolist() == [1.0, 1.0]


def test_a_capsule_nobody_wants_lets_go_of_the_memory():
    t = torch.ones(2)
    watch = weakref.ref(t._storage)
    capsule = t.__dlpack__(max_version=(1, 0))
    del t
    assert watch() is not None
    del capsule
    assert watch() is None


def test_memory_lives_as_long_as_the_last_reader():
    t = torch.arange(5)
    watch = weakref.ref(t._storage)
    a = np.from_dlpack(t)
    del t
    part = a[2:]
    del a
    assert watch() is not None and part.tolist() == [2, 3, 4]
    del part
    assert watch() is None


def test_a_foreign_owner_lives_as_long_as_the_last_tensor():
    a = np.arange(5.0)
    watch = weakref.ref(a)
    t = torch.from_dlpack(a)
    del a
    view = t[1:].view(2, 2)
    del t
    assert watch() is not None and view.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    del view
    assert watch() is None


def test_a_copy_is_a_copy_and_says_so():
    a = np.zeros(2)
    t = torch.from_dlpack(a, copy=True)
    a[0] = 1
    assert t.tolist() == [0.0, 0.0]
    capsule = torch.zeros(2).__dlpack__(max_version=(1, 0), copy=True)
    address = ctypes.pythonapi.PyCapsule_GetPointer(id(capsule), b"dltensor_versioned")
    assert native._ManagedVersioned.from_address(address).flags & native.IS_COPIED


def test_a_producer_from_before_version_1_is_understood():
    class Old:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, stream=None):
            return self.array.__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

    a = np.arange(3)
    t = torch.from_dlpack(Old(a))
    a[0] = 5
    assert t.tolist() == [5, 1, 2]
    assert torch.from_dlpack(Old(a), copy=True).tolist() == [5, 1, 2]


def test_strides_may_be_missing():
    capsule = torch.arange(6).view(2, 3).__dlpack__()
    address = ctypes.pythonapi.PyCapsule_GetPointer(id(capsule), b"dltensor")
    native._Managed.from_address(address).tensor.strides = None
    assert from_dlpack(capsule).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_byte_offset_counts():
    capsule = torch.arange(6).__dlpack__()
    address = ctypes.pythonapi.PyCapsule_GetPointer(id(capsule), b"dltensor")
    tensor = native._Managed.from_address(address).tensor
    tensor.byte_offset, tensor.shape[0] = 16, 4
    assert from_dlpack(capsule).tolist() == [2, 3, 4, 5]


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: torch.ones(2, requires_grad=True).__dlpack__(), BufferError, "require gradient"),
        (lambda: torch.ones(2, device="meta").__dlpack__(), BufferError, "Cannot pack"),
        (lambda: to_dlpack(torch.ones(2, device="meta")), BufferError, "Cannot pack"),
        (lambda: torch.ones(2, device="meta").__dlpack_device__(), ValueError, "Unknown device"),
        (lambda: torch.ones(2).__dlpack__(stream="a"), TypeError, "stream must be"),
        (lambda: torch.ones(2).__dlpack__(stream=3), AssertionError, "stream should be None"),
        (lambda: torch.ones(2).__dlpack__(dl_device=(2, 0)), BufferError, "device_type: 2"),
        (lambda: quantized().__dlpack__(), BufferError, "QUInt/QInt types are not supported"),
        (lambda: torch.from_dlpack(3), RuntimeError, "received an invalid capsule"),
        (lambda: torch.from_dlpack(np.array(["a"])), BufferError, "DLPack only supports"),
        (lambda: torch.from_dlpack(np.arange(3)[::-1]), RuntimeError, "overflowed with sizes"),
        (lambda: torch.from_dlpack(np.arange(3), device="meta"), BufferError, "Cannot pack"),
        (lambda: torch.from_dlpack(np.arange(3), device="cuda"), AssertionError, "CUDA"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_dtype_nobody_has_is_refused_and_released():
    capsule = torch.arange(2).__dlpack__()
    address = ctypes.pythonapi.PyCapsule_GetPointer(id(capsule), b"dltensor")
    native._Managed.from_address(address).tensor.dtype.bits = 4
    with pytest.raises(RuntimeError, match="Unsupported DLPack dtype"):
        from_dlpack(capsule)


def test_borrowed_memory_does_not_grow():
    with pytest.raises(RuntimeError, match="not resizable"):
        torch.from_dlpack(np.zeros(2)).resize_(10)


@pytest.mark.oracle
@pytest.mark.parametrize("name", ALL)
def test_torch_and_we_share_in_both_directions(name):
    oracle = pytest.importorskip("torch")
    ours = torch.ones(2, 3, dtype=getattr(torch, name)).t()
    theirs = oracle.from_dlpack(ours)
    assert theirs.data_ptr() == ours.data_ptr() and theirs.stride() == ours.stride()
    assert str(theirs.dtype) == str(ours.dtype)
    theirs[0, 0] = 0
    assert ours.tolist() == theirs.tolist()
    back = torch.from_dlpack(theirs[1:])
    assert back.data_ptr() == theirs[1:].data_ptr() and back.tolist() == theirs[1:].tolist()
    assert from_dlpack(oracle.utils.dlpack.to_dlpack(theirs)).tolist() == theirs.tolist()
    assert oracle.utils.dlpack.from_dlpack(to_dlpack(ours)).tolist() == ours.tolist()
