"""Automatic differentiation: backward, grad, Function and the switches.

The graph is made of nodes (node.py), walked by the engine (engine.py); views and in-place writes have
their own rules (views.py). gradcheck and functional build on the public functions here.
"""

from flambeau._tensor import Tensor
from flambeau.autograd.engine import run_backward
from flambeau.autograd.grad_mode import (
    detect_anomaly,
    enable_grad,
    inference_mode,
    is_anomaly_enabled,
    is_grad_enabled,
    modes,
    no_grad,
    saved_tensors_hooks,
    set_detect_anomaly,
    set_grad_enabled,
)
from flambeau.autograd.node import Node


def _tuple(value):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def backward(
    tensors,
    grad_tensors=None,
    retain_graph=None,
    create_graph=False,
    grad_variables=None,
    inputs=None,
):
    """Sum of gradients of tensors with respect to leaves, accumulated into their .grad."""
    tensors = _tuple(tensors)
    grads = _tuple(grad_tensors) if grad_tensors is not None else (None,) * len(tensors)
    if len(grads) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(grads)} gradients")
    if inputs is not None:
        inputs = _tuple(inputs)
        if not inputs:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
        for t in inputs:
            if not t._requires_grad:
                raise RuntimeError("One of the differentiated Tensors does not require grad")
    keep = create_graph if retain_graph is None else retain_graph
    run_backward(tensors, grads, keep, create_graph, inputs)


def grad(
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph=None,
    create_graph=False,
    only_inputs=True,
    allow_unused=None,
    is_grads_batched=False,
    materialize_grads=False,
):
    """Gradients of outputs with respect to inputs, returned and not accumulated."""
    outputs, inputs = _tuple(outputs), _tuple(inputs)
    for t in inputs:
        if not isinstance(t, Tensor):
            raise TypeError(f"grad(): inputs must be tensors, not {type(t).__name__}")
        if not t._requires_grad:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    grads = _tuple(grad_outputs) if grad_outputs is not None else (None,) * len(outputs)
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    keep = create_graph if retain_graph is None else retain_graph
    allow_unused = bool(allow_unused) or materialize_grads
    if is_grads_batched:
        return _batched(outputs, inputs, grads, keep, create_graph, allow_unused, materialize_grads)
    found = run_backward(outputs, grads, keep, create_graph, inputs, False, allow_unused)
    if materialize_grads:
        found = tuple(t.new_zeros(t.shape) if g is None else g for g, t in zip(found, inputs))
    return found


def _batched(outputs, inputs, grads, keep, create_graph, allow_unused, materialize):
    """One backward pass per entry of the leading dimension of the gradients."""
    count = next(len(g) for g in grads if g is not None)
    rows = [
        grad(
            outputs,
            inputs,
            [None if g is None else g[k] for g in grads],
            keep or k + 1 < count,
            create_graph,
            True,
            allow_unused,
            False,
            materialize,
        )
        for k in range(count)
    ]
    from flambeau.eager.methods import function

    return tuple(None if column[0] is None else function("stack")(column) for column in zip(*rows))


def variable(data, requires_grad=False):
    """Variable(data): the tensor itself, as tensors and variables are one."""
    t = data.detach() if data._requires_grad else data
    return t.requires_grad_(requires_grad) if requires_grad else t


Variable = variable


class graph:
    """Namespace of graph tools, as in torch.autograd.graph."""

    Node = Node
    saved_tensors_hooks = saved_tensors_hooks


def __getattr__(name):
    import importlib

    if name in ("Function", "FunctionCtx", "function", "once_differentiable"):
        module = importlib.import_module("flambeau.autograd.function")
        return module if name == "function" else getattr(module, name)
    if name in ("gradcheck", "gradgradcheck", "GradcheckError"):
        # the function hides the module of the same name, as in PyTorch
        module = importlib.import_module("flambeau.autograd.gradcheck")
        value = globals()[name] = getattr(module, name)
        return value
    if name == "functional":
        return importlib.import_module("flambeau.autograd.functional")
    raise AttributeError(f"module 'flambeau.autograd' has no attribute '{name}'")


__all__ = [
    "Function",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "modes",
    "no_grad",
    "saved_tensors_hooks",
    "set_detect_anomaly",
    "set_grad_enabled",
]
