"""Backward: a loop over nodes, latest first.

A node's consumers were all created after it, so taking the pending node with the highest sequence
number guarantees that its gradient is complete; nothing is counted beforehand and nothing recurses.
Gradients that reach leaves are gathered and delivered at the end, once per leaf; only leaves with
hooks are delivered as soon as nothing more can reach them. A pass towards given inputs
(`autograd.grad`) first marks the nodes on the way to them and runs no others.
"""

import heapq
from typing import NamedTuple

from flambeau._layout import dense_layout
from flambeau._tensor import Tensor, make_tensor
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.hooks import checked, run_post_hooks, run_tensor_hooks
from flambeau.autograd.leaves import hand_over, has_hooks, run_leaf_hooks
from flambeau.autograd.node import FREED, AccumulateGrad, edge_of
from flambeau.interposing import is_wanted, offer
from flambeau.ops.table import public


class Task:
    """One backward pass."""

    def __init__(self, keep_graph, create_graph):
        self.keep_graph, self.create_graph = keep_graph, create_graph
        self.heap = []
        self.pending = {}  # sequence number -> [node, gradient per output]
        self.leaves = {}  # id of a leaf -> [leaf, gradient, may it be added to in place?]
        self.owned = set()  # ids of gradients this pass made by adding: may be added to in place
        self.wanted = None  # a Wanted, if only some inputs get gradients
        self.touched = set()  # sequence numbers of nodes that were sent no gradient
        self.roots = None  # edges this pass started from
        self.expected = None  # id of a leaf -> edges still to come; counted if a leaf has hooks
        self.above = None  # the pass within which this one runs
        self.callbacks = None  # what is called when the outermost pass is over

    def send(self, edge, grad):
        target, number = edge
        if self.wanted is not None and not self.wanted.leads(edge):
            return
        if isinstance(target, Tensor):
            entry = self.leaves.get(id(target))
            if entry is None:
                self.leaves[id(target)] = [target, grad, False]
            else:
                entry[1] = added(entry[1], grad)
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
        total = added(a, b)
        self.owned.discard(id(a))  # it goes now, and another tensor may get its id
        self.owned.add(id(total))
        return total

    def run(self):
        heap, pending, leaves = self.heap, self.pending, self.leaves
        create_graph, keep = self.create_graph, self.keep_graph
        wanted, owned = self.wanted, self.owned
        handled = is_wanted("node")
        touched = self.touched
        pop, push = heapq.heappop, heapq.heappush
        hooked = any(has_hooks(entry[0]) for entry in leaves.values())
        if hooked:
            self._count()
        while heap:
            node, grads = pending.pop(-pop(heap))
            if touched and not node.custom and all(g is None for g in grads):
                self._touch(node.edges)
                continue
            if owned:
                # a formula may hand its gradient on to several inputs: from here it is shared
                owned.difference_update(map(id, grads))
            hooks = node.hooks
            if hooks is not None or wanted is not None:
                grads = self._before(node, grads)
                if grads is None:
                    continue
            if node.saved is None:
                raise RuntimeError(FREED)
            if wanted is not None:
                results = wanted.apply(node, grads, create_graph)
            elif handled:
                results = _apply(node, grads, create_graph)
            else:
                results = node.apply(grads, create_graph)
            if hooks is not None and hooks.post:
                results = run_post_hooks(node, results, grads)
            if not keep and node.frees and node.saved:
                if node.releases_more:
                    node.release()
                else:
                    node.saved = None
            # the body of send(), written out: this loop is all there is to backward
            for edge, grad in zip(node.edges, results):
                if edge is None:
                    continue
                if grad is None:
                    if wanted is None or wanted.leads(edge):
                        self._touch((edge,))
                    continue
                target, number = edge
                if isinstance(target, Tensor):
                    entry = leaves.get(id(target))
                    if entry is None:
                        leaves[id(target)] = [target, grad, False]
                        if target._extra is not None and not hooked:
                            hooked = has_hooks(target)
                    elif entry[2] and entry[1]._layout is grad._layout:
                        entry[1].add_(grad)
                    else:
                        entry[1] = added(entry[1], grad)
                        # a sum of our own: the next may be added in place
                        entry[2] = not create_graph
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
            if hooked:
                grads = results = grad = entry = slots = old = None  # let go: a leaf may keep them
                self._settle(node)

    def _touch(self, edges):
        """A gradient that does not exist: custom functions below run all the same."""
        for edge in edges:
            if edge is None or isinstance(edge[0], Tensor):
                continue
            if self.wanted is None or self.wanted.leads(edge):
                target = edge[0]
                if target.seq not in self.pending:
                    self.touched.add(target.seq)
                    self.pending[target.seq] = (target, [None] * target.outputs)
                    heapq.heappush(self.heap, -target.seq)

    def reachable(self, edges):
        """How many of some edges this pass reaches (asked by hooks on several gradients)."""
        if self.roots is None:
            return 0
        seen, stack = set(), list(self.roots)
        while stack:
            edge = stack.pop()
            if edge is None or (self.wanted is not None and not self.wanted.leads(edge)):
                continue
            target, number = edge
            if (id(target), number) not in seen:
                known = not isinstance(target, Tensor) and id(target) in seen
                seen.add((id(target), number))
                if not isinstance(target, Tensor) and not known:
                    seen.add(id(target))
                    stack += target.edges
        return sum((id(target), number) in seen for target, number in edges)

    # -- leaves with hooks ---------------------------------------------------------------------
    def _count(self):
        """How many edges lead to each leaf from here on."""
        self.expected = counts = {}
        seen, stack, wanted = set(), [entry[0] for entry in self.pending.values()], self.wanted
        while stack:
            node = stack.pop()
            if node.seq in seen or (wanted is not None and id(node) not in wanted.nodes):
                continue
            seen.add(node.seq)
            for edge in node.edges:
                if edge is None:
                    continue
                target = edge[0]
                if isinstance(target, Tensor):
                    counts[id(target)] = counts.get(id(target), 0) + 1
                else:
                    stack.append(target)

    def _settle(self, node):
        """After a node has run: deliver leaves with hooks that nothing more can reach."""
        counts = self.expected
        if counts is None:
            self._count()
            ready = [key for key in self.leaves if key not in self.expected]
        else:
            ready = []
            for edge in node.edges:
                if edge is not None and isinstance(edge[0], Tensor):
                    key = id(edge[0])
                    counts[key] = counts.get(key, 0) - 1
                    if counts[key] <= 0 and key in self.leaves and key not in ready:
                        ready.append(key)
        for key in ready:
            if key in self.leaves and has_hooks(self.leaves[key][0]):
                self._deliver(key)

    def _deliver(self, key):
        if self.wanted is not None and not self.wanted.accumulate:
            leaf, grad, _ = self.leaves.pop(key)
            self.wanted.found[key] = run_leaf_hooks(leaf, grad)
        else:
            hand_over(self.leaves, key, self.create_graph)

    # -- around a node ---------------------------------------------------------------------------
    def _before(self, node, grads):
        """Tensor hooks, retained gradients and captures; None if the node need not run."""
        hooks, wanted = node.hooks, self.wanted
        if wanted is not None:
            needed = id(node) in wanted.nodes
            if hooks is not None and not needed:
                grads = run_tensor_hooks(hooks, grads)
            for number, grad in enumerate(grads):
                # as in PyTorch, what is captured on the way to something else is not yet hooked
                if grad is not None and (id(node), number) in wanted.edges:
                    wanted.found[id(node), number] = grad
            if not needed:
                return None
        if hooks is not None:
            grads = run_tensor_hooks(hooks, grads)
            for hook in list(hooks.pre.values()):
                new = hook(tuple(grads))
                if new is not None:
                    grads = list(checked(hook, new, grads))
        return grads

    def deliver(self):
        """Hand gathered gradients to the leaves."""
        leaves = self.leaves
        while leaves:
            hand_over(leaves, next(iter(leaves)), self.create_graph)


def added(a, b):
    """The sum of two gradients, the earlier one first; sparse ones come last, as in PyTorch."""
    return b + a if a._layout.strides is None else a + b


class Wanted:
    """The inputs a pass is for: edges to them, and the nodes on the way.

    nodes holds the ids of nodes that must run; found what arrived, by id of a leaf or by
    (id of a node, output number).
    """

    def __init__(self, roots, targets, accumulate):
        self.accumulate, self.found, self.keep = accumulate, {}, roots
        self.leaves = {id(t) for t, _ in targets if isinstance(t, Tensor)}
        self.edges = {(id(t), number) for t, number in targets if not isinstance(t, Tensor)}
        self.nodes = nodes = set()
        if accumulate:  # PyTorch runs these too, though nobody wants what they give
            nodes.update(id(t) for t, _ in targets if not isinstance(t, Tensor))
        order, seen = [], set()
        stack = [t for t, _ in roots if not isinstance(t, Tensor)]
        while stack:
            node = stack.pop()
            if node.seq not in seen:
                seen.add(node.seq)
                order.append(node)
                stack += [e[0] for e in node.edges if e and not isinstance(e[0], Tensor)]
        order.sort(key=_sequence)
        for node in order:
            for edge in node.edges:
                if edge is not None and self.leads(edge):
                    nodes.add(id(node))
                    break

    def apply(self, node, grads, create_graph):
        """The gradients of a node that lead to a wanted input, None for the others.

        What nobody asked for is not computed, but by custom functions, which are told nothing.
        """
        edges = node.edges
        kept = tuple([e if e is not None and self.leads(e) else None for e in edges])
        if kept == edges:
            return _apply(node, grads, create_graph)
        if node.custom:
            results = _apply(node, grads, create_graph)
        else:
            node.narrow(kept)
            try:
                results = _apply(node, grads, create_graph)
            finally:
                node.narrow(edges)
        return [r if e is not None else None for r, e in zip(results, kept)]

    def leads(self, edge):
        """Does a gradient sent this way end at a wanted input?"""
        target = id(edge[0])
        return target in self.nodes or target in self.leaves or (target, edge[1]) in self.edges


def _sequence(node):
    return node.seq


def _apply(node, grads, create_graph):
    """What handlers stand around."""
    return node.apply(grads, create_graph)


offer(_apply, lambda args, kwargs: args[0].name(), "node")


# -- entry -----------------------------------------------------------------------------------------

_make_ones = None  # set by eager.copying: layout -> tensor of ones


def set_ones(function):
    global _make_ones
    _make_ones = function


def _ones(layout):
    if not layout.is_contiguous:
        layout = dense_layout(layout.shape, layout.dtype, layout.device)
    return _make_ones(layout, 1)


def check_root(t, grad, k=0, batched=False):
    """The gradient that starts at t: as given, checked, or one."""
    if isinstance(t, GradientEdge):
        t = _stand_in(t)
        if t is None:
            if grad is None:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            return grad
    if grad is None:
        if not t._requires_grad:
            return None
        if t._layout.numel != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        if not t.dtype.is_floating_point:
            raise RuntimeError(
                f"grad can be implicitly created only for real scalar outputs but got {t.dtype}"
            )
        if t.device is not t._layout.device:  # inside of a transform
            return public("ones_like")(t.detach())
        if type(t) is not Tensor and _answers(type(t)):
            return public("ones_like")(t)
        if is_wanted("node"):  # who records backward is shown where it starts
            return public("ones_like")(t)
        return _ones(t._layout)
    if not isinstance(grad, Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(grad).__name__}")
    shape = grad.shape[1:] if batched else grad.shape
    if shape != t.shape:
        found = f"grad_output[{k}] has a shape of {shape} and output[{k}] has a shape of {t.shape}."
        if batched:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output "
                "as the batch dimension. The sizes of the remaining dimensions are expected to "
                "match the shape of corresponding output, but a mismatch was detected: "
                f"{found} If you only want some tensors in `grad_output` to be considered batched, "
                "consider using vmap."
            )
        raise RuntimeError(f"Mismatch in shape: {found}")
    if grad.dtype.is_complex != t.dtype.is_complex:
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. "
            f"Mismatch in dtype: grad_output[{k}] has a dtype of {grad.dtype} and output[{k}] has "
            f"a dtype of {t.dtype}."
        )
    return grad


def _answers(kind):
    """Has a subclass of Tensor a `__torch_dispatch__` of its own?"""
    return any("__torch_dispatch__" in c.__dict__ for c in kind.__mro__ if c is not Tensor)


class GradientEdge(NamedTuple):
    """A place in the graph that gradients pass: an output of a node.

    ownership_token: what the tensor is like that it was asked of, if there was one.
    """

    node: object
    output_nr: int
    ownership_token: object = None


def _stand_in(edge):
    """A tensor without values, like the one whose place in the graph it is."""
    if isinstance(edge.node, AccumulateGrad):
        return edge.node.variable
    if edge.ownership_token is None:
        return None
    out = make_tensor(edge.ownership_token, None, 0)
    out._requires_grad = True
    return out


def _edge(t):
    if type(t) is GradientEdge:
        node = t[0]
        return (node.variable if isinstance(node, AccumulateGrad) else node, t[1])
    return edge_of(t)


def check_recorded(tensors):
    """Gradients start only from what has a history."""
    for k, t in enumerate(tensors):
        if type(t) is not GradientEdge and not t._requires_grad:
            raise RuntimeError(
                f"element {k} of tensors does not require grad and does not have a grad_fn"
            )


def run_backward(
    tensors, grads, keep_graph, create_graph, inputs=None, accumulate_grad=True, allow_unused=True
):
    """Send grads from tensors down to the leaves (or to the given inputs)."""
    check_recorded(tensors)
    roots = [(_edge(t), g) for t, g in zip(tensors, grads)]
    task = Task(keep_graph, create_graph)
    task.roots = [edge for edge, _ in roots]
    if inputs is not None:
        targets = [_edge(t) for t in inputs]
        task.wanted = Wanted(task.roots, targets, accumulate_grad)
    previous, modes.grad = modes.grad, create_graph
    above = task.above = modes.task
    modes.task = task
    try:
        for edge, grad in roots:
            task.send(edge, grad)
        del roots, grads
        task.run()
        if inputs is None or accumulate_grad:
            task.deliver()
            for callback in task.callbacks or ():
                callback()
            return None
        return _captured(task, targets, allow_unused)
    finally:
        modes.grad, modes.task = previous, above


def current_pass():
    """The Task that runs in this thread."""
    return modes.task


def queue_callback(callback):
    """Call callback() when the backward pass that runs now is over, and all around it."""
    task = modes.task
    if task is None:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    while task.above is not None:
        task = task.above
    if task.callbacks is None:
        task.callbacks = []
    task.callbacks.append(callback)


def _captured(task, targets, allow_unused):
    """What arrived at the inputs of autograd.grad."""
    found = task.wanted.found
    for key, (leaf, grad, _) in task.leaves.items():
        found[key] = run_leaf_hooks(leaf, grad)
    results = []
    for k, (target, number) in enumerate(targets):
        key = id(target) if isinstance(target, Tensor) else (id(target), number)
        grad = found.get(key)
        if grad is None and not allow_unused:
            raise RuntimeError(
                f"The differentiated Tensor at index {k} appears to not have been used in the "
                "graph. Set allow_unused=True if this is the desired behavior."
            )
        results.append(grad)
    return tuple(results)
