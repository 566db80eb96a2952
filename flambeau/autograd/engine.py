"""Backward: a loop over nodes, latest first.

A node's consumers were all created after it, so taking the pending node with the highest sequence
number guarantees that its gradient is complete; nothing is counted beforehand and nothing recurses.
Gradients that reach leaves are gathered and delivered at the end, once per leaf.
"""

import heapq
import sys
import warnings

from flambeau._layout import dense_layout
from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.node import FREED, edge_of


class Task:
    """One backward pass."""

    def __init__(self, keep_graph, create_graph):
        self.keep_graph, self.create_graph = keep_graph, create_graph
        self.heap = []
        self.pending = {}  # sequence number -> [node, gradient per output]
        self.leaves = {}  # id of a leaf -> [leaf, gradient, may it be added to in place?]
        self.owned = (
            set()
        )  # ids of gradients that this pass made by adding: may be added to in place
        self.captures = None  # (id of node, output number) -> index of a wanted input

    def send(self, edge, grad):
        target, number = edge
        if isinstance(target, Tensor):
            entry = self.leaves.get(id(target))
            if entry is None:
                self.leaves[id(target)] = [target, grad, False]
            else:
                entry[1] = self.sum(entry[1], grad)
            return
        seq = target.seq
        entry = self.pending.get(seq)
        if entry is None:
            entry = self.pending[seq] = [target, [None] * target.outputs]
            heapq.heappush(self.heap, -seq)
        grads = entry[1]
        old = grads[number]
        grads[number] = grad if old is None else self.sum(old, grad)

    def sum(self, a, b):
        if id(a) in self.owned and not self.create_graph and a._layout is b._layout:
            return a.add_(b)
        total = a + b
        self.owned.add(id(total))
        return total

    def run(self):
        heap, pending, leaves = self.heap, self.pending, self.leaves
        create_graph, keep = self.create_graph, self.keep_graph
        captures, watched, owned = self.captures, modes.anomaly, self.owned
        pop, push = heapq.heappop, heapq.heappush
        while heap:
            node, grads = pending.pop(-pop(heap))
            if owned:
                # a formula may hand its gradient on to several inputs: from here it is shared
                owned.difference_update(map(id, grads))
            hooks = node.hooks
            if hooks is not None or captures is not None:
                grads = self._before(node, grads)
                if grads is None:
                    continue
            if node.saved is None:
                raise RuntimeError(FREED)
            results = self._watched(node, grads) if watched else node.apply(grads, create_graph)
            if hooks is not None and hooks.post:
                results = _run_post_hooks(node, results, grads)
            if not keep and node.saved:
                if node.releases_more:
                    node.release()
                else:
                    node.saved = None
            # the body of send(), written out: this loop is all there is to backward
            for edge, grad in zip(node.edges, results):
                if edge is None:
                    continue
                if grad is None:
                    self._undefined(edge)
                    continue
                target, number = edge
                if isinstance(target, Tensor):
                    entry = leaves.get(id(target))
                    if entry is None:
                        leaves[id(target)] = [target, grad, False]
                    elif entry[2] and entry[1]._layout is grad._layout:
                        entry[1].add_(grad)
                    else:
                        entry[1] = entry[1] + grad
                        entry[
                            2
                        ] = not create_graph  # a sum of our own: the next may be added in place
                    continue
                seq = target.seq
                entry = pending.get(seq)
                if entry is None:
                    count = target.outputs
                    if count == 1:
                        pending[seq] = (target, [grad])
                    else:
                        slots = [None] * count
                        slots[number] = grad
                        pending[seq] = (target, slots)
                    push(heap, -seq)
                else:
                    slots = entry[1]
                    old = slots[number]
                    slots[number] = grad if old is None else self.sum(old, grad)

    def _undefined(self, edge):
        """A gradient that is missing: custom functions run all the same, everything else is skipped."""
        node, _ = edge
        if getattr(node, "runs_undefined", False) and node.seq not in self.pending:
            self.pending[node.seq] = (node, [None] * node.outputs)
            heapq.heappush(self.heap, -node.seq)

    def _before(self, node, grads):
        """Tensor hooks, retained gradients and captures; None if the node need not run."""
        hooks = node.hooks
        if hooks is not None:
            for number, table in hooks.tensor.items():
                if grads[number] is not None:
                    grads[number] = run_hooks(table, grads[number])
            for number, reference in hooks.retain.items():
                t = reference()
                if t is not None and grads[number] is not None:
                    t._grad = grads[number] if t._grad is None else t._grad + grads[number]
        if self.captures is not None:
            for number, grad in enumerate(grads):
                index = self.captures.get((id(node), number))
                if index is not None and grad is not None:
                    self.results[index] = grad
            if node.seq <= self.stop:
                return None
        if hooks is not None:
            for hook in list(hooks.pre.values()):
                new = hook(tuple(grads))
                if new is not None:
                    grads = list(new) if isinstance(new, (tuple, list)) else [new]
        return grads

    def _watched(self, node, grads):
        """Run a node in anomaly mode."""
        try:
            results = node.apply(grads, self.create_graph)
        except Exception:
            _warn_origin(node)
            raise
        if modes.anomaly_check_nan:
            for k, r in enumerate(results):
                if r is not None and r.dtype.is_floating_point and bool((r != r).any()):
                    _warn_origin(node)
                    raise RuntimeError(
                        f"Function '{node.name()}' returned nan values in its {k}th output."
                    )
        return results

    def deliver(self):
        """Hand gathered gradients to the leaves."""
        leaves, self.leaves = self.leaves, {}
        while leaves:
            leaf, grad, _ = leaves.pop(next(iter(leaves)))
            accumulate(leaf, grad, self.create_graph)


def _warn_origin(node):
    lines = node.metadata.get("traceback_")
    text = "".join(lines) if lines else "(no forward pass information: it ran outside anomaly mode)"
    warnings.warn(
        f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n{text}",
        stacklevel=2,
    )


def _run_post_hooks(node, results, grads):
    results = tuple(results)
    for hook in list(node.hooks.post.values()):
        new = hook(results, tuple(grads))
        if new is not None:
            results = new if isinstance(new, tuple) else (new,)
    return results


def run_hooks(table, grad):
    for hook in list(table.values()):
        new = hook(grad)
        if new is not None:
            if not isinstance(new, Tensor):
                raise TypeError(f"expected Variable, but hook returned '{type(new).__name__}'")
            grad = new
    return grad


def accumulate(leaf, grad, create_graph):
    """Add a gradient to leaf.grad, running the leaf's hooks."""
    extra = leaf._extra
    if extra is not None:
        if extra.hooks:
            grad = run_hooks(extra.hooks, grad)
        node = extra.accumulator() if extra.accumulator is not None else None
        if node is not None and node.hooks is not None:
            for hook in list(node.hooks.pre.values()):
                new = hook((grad,))
                if new is not None:
                    grad = new[0] if isinstance(new, tuple) else new
    old = leaf._grad
    if old is None:
        leaf._grad = grad if create_graph else _own(leaf, grad)
    elif create_graph or old._requires_grad:
        leaf._grad = old + grad
    else:
        old.add_(grad)
    if extra is not None:
        if node is not None and node.hooks is not None:
            for hook in list(node.hooks.post.values()):
                hook((), (grad,))
        for hook in list((extra.post_hooks or {}).values()):
            hook(leaf)


def _probe_own(leaf, grad):
    return sys.getrefcount(grad)


def _probe_accumulate(leaf, grad, create_graph):
    return _probe_own(leaf, grad)


def _probe_deliver():
    """deliver -> accumulate -> _own on an object that nobody else holds.

    How many references such a chain of calls shows differs between versions of Python, so it is measured.
    """
    leaves = {0: [None, object(), False]}
    while leaves:
        leaf, grad, _ = leaves.pop(next(iter(leaves)))
        return _probe_accumulate(leaf, grad, False)


OWN_REFERENCES = _probe_deliver()


def _own(leaf, grad):
    """The first gradient is kept, not copied, unless somebody else may see its memory."""
    # references: deliver's and accumulate's variables, our parameter, getrefcount's own
    shared = sys.getrefcount(grad) > OWN_REFERENCES or sys.getrefcount(grad._storage) > 2
    if shared or grad._view is not None or grad._layout.strides != _grad_strides(leaf):
        dense = (
            leaf.new_empty(leaf.shape, dtype=grad.dtype)
            if grad._layout.shape == leaf._layout.shape
            else None
        )
        if dense is None:
            return grad.clone()
        return dense.copy_(grad.detach())
    return grad.detach() if grad._requires_grad else grad


def _grad_strides(leaf):
    return leaf._layout.strides if leaf._layout.is_contiguous else ()


_make_ones = None  # set by eager.copying: layout -> tensor of ones


def set_ones(function):
    global _make_ones
    _make_ones = function


def _ones(layout):
    return _make_ones(
        layout if layout.is_contiguous else dense_layout(layout.shape, layout.dtype, layout.device),
        1,
    )


def _check_root(t, grad):
    if not t._requires_grad:
        raise RuntimeError("element 0 of tensors does not require grad and does not have a grad_fn")
    if grad is None:
        if t._layout.numel != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        if not t.dtype.is_floating_point:
            raise RuntimeError(
                f"grad can be implicitly created only for real scalar outputs but got {t.dtype}"
            )
        return _ones(t._layout)
    if not isinstance(grad, Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(grad).__name__}")
    if grad.shape != t.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[0] has a shape of {grad.shape} and output[0] has a shape of {t.shape}."
        )
    if grad.dtype.is_complex != t.dtype.is_complex:
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
            f"grad_output[0] has a dtype of {grad.dtype} and output[0] has a dtype of {t.dtype}."
        )
    return grad


def run_backward(
    tensors, grads, keep_graph, create_graph, inputs=None, accumulate_grad=True, allow_unused=True
):
    """Send grads from tensors down to the leaves (or to the given inputs)."""
    roots = [(edge_of(t), _check_root(t, g)) for t, g in zip(tensors, grads)]
    task = Task(keep_graph, create_graph)
    if inputs is not None:
        _capture(task, inputs)
    previous, modes.grad = modes.grad, create_graph
    try:
        for edge, grad in roots:
            task.send(edge, grad)
        del roots
        task.run()
        if inputs is not None:
            return _captured(task, inputs, accumulate_grad, allow_unused)
        task.deliver()
    finally:
        modes.grad = previous
    return None


def _capture(task, inputs):
    """Note where the wanted gradients pass, and how far down the pass must go."""
    task.captures, task.results = {}, {}
    lowest = 1 << 62
    for index, t in enumerate(inputs):
        target, number = edge_of(t)
        if isinstance(target, Tensor):
            lowest = 0  # a leaf: everything above it must run
        else:
            task.captures.setdefault((id(target), number), index)
            lowest = min(lowest, target.seq)
    task.stop = lowest if lowest > 0 else 0


def _captured(task, inputs, accumulate_grad, allow_unused):
    found = []
    for t in inputs:
        target, number = edge_of(t)
        if isinstance(target, Tensor):
            entry = task.leaves.get(id(target))
            grad = entry[1] if entry else None
            if (
                grad is not None
                and not accumulate_grad
                and target._extra is not None
                and target._extra.hooks
            ):
                grad = run_hooks(target._extra.hooks, grad)
                entry[1] = grad
        else:
            index = task.captures[id(target), number]
            grad = task.results.get(index)
        found.append(grad)
    if accumulate_grad:
        done = set()
        for t, grad in zip(inputs, found):
            if grad is not None and id(t) not in done:
                done.add(id(t))
                accumulate(t, grad, task.create_graph)
        return None
    if not allow_unused and any(g is None for g in found):
        raise RuntimeError(
            "One of the differentiated Tensors appears to not have been used in the graph. "
            "Set allow_unused=True if this is the desired behavior."
        )
    return tuple(found)
