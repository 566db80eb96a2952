"""`torch._utils`: small functions that libraries and files of PyTorch name."""

import importlib
import sys
from collections.abc import Iterator
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._typed_storage import TypedStorage, UntypedStorage
from flambeau.utils.data.worker_errors import Failure

__all__: list[str] = []

Typed: Any = TypedStorage  # made by a `__new__` of its own
Device: Any = flambeau.device  # whose fields are slots, which mypy does not see


class ExceptionWrapper(Failure):
    """An exception with its traceback as text, to be raised in another thread or process."""

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        found: Any = exc_info or sys.exc_info()
        super().__init__(found[1], where)
        self.exc_type, self.exc_msg = found[0], self.text


def _flatten_dense_tensors(tensors: Any) -> Tensor:
    """All elements of some tensors in a row."""
    return flambeau.cat([t.contiguous().view(-1) for t in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Any) -> tuple[Tensor, ...]:
    """Views of such a row with the shapes of tensors."""
    parts = flat.split([t.numel() for t in tensors])
    return tuple(part.view(t.shape) for part, t in zip(parts, tensors))


def _take_tensors(tensors: Any, size_limit: int) -> Iterator[list[Tensor]]:
    """Tensors in lists of one type, none of more bytes than the limit if it can be helped."""
    kept: dict[str, list[Tensor]] = {}
    sizes: dict[str, int] = {}
    for tensor in tensors:
        kind, size = tensor.type(), _bytes_of(tensor)
        if kept.get(kind) and sizes[kind] + size > size_limit:
            yield kept[kind]
            kept[kind], sizes[kind] = [], 0
        kept.setdefault(kind, []).append(tensor)
        sizes[kind] = sizes.get(kind, 0) + size
    yield from filter(None, kept.values())


def _bytes_of(tensor: Tensor) -> int:
    if tensor.is_sparse:
        return tensor._indices().nbytes + tensor._values().nbytes
    return tensor.nbytes


def _rebuild_tensor(storage: Any, storage_offset: int, size: Any, stride: Any) -> Tensor:
    """A tensor over a storage."""
    if isinstance(storage, UntypedStorage):
        storage = Typed(wrap_storage=storage, dtype=flambeau.uint8)
    empty = flambeau.empty(0, dtype=storage.dtype, device=storage.device)
    return empty.set_(storage, storage_offset, size, stride)


def _rebuild_tensor_v2(
    storage: Any,
    storage_offset: int,
    size: Any,
    stride: Any,
    requires_grad: bool,
    backward_hooks: Any,
    metadata: Any = None,
) -> Tensor:
    """A tensor over a storage, as files describe it."""
    tensor: Any = _rebuild_tensor(storage, storage_offset, size, stride)
    tensor.requires_grad = requires_grad
    tensor._backward_hooks = backward_hooks
    return tensor


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> Any:
    """A parameter, as files describe it."""
    parameter = flambeau.nn.Parameter(data, requires_grad)
    parameter._backward_hooks = backward_hooks
    return parameter


def _rebuild_parameter_with_state(
    data: Tensor, requires_grad: bool, backward_hooks: Any, state: Any
) -> Any:
    """The same with attributes of its own."""
    parameter = _rebuild_parameter(data, requires_grad, backward_hooks)
    vars(parameter).update(state)
    return parameter


def _element_size(dtype: Any) -> int:
    """Bytes of an element."""
    return dtype.itemsize


def _get_available_device_type() -> str | None:
    """The kind of accelerator there is."""
    return "cuda" if flambeau.cuda.is_available() else None


def _get_device_module(device_type: str) -> Any:
    """`torch.cuda` for "cuda"."""
    try:
        return importlib.import_module(f"flambeau.{device_type}")
    except ModuleNotFoundError:
        raise RuntimeError(
            f"Device '{device_type}' does not have a corresponding module registered as "
            f"'torch.{device_type}'."
        ) from None


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> Any:
    """The number of a device: of "cuda:1" it is 1, of the CPU -1 where that is allowed."""
    if isinstance(device, int):
        return device
    if isinstance(device, str):
        device = Device(device)
    if isinstance(device, Device):
        if device.type == "cpu" and not allow_cpu:
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        index = -1 if device.type == "cpu" else device.index
        if index is not None:
            return index
    if not optional:
        raise ValueError(
            f"Expected a torch.device with a specified index or an integer, but got:{device}"
        )
    return flambeau.cuda.current_device() if flambeau.cuda.is_available() else None


def _get_all_device_indices() -> list[int]:
    """The numbers of all accelerators."""
    return list(range(flambeau.cuda.device_count()))
