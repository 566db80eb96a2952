"""The door through which memory becomes a tensor on somebody's word.

Sizes, strides and offsets that a program, a file, another process or another library states are
checked against the bytes of the storage here, and nowhere else; kernels believe every layout that
they are handed. Views that ops make of tensors need no check, since they reach no further than what
they are made of.
"""

import math

from flambeau import errors
from flambeau._tensor import Tensor, make_tensor


def reach(sizes, strides, start, itemsize):
    """One past the last byte that a tensor reaches; start: its first byte. 0 if it has no elements.

    Refuses what native code could not count.
    """
    if start < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {start // itemsize}")
    if min(sizes, default=0) < 0 or min(strides, default=0) < 0:
        raise errors.storage_overflow(sizes, strides)
    numel = math.prod(sizes)
    if numel > errors.LARGEST:
        raise RuntimeError("numel: integer multiplication overflow")
    last = sum((n - 1) * s for n, s in zip(sizes, strides))
    if start > errors.LARGEST or (numel and start + (last + 1) * itemsize > errors.LARGEST):
        raise errors.storage_overflow(sizes, strides)
    return start + (last + 1) * itemsize if numel else 0


def check_place(sizes, strides, start, itemsize, room):
    """Does a tensor that begins at a byte stay within so many bytes?"""
    needed = reach(sizes, strides, start, itemsize)
    if needed > room:
        raise RuntimeError(
            f"setStorage: sizes {list(sizes)}, strides {list(strides)}, storage offset "
            f"{start // itemsize}, and itemsize {itemsize} requiring a storage size of {needed} "
            f"are out of bounds for storage of size {room}"
        )


def admit(layout, storage, start, cls=Tensor):
    """A tensor over a storage that others speak of; start in bytes."""
    if layout.device.runtime.computes:
        check_place(layout.sizes, layout.strides, start, layout.itemsize, storage.nbytes)
    return make_tensor(layout, storage, start, cls)
