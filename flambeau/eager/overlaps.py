"""Do tensors share memory? What writes refuse, in PyTorch's words."""

from flambeau._layout import is_dense_in_some_order, overlaps_itself, same_layout, span


def check_overlap(target, tensors, itself=True):
    """Refuse writes that would be read again, or that hit one element twice (unless itself is
    False: some ops let it be).
    """
    if itself and overlaps_itself(target._layout):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location. Please clone() the tensor before performing the operation."
        )
    for t in tensors:
        if t is target or not _is_same_memory(t, target):
            continue
        if t._offset == target._offset and same_layout(t._layout, target._layout):
            continue
        # as PyTorch: gaps make the question too hard, and then nobody complains
        if (
            is_dense_in_some_order(t._layout)
            and is_dense_in_some_order(target._layout)
            and ranges_meet(t, target)
        ):
            raise _shared()


def check_apart(target, tensors):
    """Refuse to write what is read at all, even element by element."""
    for t in tensors:
        if t is target or (_is_same_memory(t, target) and ranges_meet(t, target)):
            raise _shared()


def _is_same_memory(a, b):
    """On devices without memory a storage stands for itself."""
    pointer = a._storage.pointer
    return pointer == b._storage.pointer if pointer else a._storage is b._storage


def _shared():
    return RuntimeError(
        "unsupported operation: some elements of the input tensor and the written-to tensor refer "
        "to a single memory location. Please clone() the tensor before performing the operation."
    )


def ranges_meet(a, b):
    """May two tensors in the same storage share an element?"""
    if a._layout.numel == 0 or b._layout.numel == 0:
        return False
    low_a, low_b = a._offset, b._offset
    high_a = low_a + span(a._layout) * a._layout.itemsize
    high_b = low_b + span(b._layout) * b._layout.itemsize
    if high_a <= low_b or high_b <= low_a:
        return False
    # walks over the same rows side by side (x[:, 0] and x[:, 1]) need not share an element
    if a._layout.strides == b._layout.strides and a._layout.shape == b._layout.shape:
        return not _interleaved(a, b)
    return True


def _interleaved(a, b):
    difference = abs(a._offset - b._offset) // a._layout.itemsize
    inner = min(
        (abs(s) for s, n in zip(a._layout.strides, a._layout.shape) if n > 1 and s), default=0
    )
    return inner > 0 and difference % inner != 0
