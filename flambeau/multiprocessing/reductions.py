"""What travels between processes in place of tensors and storages.

A tensor becomes its storage and its layout, a storage its slice of a shared block, and a block a
descriptor or the name of a file. Each is pickled as an object of its own, so whatever is shared
within a message stays shared, and a model of hundreds of small tensors sends a few descriptors.
"""

import os
import pickle
import warnings
from multiprocessing import reduction
from multiprocessing.reduction import ForkingPickler
from typing import Any

from flambeau import _dtype
from flambeau._device import cpu, meta
from flambeau._layout import Size, make_layout
from flambeau._tensor import Tensor
from flambeau._tensor.admission import admit
from flambeau._typed_storage import TypedStorage, UntypedStorage
from flambeau.nn.parameter import Buffer, Parameter
from flambeau.runtime import shared_memory, shared_storage
from flambeau.storage import Storage, new_storage, root_of

NOT_A_LEAF = (
    "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not "
    "support crossing process boundaries.  If you just want to transfer the data, call detach() on "
    "the tensor before serializing (e.g., putting it on the queue)."
)


def check_may_travel(tensor: Tensor) -> None:
    """A tensor with a history cannot leave its process; hooks stay behind."""
    if tensor._requires_grad and not tensor.is_leaf:
        raise RuntimeError(NOT_A_LEAF)
    extra = tensor._extra
    if extra is not None and extra.hooks:
        for hook in extra.hooks.values():
            if not getattr(hook, "__torch_unserializable__", False):
                warnings.warn(
                    f"backward hook {hook!r} on tensor will not be serialized.  If this is "
                    "expected, you can decorate the function with "
                    "@torch.utils.hooks.unserializable_hook to suppress this warning",
                    stacklevel=2,
                )


# -- tensors ---------------------------------------------------------------------------------------


def reduce_tensor(tensor: Tensor) -> Any:
    """Function and arguments that rebuild a tensor elsewhere, over the same memory."""
    check_may_travel(tensor)
    layout = tensor._layout
    if layout.strides is None:  # a sparse tensor travels as its parts
        return tensor.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    if layout.device.runtime.computes:
        # here and not with its storage, because here it can be seen that nobody else looks at it
        shared_storage.share(tensor._storage)
    storage = root_of(tensor._storage)
    offset = tensor._offset + tensor._storage.pointer - storage.pointer
    kind = type(tensor)
    described = (
        None if kind is Tensor else kind,
        tuple(layout.shape),
        layout.strides,
        layout.dtype.name,
        tensor._requires_grad,
        tensor.persistent if isinstance(tensor, Buffer) else None,
    )
    if not layout.device.runtime.computes:
        return rebuild_tensor, (*described, None, 0)
    return rebuild_tensor, (*described, storage, offset)


def rebuild_tensor(
    kind: Any,
    shape: tuple,
    strides: tuple,
    dtype: str,
    requires_grad: bool,
    persistent: bool | None,
    storage: Storage | None,
    offset: int,
) -> Tensor:
    device = meta if storage is None else cpu
    layout = make_layout(Size(shape), strides, _dtype.BY_NAME[dtype], device)
    memory = new_storage(0) if storage is None else storage
    out = admit(layout, memory, offset, Tensor if kind is None else kind)
    out._requires_grad = requires_grad
    if persistent is not None:
        out.persistent, out._is_buffer = persistent, True
    return out


# -- storages and blocks ---------------------------------------------------------------------------


def reduce_storage(storage: Any) -> tuple:
    place = shared_storage.share(storage)
    block = place.block
    if block is not None and block.path is not None and not os.path.exists(block.path):
        # the process it came from has removed the name, but the memory is still mapped here
        place = shared_storage.share(storage, anew=True)
    return rebuild_storage, (place.block, place.offset, storage.nbytes)


def rebuild_storage(block: Any, offset: int, nbytes: int) -> Storage:
    return shared_storage.arrived(block, offset, nbytes)


def reduce_block(block: shared_memory.Block) -> tuple:
    if block.path is not None:
        return rebuild_named_block, (block.name, block.nbytes, block.new_link())
    return rebuild_block, (block.name, block.nbytes, reduction.DupFd(block.fd))


def rebuild_block(name: str, nbytes: int, descriptor: Any) -> shared_memory.Block:
    return shared_memory.open_block(name, nbytes, fd=descriptor.detach())


def rebuild_named_block(name: str, nbytes: int, path: str) -> shared_memory.Block:
    return shared_memory.open_block(name, nbytes, path=path)


def reduce_untyped_storage(storage: UntypedStorage) -> tuple:
    inner = storage._storage
    root = root_of(inner)
    if inner is not root:
        return rebuild_part, (root, inner.pointer - root.pointer, inner.nbytes)
    return UntypedStorage, (root,)


def rebuild_part(root: Storage, start: int, nbytes: int) -> UntypedStorage:
    return UntypedStorage(root)[start : start + nbytes]


def reduce_typed_storage(storage: TypedStorage) -> tuple:
    return rebuild_typed_storage, (storage._untyped_storage, storage.dtype.name)


def rebuild_typed_storage(storage: UntypedStorage, dtype: str) -> TypedStorage:
    return TypedStorage(wrap_storage=storage, dtype=_dtype.named(dtype))


def register() -> None:
    """Have multiprocessing use all of these."""
    for kind in (Tensor, Parameter):
        ForkingPickler.register(kind, reduce_tensor)
    ForkingPickler.register(Storage, reduce_storage)
    ForkingPickler.register(shared_memory.Block, reduce_block)
    ForkingPickler.register(UntypedStorage, reduce_untyped_storage)
    ForkingPickler.register(TypedStorage, reduce_typed_storage)
