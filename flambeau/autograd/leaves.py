"""Gradients reach leaves: hooks, .grad and what may be kept instead of copied.

The first gradient of a leaf becomes its .grad as it is if nobody else can see its memory, which
reference counts tell; later ones are added to it in place.
"""

import os
import sys
import threading

from flambeau._layout import is_dense_in_some_order
from flambeau.autograd.hooks import check_value, checked, run_hooks


def accumulator(extra):
    """The AccumulateGrad that somebody holds, or None."""
    return extra.accumulator() if extra.accumulator is not None else None


def has_hooks(leaf):
    """Must somebody be told when this leaf gets its gradient?"""
    extra = leaf._extra
    if extra is None:
        return False
    if extra.hooks or extra.post_hooks:
        return True
    node = accumulator(extra)
    return node is not None and node.hooks is not None


def run_leaf_hooks(leaf, grad):
    extra = leaf._extra
    return run_hooks(extra.hooks, grad) if extra is not None and extra.hooks else grad


_writing = threading.Lock()  # several passes may reach one leaf at the same time


def _after_fork():
    """Whoever held the lock does not exist in the child."""
    global _writing
    _writing = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def hand_over(leaves, key, create_graph):
    """Give a leaf its gradient, out of a pass's dictionary."""
    leaf, grad, _ = leaves.pop(key)
    accumulate(leaf, grad, create_graph)


def accumulate(leaf, grad, create_graph):
    """Add a gradient to leaf.grad, running the leaf's hooks."""
    extra = leaf._extra
    node = None
    if extra is not None:
        if extra.hooks:
            grad = run_hooks(extra.hooks, grad)
        node = accumulator(extra)
        if node is not None and node.hooks is not None:
            for hook in list(node.hooks.pre.values()):
                new = hook((grad,))
                if new is not None:
                    (grad,) = checked(hook, new, (grad,))
    with _writing:
        old = leaf._grad
        if old is None:
            leaf._grad = _own(leaf, grad, create_graph)
        elif create_graph or (old._layout.strides is None and grad._layout.strides is not None):
            leaf._grad = old + grad if old._layout.strides is not None else grad + old
        else:
            old.add_(grad)
    if extra is not None:
        for hook in list((extra.post_hooks or {}).values()):
            new = hook(leaf)
            if new is not None:
                check_value(hook, new, leaf)
                raise RuntimeError("Tensor post accumulate grad hooks should return None.")
        if node is not None and node.hooks is not None:
            for hook in list(node.hooks.post.values()):
                hook((), (grad,))


def _probe_own(leaf, grad, create_graph):
    return sys.getrefcount(grad)


def _probe_accumulate(leaf, grad, create_graph):
    return _probe_own(leaf, grad, create_graph)


def _probe_hand_over(leaves, key, create_graph):
    leaf, grad, _ = leaves.pop(key)
    return _probe_accumulate(leaf, grad, create_graph)


# hand_over -> accumulate -> _own on an object that nobody else holds: how many references such a
# chain of calls shows differs between versions of Python, so it is measured
OWN_REFERENCES = _probe_hand_over({0: [None, object(), False]}, 0, False)


SPARE = 1 << 12  # bytes of other tensors that a gradient may keep alive


def _own(leaf, grad, create_graph):
    """The first gradient is kept, not copied, unless somebody else may see its memory."""
    if grad._layout.strides is None:  # sparse: it says itself whose memory it has
        shared = sys.getrefcount(grad) > OWN_REFERENCES or not _lies_plainly(grad)
        kept = grad if create_graph else grad.detach()
        return kept.clone() if shared else kept
    # references: those of the calls that led here and getrefcount's own
    if grad._view is not None:
        shared = sys.getrefcount(grad._storage) > 3 or sys.getrefcount(grad._view.base) > 2
    else:
        shared = sys.getrefcount(grad._storage) > 2
    if (
        shared
        or sys.getrefcount(grad) > OWN_REFERENCES
        or grad._storage.nbytes > 2 * grad._layout.nbytes + SPARE  # most would be kept for nothing
        or (grad._layout.strides != leaf._layout.strides and not _like(grad._layout, leaf._layout))
    ):
        return _copied(leaf, grad, create_graph)
    if grad._view is not None or (grad._requires_grad and not create_graph):
        return grad.clone() if create_graph else grad.detach()
    return grad


def _lies_plainly(sparse):
    """Are there values, side by side, which are nobody's view?"""
    if not sparse.is_sparse:
        return True
    return sparse._values().is_contiguous() and sparse._indices().is_contiguous()


def _like(layout, wanted):
    """Is a gradient laid out as its leaf, or plainly where the leaf has gaps?"""
    if wanted.strides is None or not is_dense_in_some_order(wanted):
        return layout.is_contiguous
    return all(n == 1 or a == b for n, a, b in zip(layout.shape, layout.strides, wanted.strides))


def _copied(leaf, grad, create_graph):
    wanted, source = leaf._layout, grad if create_graph else grad.detach()
    if wanted.strides is None or wanted.shape != grad._layout.shape:
        return source.clone()
    if not is_dense_in_some_order(wanted):
        return source.clone()
    fresh = grad.new_empty_strided(wanted.shape, wanted.strides, dtype=grad.dtype)
    return fresh.copy_(source)
