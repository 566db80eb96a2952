"""torch.autograd.graph: tools that look at the graph or take part in it.

Hooks on saved tensors, hooks on several gradients at once, places in the graph (`GradientEdge`) and
version counters. The nodes themselves are in node.py.
"""

import contextlib
import threading
import weakref

from flambeau._tensor import Tensor
from flambeau.autograd.engine import GradientEdge, current_pass
from flambeau.autograd.grad_mode import disable_saved_tensors_hooks, saved_tensors_hooks
from flambeau.autograd.node import Node, accumulator_of, edge_of
from flambeau.storage import is_uncounted


def get_gradient_edge(tensor):
    """Where in the graph the gradient of a tensor passes; usable in backward and grad."""
    if not tensor._requires_grad:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require "
            "gradients"
        )
    target, number = edge_of(tensor)
    node = accumulator_of(target) if isinstance(target, Tensor) else target
    return GradientEdge(node, number, tensor._layout)


def increment_version(tensor):
    """Tell autograd that a tensor (or each of several) was written to."""
    for t in (tensor,) if isinstance(tensor, Tensor) else tensor:
        if not is_uncounted(t._storage):
            t._storage.version += 1


class save_on_cpu(saved_tensors_hooks):
    """Keep saved tensors in the memory of the CPU until they are needed."""

    def __init__(self, pin_memory=False, device_type="cuda"):
        def pack(t):
            return t.device, t.cpu() if t.device.type != "cpu" else t

        def unpack(packed):
            device, t = packed
            return t.to(device)

        super().__init__(pack, unpack)


class _Handles:
    """Removes several hooks."""

    def __init__(self, handles):
        self.handles = tuple(handles)

    def remove(self):
        for handle in self.handles:
            handle.remove()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.remove()


def register_multi_grad_hook(tensors, fn, *, mode="all"):
    """fn(grads) once all gradients that this pass will bring are known; mode "any": fn(first grad).

    A gradient that does not come in a pass is None in grads.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    if mode == "any":
        return _Handles(_hook_any(tensors, fn))
    return _Handles(_hook_all(tuple(tensors), fn))


def _hook_any(tensors, fn):
    lock, last = threading.Lock(), [None]

    def hook(grad):
        with lock:
            seen = last[0] is not None and last[0]() is current_pass()
            last[0] = weakref.ref(current_pass())
        if not seen:
            fn(grad)

    return [t.register_hook(hook) for t in tensors]


def _hook_all(tensors, fn):
    buffers = weakref.WeakKeyDictionary()  # pass -> [how many are to come, gradients so far]
    edges = [edge_of(t) for t in tensors]

    def inner(index):
        def hook(grad):
            task = current_pass()
            buffer = buffers.get(task)
            if buffer is None:
                buffer = buffers[task] = [task.reachable(edges), [None] * len(tensors)]
            buffer[0] -= 1
            buffer[1][index] = grad
            if buffer[0] == 0:
                fn(buffer[1])

        return hook

    return [t.register_hook(inner(k)) for k, t in enumerate(tensors)]


class _Clones:
    """What allow_mutation_on_saved_tensors gives: nothing to clear, nodes hold the copies."""

    runs = True

    def clear(self):
        pass

    def unpacked(self, t):
        if not self.runs:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context"
                "in which the graph was originally recorded."
            )
        return t


_allowing = threading.local()


@contextlib.contextmanager
def allow_mutation_on_saved_tensors():
    """Saved tensors may be written to afterwards: each node keeps a copy of its own."""
    if getattr(_allowing, "clones", None) is not None:
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    clones = _allowing.clones = _Clones()
    try:
        with saved_tensors_hooks(lambda t: t.detach().clone(), clones.unpacked):
            yield clones
    finally:
        clones.runs, _allowing.clones = False, None


__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]
