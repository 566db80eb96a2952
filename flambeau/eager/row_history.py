"""History of a call of a row as it was bound, whatever the kind of the row.

A node keeps the arguments of the call and runs the row's derivative on them, op by op. This is how
tensors are recorded whose values others hold: those of transforms (transforms/history.py) and of
subclasses that answer for themselves (interposing/recording.py).
"""

import functools
from collections.abc import Callable
from typing import Any

from flambeau._tensor import Tensor
from flambeau.autograd.node import Node, SavedOfSubclass, init_node, save_input, unpack
from flambeau.eager.flat import connected
from flambeau.eager.formula import in_order

ABSENT = object()


def arguments(formula, filled, grads, value_of, layouts, needs):
    """What a formula is called with; value_of: an argument or a result by name, or ABSENT."""
    found: list = []
    for name in formula.names:
        if name == "g":
            found.append(filled[0])
        elif name == "gs":
            found.append(filled)
        elif name == "raw_gs":
            found.append(grads)
        elif name == "needs":
            found.append(needs)
        else:
            value = value_of(name)
            if value is ABSENT:
                stem, _, what = name.rpartition("_")
                layout = layouts[stem]
                value = layout.shape if what == "shape" else layout
            found.append(value)
    return found


class RowNode(Node):
    """Runs the derivative of a row on the arguments of a call."""

    op: Any = None

    def _value(self, name):
        found = self.kept[name]
        if isinstance(found, SavedOfSubclass):
            return found.restore(self)
        if type(found) is list:
            return [unpack(v, self) for v in found]
        return unpack(found, self)

    def _arguments(self, formula, grads):
        filled = [g if g is not None else self._missing(grads, k) for k, g in enumerate(grads)]
        needs = tuple([e is not None for e in self.edges])
        return arguments(formula, filled, list(grads), self._saved, self.layouts, needs)

    def _saved(self, name):
        return self._value(name) if name in self.kept else ABSENT

    def _missing(self, grads, k):
        layout = self.out_layouts[k]
        like = next(g for g in grads if g is not None)
        return like.new_zeros(layout.shape, dtype=layout.dtype)

    def apply(self, grads, create_graph):
        results = self._derivatives(grads)
        if create_graph and self.op.flat:
            return connected(self, _flat(self.layouts.values()), results)
        return results

    def _derivatives(self, grads):
        op, edges = self.op, self.edges
        layouts = _flat(self.layouts.values())
        if op.joint_grad is not None:
            results = op.joint_grad.function(*self._arguments(op.joint_grad, grads))
            results = _flat(results if isinstance(results, (tuple, list)) else (results,))
        else:
            results = [None] * len(layouts)
            for name, k, layout in in_order(self.layouts):
                formula = op.grads.get(name)
                if formula is None or (edges[k] is None and not isinstance(layout, tuple)):
                    continue
                found = formula.function(*self._arguments(formula, grads))
                if isinstance(layout, tuple):
                    results[k : k + len(layout)] = found
                else:
                    results[k] = found
        return [
            None if e is None or r is None else fitted(r, layout, grads)
            for r, layout, e in zip(results, layouts, edges)
        ]


def fitted(grad: Any, layout: Any, grads: Any) -> Tensor:
    """A gradient in the shape and dtype of what it belongs to."""
    if not isinstance(grad, Tensor):
        like = next(g for g in grads if g is not None)
        grad = like.new_full(like.shape, grad)
    if grad.dtype is not layout.dtype:
        if grad.dtype.is_complex and not layout.dtype.is_complex:
            grad = grad.real
        grad = grad.to(layout.dtype)
    if grad._layout.sizes != layout.sizes:
        grad = grad.sum_to_size(layout.shape)
    return grad


def _flat(items):
    found: list = []
    for item in items:
        if isinstance(item, (tuple, list)):
            found.extend(item)
        else:
            found.append(item)
    return found


@functools.cache
def _class(op):
    name = op.node_name if isinstance(op.node_name, str) else op.name.title() + "Backward0"
    return type(name, (RowNode,), {"op": op})


def record(op: Any, bound: dict, result: Any, edge: Callable, save: Callable) -> None:
    """Make the node of a call of a row.

    edge: where the gradient of a tensor goes, or None; save: a result and its number, to be kept.
    """
    outs = list(result) if isinstance(result, (tuple, list)) else [result]
    node = object.__new__(_class(op))
    edges, layouts, kept = [], {}, {}
    formulas = [op.joint_grad] if op.joint_grad is not None else list(op.grads.values())
    wanted = {n for f in formulas for n in f.names}
    for p in op.params:
        value = bound[p.name]
        if p.kind in ("tensor", "optional"):
            if isinstance(value, Tensor):
                edges.append(edge(value) if _may(op, p.name) else None)
                layouts[p.name] = value._layout
            else:
                edges.append(None)
                layouts[p.name] = None
        elif p.kind == "tensors":
            edges += [edge(t) for t in value]
            layouts[p.name] = tuple([t._layout for t in value])
        if p.name in wanted:
            kept[p.name] = _kept(value)
    if "origin" in wanted:  # as_strided counts from the start of the storage
        kept["origin"] = bound["input"].storage_offset()
        if kept["storage_offset"] is None:
            kept["storage_offset"] = kept["origin"]
    for name in wanted:
        number = _result_number(name, kept)
        if number is not None and number < len(outs):
            kept[name] = save(outs[number], number)
    node.layouts, node.out_layouts = layouts, tuple([o._layout for o in outs])
    node.kept = kept
    init_node(node, tuple(edges), (), len(outs))
    smooth = len(outs) if op.smooth is None else op.smooth
    out: Any
    for k, out in enumerate(outs[:smooth]):
        if out is not None and out._layout.dtype.category >= 2:
            out._grad_fn, out._output_nr, out._requires_grad = node, k, True


def _may(op, name):
    return op.joint_grad is not None or name in op.grads


def _kept(value):
    if type(value) in (list, tuple) and any(isinstance(v, Tensor) for v in value):
        return [save_input(v) for v in value]
    return save_input(value)


def _result_number(name, kept):
    if name in kept:
        return None
    if name == "out":
        return 0
    return int(name[3:]) if name[:3] == "out" and name[3:].isdigit() else None
