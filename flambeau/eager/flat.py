"""Slopes of zero that count: writes that depend smoothly on nothing, derivatives made of steps.

PyTorch's graph stays connected through both, so that a gradient of a gradient is zero and no error.
"""

from flambeau._tensor import make_tensor
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.node import Node, edge_of, init_node


class FlatNode(Node):
    """History of a result that does not depend smoothly on anything (x.eq_(y))."""

    __slots__ = ("layouts",)

    def apply(self, grads, create_graph):
        return [
            None if edge is None else grads[0].new_zeros(layout.shape, dtype=layout.dtype)
            for edge, layout in zip(self.edges, self.layouts)
        ]


def _flat_node(name, edges, layouts):
    node = object.__new__(type(name, (FlatNode,), {"__slots__": ()}))
    node.layouts = tuple(layouts)
    return init_node(node, tuple(edges), ())


def written(op, target):
    """The node of a write into target (which wants gradients) whatever was there before."""
    return _flat_node(f"{op.name.title()}Backward0", (edge_of(target),), (target._layout,))


def drawn(name, out, tensors):
    """out, counted as a function of the tensors by which it was drawn; nothing moves with them."""
    edges = [edge_of(t) if t._requires_grad else None for t in tensors]
    node = _flat_node(name, edges, [t._layout for t in tensors])
    out._grad_fn, out._output_nr, out._requires_grad = node, 0, True
    return out


def connected(node, layouts, results):
    """Results of a node's derivative, all of which hang together with the node's inputs."""
    if not any(node.edges) or not modes.grad:
        return results
    flat = None
    for k, result in enumerate(results):
        if result is None or result._requires_grad:
            continue
        if flat is None:
            name = type(node).__name__.rstrip("0123456789") + "Backward0"
            flat = _flat_node(name, node.edges, layouts)
        out = make_tensor(result._layout, result._storage, result._offset, type(result))
        out.__dict__.update(result.__dict__)  # what tensors of a subclass, or of a transform, hold
        out._grad_fn, out._output_nr, out._requires_grad = flat, 0, True
        results[k] = out
    return results
