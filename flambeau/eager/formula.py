"""History of ops whose derivative is written on tensors: reductions, views, templates, composites.

`record_formula` saves what the row's derivative names ask for; `FormulaNode` runs it. Pointwise ops
have their own, faster kind of node in variants.py.
"""

from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.node import Node, edge_of, init_node, save_input, save_output, transposed
from flambeau.eager.flat import connected
from flambeau.eager.formula_text import arguments, recorder
from flambeau.eager.variants import fit

_classes: dict = {}


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
            results = []
            for name, layout in self.layouts.items():
                formula = op.grads.get(name)
                if isinstance(layout, tuple):
                    results.extend(self._list_grads(name, formula, grads, layout))
                elif formula is None or self.edges[len(results)] is None:
                    results.append(None)
                else:
                    results.append(fit(formula.function(*arguments[name](self, grads)), layout))
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


def node_class(op, name=None):
    """The class of an op's nodes; some ops have a name per overload."""
    name = name or op.node_name
    found = _classes.get((op.name, name))
    if found is None:
        names = tuple(_names(op))
        kinds = ("tensor", "optional", "tensors")
        values = {p.name for p in op.params if p.kind not in kinds and p.name != "indices"}
        frees = not values.issuperset(names)
        formulas = {"joint": op.joint_grad} if op.joint_grad is not None else op.grads
        ready = {k: arguments(op, f, names, _missing) for k, f in formulas.items()}
        space = {"__slots__": (), "op": op, "saved_names": names, "frees": frees}
        space["arguments"], space["listed"] = ready, any(p.kind == "tensors" for p in op.params)
        found = _classes[op.name, name] = type(name, (FormulaNode,), space)
    return found


def differentiable(op):
    """Names of the parameters that can receive gradients."""
    return op.grads if op.joint_grad is None else op.tensor_names


def wants_grad(op, bound):
    """Is this call to be recorded?"""
    if not modes.grad or not (op.grads or op.joint_grad):
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


def record_formula(op, bound, outs):
    """Make the node of a call; outs is a tuple of fresh tensors."""
    cls = node_class(op)
    bare = op.options.get("bare_node")
    if bare is not None and not all(isinstance(bound[n], Tensor) for n in op.tensor_names):
        cls = node_class(op, bare)
    node = object.__new__(cls)
    allowed = differentiable(op)
    edges, layouts = [], {}
    for p in op.params:
        value = bound[p.name]
        if p.kind in ("tensor", "optional"):
            is_tensor = isinstance(value, Tensor)
            if is_tensor or op.joint_grad is not None or p.name in allowed:
                edges.append(
                    edge_of(value)
                    if is_tensor and value._requires_grad and p.name in allowed
                    else None
                )
                layouts[p.name] = value._layout if is_tensor else None
        elif p.kind == "tensors":
            edges.extend(edge_of(v) if v._requires_grad else None for v in value)
            layouts[p.name] = tuple(v._layout for v in value)
    saved = tuple(_save(n, bound, outs) for n in cls.saved_names)
    node.layouts, node.out_layouts = layouts, tuple(o._layout for o in outs)
    init_node(node, tuple(edges), saved, len(outs))
    attach_float(node, outs[: op.smooth])
    return node


def attach_float(node, outs):
    """Hang results that can have gradients on a node; the first one must be such."""
    first = outs[0]._layout.dtype
    if first.category < 2:
        raise RuntimeError(f"Autograd not support dtype: {first.scalar_name}")
    for k, out in enumerate(outs):
        if out._layout.dtype.category >= 2:
            out._grad_fn, out._output_nr, out._requires_grad = node, k, True


def _save(name, bound, outs):
    if name in bound:
        value = bound[name]
        if type(value) in (list, tuple) and any(isinstance(v, Tensor) for v in value):
            return [save_input(v) for v in value]
        return save_input(value)
    if name == "out":
        return save_output(outs[0])
    return save_output(outs[int(name[3:])], int(name[3:]))


def quick_recorder(op, run, general):
    """record(*parameters) for a row, written out; None where rows are too unusual for it."""
    if not (op.grads or op.joint_grad) or any(p.kind == "tensors" for p in op.params):
        return None
    bare = op.options.get("bare_node")
    classes = node_class(op), bare and node_class(op, bare)
    return recorder(op, classes, differentiable(op), run, general)
