"""`torch._check` and its kin: conditions that a library insists on, each with its kind of error."""

from collections.abc import Callable
from typing import Any

from flambeau._device import resolve
from flambeau._dtype import bool_
from flambeau._tensor import Tensor

__all__ = ["_check", "_check_with", "_check_tensor_all", "_check_tensor_all_with"]


def _check_with(
    error_type: type[Exception], cond: bool, message: Callable[[], Any] | None = None
) -> None:
    """Raise the error unless the condition is True; the message is made only then."""
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is None:
        raise error_type("Expected cond to be True, but got False.")
    if not callable(message):
        raise TypeError("message must be a callable")
    raise error_type(str(message()))


def _of_kind(error_type):
    def check(cond: bool, message: Callable[[], Any] | None = None) -> None:
        _check_with(error_type, cond, message)

    return check


_check, _check_index, _check_value, _check_type, _check_not_implemented = map(
    _of_kind, (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError)
)


def _check_tensor_all_with(
    error_type: type[Exception], cond: Tensor, message: Callable[[], Any] | None = None
) -> None:
    """The same for every element of a tensor of bools."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype is not bool_:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, cond.all().item(), message)


def _check_tensor_all(cond: Tensor, message: Callable[[], Any] | None = None) -> None:
    _check_tensor_all_with(RuntimeError, cond, message)


def _assert_async(input, assert_msg: str | None = None) -> None:
    """Complain if a tensor's only element is zero."""
    if not input:
        usual = "Expected Tensor with single nonzero value, but got zero"
        raise RuntimeError(usual if assert_msg is None else assert_msg)


_LAYOUTS = {
    "strided": "Strided", "sparse_coo": "Sparse", "sparse_csr": "SparseCsr",
    "sparse_csc": "SparseCsc", "sparse_bsr": "SparseBsr", "sparse_bsc": "SparseBsc",
}  # fmt: skip


def _assert_tensor_metadata(
    a,
    size: Any = None,
    stride: Any = None,
    dtype: Any = None,
    *,
    device: Any = None,
    layout: Any = None,
) -> None:
    """Complain if a tensor is not what it is said to be; None is not asked."""

    def shown(kind):
        return _LAYOUTS.get(repr(kind).removeprefix("torch."), repr(kind))

    if size is not None and list(size) != list(a.shape):
        _mismatch("sizes", list(size), list(a.shape))
    if stride is not None and list(stride) != list(a.stride()):
        _mismatch("strides", list(stride), list(a.stride()))
    if dtype is not None and dtype is not a.dtype:
        _mismatch("dtype", dtype.scalar_name, a.dtype.cpp_name)
    if device is not None and resolve(device) != a.device:
        _mismatch("device", device, a.device)
    if layout is not None and layout is not a.layout:
        _mismatch("layout", shown(layout), shown(a.layout))


def _mismatch(what, expected, found):
    raise RuntimeError(f"Tensor {what} mismatch! Expected: {expected}, Got: {found}")
