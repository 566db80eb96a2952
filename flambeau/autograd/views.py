"""Views and in-place writes in the graph.

A view remembers its base. Writing through a view changes the base's history: the base gets a CopySlices
node that routes the gradient of the written part through the op that wrote it. Other views of that base
notice by the version counter and get a fresh grad_fn when somebody asks (autograd/node.py).
"""

from flambeau import errors
from flambeau._layout import make_layout, overlaps_itself
from flambeau._tensor import Tensor, View, make_tensor
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.node import Node, edge_of, init_node, set_view_history

_new = object.__new__
_record = None  # set by eager.methods: record_formula


def set_recorder(function):
    global _record
    _record = function


def view_layout(layout, shape, strides):
    return make_layout(tuple(shape), tuple(strides), layout.dtype, layout.device)


def make_view(op, input, layout, offset, values, kind="plain"):
    """A tensor over the memory of input; recorded if input needs gradients."""
    out = _new(Tensor)
    out._layout = layout
    storage = out._storage = input._storage
    out._offset = offset
    out._requires_grad = False
    out._grad = out._grad_fn = out._extra = None
    out._output_nr = 0
    view = _new(View)
    above = input._view
    view.base = input if above is None else above.base
    view.version = storage.version
    view.kind = kind
    out._view = view
    if input._requires_grad:
        if modes.grad:
            _record(op, {op.params[0].name: input, **values}, (out,))
        else:
            view.kind = "no_grad"
    return out


class AsStridedBackward0(Node):
    """History of a view relative to its base, whatever chain of views made it."""

    __slots__ = ("base_layout", "base_offset", "layout", "offset")

    def apply(self, grads, create_graph):
        return (scatter_view(grads[0], self.base_layout, self.layout, self.offset - self.base_offset),)


def scatter_view(grad, base_layout, layout, offset):
    """A gradient for the base: zeros, with grad where the view was. offset in bytes."""
    result = grad.new_zeros(base_layout.shape, dtype=base_layout.dtype)
    if base_layout.strides != result._layout.strides:
        result = grad.new_empty_strided(base_layout.shape, base_layout.strides, dtype=base_layout.dtype).zero_()
    if overlaps_itself(layout):
        # an expanded dimension: its gradients add up in the one element behind it
        dims = [d for d, (s, n) in enumerate(zip(layout.strides, layout.shape)) if s == 0 and n > 1]
        grad = grad.sum(dims, keepdim=True)
        layout = make_layout(grad.shape, layout.strides, layout.dtype, layout.device)
    part = result.as_strided(layout.shape, layout.strides, offset // layout.itemsize)
    part.copy_(grad)
    return result


def _history(base, t):
    node = _new(AsStridedBackward0)
    node.base_layout, node.base_offset = base._layout, base._offset
    node.layout, node.offset = t._layout, t._offset
    return init_node(node, (edge_of(base),), ())


set_view_history(_history)


class CopySlices(Node):
    """History of a base one of whose views was written: routes part of the gradient through `function`."""

    __slots__ = ("base_layout", "base_offset", "layout", "offset", "function")

    def apply(self, grads, create_graph):
        grad, layout = grads[0], self.layout
        result = grad.new_empty_strided(self.base_layout.shape, self.base_layout.strides, dtype=grad.dtype).copy_(grad)
        where = (self.offset - self.base_offset) // layout.itemsize
        part = result.as_strided(layout.shape, layout.strides, where)
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
        if self.function.saved is None:
            self.saved = None


def check_inplace(t):
    """May autograd allow writing to t?"""
    if not modes.grad:
        return
    view = t._view
    if view is not None:
        base = view.base
        if base._requires_grad and base._grad_fn is None:
            raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
        if view.kind == "multi" and (t._requires_grad or base._requires_grad):
            raise RuntimeError(
                f"Output {t._output_nr} of {_name(t)} is a view and is being modified inplace. This view is the output of a "
                "function that returns multiple views. Such functions do not allow the output views to be modified inplace. "
                "You should replace the inplace operation by an out-of-place one."
            )
        if view.kind == "no_grad" and base._requires_grad:
            raise RuntimeError(
                "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that this "
                "use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view "
                "and the inplace either both inside the no_grad block (if you don't want the inplace to be tracked) or both "
                "outside (if you want the inplace to be tracked)."
            )
    if t._requires_grad and t._grad_fn is None:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")


def _name(t):
    return t._grad_fn.name() if t._grad_fn is not None else "a view"


def rebase(t, node):
    """node wrote t: make it t's history, or that of the written part of t's base."""
    view = t._view
    if view is None:
        t._grad_fn, t._output_nr, t._requires_grad = node, 0, True
        return
    base = view.base
    copy = _new(CopySlices)
    copy.base_layout, copy.base_offset = base._layout, base._offset
    copy.layout, copy.offset, copy.function = t._layout, t._offset, node
    first = edge_of(base) if base._requires_grad else None
    init_node(copy, (first, *node.edges[1:]), ("function",))
    base._grad_fn, base._output_nr, base._requires_grad = copy, 0, True
    t._grad_fn, t._output_nr, t._requires_grad = _history(base, t), 0, True
    view.version = t._storage.version


def detached(t):
    """The same memory without history."""
    out = make_tensor(t._layout, t._storage, t._offset)
    return out


__all__ = ["AsStridedBackward0", "CopySlices", "check_inplace", "errors", "make_view", "rebase", "scatter_view"]
