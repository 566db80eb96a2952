"""Running hooks during backward: on gradients of tensors, before and after nodes.

A hook may replace what it is given by something of the same shape and dtype; what it returns is
checked here, with PyTorch's complaints. Hooks of leaves run in leaves.py.
"""

from flambeau._tensor import Tensor


def hook_name(hook):
    return getattr(hook, "__name__", type(hook).__name__)


def check_value(hook, new, old):
    """May a hook's gradient stand for the one it was given?"""
    if new is None:
        return None
    if not isinstance(new, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(new).__name__}'")
    if old is None:
        raise RuntimeError("can't replace a None gradient with a non-None value")
    if new._layout is not old._layout:
        if new.dtype is not old.dtype:
            raise RuntimeError(
                f"hook '{hook_name(hook)}' has changed the type of value "
                f"(was {old.type()} got {new.type()})"
            )
        if new.shape != old.shape:
            raise RuntimeError(f"hook '{hook_name(hook)}' has changed the size of value")
    return new


def checked(hook, new, old):
    """A tuple of gradients from a hook on a node."""
    if not isinstance(new, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(new).__name__}'")
    if len(new) != len(old):
        raise RuntimeError(
            f"hook '{hook_name(hook)}' has returned an incorrect number of values "
            f"(got {len(new)}, but expected {len(old)})"
        )
    return tuple(check_value(hook, a, b) for a, b in zip(new, old))


def run_post_hooks(node, results, grads):
    """Hooks after a node, which see its gradients in PyTorch's order of arguments."""
    shown = node.shown
    seen = tuple(results) if shown is None else tuple(None if k < 0 else results[k] for k in shown)
    for hook in list(node.hooks.post.values()):
        new = hook(seen, tuple(grads))
        if new is not None:
            seen = checked(hook, new, seen)
    if shown is None:
        return seen
    results = list(results)
    for k, r in zip(shown, seen):
        if k >= 0:
            results[k] = r
    return results


def run_tensor_hooks(hooks, grads):
    """Hooks on the outputs of a node, then the gradients that outputs retain."""
    for number, table in hooks.tensor.items():
        grads[number] = run_hooks(table, grads[number])
    for number, reference in hooks.retain.items():
        t = reference()
        if t is not None and grads[number] is not None:
            _retain(t, grads[number])
    return grads


def _retain(t, grad):
    if grad._layout.device is not t._layout.device:
        return  # one of many that vmap computes, which ends with it
    if t._grad is None:
        t._grad = grad.clone()
    else:
        t._grad = t._grad + grad


def run_hooks(table, grad):
    """One gradient through a table of hooks."""
    for hook in list(table.values()):
        new = hook(grad)
        if new is not None:
            grad = check_value(hook, new, grad)
    return grad
