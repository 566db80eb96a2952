"""Ops that write their first argument: index_put, scatter, masked_scatter and their kin.

A `writer` writes its target in place. The op itself does it on a copy, its in-place form on the
target (`write_row`), which then tells autograd.
"""

from flambeau._layout import dense_layout
from flambeau._memory_format import contiguous_format
from flambeau._tensor import Tensor, make_tensor
from flambeau.autograd import views
from flambeau.autograd.node import SavedInput, SavedOutput, save_input
from flambeau.eager.copying import clone, filled
from flambeau.eager.formula import recorder, wants_grad
from flambeau.eager.launching import LAUNCHERS
from flambeau.eager.overlaps import check_overlap

WRITERS: dict = {}  # template name -> function that writes its first argument
OVERLAPPING = ("index_put", "index_fill")  # where PyTorch lets targets overlap themselves


def writer(name, keep_order=False):
    """Register a function that writes its first argument: the op does it on a copy."""

    def register(write):
        def launch(input, *rest):
            out = clone(input, None if keep_order else contiguous_format)
            write(out, *rest)
            return out

        WRITERS[name] = write
        LAUNCHERS[name] = launch
        LAUNCHERS[name + "_"] = write_row
        return write

    return register


def write_row(op, bound):
    """Run a writer on its target itself, and make that part of the target's history."""
    target = bound["input"]
    recording = wants_grad(op, bound)
    if recording:
        views.check_inplace(target)
    _check_write(target, list(bound.values())[1:], op.template not in OVERLAPPING)
    node = _record_write(op, bound, target) if recording else None
    WRITERS[op.template](*bound.values())
    target._storage.version += 1
    if node is not None:
        for k, item in enumerate(node.saved):
            if type(item) is SavedOutput and node.saved_names[k] == "out":
                item.version = target._storage.version
        views.rebase(target, node)
    return target


def _quick_writer(op):
    """write_row of plain arguments, one by one."""
    names, write = [p.name for p in op.params], WRITERS[op.template]

    def run(target, *others, **more):
        others = (*others, *more.values())
        alone = target._layout.is_contiguous
        for value in others:
            for t in value if type(value) is tuple else (value,):
                if isinstance(t, Tensor) and (
                    t._storage.pointer == target._storage.pointer or t._requires_grad
                ):
                    alone = False
        if not alone or target._requires_grad:
            return write_row(op, dict(zip(names, (target, *others))))
        write(target, *others)
        target._storage.version += 1
        return target

    return run


write_row.quick = _quick_writer  # type: ignore[attr-defined]


def _check_write(target, others, itself=True):
    """Nothing that is read may lie where the target is written, not even in the same places."""
    tensors = []
    for value in others:
        for t in value if type(value) is tuple else (value,):
            if isinstance(t, Tensor):
                tensors.append(t)
    check_overlap(target, tensors, itself)
    for t in tensors:
        if (
            t._storage.pointer == target._storage.pointer
            and t._offset == target._offset
            and t._layout is target._layout
            and t._layout.numel
        ):
            raise RuntimeError(
                "unsupported operation: some elements of the input tensor and the written-to "
                "tensor refer to a single memory location. Please clone() the tensor before "
                "performing the operation."
            )


def _record_write(op, bound, target):
    """The node of a write that is about to happen."""
    shadow = make_tensor(target._layout, target._storage, target._offset)
    node = recorder(op)((shadow,), *bound.values())
    if any(type(item) is SavedInput and item.tensor is target for item in node.saved):
        before = clone(target, None)  # the derivative wants what the write is about to destroy
        before._grad_fn, before._output_nr = target._grad_fn, target._output_nr
        before._requires_grad = target._requires_grad
        node.saved = tuple(
            save_input(before) if type(item) is SavedInput and item.tensor is target else item
            for item in node.saved
        )
    return node


def number_tensor(value, dtype, device):
    """A 0-d tensor holding a number."""
    return filled(dense_layout((), dtype, device), value)
