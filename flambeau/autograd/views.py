"""Views and in-place writes in the graph.

A view remembers its base. Writing through a view changes the base's history: the base gets a
CopySlices node that routes the gradient of the written part through the op that wrote it. Other
views of that base notice by the version counter and get a fresh grad_fn when somebody asks
(autograd/node.py). How views are made is in eager/viewing.py.
"""

import gc
import sys

from flambeau._layout import maybe_overlaps
from flambeau._tensor import Tensor, make_tensor
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.node import Node, edge_of, init_node, keep_retaining, set_view_history
from flambeau.ops.memory_views import as_strided_backward
from flambeau.ops.table import public

_new = object.__new__


def window(whole, layout, offset):
    """The part of a tensor that a view shows. offset: bytes from the tensor's first element.

    A view of a complex base may be real (x.real), and the other way round.
    """
    if whole.dtype is not layout.dtype and whole.dtype.is_complex:
        whole = public("view_as_real")(whole)
    if whole.dtype.is_complex or not layout.dtype.is_complex:
        start = whole.storage_offset() + offset // layout.itemsize
        return whole.as_strided(layout.shape, layout.strides, start)
    start = whole.storage_offset() + 2 * offset // layout.itemsize
    pairs = whole.as_strided((*layout.shape, 2), (*[2 * s for s in layout.strides], 1), start)
    return public("view_as_complex")(pairs)


class AsStridedBackward0(Node):
    """History of a view relative to its base, whatever chain of views made it."""

    __slots__ = ("base_layout", "base_offset", "layout", "offset")

    def apply(self, grads, create_graph):
        return (
            scatter_view(grads[0], self.base_layout, self.layout, self.offset - self.base_offset),
        )


def scatter_view(grad, base_layout, layout, offset):
    """A gradient for the base: zeros, with grad where the view was. offset in bytes."""
    overlapping = maybe_overlaps(layout.shape, layout.strides) or maybe_overlaps(
        base_layout.shape, base_layout.strides
    )
    if overlapping and base_layout.dtype is layout.dtype:
        start = offset // layout.itemsize
        origin = max(0, -start)
        return as_strided_backward(
            grad, base_layout, layout.shape, layout.strides, origin + start, origin
        )
    result = _blank(grad, base_layout).zero_()
    window(result, layout, offset).copy_(grad)
    return result


def _blank(like, layout):
    """Uninitialised memory with the strides of a layout, if those leave no gaps."""
    dtype = layout.dtype
    return like.new_empty_strided(layout.shape, layout.strides, dtype=dtype)


def _history(base, t):
    """The history of a view whose base was written."""
    if t._view.kind != "plain":
        raise RuntimeError(
            _forbidden(t, t._view.kind, "its base or another view of its base has been")
        )
    node = _new(AsStridedBackward0)
    node.base_layout, node.base_offset = base._layout, base._offset
    node.layout, node.offset = t._layout, t._offset
    return init_node(node, (edge_of(base),), ())


set_view_history(_history)


class CopySlices(Node):
    """History of a base whose view was written: sends part of a gradient through `function`."""

    __slots__ = ("base_layout", "base_offset", "layout", "offset", "function")
    releases_more = True

    def name(self):
        return "torch::autograd::CopySlices"

    short_name = name

    @property
    def shown(self):
        return self.function.shown

    def apply(self, grads, create_graph):
        grad = grads[0]
        result = _blank(grad, self.base_layout).copy_(grad)
        part = window(result, self.layout, self.offset - self.base_offset)
        inner = self.function.apply([part.clone()], create_graph)
        if self.edges[0] is None:
            result = None
        elif inner[0] is not None:
            part.copy_(inner[0])
        else:
            part.zero_()
        return (result, *inner[1:])

    def release(self):
        self.function.release()
        self.saved = None


_REPLACE = "You should replace the inplace operation by an out-of-place one."
_MULTI = (
    "This view is the output of a function that returns multiple views. Such functions do not "
    "allow the output views to be modified inplace. " + _REPLACE
)
_NO_GRAD = (
    "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your "
    "code by moving both the view and the inplace either both inside the no_grad block (if you "
    "don't want the inplace to be tracked) or both outside (if you want the inplace to be tracked)."
)


_CUSTOM = (
    "This view was created inside a custom Function (or because an input was returned as-is) and "
    "the autograd logic to handle view+inplace would override the custom backward associated with "
    "the custom Function, leading to incorrect gradients. This behavior is forbidden. You can fix "
    "this by cloning the output of the custom Function."
)
_INFERENCE = (
    "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your "
    "code by moving both the view and the inplace either both inside the inference_mode block (if "
    "you don't want the inplace to be tracked) or both outside (if you want the inplace to be "
    "tracked)."
)
_REASONS = {"multi": _MULTI, "no_grad": _NO_GRAD, "inference": _INFERENCE, "custom": _CUSTOM}


def check_inplace(t):
    """May autograd allow writing to t? Asked when the write would be recorded."""
    if not modes.grad:
        return
    view = t._view
    if view is not None:
        if view.kind != "plain":
            raise RuntimeError(_forbidden(t, view.kind, "is being"))
        if t._requires_grad and view.base._grad_fn is None:
            raise RuntimeError(
                "a view of a leaf Variable that requires grad is being used in an in-place "
                "operation."
            )
    if t._requires_grad and t._grad_fn is None:
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation."
        )


_MODES = {  # where a view was made, and what does not go together with it
    "inference": ("inference mode", " in normal mode"),
    "no_grad": ("no_grad mode", " with grad mode enabled"),
}


def _forbidden(t, kind, what):
    mode, now = _MODES.get(kind, ("no_grad mode", " with grad mode enabled"))
    if t._grad_fn is None:
        start = f"A view was created in {mode}"
    else:
        start = f"Output {t._output_nr} of {t._grad_fn.short_name()} is a view"
        if kind in _MODES:
            start += f" of a view which was created in {mode}"
        else:
            now = ""
    return f"{start} and {what} modified inplace{now}. {_REASONS[kind]}"


def rebase(t, node):
    """node wrote t: make it t's history, or that of the written part of t's base."""
    view = t._view
    extra = t._extra
    if extra is not None and extra.retains_grad and t._grad_fn is not None:
        keep_retaining(t, node if view is None else None)
    if view is None:
        fresh = not t._requires_grad
        t._grad_fn, t._output_nr, t._requires_grad = node, 0, True
        if fresh and sys.getrefcount(t._storage) > 2:
            _tell_views(t)
        return
    base = view.base
    copy = _new(CopySlices)
    copy.base_layout, copy.base_offset = base._layout, base._offset
    copy.layout, copy.offset, copy.function = t._layout, t._offset, node
    fresh = not base._requires_grad
    first = edge_of(base) if base._requires_grad else None
    init_node(copy, (first, *node.edges[1:]), ("function",))
    base._grad_fn, base._output_nr, base._requires_grad = copy, 0, True
    t._grad_fn, t._output_nr, t._requires_grad = _history(base, t), 0, True
    if extra is not None and extra.retains_grad:
        keep_retaining(t, t._grad_fn)
    view.version = t._storage.version
    if fresh and sys.getrefcount(t._storage) > 3:
        _tell_views(base)


def _tell_views(base):
    """A base begins to need gradients while other views of it exist: they need them too.

    A base does not know its views (a list would cost every view something), so the collector is
    asked who holds the storage. Most bases have no other views at that moment, which its reference
    count shows.
    """
    for t in gc.get_referrers(base._storage):
        if (
            isinstance(t, Tensor)
            and t._view is not None
            and t._view.base is base
            and t._layout.dtype.category >= 2
        ):
            t._requires_grad = True


def detached(t):
    """The same memory without history."""
    return make_tensor(t._layout, t._storage, t._offset)
