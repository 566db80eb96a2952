"""History of ops whose derivative is written on tensors: reductions, views, templates, composites.

A `recorder` saves what the row's derivative names ask for; `FormulaNode` runs it. Pointwise ops
have their own, faster kind of node in variants.py.
"""

import functools

from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.node import Node, transposed
from flambeau.eager import formula_text
from flambeau.eager.flat import connected
from flambeau.eager.variants import fit


class FormulaNode(Node):
    """Runs a row's derivative on tensors."""

    __slots__ = ("layouts", "out_layouts")
    op = None
    arguments: dict = {}  # for each formula, what it is called with
    listed = False  # are there sequences of tensors among the parameters?

    @property
    def shown(self):
        """PyTorch counts only arguments that may have gradients."""
        places, k = {}, 0
        for name, layout in self.layouts.items():
            count = len(layout) if isinstance(layout, tuple) else 1
            places[name] = range(k, k + count)
            k += count
        names = [n.removesuffix(".t") for n in self.op.edges] or self.op.grads or places
        if self.is_bare:
            names = [n for n in names if self.layouts[n] is not None]
        return [k for n in names if n in places for k in places[n]]

    @property
    def next_functions(self):
        found = super().next_functions
        turned = [k for k, name in enumerate(self.op.edges) if name.endswith(".t")]
        if not turned:
            return found
        known = self.__dict__.setdefault("_transposed", {})  # who walks twice sees the same nodes
        found = list(found)
        for k in turned:
            k -= self.is_bare
            known[k] = found[k] = known.get(k) or transposed(found[k])
        return tuple(found)

    @property
    def is_bare(self):
        return type(self).__name__ == self.op.options.get("bare_node")

    def apply(self, grads, create_graph):
        results = self._derivatives(grads)
        if create_graph and self.op.flat:
            return connected(self, self.layouts.values(), results)
        return results

    def _derivatives(self, grads):
        op, arguments = self.op, self.arguments
        if op.joint_grad is not None:
            results = op.joint_grad.function(*arguments["joint"](self, grads))
            if self.listed or isinstance(results, Tensor):
                results = _flatten(results if isinstance(results, (tuple, list)) else (results,))
        else:
            results = [None] * len(self.edges)
            for name, k, layout in in_order(self.layouts):
                formula = op.grads.get(name)
                if isinstance(layout, tuple):
                    results[k : k + len(layout)] = self._list_grads(name, formula, grads, layout)
                elif formula is not None and self.edges[k] is not None:
                    results[k] = fit(formula.function(*arguments[name](self, grads)), layout)
            return results
        layouts = self.layouts.values()
        if self.listed:
            layouts = _flatten(layouts)
        return [
            fit(r, layout) if e is not None else None
            for r, layout, e in zip(results, layouts, self.edges)
        ]

    def _list_grads(self, name, formula, grads, layouts):
        if formula is None:
            return [None] * len(layouts)
        grads = formula.function(*self.arguments[name](self, grads))
        return [fit(g, layout) for g, layout in zip(grads, layouts)]


def in_order(layouts: dict) -> list[tuple]:
    """(name, place among the edges, layout) of arguments, in the order of PyTorch's names."""
    found, place = [], 0
    for name, layout in layouts.items():
        found.append((name, place, layout))
        place += len(layout) if isinstance(layout, tuple) else 1
    return [found[k] for k in _by_name(tuple(layouts))]


@functools.cache
def _by_name(names):
    return sorted(range(len(names)), key=lambda k: "self" if names[k] == "input" else names[k])


def _flatten(items):
    found = []
    for item in items:
        if isinstance(item, (tuple, list)):
            found.extend(item)
        else:
            found.append(item)
    return found


def _missing(node, grads, k):
    """Zeros for an output nobody used."""
    layout = node.out_layouts[k]
    like = next(g for g in grads if g is not None)
    return like.new_zeros(layout.shape, dtype=layout.dtype)


def _names(op):
    formulas = [op.joint_grad] if op.joint_grad is not None else list(op.grads.values())
    found = []
    named = {p.name for p in op.params}  # such as normalized_shape
    for f in formulas:
        for n in f.names:
            if (
                n not in ("g", "gs", "raw_gs", "needs")
                and (not n.endswith(("_layout", "_shape")) or n in named)
                and n not in found
            ):
                found.append(n)
    return found


@functools.cache
def node_class(op, name=None):
    """The class of an op's nodes; some ops have a name per overload."""
    names, kinds = tuple(_names(op)), ("tensor", "optional", "tensors")
    values = {p.name for p in op.params if p.kind not in kinds and p.name != "indices"}
    formulas = {"joint": op.joint_grad} if op.joint_grad is not None else op.grads
    space = {"__slots__": (), "op": op, "saved_names": names}
    space["frees"] = not values.issuperset(names)
    space["arguments"] = {
        k: formula_text.arguments(op, f, names, _missing) for k, f in formulas.items()
    }
    space["listed"] = any(p.kind == "tensors" for p in op.params)
    return type(name or op.node_name, (FormulaNode,), space)


def wants_grad(op, bound):
    """Is this call to be recorded?"""
    if not modes.grad or not op.is_differentiable:
        return False
    for value in bound.values():
        if isinstance(value, Tensor):
            if value._requires_grad:
                return True
        elif type(value) in (list, tuple):
            for v in value:
                if isinstance(v, Tensor) and v._requires_grad:
                    return True
    return False


@functools.cache
def recorder(op, name=None):
    """record(outs, *parameters) of a row: makes the node of a call; outs: its fresh tensors.

    name: that of the node, where overloads have several.
    """
    bare = op.options.get("bare_node")
    allowed = op.grads if op.joint_grad is None else op.tensor_names
    return formula_text.recorder(op, node_class(op, name), bare and node_class(op, bare), allowed)
